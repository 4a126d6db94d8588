// Package jsonfault tells a client what is wrong with its JSON: fields, values and places instead of the Go types that it was read into.
package jsonfault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// maxNear is how many bytes of a text are shown that is no JSON.
const maxNear = 12

// Describe is an error of encoding/json without Go's types. text is what was read; nil where it is not known any more.
func Describe(err error, text []byte) error {
	if err == nil {
		return nil
	}
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		return fmt.Errorf("%sa JSON %s; it must be %s", fieldOf(wrong), wrong.Value, wanted(wrong.Type))
	}
	if wrong, is := errors.AsType[*json.SyntaxError](err); is {
		return syntax(wrong, text)
	}
	if name, is := strings.CutPrefix(err.Error(), "json: unknown field "); is {
		return fmt.Errorf("there is no field %s", name)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends before its JSON does")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

func fieldOf(e *json.UnmarshalTypeError) string {
	if e.Field == "" {
		return "it is "
	}
	return e.Field + " is "
}

// wanted names the JSON that a Go type is read from.
func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a whole number from 0, in %d bits", t.Bits())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a whole number in %d bits", t.Bits())
	default:
		return "of another kind"
	}
}

// syntax names the place of what is no JSON, and what to write for numbers that JSON has not.
func syntax(e *json.SyntaxError, text []byte) error {
	at := int(e.Offset) - 1
	if at < 0 || at >= len(text) {
		return e
	}
	if name := NoNumber(text, at); name != "" {
		return fmt.Errorf("byte %d has %s, and JSON has no NaN and no Infinity; send null for a missing value", at+1, name)
	}
	near := text[at:]
	if end := bytes.IndexAny(near, "\r\n"); end > 0 {
		near = near[:end]
	}
	if len(near) > maxNear {
		near = near[:maxNear]
	}
	return fmt.Errorf("%s at byte %d, near %q", e.Error(), at+1, bytes.ToValidUTF8(near, []byte("\ufffd")))
}

// noNumbers are what programs write for numbers that JSON has not.
var noNumbers = []string{"NaN", "Infinity", "nan", "inf", "Inf"}

// NoNumber is which of the words that stand for no number begins at a place of a text, outside of a string; "" for none.
func NoNumber(text []byte, at int) string {
	for _, name := range noNumbers {
		if bytes.HasPrefix(text[at:], []byte(name)) {
			if at > 0 && text[at-1] == '-' {
				name = "-" + name
			}
			return name
		}
	}
	return ""
}

// zeros stand for words of their length.
const zeros = "0.000000"

// WithoutNoNumbers is a text with a number of the same length for each NaN and Infinity that stands outside of strings, so that places in
// both are the same; the same text where there is none.
func WithoutNoNumbers(text []byte) []byte {
	out, inString := text, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString || c != 'N' && c != 'I' && c != 'n' && c != 'i':
		default:
			name := strings.TrimPrefix(NoNumber(text, i), "-")
			if name == "" {
				continue
			}
			if &out[0] == &text[0] {
				out = bytes.Clone(text)
			}
			copy(out[i:], zeros[:len(name)])
			i += len(name) - 1
		}
	}
	return out
}
