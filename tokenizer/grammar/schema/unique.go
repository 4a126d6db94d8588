package schema

import (
	"math/bits"
	"slices"

	"weir/tokenizer/grammar"
)

// maxUnique bounds the values of items that differ: each set of them has a rule.
const maxUnique = 8

// settleUnique refuses that items differ where they are not a few given values; it is called when all forms are known.
func (c *compiler) settleUnique() error {
	for _, s := range c.order {
		for _, f := range s.forms {
			a, ok := f.(*arrayForm)
			if !ok || a.unique == nil || a.values() != nil {
				continue
			}
			if room := a.room(); room == 0 || room == 1 {
				a.unique = nil
				continue
			}
			m := a.unique
			a.unique = nil
			if err := c.refuse(m, "uniqueItems", "that items differ is enforced where they are one of %d constants at most; leave it out, or use an object "+
				"with one property for each", maxUnique); err != nil {
				return err
			}
		}
	}
	return nil
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
