package coding_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"weir/internal/coding"
)

func Example() {
	name, known := coding.Parse(" GZIP")
	fmt.Println(name, known)
	r, err := coding.Open(name, bytes.NewReader(coded("gzip", "as it was")))
	if err != nil {
		fmt.Println(err)
		return
	}
	plain, err := io.ReadAll(r)
	fmt.Println(string(plain), err, r.Close())
	_, known = coding.Parse("gzip", "br")
	fmt.Println(known)
	// Output:
	// gzip true
	// as it was <nil> <nil>
	// false
}

// coded is a text in one of the forms that are sent by the names of codings.
func coded(form, text string) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	switch form {
	case "gzip", "x-gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "bare":
		w, _ = flate.NewWriter(&b, 6)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	}
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.Bytes()
}

// nameOf is the name that a form is sent by.
func nameOf(form string) string {
	if form == "bare" {
		return "deflate"
	}
	return form
}

var forms = []string{"gzip", "x-gzip", "deflate", "bare", "zstd"}

func TestOpenReadsWhatWasCoded(t *testing.T) {
	text := strings.Repeat("a text, ", 5000)
	for _, form := range forms {
		data := coded(form, text)
		r, err := coding.Open(nameOf(form), bytes.NewReader(data))
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != text {
			t.Errorf("%s: %d of %d bytes, %v", form, len(got), len(text), err)
		}
		_ = r.Close()
		if r, err = coding.Open(nameOf(form), bytes.NewReader(data[:len(data)/2])); err == nil {
			_, err = io.ReadAll(r)
			_ = r.Close()
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) || coding.Corrupt(err) {
			t.Errorf("half of %s: %v", form, err)
		}
	}
}

// What is no such coding, is damaged, or asks for a large window, says so.
func TestCorruptTellsDamageFromAConnection(t *testing.T) {
	var wide bytes.Buffer
	w, err := zstd.NewWriter(&wide, zstd.WithWindowSize(64<<20), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", 1<<20)))
	_ = w.Close()
	damaged := coded("gzip", strings.Repeat("a text, ", 5000))
	damaged[len(damaged)-5] ^= 1
	for name, data := range map[string][]byte{"gzip": []byte("{\"model\":1}"), "deflate": {0xff, 0xff, 1, 2, 3}, "zstd": []byte("plain text"), "wide": wide.Bytes(), "damaged": damaged} {
		of := map[string]string{"wide": "zstd", "damaged": "gzip"}[name]
		if of == "" {
			of = name
		}
		r, err := coding.Open(of, bytes.NewReader(data))
		if err == nil {
			_, err = io.ReadAll(r)
			_ = r.Close()
		}
		if !coding.Corrupt(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzOpen: no bytes make a decoder panic, or read on for ever.
func FuzzOpen(f *testing.F) {
	for i, form := range forms {
		f.Add(uint8(i), coded(form, "a text"))
	}
	f.Fuzz(func(t *testing.T, form uint8, data []byte) {
		name := nameOf(forms[int(form)%len(forms)])
		if got, known := coding.Parse(name); got != name || !known {
			t.Fatalf("%s is not known", name)
		}
		r, err := coding.Open(name, bytes.NewReader(data))
		if err != nil {
			return
		}
		_, _ = io.CopyN(io.Discard, r, 1<<20)
		_ = r.Close()
	})
}
