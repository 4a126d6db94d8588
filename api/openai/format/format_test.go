package format_test

import (
	"fmt"
	"testing"

	"weir/api/openai/format"
	"weir/api/openai/jsonbody"
	"weir/tokenizer/grammar"
)

func Example() {
	o, fault := jsonbody.Parse([]byte(`{"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}}}`), true)
	if fault != nil {
		panic(fault)
	}
	f := format.Read(o, format.SchemaRules{}, &fault)
	fmt.Println(f.Field, string(f.Text))
	_, ignored, err := f.Add(grammar.NewBuilder(grammar.Limits{}), nil)
	fmt.Println(ignored, err)
	// Output:
	// response_format.json_schema.schema {"type": "integer"}
	// [] <nil>
}

// All names of a format are read, and one at a time.
func TestRead(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                                  "",
		`{"response_format":{"type":"text"}}`: "",
		`{"response_format":{"type":"json_object"}}`:  "0 response_format",
		`{"structured_outputs":{"regex":"a+"}}`:       "2 structured_outputs.regex",
		`{"structured_outputs":{"choice":["a","b"]}}`: "3 structured_outputs.choice",
		`{"guided_regex":"a+"}`:                       "2 guided_regex",
		`{"guided_json":{"type":"object"}}`:           "1 guided_json",
		`{"grammar":"root ::= \"a\""}`:                "4 grammar",
		`{"ebnf":"root ::= \"a\""}`:                   "4 ebnf",
		`{"json_schema":{}}`:                          "1 json_schema",
		`{"response_format":{"type":"xml"}}`:          "invalid_value response_format.type",
		`{"response_format":{"type":"json_schema"}}`:  "missing_required_parameter response_format.json_schema",
		`{"structured_outputs":{}}`:                   "invalid_value structured_outputs",
		`{"structured_outputs":{"choice":[]}}`:        "invalid_value structured_outputs.choice",
		`{"guided_regex":"a","guided_json":{}}`:       "invalid_value guided_regex",
	} {
		o, fault := jsonbody.Parse([]byte(body), true)
		if fault != nil {
			t.Fatal(fault)
		}
		f := format.Read(o, format.SchemaRules{}, &fault)
		got := ""
		switch {
		case fault != nil:
			got = fault.Code + " " + fault.Param
		case f != nil:
			got = fmt.Sprint(f.Kind, " ", f.Field)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
