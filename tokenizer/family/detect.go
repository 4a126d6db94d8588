package family

import (
	"slices"
	"strings"
	"time"

	"weir/tokenizer/chat"
)

// newFamily completes a descriptor.
func newFamily(name string, m *markup, t *thought) *Family {
	calls := *m
	if t != nil && t.anywhere {
		calls.textMarkers = append(slices.Clip(calls.textMarkers), t.open)
	}
	calls.allMarkers = slices.Concat(calls.textMarkers, calls.sections, calls.openers)
	calls.ends = slices.Concat(calls.closers, calls.sections, calls.openers)
	calls.known = slices.Concat(calls.allMarkers, calls.closers, calls.control)
	if t != nil {
		calls.known = append(calls.known, t.open, t.close)
	}
	return &Family{Name: name, calls: &calls, thought: t}
}

// candidate is a family and what its templates hold.
type candidate struct {
	name  string
	calls *markup
	has   []string // a template of the family holds all of these
	lacks []string // and none of these
}

func (c *candidate) matches(source string) bool {
	return !slices.ContainsFunc(c.has, func(s string) bool { return !strings.Contains(source, s) }) &&
		!slices.ContainsFunc(c.lacks, func(s string) bool { return strings.Contains(source, s) })
}

// Detect finds the family of a chat template by what its text holds, and verifies the find by rendering: a call of a probe must come
// out with the family's markers, and two calls with twice as many. Where a template writes no calls, its list of tools must show
// the markers. A template that passes neither has the generic form.
func Detect(t *chat.Template) *Family {
	thought := thoughtOf(t.Source())
	for i := range candidates {
		c := &candidates[i]
		if !c.matches(t.Source()) {
			continue
		}
		f := newFamily(c.name, c.calls, thought)
		if f.verify(t) {
			return f
		}
	}
	f := newFamily("generic", hermes, thought)
	return f
}

// thoughtOf finds how a template's models mark thoughts.
func thoughtOf(source string) *thought {
	for _, t := range thoughts {
		if strings.Contains(source, strings.TrimSpace(t.open)) && strings.Contains(source, t.close) {
			return t
		}
	}
	return think
}

// The probe's tool, and what is said to it. None of these words stands in a published template.
const (
	probeTool  = "probe_zephyr"
	probeKey   = "quux"
	probeValue = "xyzzy"
)

// verify renders probes, and notes what the template writes itself.
func (f *Family) verify(t *chat.Template) bool {
	plain, _ := probe(t, "", 0, false)
	tools, err := probe(t, probeTools, 0, false)
	f.Listed = err == nil && strings.Contains(tools, probeTool)
	one, two := f.history(t)
	if strings.Contains(one, probeTool) {
		f.Replayed = true
		first, second := f.count(one)-f.count(tools), f.count(two)-f.count(tools)
		return first >= 1 && second >= first
	}
	return f.Listed && f.count(tools) > f.count(plain)
}

// history renders answers with one and with two calls, with the arguments as an object or, where the template wants that, as text.
func (f *Family) history(t *chat.Template) (one, two string) {
	for _, text := range []bool{false, true} {
		one, err := probe(t, probeTools, 1, text)
		if err != nil || !strings.Contains(one, probeTool+"") || strings.Count(one, probeValue) == 0 {
			continue
		}
		two, _ := probe(t, probeTools, 2, text)
		f.TextArguments = text
		return one, two
	}
	return "", ""
}

// count is how often the family's openers stand in a text.
func (f *Family) count(text string) int {
	n := 0
	for _, o := range slices.Concat(f.calls.sections, f.calls.openers, f.calls.control) {
		n += strings.Count(text, o)
	}
	return n
}

const probeTools = `[{"type":"function","function":{"name":"` + probeTool + `","description":"d","parameters":{"type":"object","properties":{"` +
	probeKey + `":{"type":"string","description":"d"}},"required":["` + probeKey + `"]}}}]`

// probe renders a question, an answer with so many calls and their results. Before a call that the list of tools mentions, it
// only counts that the call's value comes out.
func probe(t *chat.Template, tools string, calls int, text bool) (string, error) {
	arguments := `{"` + probeKey + `":"` + probeValue + `"}`
	if text {
		arguments = string(marshal(arguments))
	}
	messages := `[{"role":"user","content":"q"}`
	if calls > 0 {
		list := make([]string, calls)
		results := make([]string, calls)
		for i := range list {
			id := `"a1b2c3d4` + string(rune('0'+i)) + `"`
			list[i] = `{"id":` + id + `,"type":"function","function":{"name":"` + probeTool + `","arguments":` + arguments + `}}`
			results[i] = `{"role":"tool","tool_call_id":` + id + `,"name":"` + probeTool + `","content":"r"}`
		}
		messages += `,{"role":"assistant","content":"","tool_calls":[` + strings.Join(list, ",") + `]},` + strings.Join(results, ",")
	}
	in := chat.Input{AddGenerationPrompt: true, Now: time.Unix(0, 0).UTC(), BOSToken: "<s>", EOSToken: "</s>"}
	var err error
	if in.Messages, err = chat.FromJSON([]byte(messages + "]")); err != nil {
		return "", err
	}
	if tools != "" {
		if in.Tools, err = chat.FromJSON([]byte(tools)); err != nil {
			return "", err
		}
	}
	spans, err := t.Render(in)
	if err != nil {
		return "", err
	}
	return chat.Text(spans), nil
}
