// Package scrub takes out of texts what should not be kept: e-mail addresses, phone
// numbers, payment cards, bank accounts, and keys and other secrets. Each is replaced
// by its kind in brackets. It looks at the form of texts only: a name, an address or a
// password in plain prose stays, and so does a number written in letters.
package scrub

import (
	"strings"

	"weir/internal/pii"
)

// Withheld stands for a text in which scrubbing does not come to an end: each round
// brings up something new. Only texts that were made for this have that.
const Withheld = "[withheld]"

// rounds is how often a text is looked through. What a round leaves can be one
// thing more than before, such as a number whose end was taken for an address.
const rounds = 6

// Text returns the text without what should not be kept. It takes time proportional to
// the length, scrubbing its result again changes nothing, and the result is at most
// twice as long as the text, or Withheld.
func Text(text string) string {
	for range rounds {
		before := text
		for _, r := range rules {
			text = r.replace(text)
		}
		if text == before {
			return text
		}
	}
	return Withheld
}

// rule is one kind of thing that is taken out.
type rule struct {
	mark string // what stands in its place
	// find returns the first match that begins at from or later; none is start < 0.
	// All calls for one text together take time proportional to its length, where
	// from is the end of the match before.
	find func(text string, from int) (start, end int)
}

// rules in the order in which they are tried: a password in a URL would pass for an address.
var rules = []rule{
	{"[key]", pii.FindPrivateKey},
	{"[key]", pii.FindSecret},
	{"[key]", pii.FindAssigned},
	{"[key]", pii.FindURLPassword},
	{"[email]", pii.FindEmail},
	{"[iban]", pii.FindIBAN},
	{"[card]", pii.FindCard},
	{"[phone]", pii.FindPhone},
}

func (r rule) replace(text string) string {
	start, end := r.find(text, 0)
	if start < 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	from := 0
	for start >= 0 {
		b.WriteString(text[from:start])
		b.WriteString(r.mark)
		from = end
		start, end = r.find(text, from)
	}
	b.WriteString(text[from:])
	return b.String()
}
