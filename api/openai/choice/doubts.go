package choice

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"weir/api/openai/answer"
	"weir/internal/inference"
)

// doubts are the tokens of which it is not known yet whether they are content, with their text.
type doubts struct {
	records []answer.TokenRecord
	text    []byte
}

// add notes a token that the parser is about to read.
func (d *doubts) add(e inference.Event, text []byte) {
	start := answer.Position{Bytes: len(d.text)}
	d.text = append(d.text, text...)
	d.records = append(d.records, answer.TokenRecord{ID: e.Token, Logprob: e.Logprob, Top: e.Top, Start: start, End: len(d.text)})
}

// believe moves the records of tokens that turned out to be content to dst, those of the
// answer. at is where their text stands in it. Tokens before that text were markup.
func (d *doubts) believe(dst []answer.TokenRecord, text []byte, at answer.Position) []answer.TokenRecord {
	if len(d.records) == 0 {
		return dst
	}
	from := max(bytes.Index(d.text, text), 0)
	to := min(from+len(text), len(d.text))
	n := 0
	for n < len(d.records) && d.records[n].Start.Bytes < to {
		r := d.records[n]
		n++
		if r.End <= from {
			continue
		}
		begin := max(r.Start.Bytes, from)
		r.Start = answer.Position{Bytes: at.Bytes + begin - from, Runes: at.Runes + utf8.RuneCount(d.text[from:begin])}
		r.End = at.Bytes + min(r.End, to) - from
		dst = append(dst, r)
	}
	d.forget(n)
	return dst
}

// disbelieve drops the records of tokens that turned out to be no content: those of a
// thought's text, or all where a call was read.
func (d *doubts) disbelieve(text []byte) {
	to := len(d.text)
	if i := bytes.Index(d.text, text); text != nil && i >= 0 {
		to = i + len(text)
	}
	n := 0
	for n < len(d.records) && d.records[n].Start.Bytes < to {
		n++
	}
	d.forget(n)
}

// forget drops the first n records with their text.
func (d *doubts) forget(n int) {
	if n == 0 {
		return
	}
	cut := d.records[n-1].End
	d.text = d.text[:copy(d.text, d.text[cut:])]
	d.records = slices.Delete(d.records, 0, n)
	for i := range d.records {
		d.records[i].Start.Bytes -= cut
		d.records[i].End -= cut
	}
}
