package jsonfault

import (
	"encoding/json"
	"strings"
	"testing"
)

type order struct {
	Name  string
	Count uint16
	Many  *int64
	Parts []struct{ Size float64 }
	More  map[string]bool
	Gate  *struct{ Open bool }
}

func TestWhatIsWrongIsSaidInJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":7}`:                  "name is a JSON number; it must be a string",
		`{"count":-1}`:                "count is a JSON number -1; it must be a whole number from 0, in 16 bits",
		`{"count":"x"}`:               "count is a JSON string; it must be a whole number from 0, in 16 bits",
		`{"many":1.5}`:                "many is a JSON number 1.5; it must be a whole number in 64 bits",
		`{"parts":[{"size":"x"}]}`:    "parts.size is a JSON string; it must be a number",
		`{"parts":{}}`:                "parts is a JSON object; it must be an array",
		`{"more":{"a":1}}`:            "more is a JSON number; it must be true or false",
		`{"gate":[]}`:                 "gate is a JSON array; it must be an object",
		`[]`:                          "it is a JSON array; it must be an object",
		`{"other":1}`:                 `there is no field "other"`,
		`{"name":`:                    "it ends before its JSON does",
		``:                            "it ends before its JSON does",
		`{"parts":[{"size":NaN}]}`:    "byte 19 has NaN, and JSON has no NaN and no Infinity; send null for a missing value",
		`{"parts":[{"size":-Infinity`: "byte 20 has -Infinity, and JSON has no NaN and no Infinity; send null for a missing value",
		`{"name":"a" "b"}`:            `invalid character '"' after object key:value pair at byte 13, near "\"b\"}"`,
	} {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		got := Describe(d.Decode(new(order)), []byte(text)).Error()
		if !strings.EqualFold(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if Describe(nil, nil) != nil {
		t.Error("no error is one")
	}
}

func TestWordsForNoNumbersAreTakenOut(t *testing.T) {
	const text = `{"a":[NaN,-Infinity,1],"b\"NaN":"NaN \\","c":nan}`
	const want = `{"a":[0.0,-0.000000,1],"b\"NaN":"NaN \\","c":0.0}`
	if got := string(WithoutNoNumbers([]byte(text))); got != want || !json.Valid([]byte(got)) {
		t.Errorf("%s, want %s", got, want)
	}
}

func FuzzDescribe(f *testing.F) {
	f.Add(`{"name":NaN,"more":{"a":-Infinity},"parts":[nan]}`)
	f.Add(`{"name":"\"NaN","count":1e99}`)
	f.Fuzz(func(t *testing.T, text string) {
		var o order
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			if said := Describe(err, []byte(text)).Error(); strings.Contains(said, "Go ") || strings.Contains(said, "jsonfault") {
				t.Fatal(said)
			}
		}
		without := WithoutNoNumbers([]byte(text))
		if json.Valid([]byte(text)) && string(without) != text {
			t.Fatalf("%q became %q", text, without)
		}
	})
}
