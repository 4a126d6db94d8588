package replay

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func TestAnswersSurviveTheirStoredForm(t *testing.T) {
	chunk := `data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"word"}}]}` + "\n\n"
	for name, a := range map[string]Answer{
		"empty":  {Status: 200, Body: []byte{}},
		"error":  {Status: 500, ContentType: "application/json", Body: []byte(`{"error":{}}`)},
		"stream": {Status: 200, ContentType: "text/event-stream; charset=utf-8", Stream: true, Body: []byte(strings.Repeat(chunk, 2000))},
		"warned": {Status: 200, ContentType: "application/json", Warnings: `ignored "x"`, Body: []byte("{}")},
		"noise":  {Status: 200, Body: []byte("\x00\x01\x02")},
	} {
		stored, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(stored)
		if err != nil || !reflect.DeepEqual(*got, a) {
			t.Errorf("%s comes back as %+v, %v", name, got, err)
		}
		if len(a.Body) > 100_000 && len(stored) > len(a.Body)/10 {
			t.Errorf("%s: %d bytes are stored as %d", name, len(a.Body), len(stored))
		}
	}
	for name, a := range map[string]Answer{
		"status": {Status: 70000}, "no status": {}, "type": {Status: 200, ContentType: strings.Repeat("x", 70000)},
	} {
		if _, err := a.Encode(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestDamagedAnswersAreErrors(t *testing.T) {
	a := Answer{Status: 200, ContentType: "a/b", Body: bytes.Repeat([]byte("abc"), 1000)}
	stored, err := a.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(stored) {
		if got, err := Decode(stored[:n]); err == nil {
			t.Errorf("%d of %d bytes are %+v", n, len(stored), got)
		}
	}
	bomb := Answer{Status: 200, Body: make([]byte, MaxAnswerBytes+1)}
	stored, err = bomb.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if len(stored) > 1<<16 {
		t.Fatalf("%d bytes of zeros are stored as %d", len(bomb.Body), len(stored))
	}
	if _, err := Decode(stored); err == nil {
		t.Error("a body above the limit is decompressed")
	}
}

func FuzzDecode(f *testing.F) {
	for _, a := range []Answer{
		{Status: 200}, {Status: 500, ContentType: "application/json", Warnings: "w", Body: []byte("{}")},
		{Status: 200, Stream: true, Body: bytes.Repeat([]byte("data: x\n\n"), 100)},
	} {
		stored, err := a.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(stored)
	}
	f.Add([]byte{1, 0, 0, 3})
	f.Fuzz(func(t *testing.T, stored []byte) {
		a, err := Decode(stored)
		if err != nil {
			return
		}
		again, err := a.Encode()
		if err != nil {
			t.Fatalf("%+v cannot be stored: %v", a, err)
		}
		b, err := Decode(again)
		if err != nil || b.Status != a.Status || b.ContentType != a.ContentType || b.Warnings != a.Warnings ||
			b.Stream != a.Stream || !bytes.Equal(a.Body, b.Body) {
			t.Fatalf("%+v comes back as %+v, %v", a, b, err)
		}
	})
}
