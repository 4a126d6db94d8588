package moderation

import (
	"encoding/json"
	"unicode/utf8"
)

// Filter reads one text of an answer as it comes, and lets through what the policy allows of
// it. Text is held back while a match that it belongs to may have begun, and at most as much
// as the policy's window. What comes out, and whether the text is blocked, does not depend on how
// the text is divided into pieces. One goroutine at a time uses a Filter.
type Filter struct {
	policy  *Policy
	window  int  // bytes that are held back at most
	escaped bool // the text is JSON
	quiet   bool // what may be sent is of no interest

	text []byte // from the place base on
	base int
	sent int // up to this place the text was let through, replaced or dropped
	at   int // up to this place it was looked at

	prev2, prev rune
	json        jsonState

	block, redact, flag scanner

	report  *Report
	blocked bool
}

// Form says what a text is.
type Form int

// The forms of texts.
const (
	Plain Form = iota
	JSON       // arguments of a call: what is found in strings is found whatever escapes are used, and replacements keep the JSON valid
)

// NewFilter returns the filter of a text that a model writes; nil where the policy has nothing to
// say about answers. What it finds is added to the report. whole says that nothing
// sees the text before its end, so that the window has no bound.
func (p *Policy) NewFilter(form Form, whole bool, report *Report) *Filter {
	if p == nil || !p.filters {
		return nil
	}
	f := p.newFilter(&p.output, form, report)
	if !whole {
		f.window = p.windowBytes
	}
	return f
}

func (p *Policy) newFilter(s *sideRules, form Form, report *Report) *Filter {
	stretch := 1
	if form == JSON {
		stretch = escapeBytes
	}
	on := func(a *automaton) scanner { return scanner{automaton: a, stretch: stretch} }
	return &Filter{policy: p, window: maxWindow, escaped: form == JSON, prev2: -1, prev: -1, report: report,
		block: on(s.block), redact: on(s.redact), flag: on(s.flag)}
}

// maxWindow is more than any text has.
const maxWindow = 1 << 40

// Append takes text in and appends to dst what may be sent. blocked: the text ends here, and the
// filter must not be used any more.
func (f *Filter) Append(dst, text []byte) (out []byte, blocked bool) {
	f.text = append(f.text, text...)
	return f.read(dst, false)
}

// Close is Append at the end of the text. A closed filter is ready for another text.
func (f *Filter) Close(dst []byte) (out []byte, blocked bool) {
	if dst, blocked = f.read(dst, true); blocked {
		return dst, true
	}
	if dst = f.look(dst, -1, 0); !f.blocked {
		dst = f.pass(dst, f.at)
	}
	f.text, f.base, f.sent, f.at = f.text[:0], 0, 0, 0
	f.prev2, f.prev, f.json = -1, -1, jsonState{}
	return dst, f.blocked
}

func (f *Filter) read(dst []byte, last bool) ([]byte, bool) {
	for f.at < f.base+len(f.text) && !f.blocked {
		r, width := f.next(f.text[f.at-f.base:], last)
		if width == 0 {
			break // the rune is not whole
		}
		dst = f.look(dst, r, width)
	}
	f.forget()
	return dst, f.blocked
}

// next is the rune that a text begins with; width is 0 where more of it has to come.
func (f *Filter) next(text []byte, last bool) (r rune, width int) {
	if f.escaped && f.json.open && text[0] == '\\' {
		return unescape(text, last)
	}
	if !last && !utf8.FullRune(text) {
		return 0, 0
	}
	return utf8.DecodeRune(text)
}

// look takes in a rune, -1 for the end of the text.
func (f *Filter) look(dst []byte, r rune, width int) []byte {
	covered := f.covered
	if f.block.automaton != nil && f.block.rune(f.at, r, width, f.prev2, f.prev, covered) {
		if t := f.block.first(); t != nil {
			return f.stop(dst, t)
		}
	}
	if f.flag.automaton != nil {
		f.flag.rune(f.at, r, width, f.prev2, f.prev, covered)
		for t, ok := f.flag.settled(); ok; t, ok = f.flag.settled() {
			f.note(&t, Flag)
		}
	}
	if f.redact.automaton != nil {
		f.redact.rune(f.at, r, width, f.prev2, f.prev, covered)
	}
	if f.escaped {
		f.json.next(r, width)
	}
	f.at += width
	f.prev2, f.prev = f.prev, r
	dst = f.settle(dst)
	if f.blocked {
		return dst
	}
	return f.release(dst)
}

