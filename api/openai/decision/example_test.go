package decision_test

import (
	"fmt"

	"weir/api/openai/decision"
	"weir/api/openai/job"
)

// A request gives a prompt for each question, with the tokens of its options, and then writes its answer from their log-probabilities.
func Example() {
	o, fault := job.ReadBody([]byte(`{"model": "m", "input": "I was billed twice.", "questions": [
		{"type": "predicate", "name": "angry", "instructions": "The customer is angry."},
		{"type": "choice", "instructions": "Who helps?", "choices": [{"value": "billing"}, {"value": "technical"}]}]}`), true)
	if fault != nil {
		fmt.Println(fault)
		return
	}
	_, _ = o.Take("model")
	p, fault := decision.Read(o, testModel())
	if fault != nil {
		fmt.Println(fault)
		return
	}
	fmt.Println(p.Len(), "questions; the first has", len(p.Given(0)), "options")
	body, _ := p.AppendAnswer(nil, [][]float64{{-3, -1}, {-0.5, -2.5}}, decision.Usage{Input: p.Tokens()})
	fmt.Println(string(body[:len(`{"model":"m","answers":[{"type":"predicate","name":"angry","probability":0.119`)]))
	// Output:
	// 2 questions; the first has 2 options
	// {"model":"m","answers":[{"type":"predicate","name":"angry","probability":0.119
}
