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

// MeasureDecisions asks a server's /v1/decisions all questions of a file. A target without a model gets the first one that the server lists.
// Raw asks for probabilities that the server has not calibrated, which weir does. progress may be nil.
func MeasureDecisions(ctx context.Context, t *Target, list []LabelledDecision, raw bool, progress func(done, total int)) (*Decisions, error) {
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
	m := &Decisions{}
	for i := range list {
		if err := m.ask(ctx, t, i, &list[i], raw); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if progress != nil {
			progress(i+1, len(list))
		}
	}
	return m, nil
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

// Decisions are a server's answers to labelled questions.
type Decisions struct{ answers []decided }

// decided is one answer.
type decided struct {
	line          int // of the file
	kind          string
	probabilities []float64
	right         int // the option that is
}

func (m *Decisions) ask(ctx context.Context, t *Target, line int, d *LabelledDecision, raw bool) error {
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
	request := map[string]any{"model": t.Model, "input": d.Input, "questions": questions}
	if raw {
		request["calibrate"] = false
	}
	body, err := json.Marshal(request)
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
		a, err := newDecided(line, &answer.Answers[i], expected[i])
		if err != nil {
			return fmt.Errorf("question %d: %w", i, err)
		}
		m.answers = append(m.answers, a)
	}
	return nil
}

// newDecided takes in one answer.
func newDecided(line int, a *decisionAnswer, expected any) (decided, error) {
	d := decided{line: line, kind: a.Type, probabilities: []float64{a.Probability, 1 - a.Probability}, right: -1}
	if a.Type == "predicate" {
		switch expected {
		case true:
			d.right = 0
		case false:
			d.right = 1
		}
	} else {
		d.probabilities = nil
		for i, p := range a.Probabilities {
			d.probabilities = append(d.probabilities, p.Probability)
			number, isNumber := p.Value.(float64)
			if a.Type == "choice" && p.Value == expected || a.Type == "score" && (p.Label == expected || isNumber && number == expected) {
				d.right = i
			}
		}
	}
	if d.right < 0 {
		return d, fmt.Errorf("a %s answer has no option %v, which is expected", a.Type, expected)
	}
	return d, nil
}
