package toolset_test

import (
	"fmt"
	"testing"

	"weir/api/openai/jsonbody"
	"weir/api/openai/toolset"
)

func Example() {
	o, fault := jsonbody.Parse([]byte(`{
		"tools": [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}],
		"tool_choice": "required"
	}`), true)
	if fault != nil {
		panic(fault)
	}
	set := toolset.Read(o, &fault)
	fmt.Println(fault == nil, len(set.Tools), set.Tools[0].Name, set.Forced())
	// Output: true 1 weather true
}

// What is wrong about tools is told with the place where it stands.
func TestRead(t *testing.T) {
	const weather = `{"type":"function","function":{"name":"weather"}}`
	for body, want := range map[string]string{
		`{}`:                              "",
		`{"tools":[]}`:                    "",
		`{"tools":[` + weather + `]}`:     "",
		`{"tools":{}}`:                    "invalid_type tools",
		`{"tools":[7]}`:                   "invalid_type tools[0]",
		`{"tools":[{"type":"function"}]}`: "missing_required_parameter tools[0].function",
		`{"tools":[{"type":"computer"}]}`: "unsupported_parameter tools[0].type",
		`{"tools":[{"type":"function","function":{"name":"a b"}}]}`:                                 "invalid_value tools[0].function.name",
		`{"tools":[` + weather + `,` + weather + `]}`:                                               "invalid_value tools[1].function.name",
		`{"tools":[` + weather + `],"functions":[{"name":"f"}]}`:                                    "invalid_value functions",
		`{"tools":[` + weather + `],"tool_choice":"often"}`:                                         "invalid_value tool_choice",
		`{"tools":[` + weather + `],"tool_choice":{"type":"function","function":{"name":"other"}}}`: "invalid_value tool_choice.function.name",
		`{"tool_choice":"required"}`:                                                                "invalid_value tool_choice",
	} {
		o, fault := jsonbody.Parse([]byte(body), true)
		if fault != nil {
			t.Fatal(fault)
		}
		toolset.Read(o, &fault)
		got := ""
		if fault != nil {
			got = fault.Code + " " + fault.Param
		}
		if got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
