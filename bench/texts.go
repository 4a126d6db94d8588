package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"weir/internal/inference"
	"weir/internal/unit"
)

// embedder is what is measured: engine/llm's encoders.
type embedder interface {
	Embed(ctx context.Context, a *inference.Embedding) error
}

// TextOptions say which calls of an encoder are measured.
type TextOptions struct {
	Tokens []int // of a text
	Texts  []int // of a call
	Rounds int   // measurements of each case, by turns; the median is reported

	Vocabulary int
	Seed       uint64
	Progress   func(done, total int)
}

// TextRow is what calls of one size took.
type TextRow struct {
	Tokens, Texts int
	Rounds        []float64 // seconds of a call, one for each round
}

// Median is the time of a call in seconds.
func (r *TextRow) Median() float64 {
	s := slices.Sorted(slices.Values(r.Rounds))
	return s[len(s)/2]
}

// roundTime is how long a round of one case lasts at least.
const roundTime = 200 * time.Millisecond

// RunTexts measures calls of texts of random tokens, one call after the other.
func RunTexts(ctx context.Context, e embedder, o TextOptions) ([]TextRow, error) {
	var rows []TextRow
	for _, tokens := range o.Tokens {
		for _, texts := range o.Texts {
			rows = append(rows, TextRow{Tokens: tokens, Texts: texts})
		}
	}
	r := rand.New(rand.NewPCG(o.Seed, 1))
	total := (o.Rounds + 1) * len(rows)
	for round := range o.Rounds + 1 {
		for i := range rows {
			seconds, err := timeTexts(ctx, e, &rows[i], r, o.Vocabulary)
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first one warms up
				rows[i].Rounds = append(rows[i].Rounds, seconds)
			}
			if o.Progress != nil {
				o.Progress(round*len(rows)+i+1, total)
			}
		}
	}
	return rows, nil
}

// timeTexts makes calls for a round and returns the time of one.
func timeTexts(ctx context.Context, e embedder, row *TextRow, r *rand.Rand, vocabulary int) (seconds float64, err error) {
	calls, begin := 0, time.Now()
	for calls == 0 || time.Since(begin) < roundTime {
		a := inference.Embedding{Texts: make([][]inference.TokenID, row.Texts)}
		for i := range a.Texts {
			a.Texts[i] = make([]inference.TokenID, row.Tokens)
			for k := range a.Texts[i] {
				a.Texts[i][k] = r.Int32N(int32(vocabulary)) //nolint:gosec // a vocabulary is small
			}
		}
		if err := e.Embed(ctx, &a); err != nil {
			return 0, fmt.Errorf("embed %d texts of %d tokens: %w", row.Texts, row.Tokens, err)
		}
		calls++
	}
	return time.Since(begin).Seconds() / float64(calls), nil
}

// AddTexts adds the rates of every case.
func (r *Result) AddTexts(rows []TextRow) {
	for i := range rows {
		t := &rows[i]
		of := fmt.Sprintf("%d tokens x %d", t.Tokens, t.Texts)
		texts := make([]float64, len(t.Rounds))
		tokens := make([]float64, len(t.Rounds))
		for k, s := range t.Rounds {
			texts[k] = float64(t.Texts) / s
			tokens[k] = float64(t.Texts*t.Tokens) / s
		}
		r.Add(of+", texts", "texts/s", texts...)
		r.Rows[len(r.Rows)-1].Value = float64(t.Texts) / t.Median()
		r.Add(of+", tokens", "tok/s", tokens...)
		r.Rows[len(r.Rows)-1].Value = float64(t.Texts*t.Tokens) / t.Median()
	}
}

// WriteTextsMarkdown writes the cases as a table.
func WriteTextsMarkdown(w io.Writer, rows []TextRow) error {
	columns := []column{{"tokens", 7, right}, {"texts", 6, right}, {"call", 9, right}, {"texts/s", 9, right}, {"tokens/s", 9, right}}
	var cells [][]string
	for i := range rows {
		t := &rows[i]
		s := t.Median()
		cells = append(cells, []string{
			strconv.Itoa(t.Tokens), strconv.Itoa(t.Texts), unit.Seconds(s), unit.ThreeDigits(float64(t.Texts) / s), unit.ThreeDigits(float64(t.Texts*t.Tokens) / s),
		})
	}
	return markdown(w, columns, cells)
}
