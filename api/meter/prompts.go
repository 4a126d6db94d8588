package meter

import "math"

// promptLine says how many tokens prompts of a model have by the bytes of their texts: a line through what was told, as a template adds some
// to each. Older prompts count less.
type promptLine struct {
	seen                      int // prompts, told of or not
	n, bytes, tokens          float64
	bytesSquared, bytesTokens float64
}

const (
	oldPrompts = 1000 // how many count in full

	firstLearned = 64 // prompts of a model that are all learned from: reading their texts takes time
	oneLearnedOf = 16 // later ones

	// usualSlope is the tokens of a byte where too few prompts were told of, or too many of one length. It weighs as much as one prompt that is
	// slopeSpread bytes longer than the others.
	usualSlope, slopeSpread = 0.25, 200.0
)

// LearnsPrompt reports whether the next prompt of a model that is told of is to be learned from.
func (e *Estimates) LearnsPrompt(model string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.prompts[model]
	if known == nil {
		if len(e.prompts) >= maxModels {
			clear(e.prompts)
		}
		known = &promptLine{}
		e.prompts[model] = known
	}
	known.seen++
	return known.seen <= firstLearned || known.seen%oneLearnedOf == 0
}

// LearnPrompt takes in that a prompt with texts of so many bytes had so many tokens.
func (e *Estimates) LearnPrompt(model string, bytes, tokens int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.prompts[model]
	if l == nil || bytes <= 0 || tokens <= 0 {
		return
	}
	if l.n > oldPrompts {
		l.n, l.bytes, l.tokens, l.bytesSquared, l.bytesTokens = l.n/2, l.bytes/2, l.tokens/2, l.bytesSquared/2, l.bytesTokens/2
	}
	x, y := float64(bytes), float64(tokens)
	l.n, l.bytes, l.tokens, l.bytesSquared, l.bytesTokens = l.n+1, l.bytes+x, l.tokens+y, l.bytesSquared+x*x, l.bytesTokens+x*y
}

// PromptTokens is how many tokens a prompt with texts of so many bytes has; false: none of the model was told of yet.
func (e *Estimates) PromptTokens(model string, bytes int) (int, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.prompts[model]
	if l == nil || l.n == 0 {
		return 0, false
	}
	meanBytes, meanTokens := l.bytes/l.n, l.tokens/l.n
	spread, together := l.bytesSquared-l.n*meanBytes*meanBytes, l.bytesTokens-l.n*meanBytes*meanTokens
	const prior = slopeSpread * slopeSpread
	slope := min(max((together+usualSlope*prior)/(spread+prior), 0), meanTokens/meanBytes)
	return max(1, int(math.Round(meanTokens+slope*(float64(bytes)-meanBytes)))), true
}
