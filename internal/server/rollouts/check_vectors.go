package rollouts

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"weir/router/rollout"
)

func (c *candidateCheck) embed(version string, texts ...string) (int, []byte) {
	return c.post("/v1/embeddings", map[string]any{"model": c.plan.Model + "@" + version, "input": texts})
}

// comparedTexts is how many texts are embedded in two wordings.
const comparedTexts = 8

// wordings are texts, and behind them each in other words.
func wordings() []string {
	list := slices.Clone(questions[:comparedTexts])
	for _, q := range questions[:comparedTexts] {
		list = append(list, "Please tell me this: "+strings.ToLower(q))
	}
	return list
}

// vector has both versions embed texts. Where the stable version's vectors tell them apart, so must the candidate's.
func (c *candidateCheck) vector() error {
	status, answer := c.embed(c.plan.Stable, wordings()...)
	if status != http.StatusOK {
		return nil // a model that only ranks, or is out of order: what the candidate answers cannot be compared
	}
	usual, err := vectorsOf(answer)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	status, answer = c.embed(c.plan.Candidate, wordings()...)
	if status != http.StatusOK {
		return fmt.Errorf("%w: it answers texts to embed with status %d: %.200s", rollout.ErrCheck, status, answer)
	}
	got, err := vectorsOf(answer)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", rollout.ErrCheck, err)
	case len(got[0]) != len(usual[0]):
		return fmt.Errorf("%w: its vectors have %d numbers, and the stable version's %d", rollout.ErrCheck, len(got[0]), len(usual[0]))
	}
	if mine, its := toldApart(got), toldApart(usual); its > comparedTexts/2 && mine <= comparedTexts/2 {
		return fmt.Errorf("%w: its vectors have no more to do with their texts: of %d texts %d are nearest to themselves in other words, and %d by the stable version's vectors",
			rollout.ErrCheck, comparedTexts, mine, its)
	}
	return nil
}

// vectorsOf are the vectors of an answer to wordings.
func vectorsOf(answer []byte) ([][]float64, error) {
	var got struct {
		Data []struct{ Embedding []float64 }
	}
	if err := json.Unmarshal(answer, &got); err != nil || len(got.Data) != 2*comparedTexts {
		return nil, fmt.Errorf("it answers %d texts to embed with %d vectors of numbers: %.200s", 2*comparedTexts, len(got.Data), answer)
	}
	list := make([][]float64, len(got.Data))
	for i := range got.Data {
		list[i] = got.Data[i].Embedding
		if len(list[i]) == 0 || len(list[i]) != len(list[0]) || cosine(list[i], list[i]) == 0 {
			return nil, fmt.Errorf("vector %d of its answer is empty, has another length than the first, or is all zeros", i+1)
		}
	}
	return list, nil
}

// toldApart is how many texts have a vector nearer to that of their other wording than to those of all others.
func toldApart(vectors [][]float64) (n int) {
	texts, others := vectors[:comparedTexts], vectors[comparedTexts:]
	for i, v := range texts {
		own, nearest := cosine(v, others[i]), true
		for j, w := range others {
			nearest = nearest && (i == j || cosine(v, w) < own)
		}
		if nearest {
			n++
		}
	}
	return n
}

// cosine is the cosine between two vectors of one length; 0 where one is all zeros.
func cosine(a, b []float64) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += a[i] * b[i]
		aa += a[i] * a[i]
		bb += b[i] * b[i]
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}
