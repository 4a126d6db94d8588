package relay

import "weir/router"

// mostCountedBytes is the longest prompt that is tokenised by a vocabulary of OpenAI's to be reserved; longer
// ones are estimated.
const mostCountedBytes = 64 << 10

// counts reports whether a prompt of so many bytes is tokenised by a vocabulary of OpenAI's.
func (s *Relay) counts(model string, size int) bool {
	if s.Counter == nil || size > mostCountedBytes {
		return false
	}
	_, ok := s.Counter.CountFor(model)
	return ok
}

// guessInput counts the tokens of a prompt's parts, which are asked for where they count, of a request of so many bytes.
func (s *Relay) guessInput(model string, parts func() []router.Part, size int) int64 {
	if s.counts(model, size) {
		if encoding, ok := s.Counter.CountFor(model); ok {
			sum := 0
			for _, p := range parts() {
				n, err := encoding.Count(string(p.Text))
				if err != nil {
					return int64(size / BytesPerToken)
				}
				sum += n
			}
			return int64(sum)
		}
	}
	return int64(size / BytesPerToken)
}
