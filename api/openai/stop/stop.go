// Package stop ends a text at the first of some strings, however the text comes in pieces.
package stop

// Set holds a request's stop strings, compiled for byte-wise matching
// (Knuth, Morris, Pratt 1977). It is immutable and shared by the request's
// choices.
type Set struct {
	Patterns []Pattern
	Include  bool // the stop string itself is part of the output
}

// Pattern is one text that is looked for byte by byte.
type Pattern struct {
	Text string
	fall []int // fall[k]: length of the longest proper border of text[:k+1]
}

// NewSet compiles some texts. include: the one that ends the output is part of it.
func NewSet(texts []string, include bool) *Set {
	s := &Set{Include: include}
	for _, t := range texts {
		s.Patterns = append(s.Patterns, NewPattern(t))
	}
	return s
}

// NewPattern compiles a text.
func NewPattern(text string) Pattern { return Pattern{Text: text, fall: borders(text)} }

func borders(text string) []int {
	fall := make([]int, len(text))
	for i, k := 1, 0; i < len(text); i++ {
		for k > 0 && text[i] != text[k] {
			k = fall[k-1]
		}
		if text[i] == text[k] {
			k++
		}
		fall[i] = k
	}
	return fall
}

// Advance returns how much of the pattern is matched after one more byte.
func (p *Pattern) Advance(k int, b byte) int {
	if k == len(p.Text) {
		k = p.fall[k-1]
	}
	for k > 0 && p.Text[k] != b {
		k = p.fall[k-1]
	}
	if p.Text[k] == b {
		k++
	}
	return k
}

// Matcher looks for stop strings in one choice's text as it comes. Text
// that may be the beginning of a stop string is held back until that is
// certain. The match that ends first counts, and of those that end together
// the longest, so the result does not depend on how the text is cut into
// tokens.
type Matcher struct {
	set   *Set
	state []int  // matched bytes per pattern
	held  []byte // text not given out yet; a prefix of some pattern
}

// NewMatcher is at the beginning of a text.
func NewMatcher(set *Set) Matcher {
	return Matcher{set: set, state: make([]int, len(set.Patterns))}
}

// Append takes text in and appends what is certain to be output to dst. After
// it returns a match the choice is over and the matcher must not be used.
func (m *Matcher) Append(dst, text []byte) (out []byte, match *Pattern) {
	if len(m.set.Patterns) == 0 {
		return append(dst, text...), nil
	}
	m.held = append(m.held, text...)
	given := 0
	for i := len(m.held) - len(text); i < len(m.held); i++ {
		partial, full := m.step(m.held[i])
		if full != nil {
			end := i + 1
			if !m.set.Include {
				end -= len(full.Text)
			}
			return append(dst, m.held[given:end]...), full
		}
		dst = append(dst, m.held[given:i+1-partial]...)
		given = i + 1 - partial
	}
	m.held = append(m.held[:0], m.held[given:]...)
	return dst, nil
}

// step advances every pattern by one byte: the length of the longest partial
// match, and the longest pattern that is complete.
func (m *Matcher) step(b byte) (partial int, full *Pattern) {
	for i := range m.set.Patterns {
		p := &m.set.Patterns[i]
		k := p.Advance(m.state[i], b)
		m.state[i] = k
		if k == len(p.Text) && (full == nil || k > len(full.Text)) {
			full = p
		}
		partial = max(partial, k)
	}
	return partial, full
}

// Flush appends what was held back, where text ends without a match. The text that
// comes after that is matched on its own.
func (m *Matcher) Flush(dst []byte) []byte {
	clear(m.state)
	dst = append(dst, m.held...)
	m.held = m.held[:0]
	return dst
}
