package batch

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// Rows of predictions may have NaN and Infinity, as in requests of their own.
func TestRowsOfLinesMayHaveNaN(t *testing.T) {
	const endpoint = "/v1/models/m:predict"
	const body = `{"instances":[[NaN,-Infinity,1,"NaN"]]}`
	l, wrong := parseLine([]byte(`{"other":{"instances":[[0.0,-0.000000,1,"NaN"]]},"custom_id":"a","method":"POST", "body" : `+body+` ,"url":"`+endpoint+`"}`), endpoint)
	if wrong != nil || string(l.body) != body || l.customID != "a" {
		t.Errorf("%v, %s", wrong, l.body)
	}
	if _, wrong := parseLine([]byte(`{"custom_id":"a","method":"POST","url":"/v1/completions","body":`+body+`}`), "/v1/completions"); wrong == nil || wrong.Code != lineInvalidJSON {
		t.Errorf("%v", wrong)
	}
}

// Whatever a file holds, reading it ends, in lines of bounded size that parse or say what is wrong.
func FuzzLines(f *testing.F) {
	f.Add(linesOf(3))
	f.Add("\xef\xbb\xbf" + lineOf("a") + "\r\n\n{\n")
	f.Add(strings.Repeat("x", 5000))
	f.Add(`{"custom_id":"\ud800","method":"POST","url":"/v1/completions","body":{"model":null,"stream":false}}`)
	f.Fuzz(func(t *testing.T, text string) {
		const most = 2000
		in := newLineReader(strings.NewReader(text), most)
		for n := 0; ; n++ {
			got, err := in.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if wrong := (*LineError)(nil); errors.As(err, &wrong) {
				if len(text) <= most || wrong.Line != in.number {
					t.Fatalf("%+v in line %d", wrong, in.number)
				}
				return
			}
			if err != nil || len(got) == 0 || len(got) > most+1 || n > len(text) {
				t.Fatalf("line %d of %d bytes, %v", n, len(got), err)
			}
			if l, wrong := parseLine(got, "/v2/models/m/infer"); wrong == nil && (len(l.body) == 0 || l.body[0] != '{') {
				t.Fatalf("%+v", l)
			}
			l, wrong := parseLine(got, "/v1/completions")
			switch {
			case wrong != nil && (wrong.Code == "" || wrong.Message == ""):
				t.Fatalf("%+v", wrong)
			case wrong == nil && (l.customID == "" || len(l.customID) > maxCustomIDBytes || !json.Valid(l.body) || l.body[0] != '{'):
				t.Fatalf("%+v", l)
			}
		}
	})
}
