package schema

import (
	"math/bits"
	"slices"

	"weir/internal/work"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// maxUnique bounds the values of items that differ: each set of them has a rule.
const maxUnique = 8

// Limits of finding out how many values the items of a list may have.
const (
	maxCounting      = 2_000_000 // units of work.Meter
	maxCountingBytes = 16 << 20
)

// maxDiffering bounds the items of a list of scalars that differ, which an answer keeps.
const maxDiffering = 1_000

// settleUnique finds how items are kept from being equal, and refuses it where they cannot be; it is called when all forms are known.
func (c *compiler) settleUnique() error {
	for _, s := range c.shapes.order {
		for _, f := range s.forms {
			a, ok := f.(*arrayForm)
			if !ok || a.unique == nil || a.values() != nil {
				continue
			}
			if room := a.room(); room == 0 || room == 1 {
				a.unique = nil
				continue
			}
			if err := c.settleDiffer(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// settleDiffer makes the items of a list one terminal, whose texts are told apart while an answer is written.
func (c *compiler) settleDiffer(a *arrayForm) error {
	m := a.unique
	a.unique = nil
	scalar := a.scalar()
	if scalar == nil || a.least > maxDiffering {
		return c.refuse(m, "uniqueItems", "that items differ is enforced where all of them are texts, numbers, booleans or null, %d at most, or one of %d "+
			"constants; leave it out, or use an object with one property for each", maxDiffering, maxUnique)
	}
	if err := c.spend(maxDiffering); err != nil {
		return err
	}
	n, err := scalar.CountUnder(&work.Meter{Limit: maxCounting}, maxCountingBytes, maxDiffering)
	if err != nil {
		return c.refuse(m, "uniqueItems", "the items are too much to be told apart: %v", err)
	}
	if a.most < 0 || a.most > n {
		a.most = n
	}
	a.differ = scalar
	return nil
}

// scalar matches the items of a list, each in one spelling; nil where some are lists or objects, or places have items of their own.
func (f *arrayForm) scalar() *regex.Regex {
	if len(f.items) > 0 || f.rest == nil {
		return nil
	}
	var parts []*regex.Regex
	for _, form := range f.rest.forms {
		switch form := form.(type) {
		case *lexeme:
			parts = append(parts, form.once)
		case *constants:
			for _, v := range form.values {
				if v.kind == array || v.kind == object {
					return nil
				}
				parts = append(parts, regex.Literal(string(canonical(nil, v))))
			}
		default:
			return nil
		}
	}
	return regex.Or(parts...)
}

// plainNumber matches numbers in one spelling: without exponent, and without zeros at their end.
var plainNumber = regex.And(regex.Not(regex.Literal("-0")), regex.Concat(regex.Optional(minus), regex.Or(regex.Literal("0"),
	regex.Concat(positive, regex.Repeat(digit, 0, regex.Unbounded))), regex.Optional(regex.Concat(point, regex.Repeat(digit, 0, regex.Unbounded), positive))))

// emitDiffer is lists of scalars that differ.
func (f *arrayForm) emitDiffer(e *emitter) grammar.Symbol {
	var alternatives [][]grammar.Symbol
	if f.least == 0 {
		alternatives = append(alternatives, []grammar.Symbol{e.openArray, e.endArray})
	}
	if f.most >= max(f.least, 1) {
		another := e.builder.Define("item", []grammar.Symbol{e.comma, e.builder.Item(f.differ, false)})
		alternatives = append(alternatives, []grammar.Symbol{e.openArray, e.builder.Item(f.differ, true),
			e.builder.Repeat(another, max(f.least, 1)-1, f.most-1), e.closeArray})
	}
	return e.builder.Define("array", alternatives...)
}

// values are the values of items, each once, where they are a few constants; else nil.
func (f *arrayForm) values() []*value {
	if len(f.items) > 0 || f.rest == nil || len(f.rest.forms) != 1 {
		return nil
	}
	list, ok := f.rest.forms[0].(*constants)
	if !ok {
		return nil
	}
	var values []*value
	for _, v := range list.values {
		if slices.ContainsFunc(values, func(w *value) bool { return same(v, w) }) {
			continue
		}
		if len(values) == maxUnique {
			return nil
		}
		values = append(values, v)
	}
	return values
}

// emitUnique is lists whose items differ: a rule for each set of values that are left.
func (f *arrayForm) emitUnique(e *emitter, values []*value) grammar.Symbol {
	most := len(values)
	if f.most >= 0 {
		most = min(most, f.most)
	}
	constant := make([]grammar.Symbol, len(values))
	for i, v := range values {
		constant[i] = e.constant(v)
	}
	tails := map[uint]grammar.Symbol{}
	var tail func(left uint) grammar.Symbol
	each := func(left uint, front grammar.Symbol) (alternatives [][]grammar.Symbol) {
		for i := range values {
			if left>>i&1 != 0 {
				alternatives = append(alternatives, []grammar.Symbol{front, constant[i], tail(left &^ (1 << i))})
			}
		}
		return alternatives
	}
	tail = func(left uint) grammar.Symbol {
		if s, ok := tails[left]; ok {
			return s
		}
		var alternatives [][]grammar.Symbol
		used := len(values) - bits.OnesCount(left)
		if used >= f.least {
			alternatives = append(alternatives, []grammar.Symbol{e.closeArray})
		}
		if used < most {
			alternatives = append(alternatives, each(left, e.comma)...)
		}
		s := e.builder.Define("items that differ", alternatives...)
		tails[left] = s
		return s
	}
	alternatives := each(1<<len(values)-1, e.openArray)
	if f.least == 0 {
		alternatives = append(alternatives, []grammar.Symbol{e.openArray, e.endArray})
	}
	return e.builder.Define("array", alternatives...)
}
