package openai

// stopSet holds a request's stop strings, compiled for byte-wise matching
// (Knuth, Morris, Pratt 1977). It is immutable and shared by the request's
// choices.
type stopSet struct {
	patterns []stopPattern
	include  bool // the stop string itself is part of the output
}

type stopPattern struct {
	text string
	fall []int // fall[k]: length of the longest proper border of text[:k+1]
}

func newStopSet(texts []string, include bool) *stopSet {
	s := &stopSet{include: include}
	for _, t := range texts {
		s.patterns = append(s.patterns, stopPattern{text: t, fall: borders(t)})
	}
	return s
}

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

// advance returns how much of the pattern is matched after one more byte.
func (p *stopPattern) advance(k int, b byte) int {
	if k == len(p.text) {
		k = p.fall[k-1]
	}
	for k > 0 && p.text[k] != b {
		k = p.fall[k-1]
	}
	if p.text[k] == b {
		k++
	}
	return k
}

// stopMatcher looks for stop strings in one choice's text as it comes. Text
// that may be the beginning of a stop string is held back until that is
// certain. The match that ends first counts, and of those that end together
// the longest, so the result does not depend on how the text is cut into
// tokens.
type stopMatcher struct {
	set   *stopSet
	state []int  // matched bytes per pattern
	held  []byte // text not given out yet; a prefix of some pattern
}

func newStopMatcher(set *stopSet) stopMatcher {
	return stopMatcher{set: set, state: make([]int, len(set.patterns))}
}

// append takes text in and appends what is certain to be output to dst. After
// it returns a match the choice is over and the matcher must not be used.
func (m *stopMatcher) append(dst, text []byte) (out []byte, match *stopPattern) {
	if len(m.set.patterns) == 0 {
		return append(dst, text...), nil
	}
	m.held = append(m.held, text...)
	given := 0
	for i := len(m.held) - len(text); i < len(m.held); i++ {
		partial, full := m.step(m.held[i])
		if full != nil {
			end := i + 1
			if !m.set.include {
				end -= len(full.text)
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
func (m *stopMatcher) step(b byte) (partial int, full *stopPattern) {
	for i := range m.set.patterns {
		p := &m.set.patterns[i]
		k := p.advance(m.state[i], b)
		m.state[i] = k
		if k == len(p.text) && (full == nil || k > len(full.text)) {
			full = p
		}
		partial = max(partial, k)
	}
	return partial, full
}

// flush appends what was held back, where text ends without a match. The text that
// comes after that is matched anew.
func (m *stopMatcher) flush(dst []byte) []byte {
	clear(m.state)
	dst = append(dst, m.held...)
	m.held = m.held[:0]
	return dst
}
