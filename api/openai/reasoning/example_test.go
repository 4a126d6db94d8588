package reasoning_test

import (
	"fmt"

	"weir/api/openai/jsonbody"
	"weir/api/openai/reasoning"
)

// Clients name the budget of a thought in one of two ways.
func ExampleReadBudget() {
	for _, body := range []string{`{"thinking_token_budget": 200}`, `{"thinking_budget_tokens": 100}`, `{}`} {
		o, fault := jsonbody.Parse([]byte(body), true)
		if fault != nil {
			fmt.Println(fault)
			return
		}
		b := reasoning.ReadBudget(o, &fault)
		fmt.Printf("%d %q\n", b.Most, b.Name)
	}
	// Output:
	// 200 "thinking_token_budget"
	// 100 "thinking_budget_tokens"
	// -1 ""
}
