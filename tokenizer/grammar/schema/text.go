package schema

import (
	"weir/tokenizer/grammar/regex"
)

// Characters of strings, as RFC 8259 lets them be written.
var (
	// plainRune is any character that needs no escape.
	plainRune = regex.Runes(regex.RuneRange{First: 0x20, Last: '"' - 1}, regex.RuneRange{First: '"' + 1, Last: '\\' - 1},
		regex.RuneRange{First: '\\' + 1, Last: 0x10FFFF})
	hex = regex.Or(digit, regex.ByteRange('a', 'f'), regex.ByteRange('A', 'F'))
	// unit is four hexadecimal digits that are no surrogate; high and low are the two halves of a character beyond U+FFFF.
	unit = regex.Or(
		regex.Concat(regex.Or(digit, regex.ByteRange('a', 'c'), regex.ByteRange('A', 'C'), regex.ByteRange('e', 'f'), regex.ByteRange('E', 'F')),
			hex, hex, hex),
		regex.Concat(letterD, regex.ByteRange('0', '7'), hex, hex))
	letterD = regex.Or(regex.Literal("d"), regex.Literal("D"))
	high    = regex.Concat(letterD, regex.Or(regex.ByteRange('8', '9'), regex.ByteRange('a', 'b'), regex.ByteRange('A', 'B')), hex, hex)
	low     = regex.Concat(letterD, regex.Or(regex.ByteRange('c', 'f'), regex.ByteRange('C', 'F')), hex, hex)
	escaped = regex.Concat(regex.Literal(`\`), regex.Or(regex.Words(`"`, `\`, "/", "b", "f", "n", "r", "t"),
		regex.Concat(regex.Literal("u"), regex.Or(unit, regex.Concat(high, regex.Literal(`\u`), low)))))
	// anyRune is one character in any spelling.
	anyRune   = regex.Or(plainRune, escaped)
	quotation = regex.Literal(`"`)
	anyText   = regex.Concat(quotation, regex.Repeat(anyRune, 0, regex.Unbounded), quotation)
	// oneSpelling is one character as quote writes it, anySpelling any number of them.
	spelling    = regex.NewSpelling(escape)
	oneSpelling = spelling.Regex(regex.AnyRune())
	anySpelling = regex.Repeat(oneSpelling, 0, regex.Unbounded)
)

// Spell gives the texts that r matches as they stand between the quotes of a JSON string, each in one spelling.
func Spell(r *regex.Regex) *regex.Regex { return spelling.Regex(r) }

// pattern is a regular expression of a schema.
type pattern struct {
	plain   *regex.Regex // texts that it holds for
	spelled *regex.Regex // the same inside quotes
}

func newPattern(plain *regex.Regex) *pattern {
	return &pattern{plain: plain, spelled: spelling.Regex(plain)}
}

// pattern reads an expression of the document as ECMA-262 does: it may match anywhere in a text.
func (rd *reader) pattern(s *value, keyword, expression string) (*pattern, error) {
	if p := rd.patterns[expression]; p != nil {
		return p, nil
	}
	r, err := regex.Parse(expression, regex.JavaScript)
	if err != nil {
		return nil, &Error{Pointer: s.pointer() + "/" + keyword, Keyword: keyword, Reason: err.Error(), cause: err}
	}
	p := newPattern(r)
	rd.patterns[expression] = p
	return p, nil
}

// textRule is what schemas say of a string.
type textRule struct {
	least, most int // characters; most < 0 is no bound
	patterns    []*pattern
	not         []*pattern
}

// textOf merges what schemas say of strings.
func (rd *reader) textOf(members []*value) (textRule, error) {
	var t textRule
	var err error
	if t.least, t.most, err = rd.counts(members, "minLength", "maxLength"); err != nil {
		return t, err
	}
	var out []string
	for _, m := range members {
		if v := rd.doc.keyword(m, "pattern"); v != nil {
			if v.kind != text {
				return t, wrong(m, "pattern", "needs a string")
			}
			p, err := rd.pattern(m, "pattern", v.text)
			if err != nil {
				if err := rd.unlessLoose(err); err != nil {
					return t, err
				}
				continue
			}
			t.patterns = append(t.patterns, p)
		}
		p, err := rd.format(m)
		if err != nil {
			return t, err
		}
		if p != nil {
			t.patterns = append(t.patterns, p)
		}
		if p := rd.made.pattern[m]; p != nil {
			t.not = append(t.not, p)
		}
		for _, v := range rd.made.excluded[m] {
			if v.kind == text {
				out = append(out, v.text)
			}
		}
	}
	if out != nil {
		t.not = append(t.not, newPattern(regex.Words(out...)))
	}
	if n := len(t.patterns) + len(t.not); n > maxPatterns && !rd.loose {
		return t, wrong(members[0], "", "%d patterns and formats hold for this string, more than the %d that are possible; join them", n, maxPatterns)
	}
	return t, nil
}

// maxPatterns bounds the patterns of one string: what they have in common is searched for.
const maxPatterns = 8

// text is the regular expression of the strings that all members hold for, and of the same in one spelling; nil where there is none.
func (sf *scalarForms) text(members []*value) (r, once *regex.Regex, err error) {
	t, err := sf.textOf(members)
	if err != nil {
		return nil, nil, err
	}
	r = t.regex()
	if len(t.patterns)+len(t.not) > 1 || t.least > 0 || t.most >= 0 {
		r, err = sf.unlessNothing(members, r)
	}
	if r == nil || err != nil || len(t.patterns)+len(t.not) > 0 {
		return r, r, err
	}
	return r, regex.Concat(quotation, regex.Repeat(oneSpelling, t.least, t.most), quotation), nil
}

// unlessNothing gives nil for an expression that no text matches.
func (rd *reader) unlessNothing(members []*value, r *regex.Regex) (*regex.Regex, error) {
	nothing, err := rd.nothing(r)
	switch {
	case rd.meter.Err() != nil:
		return nil, err
	case err != nil && rd.loose:
		return r, nil
	case err != nil:
		return nil, wrong(members[0], "", "the patterns and lengths of this string are too much together: %v", err)
	case nothing:
		return nil, nil
	}
	return r, nil
}

// regex is a string with its quotes.
func (t *textRule) regex() *regex.Regex {
	bounded := t.least > 0 || t.most >= 0
	if len(t.patterns)+len(t.not) == 0 {
		if !bounded {
			return anyText
		}
		return regex.Concat(quotation, regex.Repeat(anyRune, t.least, t.most), quotation)
	}
	var parts []*regex.Regex
	for _, p := range t.patterns {
		parts = append(parts, p.spelled)
	}
	for _, p := range t.not {
		parts = append(parts, regex.Not(p.spelled))
	}
	switch {
	case bounded:
		parts = append(parts, regex.Repeat(oneSpelling, t.least, t.most))
	case len(t.patterns) == 0:
		parts = append(parts, anySpelling)
	}
	return regex.Concat(quotation, regex.And(parts...), quotation)
}

// inside is the same without quotes, in the one spelling of names.
func (t *textRule) inside() *regex.Regex {
	parts := []*regex.Regex{regex.Repeat(oneSpelling, t.least, t.most)}
	for _, p := range t.patterns {
		parts = append(parts, p.spelled)
	}
	for _, p := range t.not {
		parts = append(parts, regex.Not(p.spelled))
	}
	return regex.And(parts...)
}
