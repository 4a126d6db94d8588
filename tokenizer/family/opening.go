package family

import (
	"slices"
	"strings"

	"weir/tokenizer"
)

// promptTail is the last text that the template wrote, and what the client wrote after it. Client text before that may
// mention any marker and says nothing about the answer's state.
func promptTail(prompt []tokenizer.Span) string {
	for i, span := range slices.Backward(prompt) {
		if span.Control {
			return joinSpans(prompt[i:])
		}
	}
	return joinSpans(prompt)
}

func joinSpans(spans []tokenizer.Span) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.Text)
	}
	return b.String()
}

// functionaryOpening finds the recipient that the prompt leaves open: >>> or >>>all and what follows.
func functionaryOpening(tail string) Opening {
	if at := strings.LastIndex(tail, ">>>"); at >= 0 {
		return Opening{Markup: tail[at:]}
	}
	return Opening{}
}
