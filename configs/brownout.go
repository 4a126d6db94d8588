package configs

import (
	"math"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"weir/api/tenant"
	"weir/internal/inference"
	"weir/scheduler/brownout"
)

func (s *Sources) decodeBrownout(d *fileDecoder, n *yaml.Node) error {
	steps := []brownout.Step{}
	err := d.records(n, "brownout", func(n *yaml.Node, path string) error {
		var b brownout.Step
		err := d.record(n, path, stepFields(&b))
		steps = append(steps, b)
		return err
	})
	if err != nil {
		return err
	}
	if err := brownout.Validate(steps); err != nil {
		return d.errorf(n, "%v", err)
	}
	s.config.Brownout = steps
	return nil
}

// stepFields binds the keys of an entry of brownout.
func stepFields(s *brownout.Step) []field {
	day := 24 * time.Hour
	return []field{
		{key: "name", binding: bindText(&s.Name, brownout.NameForm, brownout.IsName)},
		{key: "queue_wait", binding: bindDuration(&s.Enter.QueueWait, 0, day)},
		{key: "kv_percent", binding: bindInt(&s.Enter.KVPercent, 0, 100, "")},
		{key: "queue_percent", binding: bindInt(&s.Enter.QueuePercent, 0, 100, "")},
		{key: "enter_after", binding: bindDuration(&s.EnterAfter, 0, day)},
		{key: "leave_queue_wait", binding: bindDuration(&s.Leave.QueueWait, 0, day)},
		{key: "leave_kv_percent", binding: bindInt(&s.Leave.KVPercent, 0, 100, "")},
		{key: "leave_queue_percent", binding: bindInt(&s.Leave.QueuePercent, 0, 100, "")},
		{key: "leave_after", binding: bindDuration(&s.LeaveAfter, 0, day)},
		{key: "max_tokens", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
			var fields []field
			for class, name := range tenant.ClassNames() {
				fields = append(fields, field{key: name, binding: bindInt(&s.MaxTokens[class], 0, math.MaxInt32, "")})
			}
			return d.record(n, path, fields)
		}},
		{key: "models", nested: func(d *fileDecoder, n *yaml.Node, path string) error { return d.smallerModels(n, path, s) }},
		{key: "speculation", binding: bindWord(&s.Speculation, toggleWords,
			func(word string) (inference.Toggle, bool) {
				i := slices.Index(toggleWords, word)
				return inference.Toggle(max(i, 0) + 1), i >= 0 //nolint:gosec // one of two words
			},
			func(t inference.Toggle) string { return append([]string{""}, toggleWords...)[t] })},
	}
}

// toggleWords are those of inference.ToggleOn and ToggleOff.
var toggleWords = []string{"on", "off"}

func (d *fileDecoder) smallerModels(n *yaml.Node, path string, s *brownout.Step) error {
	s.Models = make(map[string]string)
	return d.records(n, path, func(n *yaml.Node, path string) error {
		var model, instead string
		err := d.record(n, path, []field{
			{key: "model", binding: bindText(&model, "the name of a model", anyText)},
			{key: "use", binding: bindText(&instead, "the name of a smaller model", anyText)},
		})
		if _, twice := s.Models[model]; err == nil && (twice || model == "" || instead == "" || model == instead) {
			err = d.errorf(n, "%s replaces the model %q by %q; it must name two models, and the first in one entry only", path, model, instead)
		}
		s.Models[model] = instead
		return err
	})
}

// brownoutSample shows the list in the example file, commented out.
const brownoutSample = `
# Brown-out: what is lowered while there is more to do than can be done, mildest step
# first, before requests are refused. A step is entered where one of its thresholds is
# reached all through enter_after, after those above it; and left where all are below
# the leave_ thresholds, by default 3/4 of them, all through leave_after.
# brownout:
#   - name: short-answers
#     queue_wait: 5s # expected wait of a new request
#     kv_percent: 95 # of the KV blocks
#     queue_percent: 50 # of --max-num-queued-reqs
#     enter_after: 5s
#     leave_after: 30s
#     max_tokens: {default: 512, batch: 256} # of one choice, by class
#   - name: small-model
#     queue_wait: 20s
#     kv_percent: 98
#     queue_percent: 80
#     enter_after: 10s
#     leave_queue_wait: 5s
#     leave_kv_percent: 70
#     leave_queue_percent: 30
#     leave_after: 1m
#     models:
#       - {model: large, use: small} # for tenants that may use it
#     speculation: "off"
`
