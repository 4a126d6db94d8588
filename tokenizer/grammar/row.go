package grammar

import (
	"encoding/binary"
	"slices"
)

// item is an alternative in progress: the place of what comes next, the rounds that a repetition has behind it or the number of what a list in any
// order has, and what its end completes: a rule that was begun in a row.
type item struct {
	at    int32
	count int32
	rule  int32
	row   *row
}

// row is a place of an answer between two terminals, as Earley's parser knows it. Rows are hash-consed by their items, so a list that
// goes on comes back to the row that it was in, and matchers share rows. A row never changes once made.
type row struct {
	id      uint32
	end     bool             // the start symbol may be complete here
	items   []item           // sorted
	rules   map[int32][]item // by rule that may begin here: the items after it
	terms   []int32          // the terminals that may come next, sorted
	after   [][]item         // by the same: the items after it
	lexer   *lexState        // the terminals at their first byte; nil where none comes next
	reached map[uint32]*row  // by the id of a lexer state that ends terminals: the row after it; guarded by engine.mu
}

// rowBuilder works out the items of one row; its parts are reused.
type rowBuilder struct {
	t     *placeTable
	items []item
	seen  map[item]bool
	done  map[item]bool // what was completed, with place and count zero
	tries int           // items that came up, known ones included
	end   bool
	key   []byte
}

// maxTries is how often items may come up at one place, for each that there may be.
const maxTries = 10

// itemWork is what an item that comes up takes, in units.
const itemWork = 4

// add takes in an item, with all that it completes.
func (b *rowBuilder) add(it item) error {
	g := b.t.g
	work := []item{it}
	for len(work) > 0 {
		it := work[len(work)-1]
		work = work[:len(work)-1]
		if err := b.t.meter.Spend(itemWork); err != nil {
			return err
		}
		if b.tries++; b.tries > maxTries*g.limits.Items {
			return limitError("ways to one place", maxTries*g.limits.Items, "make the grammar less ambiguous")
		}
		if b.seen[it] {
			continue
		}
		b.seen[it] = true
		if len(b.seen) > g.limits.Items {
			return limitError("rules in progress at one place", g.limits.Items, "make the grammar less ambiguous")
		}
		s := g.code[it.at]
		complete, keep := s.op == opEnd, s.op != opEnd
		switch s.op {
		case opCount:
			r := &g.rules[s.arg]
			complete, keep = it.count >= r.least, r.most < 0 || it.count < r.most
		case opJoin:
			next, err := b.t.joined(it, g.joins[s.arg])
			if err != nil {
				return err
			}
			work = append(work, next)
			continue
		case opMore:
			o, has := &g.orders[s.arg], b.t.set(s.arg, it.count)
			if err := b.t.meter.Spend(len(o.members)); err != nil {
				return err
			}
			complete, keep = o.complete(has), o.goesOn(has)
		case opEnd, opRule, opTerm, opPick:
		}
		if keep {
			b.items = append(b.items, it)
			if g.passable(s) {
				work = append(work, item{it.at + 1, it.count, it.rule, it.row})
			}
		}
		if !complete {
			continue
		}
		if it.rule == g.root {
			b.end = true
			continue
		}
		whole := item{rule: it.rule, row: it.row}
		if !b.done[whole] {
			b.done[whole] = true
			work = append(work, it.row.rules[it.rule]...)
		}
	}
	return nil
}

// take gives the row of the items that were added, an old one where their like is known.
func (b *rowBuilder) take() (*row, error) {
	if err := b.t.meter.Spend(itemWork * len(b.items)); err != nil {
		return nil, err
	}
	slices.SortFunc(b.items, compareItems)
	b.key = append(b.key[:0], 0)
	if b.end {
		b.key[0] = 1
	}
	for _, it := range b.items {
		b.key = binary.LittleEndian.AppendUint32(b.key, uint32(it.at))
		b.key = binary.LittleEndian.AppendUint32(b.key, uint32(it.count))
		b.key = binary.LittleEndian.AppendUint32(b.key, uint32(it.rule))
		b.key = binary.LittleEndian.AppendUint32(b.key, it.row.number())
	}
	r, ok := b.t.rows[string(b.key)]
	var err error
	if !ok {
		r = &row{id: uint32(len(b.t.rows)) + 1, end: b.end, items: slices.Clone(b.items)}
		err = b.predict(r)
		if err == nil {
			b.t.rows[string(b.key)] = r
			b.t.memory.grown(r.bytes())
		}
	}
	b.reset()
	return r, err
}

