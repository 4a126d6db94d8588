package params_test

import (
	"fmt"

	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
)

func Example() {
	o, fault := jsonbody.Parse([]byte(`{"max_tokens": 40, "temperature": 3, "stop": ["END"]}`), true)
	if fault != nil {
		panic(fault)
	}
	p := params.Read(o, &models.Model{MaxModelLen: 8192}, &params.Rules{MaxChoices: 8, MaxStopTokens: 16}, &fault)
	fmt.Println(p.MaxTokens, p.LengthName, len(p.Stops.Patterns))
	fmt.Println(fault.Message)
	// Output:
	// 40 max_tokens 1
	// temperature is 3; it must be between 0 and 2
}
