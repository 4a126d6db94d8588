package api

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func TestErrorJSON(t *testing.T) {
	e := &Error{Status: 400, Type: TypeInvalidRequest, Message: "line\nand \"quote\"", Param: "n"}
	want := `{"error":{"message":"line\nand \"quote\"","type":"invalid_request_error","param":"n","code":null}}`
	if got := string(e.AppendJSON(nil)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// What AppendString writes reads back as the same text, with U+FFFD for every
// invalid byte, as encoding/json does.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a\"b\\c", "\x00\x1f\x7f", "é👋\u2028", "\xff\xc3(\xed\xa0\x80", "</script>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := AppendString(nil, s)
		if string(AppendString(nil, []byte(s))) != string(got) {
			t.Fatalf("%q differs between string and bytes", s)
		}
		if !utf8.Valid(got) {
			t.Fatalf("%q gave invalid UTF-8 %q", s, got)
		}
		var back, want string
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("%q gave %s: %v", s, got, err)
		}
		reference, err := json.Marshal(s)
		if err != nil || json.Unmarshal(reference, &want) != nil {
			t.Fatal(err)
		}
		if back != want {
			t.Fatalf("%q came back as %q, want %q", s, back, want)
		}
	})
}

func BenchmarkAppendString(b *testing.B) {
	text := []byte(" some \"text\" é\n")
	dst := make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendString(dst[:0], text)
	}
}
