package family

import (
	"encoding/json"
	"slices"
	"strings"

	"weir/tokenizer/chat"
)

// newFamily completes a descriptor.
func newFamily(name string, m *markup, l layout, t *thought) *Family {
	calls := *m
	if m.opening != nil {
		t = nil // the thoughts of such families, where they have any, are messages
	}
	calls.textMarkers = slices.Clone(calls.dropped)
	if t != nil && t.anywhere {
		calls.textMarkers = append(calls.textMarkers, t.mark, t.close)
	}
	calls.allMarkers = slices.Concat(calls.textMarkers, calls.sections, calls.openers, calls.lines)
	calls.lineMarkers = calls.allMarkers
	if l.showsObjects() {
		var lines []string
		calls.fences, lines = unmarkedFences(&calls)
		calls.lineMarkers = slices.Concat(calls.allMarkers, lines)
	}
	if t != nil {
		calls.thoughtEnds = slices.Concat([]string{t.close}, calls.texts, calls.sections, calls.openers)
	}
	calls.ends = slices.Concat(calls.closers, calls.sections, calls.openers)
	if g := calls.tags; g != nil {
		calls.trailers = g.trailers()
	}
	calls.known = slices.Concat(calls.allMarkers, calls.closers, calls.control)
	if t != nil {
		calls.known = append(calls.known, t.open, t.close)
	}
	if s := calls.syntax; s != nil {
		calls.known = append(calls.known, s.quote)
	}
	if g := calls.tags; g != nil {
		calls.known = append(calls.known, g.nameEnd, g.key, g.keyEnd, g.valueStart, g.valueEnd, g.end, g.whole)
	}
	calls.known = slices.DeleteFunc(calls.known, func(s string) bool { return s == "" })
	return &Family{Name: name, calls: &calls, layout: l, thought: t}
}

// candidate is a family and what its templates write.
type candidate struct {
	name   string
	calls  *markup
	layout layout
	has    []string // a template of the family holds or writes all of these
	any    []string // and one of these, where there are any
}

func (c *candidate) matches(seen string) bool {
	in := func(s string) bool { return strings.Contains(seen, s) }
	return !slices.ContainsFunc(c.has, func(s string) bool { return !in(s) }) && (len(c.any) == 0 || slices.ContainsFunc(c.any, in))
}

// Detect finds the family of a chat template by what it writes, and verifies the find by rendering: a call of a probe must come
// out with the family's markers, and two calls with twice as many. Where a template writes no calls, its list of tools must show
// the markers. A template that passes neither has the generic form.
func Detect(t *chat.Template) *Family {
	seen := shown(t)
	marks := thoughtOf(seen)
	f := found(t, seen, marks)
	f.Thinks = f.thinks(seen)
	f.findThoughtField(t)
	return f
}

// found is the first family whose marks and calls a template shows, or else the generic form.
func found(t *chat.Template, seen string, marks *thought) *Family {
	for i := range candidates {
		c := &candidates[i]
		if !c.matches(seen) {
			continue
		}
		f := newFamily(c.name, c.calls, c.layout, marks)
		if f.verify(t) {
			return f
		}
	}
	return generic(marks)
}

// thinks reports whether a template shows thoughts, or whether they are what its family is known by: the generic form and Hermes's
// read thoughts, but say nothing about the model.
func (f *Family) thinks(seen string) bool {
	_, end := f.ThoughtMarkers()
	if f.Name == genericName || f.Name == hermesName {
		return strings.Contains(seen, end)
	}
	return end != ""
}

// shown is a template's text with what it writes of the probes: templates build markers of pieces, by macros and variables.
func shown(t *chat.Template) string {
	var b strings.Builder
	b.WriteString(t.Source())
	add := func(text string, err error) {
		if err == nil {
			b.WriteString("\n" + text)
		}
	}
	add(probe{}.prompt(t))
	add(probe{tools: true}.prompt(t))
	add(probe{thought: true}.prompt(t))
	for _, p := range probes {
		p.thought = true
		add(p.history(t))
	}
	return b.String()
}

// thoughtOf finds how a template's models mark thoughts.
func thoughtOf(seen string) *thought {
	for _, t := range thoughts {
		if (t.implicit || strings.Contains(seen, t.mark)) && strings.Contains(seen, t.close) {
			return t
		}
	}
	return think
}

// verify renders probes, and notes what the template writes itself.
func (f *Family) verify(t *chat.Template) bool {
	plain, _ := probe{}.prompt(t)
	listed, err := probe{tools: true}.prompt(t)
	f.Listed = err == nil && strings.Contains(listed, probeTool)
	rendered := false
	for _, p := range probes {
		answer, opening, err := p.answer(t, f)
		rendered = rendered || err == nil
		if err != nil || !strings.Contains(answer, probeValue) || !f.reads(answer, opening, 1) {
			continue
		}
		f.Replayed, f.TextArguments, f.NullContent = true, p.text, p.null
		p.calls = 2
		answer, opening, err = p.answer(t, f)
		// A template may refuse a second call, or drop it.
		return err != nil || strings.Count(answer, probeTool) < 2 || f.reads(answer, opening, 2)
	}
	return f.Listed && (!rendered || f.count(listed) > f.count(plain) || f.calls.listing != "" && strings.Contains(listed, f.calls.listing))
}

// reads reports whether the parser finds the probe's calls in an answer as the template wrote it.
func (f *Family) reads(answer string, o Opening, calls int) bool {
	p := f.NewParser(Options{Tools: []Tool{{Name: probeTool}}, Choice: Choice{Mode: Auto, Parallel: true}, Opening: o})
	parts := p.Append(nil, []byte(answer), false)
	found, arguments := 0, ""
	for _, part := range append(parts, p.Close(nil)...) {
		switch {
		case part.Kind == CallStart && part.Name == probeTool:
			arguments = ""
		case part.Kind == CallArguments:
			arguments += string(part.Bytes)
		case part.Kind == CallEnd:
			var got map[string]string
			if json.Unmarshal([]byte(arguments), &got) == nil && got[probeKey] == probeValue {
				found++
			}
		}
	}
	return found == calls
}

// count is how often the family's openers stand in a text.
func (f *Family) count(text string) int {
	n := 0
	for _, o := range slices.Concat(f.calls.sections, f.calls.openers, f.calls.control) {
		n += strings.Count(text, o)
	}
	return n
}

// findThoughtField finds the field of thoughts: the first whose text a template writes of an answer with a call. It is looked for in such answers
// as their thoughts are what models go on from; those of earlier turns many templates leave out.
func (f *Family) findThoughtField(t *chat.Template) {
	f.ThoughtField = thoughtFields[0]
	for _, name := range thoughtFields {
		p := probe{tools: true, calls: 1, results: true, text: f.TextArguments, null: f.NullContent, thought: true, named: name}
		text, err := p.history(t)
		if err != nil || !strings.Contains(text, probeThought) {
			continue
		}
		f.ThoughtField = name
		p.null, p.content = false, probeText
		_, err = p.history(t)
		f.ThoughtAlone = err != nil
		return
	}
}
