package jsonbody_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/api"
	"weir/api/openai/jsonbody"
)

func Example() {
	o, fault := jsonbody.Parse([]byte(`{"stream": true, "n": 200, "colour": "red"}`), false)
	if fault != nil {
		panic(fault)
	}
	fmt.Println(o.Flag("stream", false, &fault))
	fmt.Println(o.Count("n", 1, 128, 1, &fault))
	o.Finish(&fault)
	fmt.Println(fault.Code, fault.Param, fault.Message)
	fmt.Println(o.Notes.Header())
	// Output:
	// true
	// 1
	// invalid_value n n is 200; it must be between 1 and 128
	// ignored "colour"
}

func TestParse(t *testing.T) {
	for body, want := range map[string]string{
		"":                   "invalid_json  the request body is empty",
		"[]":                 "invalid_type  the request body must be an object, not []",
		`{"a":1,"a":2}`:      `duplicate_parameter a "a" is given twice`,
		`{"a":1,"\u0061":2}`: `duplicate_parameter a "a" is given twice`,
		"{\"a\":\"\xff\"}":   "invalid_json  the request body is not valid UTF-8",
		`{"a":`:              "invalid_json  the request body is not valid JSON",
		`{"a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`: "invalid_json  the request body nests deeper than 64 levels",
		`{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`: "",
	} {
		o, fault := jsonbody.Parse([]byte(body), true)
		got := ""
		if fault != nil {
			got = fault.Code + " " + fault.Param + " " + fault.Message
		}
		if !strings.HasPrefix(got, want) || want == "" && (fault != nil || len(o.Fields) != 1) {
			t.Errorf("%.40s: %q, want %q", body, got, want)
		}
	}
}

// A field counts once: what is left is refused by a strict server, and a table says what is known and not served.
func TestFinish(t *testing.T) {
	table := map[string]jsonbody.Unserved{"best_of": {WayOut: "choose yourself", Nothing: jsonbody.IsWord("1")}, "store": {WayOut: "leave it out", Harmless: jsonbody.IsAny}}
	for body, want := range map[string][]string{
		`{"n":1}`:               {"", ""},
		`{"n":1,"best_of":1}`:   {"", ""},
		`{"best_of":null}`:      {"", ""},
		`{"best_of":2}`:         {"unsupported_parameter", "unsupported_parameter"},
		`{"store":true}`:        {"", "unsupported_parameter"},
		`{"m":1}`:               {"", "unknown_parameter"},
		`{"m":1,"best_of":"1"}`: {"unsupported_parameter", "unknown_parameter"},
		`{"m":null}`:            {"", "unknown_parameter"},
	} {
		for i, strict := range []bool{false, true} {
			o, fault := jsonbody.Parse([]byte(body), strict)
			if fault != nil {
				t.Fatal(fault)
			}
			o.Count("n", 0, 9, 0, &fault)
			o.FinishBut(table, &fault)
			if got := code(fault); got != want[i] {
				t.Errorf("%s, strict %v: %q, want %q", body, strict, got, want[i])
			}
		}
	}
}

func code(fault *api.Error) string {
	if fault == nil {
		return ""
	}
	return fault.Code
}

// What was read of an object is unread in its copy, and what it lacks is not in it.
func TestCopies(t *testing.T) {
	o, fault := jsonbody.Parse([]byte(`{"a":1,"b":[2,3],"c":{"d":4}}`), false)
	if fault != nil {
		t.Fatal(fault)
	}
	o.Take("a")
	own := o.Unread()
	if f, left := own.Rest(); !left || f.Name != "a" {
		t.Errorf("the first unread field is %q", f.Name)
	}
	sent := o.Without("b")
	sent.Add("e", []byte("5"))
	sent.Add("a", []byte("6"))
	if got := string(sent.AppendJSON(nil)); got != `{"a":1,"c":{"d":4},"e":5}` {
		t.Error(got)
	}
	if names := slices.Collect(func(yield func(string) bool) {
		for _, f := range o.Fields {
			if !yield(f.Name) {
				return
			}
		}
	}); !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("%q", names)
	}
}
