package jsonbody

import (
	"encoding/json"

	"weir/api"
)

// Unserved is a field of the OpenAI API or of its well-known relatives that
// this server knows and does not serve.
type Unserved struct {
	WayOut   string
	Nothing  func(json.RawMessage) bool // tells values that mean the same as leaving the field out
	Harmless func(json.RawMessage) bool // tells values that change no answer in kind; nil: all others do
}

// judge refuses a field that was not read, or ignores it.
func (u Unserved) judge(o *Object, f Field, fault **api.Error) {
	switch {
	case IsNull(f.Raw) || u.Nothing != nil && u.Nothing(f.Raw):
	case u.Harmless != nil && u.Harmless(f.Raw):
		o.Ignored(f.Name, Unsupported(f.Name, u.WayOut), fault)
	default:
		Keep(fault, Unsupported(f.Name, u.WayOut))
	}
}

// IsAny takes all values.
func IsAny(json.RawMessage) bool { return true }

// IsEmptyArray takes an array without elements.
func IsEmptyArray(raw json.RawMessage) bool {
	list, err := Array("", raw, 1)
	return err == nil && len(list) == 0
}

// IsWord takes one number or literal as it is spelled.
func IsWord(word string) func(json.RawMessage) bool {
	return func(raw json.RawMessage) bool { return string(raw) == word }
}

// IsText takes one string.
func IsText(text string) func(json.RawMessage) bool {
	return func(raw json.RawMessage) bool {
		s, err := String("", raw)
		return err == nil && s == text
	}
}
