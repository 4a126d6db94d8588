package translation_test

import (
	"fmt"

	"weir/api/openai/translation"
)

// What an assistant said and called in a row is one message, as chat templates have it.
func ExampleMessages() {
	var m translation.Messages
	m.Instruct("system", "Be short.")
	m.Say("input[0]", "user", []byte(`"How deep is it?"`))
	m.Reply("input[1]", []byte(`"I look."`))
	m.AddCall("input[2]", "function", translation.Call{Place: "input[2]", ID: "call_1", Name: "depth", With: `{}`})
	m.Result("input[3]", "call_1", []byte(`"2 m"`))
	fmt.Println(string(m.End()))
	// Output: [{"role":"system","content":"Be short."},{"role":"user","content":"How deep is it?"},{"role":"assistant","content":"I look.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"depth","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_1","content":"2 m"}]
}
