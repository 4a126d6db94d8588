package batch

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

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
