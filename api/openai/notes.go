package openai

import (
	"fmt"
	"slices"
	"strings"

	"weir/api"
)

const (
	maxNotes      = 32   // kept of one request
	maxNotesBytes = 1024 // of the header that carries them, but for its end
)

// notes are a request's warnings: what was ignored, or done otherwise than it
// asked. The object of a request's body and those inside of it share one list.
type notes struct {
	strict bool // the server refuses what it would otherwise ignore
	list   []string
	more   int // notes beyond maxNotes
}

// add notes a warning: printable ASCII, and short, for the list goes into a
// header. A warning that is there already is not repeated.
func (n *notes) add(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	switch {
	case slices.Contains(n.list, text):
	case len(n.list) == maxNotes:
		n.more++
	default:
		n.list = append(n.list, text)
	}
}

// ignore notes a field that was not read. Fields of the same name in several
// elements of an array are one warning.
func (n *notes) ignore(path string) { n.add("ignored %s", headerQuote(anyIndex(path))) }

// anyIndex leaves the numbers of array elements out of a path.
func anyIndex(path string) string {
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

// header is the list on one line, cut to about maxNotesBytes bytes; "" without
// warnings.
func (n *notes) header() string {
	var b strings.Builder
	for i, text := range n.list {
		if b.Len()+len(text) > maxNotesBytes {
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

// ignored notes that a field does not count; a strict server refuses with why.
func (o *object) ignored(name string, why *api.Error, fault **api.Error) {
	if o.notes.strict {
		keep(fault, why)
		return
	}
	o.notes.ignore(join(o.path, name))
}

// finish takes what nobody has read of a request for a generation, or of a part of
// any request. Fields that would change the answer in kind are refused, the others
// ignored.
func (o *object) finish(fault **api.Error) { o.finishBut(unsupportedFields, fault) }

// finishBut is finish for a body whose fields of a table are known and not served.
func (o *object) finishBut(table map[string]unserved, fault **api.Error) {
	for f, left := o.rest(); left; f, left = o.rest() {
		if known, ok := table[f.name]; ok && o.path == "" {
			known.judge(o, f, fault)
			continue
		}
		if !isNull(f.raw) || o.notes.strict {
			o.ignored(f.name, unknown(join(o.path, f.name)), fault)
		}
	}
}
