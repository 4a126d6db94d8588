package slo

import "fmt"

// routeAlert tells of a model that other servers compute, or of a tenant.
type routeAlert struct {
	Name, Expr, For, Severity string
	What                      string // as a clause, with the alert's labels
	Runbook                   string // what to look at first
}

// routeRecords are what dashboards and alerts read of routed models, by name.
func routeRecords(selector string) []struct{ Name, Expr string } {
	rate := func(name, labels, by string) string { return series{name, labels}.rate(by, selector, "5m") }
	const model, replica = "job, model_name", "job, model_name, replica"
	braces := ""
	if selector != "" {
		braces = "{" + selector + "}"
	}
	return []struct{ Name, Expr string }{
		{"weir:route_errors:ratio_rate5m", rate("weir_route_errors_total", `kind!~"throttled|overloaded|rejected|no_endpoint|too_large|unsupported|no_memory|oversized"`, replica) + " / " +
			rate("weir_route_requests_total", "", replica)},
		{"weir:route_prefix_picks:ratio_rate5m", rate("weir_route_picks_total", `reason="prefix"`, model) + " / " + rate("weir_route_picks_total", "", model)},
		{"weir:route_retries:ratio_rate5m", rate("weir_route_retries_total", `after="failure"`, model) + " / " + rate("weir_route_picks_total", "", model)},
		{"weir:route_replicas_ready:ratio", "avg by (job, model_name) (weir_route_replica_ready" + braces + ")"},
	}
}

func routeAlerts(selector string) []routeAlert {
	braces := ""
	if selector != "" {
		braces = "{" + selector + "}"
	}
	return []routeAlert{
		{"WeirNoReplica", fmt.Sprintf("sum by (job, model_name) (rate(weir_route_no_replica_total%s[5m])) > 0", braces), "2m", "page",
			"requests for {{ $labels.model_name }} find no server that takes them", "GET /admin/replicas says the state of each and why"},
		{"WeirReplicasDown", "weir:route_replicas_ready:ratio < 0.5", "2m", "page",
			"{{ $value | humanizePercentage }} of the servers behind {{ $labels.model_name }} take requests", "GET /admin/replicas says the state of each and why"},
		{"WeirReplicaDown", "weir_route_replica_ready" + braces + " == 0", "15m", "ticket",
			"{{ $labels.replica }}, behind {{ $labels.model_name }}, takes no requests", "its /ready or /health, and its log"},
		{"WeirReplicaFails", "weir:route_errors:ratio_rate5m > 0.05", "5m", "ticket",
			"{{ $value | humanizePercentage }} of the requests to {{ $labels.replica }} fail or break", "weir_route_errors_total by kind, and the replica's log"},
		{"WeirReplicaMisconfigured", series{"weir_route_errors_total", `kind="misconfigured"`}.rate("job, model_name, replica", selector, "5m") + " > 0", "5m", "ticket",
			"{{ $labels.replica }}, behind {{ $labels.model_name }}, answers 401, 402, 403, 404, 405 or a redirect", "the replica's api_key, url and model in the configuration"},
		{"WeirReplicaThrottles", series{"weir_route_errors_total", `kind=~"throttled|overloaded"`}.rate("job, model_name, replica", selector, "5m") + " / " +
			series{"weir_route_requests_total", ""}.rate("job, model_name, replica", selector, "5m") + " > 0.2", "10m", "ticket",
			"{{ $labels.replica }} refuses {{ $value | humanizePercentage }} of its requests with 429, 503 or 529", "its limits, or more replicas"},
		{"WeirRetriesNearBudget", "weir:route_retries:ratio_rate5m > 0.08", "5m", "ticket",
			"{{ $value | humanizePercentage }} of the requests for {{ $labels.model_name }} are asked again, of 10% that may be",
			"weir_route_errors_total by replica: who fails"},
	}
}
