package llm

import "weir/engine/kernel/weight"

// Rows of several adapters pass through a step together: the model's matrices multiply all of them at once, and behind that what the adapters give
// is added, see [weight.Multiplier.AdaptedProducts]. Rows of an adapter are neighbours in a batch. The sums of a row run in the same order
// whatever other rows there are, so that its bits depend on none.

// adapted are rows lo to hi-1 of a batch, or of a block, and their adapter.
type adapted struct {
	lo, hi int
	by     *adapter
}

// adaptedRows are the rows of a batch that have adapters, in order.
type adaptedRows []adapted

// add says that rows lo to hi-1, behind all others, have an adapter; nil: they have none.
func (s adaptedRows) add(lo, hi int, by *adapter) adaptedRows {
	if by == nil || lo == hi {
		return s
	}
	if n := len(s); n > 0 && s[n-1].by == by && s[n-1].hi == lo {
		s[n-1].hi = hi
		return s
	}
	return append(s, adapted{lo, hi, by})
}

// keep adds the adapters of those rows of another batch that output names.
func (s adaptedRows) keep(all adaptedRows, output []int) adaptedRows {
	for i, r := range output {
		for len(all) > 0 && r >= all[0].hi {
			all = all[1:]
		}
		if len(all) > 0 && r >= all[0].lo {
			s = s.add(i, i+1, all[0].by)
		}
	}
	return s
}

// lowRanks are what adapters add to products of a block, as these take it.
type lowRanks []weight.Adapted

// of are the rows of a block, counted from its first one, whose adapters change one of the products.
func (l *lowRanks) of(rows adaptedRows, r block, products ...weight.Product) []weight.Adapted {
	*l = (*l)[:0]
	for i := range rows {
		s := &rows[i]
		if s.lo >= r.hi || s.hi <= r.lo {
			continue
		}
		part, some := weight.Adapted{Lo: max(s.lo, r.lo) - r.lo, Hi: min(s.hi, r.hi) - r.lo}, false
		for k := range products {
			if d := s.by.deltas[products[k].W]; d != nil {
				part.Low[k], some = *d, true
			}
		}
		if some {
			*l = append(*l, part)
		}
	}
	return *l
}
