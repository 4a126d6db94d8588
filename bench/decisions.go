package bench

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
)

// LabelledDecisions are lines of an input with questions whose answers are known, for measurements without a file of the user's.
//
//go:embed decisions.jsonl
var LabelledDecisions string

// LabelledDecision is a line of such a file: a request of /v1/decisions without its model, whose questions have one more field, expected: true
// or false of a predicate, a value of a choice, the label of a score's level or its number from 0 on.
type LabelledDecision struct {
	Input     json.RawMessage  `json:"input"`
	Questions []map[string]any `json:"questions"`
}

// ReadDecisions reads lines of labelled decisions.
func ReadDecisions(r io.Reader) ([]LabelledDecision, error) {
	lines := bufio.NewScanner(io.LimitReader(r, maxFileBytes))
	lines.Buffer(nil, maxLineBytes)
	var list []LabelledDecision
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var d LabelledDecision
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		for i, q := range d.Questions {
			if _, ok := q["expected"]; !ok {
				return nil, fmt.Errorf("line %d: question %d lacks expected, its right answer", n, i)
			}
		}
		if len(d.Questions) == 0 {
			return nil, fmt.Errorf("line %d: it has no questions", n)
		}
		list = append(list, d)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read labelled decisions: %w", err)
	}
	if len(list) == 0 {
		return nil, errors.New("the file has no labelled decisions")
	}
	return list, nil
}

// Calibration is how good decisions are, and how far their probabilities can be believed.
type Calibration struct {
	Questions int
	Accuracy  Estimate // share whose most probable option is the right one
	Brier     Estimate // mean over questions of the sum over options of (probability − 1 or 0)²; 0 is best, 2 worst
	LogLoss   Estimate // mean of −ln of the right option's probability
	ECE       float64  // expected calibration error: mean distance of confidence and accuracy, over ten bins of the highest probability
	Bins      []CalibrationBin
}

// CalibrationBin has the questions whose highest probability is above From and at most To.
type CalibrationBin struct {
	From, To             float64
	Questions            int
	Confidence, Accuracy float64 // means
}

const calibrationBins = 10

// MeasureDecisions asks a server's /v1/decisions all questions of a file. A target without a model gets the first one that the server lists.
// progress may be nil.
func MeasureDecisions(ctx context.Context, t *Target, list []LabelledDecision, progress func(done, total int)) (*Calibration, error) {
	t.Endpoint = EndpointChat // Check wants one that generates
	if err := t.Check(); err != nil {
		return nil, err
	}
	defer t.Close()
	if t.Model == "" {
		models, err := t.Models(ctx)
		if err != nil {
			return nil, err
		}
		t.Model = models[0].ID
	}
	var m calibrating
	for i := range list {
		if err := m.ask(ctx, t, &list[i]); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if progress != nil {
			progress(i+1, len(list))
		}
	}
	return m.result(), nil
}

// decisionAnswer is an answer of /v1/decisions as far as it is measured.
type decisionAnswer struct {
	Type          string
	Probability   float64
	Probabilities []struct {
		Value       any
		Label       string
		Probability float64
	}
}

// calibrating collects one number of each kind per question.
type calibrating struct {
	right, brier, loss, top []float64
}

func (m *calibrating) ask(ctx context.Context, t *Target, d *LabelledDecision) error {
	questions, expected := make([]map[string]any, len(d.Questions)), make([]any, len(d.Questions))
	for i, q := range d.Questions {
		questions[i] = map[string]any{}
		for name, v := range q {
			if name == "expected" {
				expected[i] = v
			} else {
				questions[i][name] = v
			}
		}
	}
	body, err := json.Marshal(map[string]any{"model": t.Model, "input": d.Input, "questions": questions})
	if err != nil {
		return err
	}
	var answer struct{ Answers []decisionAnswer }
	if err := t.ask(ctx, http.MethodPost, t.BaseURL+"/v1/decisions", body, &answer); err != nil {
		return err
	}
	if len(answer.Answers) != len(expected) {
		return fmt.Errorf("%d answers to %d questions", len(answer.Answers), len(expected))
	}
	for i := range expected {
		if err := m.add(&answer.Answers[i], expected[i]); err != nil {
			return fmt.Errorf("question %d: %w", i, err)
		}
	}
	return nil
}

