package slo

// tenantRecords are the rules of the share of a tenant's budgets of a day or a month that is used, and of what tells of it. Weirs that count together in
// Redis publish the same figures, those that count apart have a budget each: the largest counts.
func tenantRecords(selector string) []struct{ Name, Expr string } {
	labels := series{"", `limit=~"(daily|monthly)_(tokens|cost)"`}
	return []struct{ Name, Expr string }{
		{"weir:tenant_budget_used:ratio", "max by (job, tenant, model_name, limit) (weir_tenant_limit_used" + labels.braces(selector) +
			" / weir_tenant_limit" + labels.braces(selector) + ")"},
		{"weir:tenant_refused:rate5m", series{"weir_tenant_refusals_total", `status="429"`}.rate("job, tenant, code", selector, "5m")},
	}
}

func tenantAlerts(selector string) []routeAlert {
	return []routeAlert{
		{"WeirTenantBudgetNearlyUsed", "weir:tenant_budget_used:ratio >= 0.8 and weir:tenant_budget_used:ratio < 1", "1m", "ticket",
			"{{ $labels.tenant }} has used {{ $value | humanizePercentage }} of {{ $labels.limit }}",
			"GET /admin/usage?tenant={{ $labels.tenant }}&by=hour says by what; the list tenants has the limit"},
		{"WeirTenantBudgetUsed", "weir:tenant_budget_used:ratio >= 1", "1m", "ticket",
			"{{ $labels.tenant }} has used up {{ $labels.limit }} and is refused until the day or month ends",
			"GET /admin/usage?tenant={{ $labels.tenant }}&by=hour says by what; the list tenants has the limit"},
		{"WeirSignInsDenied", "sum by (job, reason) (rate(weir_sign_ins_denied_total" + series{}.braces(selector) + "[5m])) > 1", "10m", "ticket",
			"{{ $value | humanize }} requests per second are denied ({{ $labels.reason }})",
			"GET /admin/requests?state=refused, the log's lines with invalid_api_key, and weir audit list for signin.denied"},
	}
}
