package server_test

import (
	"encoding/json"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"weir/api/openai/decision"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/bench"
	"weir/configs"
	"weir/engine/llm"
	"weir/internal/reference"
	"weir/internal/server/local"
	"weir/internal/server/servertest"
	"weir/tokenizer"
)

// How far a probability may be from the exact weights', on average and at most.
const (
	decisionDistance  = 0.001
	decisionDistances = 0.005
)

// A real model's decisions are those of its exact weights: the softmax over the options of the sums of their tokens' log-probabilities, each
// text computed by itself from float32 weights.
func testRealModelDecisions(t *testing.T, m realModel, s *servertest.Server) {
	m.inAMoment(t)
	c := configs.Default()
	m.configure(t)(&c)
	nearDecisions(t, s, c)
}

// TestRealModelDecides is the same of Gemma 3 270M, whose template is weir's own, and with the cache that rounds most.
func TestRealModelDecides(t *testing.T) {
	m := realModel{name: "gemma3", large: true}
	m.inAMoment(t)
	c := configs.Default()
	m.configure(t)(&c)
	nearDecisions(t, servertest.Start(t, m.configure(t)), c)
	nearDecisions(t, servertest.Start(t, func(c *configs.Config) {
		m.configure(t)(c)
		c.Engine.KVType = "q4_0"
	}), c)
}

func nearDecisions(t *testing.T, s *servertest.Server, c configs.Config) {
	t.Helper()
	list, err := bench.ReadDecisions(strings.NewReader(bench.LabelledDecisions))
	if err != nil {
		t.Fatal(err)
	}
	if list = list[:4]; !reference.Long() {
		list = list[:1]
	}
	exact, model := realQuality(t, c, 1024, true), decider(t, c)
	worst, sum, n := 0.0, 0.0, 0
	for _, d := range list {
		if !reference.Long() {
			d.Questions = d.Questions[1:3] // yes or no, and one of several
		}
		for _, q := range d.Questions {
			delete(q, "expected")
		}
		body := jsonText(map[string]any{"input": d.Input, "questions": d.Questions})
		o, fault := job.ReadBody([]byte(body), false)
		if fault != nil {
			t.Fatal(fault)
		}
		p, fault := decision.Read(o, model)
		if fault != nil {
			t.Fatal(fault)
		}
		got := servedDecisions(t, s, body)
		for i, want := range exactDecisions(t, exact, p) {
			for k := range got[i] {
				off := math.Abs(got[i][k] - want[k])
				worst, sum, n = max(worst, off), sum+off, n+1
			}
			t.Logf("question %d: %.4f, the exact weights say %.4f", i, got[i], want)
		}
	}
	t.Logf("%d probabilities differ by %.5f at most, by %.5f on average", n, worst, sum/float64(n))
	if worst > decisionDistances || sum/float64(n) > decisionDistance {
		t.Errorf("probabilities differ by %.5f from the exact weights' at most, by %.5f on average; want %v and %v", worst, sum/float64(n), decisionDistances, decisionDistance)
	}
}

// decider is what a server makes of the model's file, as far as prompts need it.
func decider(t *testing.T, c configs.Config) *models.Model {
	f, err := local.Open(c.Model.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	words, err := tokenizer.New(f.Value)
	if err != nil {
		t.Fatal(err)
	}
	template, err := local.ChooseTemplate(c.Model, f, words)
	if err != nil {
		t.Fatal(err)
	}
	return &models.Model{ID: "m", MaxModelLen: 1024, Tokenizer: words, Template: template.Template, Family: template.Family}
}

// servedDecisions gives the probabilities of a server's answer; of a predicate those of yes and no.
func servedDecisions(t *testing.T, s *servertest.Server, body string) (list [][]float64) {
	r := s.Post("/v1/decisions", body)
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Answers []struct {
			Type          string
			Probability   float64
			Probabilities []struct{ Probability float64 }
		}
	}
	if err := json.Unmarshal(raw, &answer); err != nil || len(answer.Answers) == 0 {
		t.Fatalf("%v %s", err, raw)
	}
	for _, a := range answer.Answers {
		one := []float64{a.Probability, 1 - a.Probability}
		if a.Type != "predicate" {
			one = one[:0]
			for _, p := range a.Probabilities {
				one = append(one, p.Probability)
			}
		}
		list = append(list, one)
	}
	return list
}

// exactDecisions computes each option's text whole, by itself.
func exactDecisions(t *testing.T, exact *llm.Scorer, p *decision.Request) (list [][]float64) {
	for i := range p.Len() {
		prompt, sums, total := p.Prompt(i), []float64{}, 0.0
		for _, given := range p.Given(i) {
			log := 0.0
			text := slices.Concat(prompt, given[:len(given)-1])
			err := exact.Score(text, len(prompt)-1, func(position int, logits []float32) {
				norm := 0.0
				for _, l := range logits {
					norm += math.Exp(float64(l))
				}
				log += float64(logits[given[position+1-len(prompt)]]) - math.Log(norm)
			})
			if err != nil {
				t.Fatal(err)
			}
			sums = append(sums, math.Exp(log))
			total += math.Exp(log)
		}
		for k := range sums {
			sums[k] /= total
		}
		list = append(list, sums)
	}
	return list
}
