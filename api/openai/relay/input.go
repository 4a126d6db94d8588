package relay

import "weir/router"

// mostCountedBytes is the longest prompt that is tokenised by a vocabulary of OpenAI's to be reserved; longer
// ones are estimated.
const mostCountedBytes = 64 << 10

// GuessInput is relayedInput of a prompt's parts, which are asked for where they count, of a request of so many bytes.
func (s *Relay) GuessInput(model string, parts func() []router.Part, size int) int64 {
	if s.Counter != nil && size <= mostCountedBytes {
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
