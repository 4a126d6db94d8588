package slo

import (
	_ "embed" // the template
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"
)

// indicator is a service level indicator: the share of bad events of one kind.
type indicator struct {
	Name    string // label sli
	Alert   string
	By      string  // labels that tell its series apart
	Budget  float64 // share of the events that may be bad
	Bad     string  // of what an alert tells, as a clause
	good    bool    // part counts the good events, not the bad ones
	part    series
	all     series
	Runbook string // what to look at first
}

// series is a counter and the label values that select its part.
type series struct{ name, labels string }

// braces are the series' labels and the selector as PromQL; "" is none.
func (s series) braces(selector string) string {
	labels := strings.Trim(s.labels+","+selector, ",")
	if labels != "" {
		labels = "{" + labels + "}"
	}
	return labels
}

// rate is the counter's rate over a window, added up.
func (s series) rate(by, selector, window string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s%s[%s]))", by, s.name, s.braces(selector), window)
}

// indicators is the table behind the rules.
func (o Objectives) indicators() []indicator {
	return []indicator{
		{
			Name: "availability", Alert: "WeirAvailabilityBurn", By: "job", Budget: 1 - o.Availability,
			Bad:     "requests get 5xx or break after the first byte",
			part:    series{"weir_requests_total", `outcome=~"failed|broken"`},
			all:     series{"weir_requests_total", `outcome=~"complete|failed|broken"`},
			Runbook: "weir_http_refusals_total by code says what is answered; server_is_overloaded is load beyond capacity",
		},
		{
			Name: "ttft", Alert: "WeirFirstTokenBurn", By: "job, model_name", Budget: 1 - o.FirstToken.Share,
			Bad:     "first tokens take longer than " + o.FirstToken.Target.String(),
			good:    true,
			part:    series{"vllm:time_to_first_token_seconds_bucket", "le=~" + bound(o.FirstToken.Target)},
			all:     series{"vllm:time_to_first_token_seconds_count", ""},
			Runbook: "vllm:request_queue_time_seconds says whether requests wait, vllm:request_prefill_time_seconds whether prompts are long",
		},
		{
			Name: "itl", Alert: "WeirInterTokenBurn", By: "job, model_name", Budget: 1 - o.InterToken.Share,
			Bad:     "gaps between tokens are longer than " + o.InterToken.Target.String(),
			good:    true,
			part:    series{"vllm:inter_token_latency_seconds_bucket", "le=~" + bound(o.InterToken.Target)},
			all:     series{"vllm:inter_token_latency_seconds_count", ""},
			Runbook: "weir_step_seconds and vllm:num_requests_running; --itl-target-ms and --max-num-seqs bound a step",
		},
		{
			Name: "streams", Alert: "WeirStreamBurn", By: "job, model_name", Budget: 1 - o.Streams,
			Bad:     "streams end with an error event",
			part:    series{"weir_streams_total", `outcome="broken"`},
			all:     series{"weir_streams_total", `outcome=~"complete|broken"`},
			Runbook: "the log names the code of each; weir_panics_recovered_total and weir_step_panics_total count bugs",
		},
	}
}

// bound is the value of label le, which is written "1" in the text format and
// "1.0" in OpenMetrics.
func bound(d time.Duration) string {
	text := strings.ReplaceAll(number(d.Seconds()), ".", `\\.`)
	if !strings.Contains(text, ".") {
		text += `(\\.0)?`
	}
	return `"` + text + `"`
}

// errors is the share of bad events over a window, as PromQL.
func (i indicator) errors(selector, window string) string {
	share := i.part.rate(i.By, selector, window) + " / " + i.all.rate(i.By, selector, window)
	if i.good {
		return "1 - " + share
	}
	return share
}

// windows are those of the alerts, long and short. Windows above 2 hours cost
// the server more and change slowly: they are computed less often.
var (
	shortWindows = []string{"5m", "30m", "1h", "2h"}
	longWindows  = []string{"6h", "1d", "3d"}
)

// alert is a pair of windows in which a burn rate must be seen. The long one
// makes the alert mean something, the short one ends it soon after the cause.
type alert struct {
	Severity, Long, Short string
	Burn                  float64
}

var alerts = []alert{
	{"page", "1h", "5m", fastest},
	{"page", "6h", "30m", 6},
	{"ticket", "1d", "2h", 3},
	{"ticket", "3d", "6h", 1},
}

//go:embed rules.tmpl
var rulesText string

var rulesTemplate = template.Must(template.New("rules").Funcs(template.FuncMap{
	"number": number, "percent": Percent,
	"errors": func(i indicator, selector, window string) string { return i.errors(selector, window) },
	"rate":   func(name, selector string) string { return series{name, ""}.rate("job, model_name", selector, "5m") },
	"byClass": func(name, selector string) string {
		return series{name, ""}.rate("job, model_name, class", selector, "5m")
	},
}).Parse(rulesText))

// Write writes a file of recording and alerting rules. selector restricts
// every series, such as `job="weir"`; it may be empty. o must be valid.
func (o Objectives) Write(w io.Writer, selector string) error {
	err := rulesTemplate.Execute(w, map[string]any{
		"Selector": selector, "Indicators": o.indicators(), "Alerts": alerts,
		"Groups": map[string][]string{"short": shortWindows, "long": longWindows},
		"Bugs":   bugs(selector), "RouteRecords": routeRecords(selector), "RouteAlerts": routeAlerts(selector),
		"TenantRecords": tenantRecords(selector), "TenantAlerts": tenantAlerts(selector),
	})
	if err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	return nil
}

// bug is an alert on a counter or gauge of which anything but 0 is a bug.
type bug struct{ Name, Expr, What string }

func bugs(selector string) []bug {
	if selector != "" {
		selector = "{" + selector + "}"
	}
	return []bug{
		{"WeirPanic", "increase(weir_panics_recovered_total" + selector + "[1h]) > 0", "a panic was recovered at {{ $labels.boundary }}"},
		{"WeirStepPanic", "increase(weir_step_panics_total" + selector + "[1h]) > 0",
			"a panic was recovered in the step loop of {{ $labels.model_name }}"},
		{"WeirInvariantFault", "increase(weir_invariant_faults_total" + selector + "[1h]) > 0",
			"the idle check of {{ $labels.model_name }} found a broken invariant"},
		{"WeirKVBlocksLeaked", "weir_kv_blocks_leaked" + selector + " > 0", "idle, {{ $labels.model_name }} still holds KV blocks"},
	}
}
