package bench

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// direction says which way a figure should go.
type direction int

const (
	neither direction = iota
	lower
	higher
)

// betterWhen tells it from the unit.
func betterWhen(unit string) direction {
	switch {
	case strings.HasSuffix(unit, "/s"), strings.HasSuffix(unit, "op/s"):
		return higher
	case slices.Contains([]string{"ns", "us", "µs", "ms", "s"}, unit):
		return lower
	default:
		return neither
	}
}

// serveUnits are the figures of vLLM's result file that do not carry their
// unit in the name.
var serveUnits = map[string]string{
	"duration": "s", "completed": "", "failed": "",
	"total_input_tokens": "", "total_output_tokens": "",
	"request_throughput": "req/s", "request_goodput": "req/s",
	"output_throughput": "tok/s", "total_token_throughput": "tok/s",
	"max_output_tokens_per_s": "tok/s", "max_concurrent_requests": "",
}

// serveOrder is how they are listed, before the latencies.
var serveOrder = []string{
	"completed", "failed", "duration", "total_input_tokens", "total_output_tokens", "request_throughput",
	"request_goodput", "output_throughput", "total_token_throughput", "max_output_tokens_per_s", "max_concurrent_requests",
}

var latencyField = regexp.MustCompile(`^(mean|median|std|p[0-9.]+)_[a-z0-9_]+_ms$`)

// rowsOfFields turns the flat figures of a serving benchmark into rows.
func rowsOfFields(fields map[string]json.RawMessage) []Row {
	var rows []Row
	add := func(name, unit string) {
		var v *float64
		if raw, ok := fields[name]; ok && json.Unmarshal(raw, &v) == nil && v != nil {
			rows = append(rows, Row{Name: name, Unit: unit, Value: *v})
		}
	}
	if _, ok := fields["request_throughput"]; !ok {
		return nil
	}
	for _, name := range serveOrder {
		add(name, serveUnits[name])
	}
	var latencies []string
	for name := range fields {
		if latencyField.MatchString(name) {
			latencies = append(latencies, name)
		}
	}
	slices.Sort(latencies)
	for _, name := range latencies {
		add(name, "ms")
	}
	return rows
}