// settle replaces what has matched for sure.
func (f *Filter) settle(dst []byte) []byte {
	if f.redact.automaton == nil {
		return dst
	}
	for t, ok := f.redact.settled(); ok; t, ok = f.redact.settled() {
		if dst = f.replace(dst, &t); f.blocked {
			return dst
		}
		f.note(&t, Redact)
	}
	return dst
}

// release lets through what no match can change any more, and what the window has no room
// for. What has matched so far of the latter is replaced already: it can become more only.
func (f *Filter) release(dst []byte) []byte {
	free := min(f.redact.undecided(f.at), f.block.undecided(f.at))
	limit := f.at - f.window
	if free >= limit {
		return f.pass(dst, free)
	}
	for limit > f.sent && !utf8.RuneStart(f.text[limit-f.base]) {
		limit--
	}
	for i := range f.redact.threads {
		t := &f.redact.threads[i]
		if t.start >= limit {
			break
		}
		if t.found != nil && t.end > f.sent {
			if dst = f.replace(dst, t); f.blocked {
				return dst
			}
			t.told = true
		}
	}
	return f.pass(dst, limit)
}

// pass lets text through up to a place.
func (f *Filter) pass(dst []byte, to int) []byte {
	if to > f.sent {
		if f.quiet {
			f.sent = to
			return dst
		}
		dst = append(dst, f.text[f.sent-f.base:to-f.base]...)
		f.sent = to
	}
	return dst
}

// replace lets text through up to a match, and writes the replacement of the match.
func (f *Filter) replace(dst []byte, t *thread) []byte {
	dst = f.pass(dst, t.start)
	if t.end <= f.sent {
		return dst
	}
	if !t.told {
		mark, ok := t.found.mark, true
		if f.escaped {
			mark, ok = f.jsonMark(t)
		}
		if !ok {
			f.blocked = true
			f.note(t, Block)
			return dst
		}
		dst = append(dst, mark...)
	}
	f.sent = t.end
	return dst
}

// stop ends the text before a match. What matches before it is replaced.
func (f *Filter) stop(dst []byte, t *thread) []byte {
	for i := range f.redact.threads {
		if r := &f.redact.threads[i]; r.found != nil && r.start < t.start {
			dst = f.replace(dst, r)
		}
	}
	dst = f.pass(dst, t.start)
	f.blocked = true
	f.note(t, Block)
	return dst
}

func (f *Filter) note(t *thread, a Action) {
	if f.report != nil {
		f.report.add(f.policy, t.found.rule, a, f.covered(t.start, t.end))
	}
}

// covered is the text between two places, without escapes.
func (f *Filter) covered(from, to int) string {
	raw := f.text[from-f.base : to-f.base]
	if !f.escaped {
		return string(raw)
	}
	return unescaped(raw)
}

// forget drops text that was sent and that no match needs any more.
func (f *Filter) forget() {
	keep := min(f.sent, f.redact.undecided(f.at), f.block.undecided(f.at), f.flag.undecided(f.at))
	if n := keep - f.base; n > 0 {
		f.text = f.text[:copy(f.text, f.text[n:])]
		f.base = keep
	}
}

// jsonMark is what stands in JSON in the place of a match; false: nothing can.
func (f *Filter) jsonMark(t *thread) ([]byte, bool) {
	raw := f.text[t.start-f.base : t.end-f.base]
	if f.json.contains(t.start, t.end) {
		quoted, err := json.Marshal(string(t.found.mark))
		if err != nil {
			return nil, false
		}
		return quoted[1 : len(quoted)-1], true
	}
	for _, b := range raw {
		if !isDigit(rune(b)) && b != '.' && b != '-' {
			return nil, false
		}
	}
	if t.start > f.base && f.text[t.start-1-f.base] == '-' {
		return nil, false
	}
	quoted, err := json.Marshal(string(t.found.mark))
	return quoted, err == nil
}
