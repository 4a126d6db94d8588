package jsonbody

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"

	"weir/api"
	"weir/internal/jsonfault"
	"weir/router/chunk"
)

const (
	maxDepth      = 64      // nesting of a request body
	maxNameBytes  = 128     // of a field's name
	maxQuoteBytes = 48      // of a client's value inside an error message
	maxJSONNumber = 1 << 30 // digits of a number, more than any body has
)

// MaxFields is how many fields one object may have.
const MaxFields = 256

// Object is a JSON object taken apart. Raw values alias the body.
type Object struct {
	Path   string // "" for the body itself, "messages[2]" for a part
	Fields []Field
	Notes  *Notes // of the whole request
}

// Field is one of an object. Raw aliases the body.
type Field struct {
	Name  string
	Raw   json.RawMessage
	taken bool
}

// Parse checks a whole body and takes its object apart. A strict server
// refuses fields that others ignore.
func Parse(body []byte, strict bool) (*Object, *api.Error) {
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // editors on Windows write a byte order mark
	switch {
	case len(body) == 0:
		return nil, api.RefuseParam("invalid_json", "", "the request body is empty; send a JSON object")
	case !utf8.Valid(body):
		return nil, api.RefuseParam("invalid_json", "", "the request body is not valid UTF-8")
	case TooDeep(body):
		return nil, api.RefuseParam("invalid_json", "", "the request body nests deeper than %d levels", maxDepth)
	}
	if !chunk.IsJSON(body) {
		var probe json.RawMessage
		if err := json.Unmarshal(body, &probe); err != nil {
			return nil, api.RefuseParam("invalid_json", "", "the request body is not valid JSON: %v", jsonfault.Describe(err, body))
		}
	}
	return (&Object{Notes: &Notes{Strict: strict}}).Parse("", body, MaxFields)
}

// Parse takes apart an object inside of o.
func (o *Object) Parse(path string, raw []byte, limit int) (*Object, *api.Error) {
	inner, err := ParseObject(path, raw, limit)
	if err != nil {
		return nil, err
	}
	inner.Notes = o.Notes
	return inner, nil
}

// Take returns a field's value; a null one counts as not given.
func (o *Object) Take(name string) (json.RawMessage, bool) {
	for i := range o.Fields {
		f := &o.Fields[i]
		if f.Name == name {
			f.taken = true
			return f.Raw, !IsNull(f.Raw)
		}
	}
	return nil, false
}

// Rest takes the first field that was not taken.
func (o *Object) Rest() (Field, bool) {
	for i := range o.Fields {
		if f := &o.Fields[i]; !f.taken {
			f.taken = true
			return *f, true
		}
	}
	return Field{}, false
}

// Add appends a field that the object does not have yet.
func (o *Object) Add(name string, raw json.RawMessage) {
	if !slices.ContainsFunc(o.Fields, func(f Field) bool { return f.Name == name }) {
		o.Fields = append(o.Fields, Field{Name: name, Raw: raw})
	}
}

// AppendField appends a field to an object that has not ended.
func AppendField(dst []byte, name string, value []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(api.AppendString(dst, name), ':')
	return append(dst, value...)
}

// AppendJSON writes the object's fields in their order.
func (o *Object) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for _, f := range o.Fields {
		dst = AppendField(dst, f.Name, f.Raw)
	}
	return append(dst, '}')
}

// Has reports whether a field is there with a value.
func (o *Object) Has(name string) bool {
	return slices.ContainsFunc(o.Fields, func(f Field) bool { return f.Name == name && !IsNull(f.Raw) })
}

// Gather is an object of some fields of an object, those that it has.
func (o *Object) Gather(names ...string) []byte {
	text := []byte{'{'}
	for _, name := range names {
		raw, ok := o.Take(name)
		if !ok {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(strconv.AppendQuote(text, name), ':')
		text = append(text, raw...)
	}
	return append(text, '}')
}

// Without is the object without some fields.
func (o *Object) Without(names ...string) *Object {
	sent := *o
	sent.Fields = nil
	for _, f := range o.Fields {
		if !slices.Contains(names, f.Name) {
			sent.Fields = append(sent.Fields, f)
		}
	}
	return &sent
}

// Unread is the object with all its fields unread, with notes that no client sees.
func (o *Object) Unread() *Object {
	own := &Object{Path: o.Path, Notes: &Notes{}, Fields: make([]Field, len(o.Fields))}
	for i, f := range o.Fields {
		own.Fields[i] = Field{Name: f.Name, Raw: f.Raw}
	}
	return own
}
