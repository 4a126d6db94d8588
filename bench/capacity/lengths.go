package capacity

import (
	"fmt"
	"math"
	"math/rand/v2"

	"weir/bench"
)

// Lengths are the tokens of prompts and answers that requests are drawn from.
type Lengths []bench.Length

// Spread are lengths even in mean x (1 ± ratio), as `weir bench serve --random-range-ratio` draws them; 0 is all alike.
func Spread(prompt, output, ratio float64) (Lengths, error) {
	if !(ratio >= 0 && ratio < 1) {
		return nil, fmt.Errorf("lengths spread by %g, want a share from 0 to below 1", ratio)
	}
	if !(prompt >= 1 && prompt <= mostTokens && output >= 1 && output <= mostTokens) {
		return nil, fmt.Errorf("prompts of %g and answers of %g tokens, want 1 to %d", prompt, output, mostTokens)
	}
	whole := func(f float64) int { return max(1, int(math.Round(f))) }
	if ratio == 0 {
		return Lengths{{Prompt: whole(prompt), Output: whole(output)}}, nil
	}
	rng := rand.New(rand.NewPCG(1, 1))
	lengths := make(Lengths, 512)
	for i, j := range rng.Perm(len(lengths)) {
		at := func(k int) float64 { return 1 + ratio*(2*(float64(k)+0.5)/float64(len(lengths))-1) }
		lengths[i] = bench.Length{Prompt: whole(prompt * at(i)), Output: whole(output * at(j))}
	}
	return lengths, nil
}

// Means are the mean tokens of prompts and of answers.
func (l Lengths) Means() (prompt, output float64) {
	for _, r := range l {
		prompt, output = prompt+float64(r.Prompt), output+float64(r.Output)
	}
	return prompt / float64(len(l)), output / float64(len(l))
}

// longest is the most tokens that one request has.
func (l Lengths) longest() int {
	most := 0
	for _, r := range l {
		most = max(most, r.Prompt+r.Output)
	}
	return most
}
