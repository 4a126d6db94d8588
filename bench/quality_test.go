package bench

import (
	"bytes"
	"encoding/xml"
	"math"
	"strings"
	"testing"

	"weir/internal/prose"
)

// table scores every position by the token at the position: logits[token].
type table struct {
	logits [][]float32
	calls  int
}

func (s *table) Vocabulary() int { return len(s.logits[0]) }

func (s *table) Score(tokens []int32, from int, yield func(int, []float32)) error {
	s.calls++
	for i := from; i < len(tokens); i++ {
		yield(i, s.logits[tokens[i]])
	}
	return nil
}

func logs(p ...float64) []float32 {
	row := make([]float32, len(p))
	for i := range p {
		row[i] = float32(math.Log(p[i]) + 3) // a softmax does not see the 3
	}
	return row
}

func isClose(got, want float64) bool { return math.Abs(got-want) <= 1e-6*max(1, math.Abs(want)) }

// The figures of two small distributions, computed by hand.
func TestQualityFigures(t *testing.T) {
	reference := &table{logits: [][]float32{logs(0.5, 0.25, 0.25), logs(0.1, 0.8, 0.1), logs(1./3, 1./3, 1./3)}}
	model := &table{logits: [][]float32{logs(0.25, 0.5, 0.25), logs(0.1, 0.8, 0.1), logs(1./3, 1./3, 1./3)}}
	// Windows of four tokens; positions 1 and 2 count, and the tokens after them.
	q, err := CompareQuality(reference, model, QualityOptions{Tokens: []int32{2, 0, 0, 1, 2, 1, 0, 1, 2}, BOS: -1, Context: 4, From: 1})
	if err != nil {
		t.Fatal(err)
	}
	// Positions: 0 (next 0), 0 (next 1); 1 (next 0), 0 (next 1).
	kl := 0.5*math.Log(2) - 0.25*math.Log(2)
	if q.Positions != 4 || !isClose(q.KL.Value, 3*kl/4) || !isClose(q.SameTop.Value, 0.25) {
		t.Errorf("%+v", q)
	}
	if want := math.Exp(-(math.Log(0.25) + 2*math.Log(0.5) + math.Log(0.1)) / 4); !isClose(q.Perplexity.Value, want) {
		t.Errorf("perplexity %v, want %v", q.Perplexity, want)
	}
	if want := math.Exp(-(math.Log(0.5) + 2*math.Log(0.25) + math.Log(0.1)) / 4); !isClose(q.ReferencePerplexity.Value, want) {
		t.Errorf("perplexity of the reference %v, want %v", q.ReferencePerplexity, want)
	}
	if want := math.Sqrt((0.25*0.25 + 2*0.25*0.25) / 4); !isClose(q.RMSDeltaP, want) || !isClose(q.DeltaP.Value, 0.25/4) {
		t.Errorf("%v %v, want %v", q.DeltaP, q.RMSDeltaP, want)
	}
	if got := q.ByPosition; len(got) != 2 || got[0].From != 1 || !isClose(got[0].KL, kl/2) || !isClose(got[1].KL, kl) {
		t.Errorf("by position: %+v", got)
	}
	if got := q.KLQuantiles; !isClose(got[0].Value, 0) || !isClose(got[len(got)-1].Value, kl) {
		t.Errorf("quantiles: %+v", got)
	}
	var table, plot bytes.Buffer
	if err := WriteQualityMarkdown(&table, q); err != nil || !strings.Contains(table.String(), "| mean KL divergence") {
		t.Errorf("%v\n%s", err, table.String())
	}
	if err := PlotQuality(&plot, "<model>", q); err != nil || xml.Unmarshal(plot.Bytes(), new(struct{})) != nil {
		t.Errorf("%v\n%s", err, plot.String())
	}
}

// A model beside itself differs in nothing, and a begin token stands for the first of each window.
func TestQualityOfAModelBesideItself(t *testing.T) {
	m := &table{logits: [][]float32{logs(0.5, 0.5), logs(0.9, 0.1)}}
	q, err := CompareQuality(m, m, QualityOptions{Tokens: make([]int32, 20), BOS: 1, Context: 5, Windows: 3})
	if err != nil || q.Positions != 12 || q.KL.Value != 0 || q.SameTop.Value != 1 || q.LogRatio.Value != 0 || m.calls != 6 {
		t.Fatalf("%+v %v", q, err)
	}
	if want := math.Exp(-(3*math.Log(0.9) + 9*math.Log(0.5)) / 12); !isClose(q.Perplexity.Value, want) {
		t.Errorf("perplexity %v, want %v", q.Perplexity.Value, want)
	}
}

func TestQualityRefusals(t *testing.T) {
	m, other := &table{logits: [][]float32{logs(1, 1)}}, &table{logits: [][]float32{logs(1, 1, 1)}}
	for name, o := range map[string]QualityOptions{
		"less than one window":    {Tokens: make([]int32, 7), Context: 8},
		"position before the":     {Tokens: make([]int32, 8), Context: 8, From: 7},
		"only models with one vo": {Tokens: make([]int32, 8), Context: 8},
	} {
		r := m
		if strings.HasPrefix(name, "only") {
			r = other
		}
		if _, err := CompareQuality(r, m, o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is measured without a text of the user's is.
func TestTheTextIsLongEnough(t *testing.T) {
	if n := len(prose.Text); n < 20_000 || strings.Contains(prose.Text, "\r") {
		t.Errorf("%d bytes", n)
	}
}