// reset drops what was added. Tables that one large row has made large are not kept: to clear them would cost every row to come.
func (b *rowBuilder) reset() {
	const large = 1 << 10
	if len(b.seen) > large {
		b.seen, b.done = map[item]bool{}, map[item]bool{}
	}
	b.items, b.tries, b.end = b.items[:0], 0, false
	clear(b.seen)
	clear(b.done)
}

// number is the id of a row, and zero for the row that the start item has.
func (r *row) number() uint32 {
	if r == nil {
		return 0
	}
	return r.id
}

func compareItems(a, b item) int {
	if a.at != b.at {
		return int(a.at) - int(b.at)
	}
	if a.count != b.count {
		return int(a.count) - int(b.count)
	}
	if a.rule != b.rule {
		return int(a.rule) - int(b.rule)
	}
	return int(a.row.number()) - int(b.row.number())
}

// waiting is a place of a row that waits for a rule. The alternative in progress is an item of the row (owner none) or belongs to the
// rule owner, which begins in the row itself.
type waiting struct {
	it    item
	owner int32
}

// predict works out which rules may begin in a row and what its terminals lead to.
func (b *rowBuilder) predict(r *row) error {
	p := prediction{g: b.t.g, t: b.t, r: r, waits: map[int32][]waiting{}, terms: map[int32][]waiting{}, home: map[int32]item{}}
	for _, it := range b.items {
		p.visit(waiting{it, none})
	}
	for i := 0; i < len(p.begun) && p.places <= p.g.limits.Items; i++ {
		starts := p.g.rules[p.begun[i]].starts
		if err := b.t.meter.Spend(itemWork * (1 + len(starts))); err != nil {
			return err
		}
		for _, at := range starts {
			p.visit(waiting{item{at: at}, p.begun[i]})
		}
	}
	if p.places > p.g.limits.Items {
		return limitError("rules in progress at one place", p.g.limits.Items, "give the grammar fewer alternatives at one place")
	}
	if err := b.t.meter.Spend(itemWork * p.places); err != nil {
		return err
	}
	r.rules = make(map[int32][]item, len(p.begun))
	for rule, waits := range p.waits {
		r.rules[rule] = p.after(waits)
	}
	for t := range p.terms {
		r.terms = append(r.terms, t)
	}
	slices.Sort(r.terms)
	for _, t := range r.terms {
		r.after = append(r.after, p.after(p.terms[t]))
	}
	var err error
	if len(r.terms) > 0 {
		r.lexer, err = b.t.lexer.begin(r.terms)
	}
	return err
}

type prediction struct {
	g      *Grammar
	t      *placeTable
	r      *row
	waits  map[int32][]waiting // by rule
	terms  map[int32][]waiting // by terminal
	begun  []int32
	home   map[int32]item // by rule that begins here: what its end completes
	places int
}

func (p *prediction) visit(w waiting) {
	p.places++
	s := p.g.code[w.it.at]
	switch s.op {
	case opCount:
		s = p.g.rules[s.arg].child
	case opMore:
		s = p.g.orders[s.arg].separator
	case opPick:
		p.pick(s.arg, w)
		return
	case opEnd, opRule, opTerm, opJoin:
	}
	if s.op == opTerm {
		p.terms[s.arg] = append(p.terms[s.arg], w)
		return
	}
	if p.waits[s.arg] == nil {
		p.begun = append(p.begun, s.arg)
	}
	p.waits[s.arg] = append(p.waits[s.arg], w)
}

// after gives the items that follow what the places waited for.
func (p *prediction) after(waits []waiting) []item {
	items := make([]item, len(waits))
	for i, w := range waits {
		it := w.it
		if w.owner != none {
			h := p.completes(w.owner)
			it.rule, it.row = h.rule, h.row
		}
		if s := p.g.code[it.at]; s.op == opCount {
			it.count++
			if r := &p.g.rules[s.arg]; r.most < 0 {
				it.count = min(it.count, r.least)
			}
		} else {
			it.at++
		}
		items[i] = it
	}
	return items
}

// completes says what the end of a rule that begins in the row completes: the rule itself, or, where a single alternative waits for it and
// ends with it, what that alternative completes. Without this rule, which is Leo's, lists that recur at their right end would take a row
// for every element.
func (p *prediction) completes(rule int32) item {
	if h, ok := p.home[rule]; ok {
		return h
	}
	h := item{rule: rule, row: p.r}
	p.home[rule] = h // for rules that wait for each other in a circle, which cannot complete in any case
	w := p.waits[rule]
	if len(w) == 1 && p.g.code[w[0].it.at].op != opCount && p.g.code[w[0].it.at+1].op == opEnd {
		if w[0].owner == none {
			h = item{rule: w[0].it.rule, row: w[0].it.row}
		} else {
			h = p.completes(w[0].owner)
		}
		p.home[rule] = h
	}
	return h
}
