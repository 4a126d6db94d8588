package jsonbody

import (
	"fmt"
	"slices"
	"strings"

	"weir/api"
)

const (
	maxNotes = 32 // kept of one request

	// MaxNotesBytes is the length of the header that carries them, without the count at its end.
	MaxNotesBytes = 1024
)

// Notes are a request's warnings: what was ignored, or done otherwise than it
// asked. The object of a request's body and those inside of it share one list.
type Notes struct {
	Strict bool // the server refuses what it would otherwise ignore
	list   []string
	more   int // notes beyond maxNotes

	of     *Notes                   // keeps these; nil: they are kept here
	client func(path string) string // a path of the object as the client knows it; nil: it is the same
}

// Renamed are notes of an object that was made of the client's: n keeps them, with the client's names of its paths.
func (n *Notes) Renamed(client func(path string) string) *Notes {
	return &Notes{Strict: n.Strict, of: n, client: client}
}

// Client is the client's name of a path.
func (n *Notes) Client(path string) string {
	if n.client == nil {
		return path
	}
	return n.client(path)
}

// Add notes a warning: printable ASCII, and short, for the list goes into a
// header. A warning that is there already is not repeated.
func (n *Notes) Add(format string, args ...any) {
	if n.of != nil {
		n.of.Add(format, args...)
		return
	}
	text := fmt.Sprintf(format, args...)
	switch {
	case slices.Contains(n.list, text):
	case len(n.list) == maxNotes:
		n.more++
	default:
		n.list = append(n.list, text)
	}
}

// Ignore notes a field that was not read. Fields of the same name in several
// elements of an array are one warning.
func (n *Notes) Ignore(path string) { n.Add("ignored %s", HeaderQuote(AnyIndex(n.Client(path)))) }

// AnyIndex leaves the numbers of array elements out of a path.
func AnyIndex(path string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(path, "[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteByte('[')
		path = strings.TrimLeft(rest, "0123456789")
	}
}

// Header is the list on one line, cut to about maxNotesBytes bytes; "" without
// warnings.
func (n *Notes) Header() string {
	if n.of != nil {
		return n.of.Header()
	}
	var b strings.Builder
	for i, text := range n.list {
		if b.Len()+len(text) > MaxNotesBytes {
			return fmt.Sprintf("%s, %d more", b.String(), len(n.list)-i+n.more)
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(text)
	}
	if n.more > 0 {
		fmt.Fprintf(&b, ", %d more", n.more)
	}
	return b.String()
}

// Ignored notes that a field does not count; a strict server refuses with why.
func (o *Object) Ignored(name string, why *api.Error, fault **api.Error) {
	if o.Notes.Strict {
		Keep(fault, why)
		return
	}
	o.Notes.Ignore(Join(o.Path, name))
}

// Finish takes what was not read. Fields that would change the answer in kind are refused, the others
// ignored.
func (o *Object) Finish(fault **api.Error) { o.FinishBut(nil, fault) }

// FinishBut is finish for a body whose fields of a table are known and not served.
func (o *Object) FinishBut(table map[string]Unserved, fault **api.Error) {
	for f, left := o.Rest(); left; f, left = o.Rest() {
		if known, ok := table[f.Name]; ok && o.Path == "" {
			known.judge(o, f, fault)
			continue
		}
		if !IsNull(f.Raw) || o.Notes.Strict {
			o.Ignored(f.Name, unknown(Join(o.Path, f.Name)), fault)
		}
	}
}
