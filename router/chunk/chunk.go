// Package chunk reads the events of a streamed chat, completion, response or message as far as relaying them depends on it: whether they are
// JSON, what they say, which choices end, and where usage, an error and the model's name stand. It parses, keeps no event
// and allocates nothing for events that are alike.
package chunk

import (
	"bytes"
	"slices"
)

// Span is a part of an event's data; From == To: there is none.
type Span struct{ From, To int }

// IsEmpty reports whether nothing is there.
func (s Span) IsEmpty() bool { return s.From == s.To }

// Of is the part itself.
func (s Span) Of(data []byte) []byte { return data[s.From:s.To] }

// Text is a piece that a choice says: the inside of a JSON string.
type Text struct {
	Span
	Choice int
}

// Chunk is what one event says.
type Chunk struct {
	Model Span // a JSON string
	Error Span // any JSON but null and empty values
	Usage Span // an object, or null

	UsageField Span // usage with its name and one comma, so that the rest is JSON without it

	Type              Span // of an event that has one: a JSON string
	Whole             Part // the event itself
	Response, Message Part // of an event of Responses, of Messages

	Choices  int    // in the event; -1: it has no list of them
	Seen     Set    // choices in the event
	Finished Set    // those that have a finish reason in it
	Ends     []Text // their finish reasons; only until the next event is read
	Texts    []Text // what they say in words; as above
	Wrong    string // what has another type than it must have; "" is nothing

	null   bool // usage is null
	beside bool // a choice says something that is not in words
}

// Part is an object of an event that may have a usage. What has no object has none.
type Part struct{ Object, Usage Span }

// Said reports whether a choice says something.
func (c *Chunk) Said() bool {
	return c.beside || slices.ContainsFunc(c.Texts, func(t Text) bool { return !t.IsEmpty() })
}

// SaysBeside reports whether a choice says something that is not in words.
func (c *Chunk) SaysBeside() bool { return c.beside }

// HasUsage reports whether the event counts tokens.
func (c *Chunk) HasUsage() bool { return !c.Usage.IsEmpty() && !c.null }

// HasNullUsage reports whether it says that it does not.
func (c *Chunk) HasNullUsage() bool { return !c.Usage.IsEmpty() && c.null }

// Set is a set of choices, by index. The last bit stands for all that are behind it.
type Set uint64

// LastOfSet is the index of the last bit.
const LastOfSet = 63

// Add adds a choice.
func (s *Set) Add(index int) { *s |= 1 << min(max(index, 0), LastOfSet) }

// Has reports whether all of o are in the set.
func (s Set) Has(o Set) bool { return o&^s == 0 }

// Reader reads the events of one stream. Most of them differ from the one before in their text alone: what stands around it
// is compared, and not parsed again.
type Reader struct {
	last          Chunk
	before, after []byte // around the text of last; before is empty where another event says nothing about the next one
	texts, ends   []Text
	skim          skimmer
}

// Read reads an event's data. The chunk counts until the next call. It is nil for what is no JSON.
func (r *Reader) Read(data []byte) *Chunk {
	if n := len(data) - len(r.after); len(r.before) > 0 && n >= len(r.before) &&
		bytes.Equal(data[:len(r.before)], r.before) && bytes.Equal(data[n:], r.after) && isPlain(data[len(r.before):n]) {
		r.move(n - r.texts[0].To)
		return &r.last
	}
	r.before = r.before[:0]
	r.last = Chunk{Choices: -1, Texts: r.texts[:0], Ends: r.ends[:0]}
	s := &r.skim
	*s = skimmer{b: data}
	s.event(&r.last)
	s.space()
	r.ends = r.last.Ends
	if r.texts = r.last.Texts; s.bad || s.i < len(data) {
		return nil
	}
	if c := &r.last; len(c.Texts) == 1 && c.Finished == 0 && !c.HasUsage() && c.Error.IsEmpty() && c.Wrong == "" {
		r.before = append(r.before, data[:c.Texts[0].From]...)
		r.after = append(r.after[:0], data[c.Texts[0].To:]...)
	}
	return &r.last
}

// move puts what stands behind the text where it is in an event whose text is longer by so much.
func (r *Reader) move(by int) {
	c := &r.last
	end := c.Texts[0].To
	for _, s := range []*Span{&c.Model, &c.Usage, &c.UsageField, &c.Type, &c.Whole.Object, &c.Whole.Usage,
		&c.Response.Object, &c.Response.Usage, &c.Message.Object, &c.Message.Usage} {
		if s.From >= end {
			s.From += by
		}
		if s.To > end { // of an object around the text, too
			s.To += by
		}
	}
	c.Texts[0].To += by
}

// isPlain reports whether text is the inside of a JSON string without escapes.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// IsJSON reports whether data is one JSON value.
func IsJSON(data []byte) bool {
	s := skimmer{b: data}
	s.value()
	s.space()
	return !s.bad && s.i == len(data)
}