// add takes in one answer.
func (m *calibrating) add(a *decisionAnswer, expected any) error {
	probabilities, right := []float64{a.Probability, 1 - a.Probability}, -1
	if a.Type == "predicate" {
		switch expected {
		case true:
			right = 0
		case false:
			right = 1
		}
	} else {
		probabilities = probabilities[:0]
		for i, p := range a.Probabilities {
			probabilities = append(probabilities, p.Probability)
			number, isNumber := p.Value.(float64)
			if a.Type == "choice" && p.Value == expected || a.Type == "score" && (p.Label == expected || isNumber && number == expected) {
				right = i
			}
		}
	}
	if right < 0 {
		return fmt.Errorf("a %s answer has no option %v, which is expected", a.Type, expected)
	}
	brier, best := 0.0, 0
	for i, p := range probabilities {
		y := 0.0
		if i == right {
			y = 1
		}
		if brier += (p - y) * (p - y); p > probabilities[best] {
			best = i
		}
	}
	hit := 0.0
	if best == right {
		hit = 1
	}
	m.right, m.brier, m.top = append(m.right, hit), append(m.brier, brier), append(m.top, probabilities[best])
	m.loss = append(m.loss, -math.Log(max(probabilities[right], 1e-12)))
	return nil
}

func (m *calibrating) result() *Calibration {
	c := &Calibration{Questions: len(m.top), Accuracy: estimate(m.right), Brier: estimate(m.brier), LogLoss: estimate(m.loss)}
	bins := make([]CalibrationBin, calibrationBins)
	for i, p := range m.top {
		b := &bins[min(max(int(math.Ceil(p*calibrationBins))-1, 0), calibrationBins-1)]
		b.Questions++
		b.Confidence += p
		b.Accuracy += m.right[i]
	}
	for i := range bins {
		b := &bins[i]
		b.From, b.To = float64(i)/calibrationBins, float64(i+1)/calibrationBins
		if b.Questions == 0 {
			continue
		}
		n := float64(b.Questions)
		b.Confidence, b.Accuracy = b.Confidence/n, b.Accuracy/n
		c.ECE += math.Abs(b.Confidence-b.Accuracy) * n / float64(c.Questions)
		c.Bins = append(c.Bins, *b)
	}
	return c
}

// WriteCalibrationMarkdown writes the figures, and the bins as a table.
func WriteCalibrationMarkdown(w io.Writer, c *Calibration) error {
	_, err := fmt.Fprintf(w, "%d questions: accuracy %.3f ± %.3f, Brier score %.3f ± %.3f, log loss %.3f ± %.3f, ECE %.3f\n\n"+
		"| highest probability | questions | its mean | accuracy |\n|---|---|---|---|\n",
		c.Questions, c.Accuracy.Value, c.Accuracy.Error, c.Brier.Value, c.Brier.Error, c.LogLoss.Value, c.LogLoss.Error, c.ECE)
	for _, b := range c.Bins {
		if err == nil {
			_, err = fmt.Fprintf(w, "| %.1f to %.1f | %d | %.3f | %.3f |\n", b.From, b.To, b.Questions, b.Confidence, b.Accuracy)
		}
	}
	return err
}

// AddTo adds the figures to a result.
func (c *Calibration) AddTo(r *Result) {
	for _, f := range []struct {
		name, unit string
		value      float64
	}{
		{"decision_questions", "questions", float64(c.Questions)}, {"decision_accuracy", "", c.Accuracy.Value}, {"decision_brier", "", c.Brier.Value},
		{"decision_log_loss", "nats", c.LogLoss.Value}, {"decision_ece", "", c.ECE},
	} {
		r.AddValue(f.name, f.unit, f.value)
	}
}
