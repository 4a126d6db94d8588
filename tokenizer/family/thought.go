package family

import (
	"bytes"
	"strings"
)

// thought is how a family marks thoughts.
type thought struct {
	open, close string
	mark        string // open without white space around it: what a parser takes for it
	anywhere    bool   // the markers are control tokens that text never holds, so a thought may open after text, too
	implicit    bool   // an answer begins inside the thought, and no marker says so
	nameless    string // what begins open: in front of an answer's first text it opens a thought without the rest, too
}

// isOpen reports whether a text ends inside a thought: the last marker in it is the opening one.
func (t *thought) isOpen(tail string) bool {
	closed := strings.LastIndex(tail, t.close)
	if t.implicit {
		return closed < 0
	}
	return strings.LastIndex(tail, t.mark) > closed
}

// anchored reads a marker of thoughts after n bytes of white space where text has not begun: an opening one, or a closing
// one that closes nothing and is dropped.
func (p *Parser) anchored(t *thought, n int, final bool) status {
	rest := p.in.rest()[n:]
	waits := false
	for _, m := range [...]string{t.mark, t.close} {
		switch prefix(rest, m, final) {
		case done:
			p.in.skip(n + len(m))
			p.after = true
			if m == t.mark {
				p.state = (*Parser).thoughtStart
			}
			return done
		case more:
			waits = true
		default:
		}
	}
	if waits {
		return more
	}
	if t.nameless != "" && !p.after && prefix(rest, t.nameless, final) == done {
		p.in.skip(n + len(t.nameless))
		p.after = true
		p.state = (*Parser).thoughtStart
		return done
	}
	return bad
}

// thoughtStart drops the white space at the beginning of a thought, and opening markers that the model repeats.
func (p *Parser) thoughtStart(final bool) bool {
	p.inThought = true
	p.in.skipBlank()
	switch prefix(p.in.rest(), p.family.thought.mark, final) {
	case done:
		p.in.skip(len(p.family.thought.mark))
		return true
	case more:
		return false
	default:
	}
	p.state = (*Parser).thinking
	return len(p.in.rest()) > 0
}

// thinking gives a thought up to its closing marker, to the beginning of text, or to a call: many models call without closing their thought.
func (p *Parser) thinking(final bool) bool {
	texts := len(p.family.calls.texts)
	ends := p.family.calls.thoughtEnds
	if p.calls == nil {
		ends = ends[:1+texts]
	}
	m, blanks := p.scan(Reasoning, ends, false, final)
	switch {
	case m < 0:
		return false
	case m > texts:
		p.callBehind(blanks)
		return true
	case m == 0:
		p.in.skip(len(p.family.thought.close))
	}
	p.in.skip(blanks)
	p.inThought, p.after = false, true
	p.state = (*Parser).lead
	return true
}

// goesOn reports whether the thought that a call stands in is closed behind it: then the model only thinks of the call. Until that
// is known, call and thought are held back.
func (t *thought) goesOn(rest []byte, final bool) status {
	switch {
	case bytes.Contains(rest, []byte(t.close)), len(rest) >= headLimit:
		return done
	case final:
		return bad
	}
	return more
}

// markOfThought reads a marker of thoughts behind text and n bytes of white space, in families where it can stand there: one that opens a
// thought, or a closing one that closes nothing and is dropped.
func (p *Parser) markOfThought(n int) bool {
	t := p.family.thought
	if t == nil || !t.anywhere {
		return false
	}
	rest := p.in.rest()[n:]
	switch {
	case prefix(rest, t.mark, true) == done:
		p.in.skip(n + len(t.mark))
		p.state = (*Parser).thoughtStart
	case prefix(rest, t.close, true) == done:
		p.take(Content, n)
		p.in.skip(len(t.close))
		p.state = (*Parser).content
	default:
		return false
	}
	return true
}
