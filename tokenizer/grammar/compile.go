package grammar

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"weir/internal/work"
	"weir/tokenizer/grammar/regex"
)

const none = -1

type opcode uint8

const (
	opEnd   opcode = iota // the alternative is over; arg is its rule
	opRule                // arg is a rule that comes next
	opTerm                // arg is a terminal that comes next
	opCount               // a repetition; arg is its rule
	opPick                // any member that is left of a list in any order; arg is the list
	opJoin                // a member is there; arg says which one of which list
	opMore                // a separator and another member, or the end of a list in any order; arg is the list
)

// step is one place in the code: what comes next there.
type step struct {
	op  opcode
	arg int32
}

// rule is a rule or a repetition, flattened.
type rule struct {
	nullable bool
	starts   []int32 // places at which an answer inside the rule may begin, empty symbols at the front passed over
	// of a repetition
	child       step
	least, most int32 // most is negative where unbounded
}

// Grammar is a compiled grammar. It knows no vocabulary and is safe for concurrent use.
type Grammar struct {
	limits   Limits
	code     []step
	rules    []rule
	regexes  []*regex.Regex // terminals 0 to len(regexes)-1
	items    []itemKind     // by terminal that is an expression; nil where no list's items have to differ
	orders   []order        // lists in any order
	joins    []join
	tokens   []controlToken // the terminals after those
	nullable []bool         // by terminal
	start    int32          // place before the start symbol
	root     int32          // rule of that place
	account  *work.Account  // of the grammar and its engines, those of running answers included
	own      *work.Account  // of the above

	mu      sync.Mutex
	engines map[*Vocabulary]*engine
	first   *automaton // for the first engine; nil once that has it
}

// automaton is one of a grammar's terminals, with the node of each.
type automaton struct {
	*regex.Automaton
	nodes []regex.Node
}

// automaton gives the one that was built with the grammar to who asks first, and builds another one for others.
func (g *Grammar) automaton(m *work.Meter, room int64) (*automaton, error) {
	g.mu.Lock()
	a := g.first
	g.first = nil
	g.mu.Unlock()
	if a != nil {
		g.own.Keep(-a.Bytes())
		a.Under(m, room)
		return a, nil
	}
	auto, nodes, err := regex.NewAutomatonUnder(m, room, g.regexes...)
	return &automaton{auto, nodes}, err
}

// Compile gives the grammar whose texts are those of start.
func (b *Builder) Compile(start Symbol) (*Grammar, error) {
	if b.err != nil {
		return nil, b.err
	}
	if !b.valid(start) {
		return nil, errNoStart
	}
	account := work.NewAccount(0, b.limits.Account)
	c := compiler{b: b, g: &Grammar{limits: b.limits, account: account, engines: map[*Vocabulary]*engine{}}}
	c.g.own = work.Of(c.g, int64(b.limits.Bytes), account)
	c.productive()
	if b.err != nil {
		return nil, b.err
	}
	if !c.fits[start] {
		return nil, ErrNoText
	}
	c.empties()
	if err := c.checkMembers(); err != nil {
		return nil, err
	}
	c.flatten(start)
	if err := c.starts(); err != nil {
		return nil, compileError(err)
	}
	g := c.g
	// The first automaton is built here, so that what is wrong with an expression is said before any answer begins.
	a, err := g.automaton(b.limits.Meter, c.g.own.Room())
	if err != nil {
		return nil, compileError(err)
	}
	a.Under(nil, math.MaxInt64)
	g.first = a
	g.limits.Meter = nil // that of compiling
	g.measure()
	return g, nil
}

// compileError is the error of a grammar that takes too much to compile.
func compileError(err error) error {
	switch {
	case errors.Is(err, work.ErrSpent):
		return fmt.Errorf("%w: it takes more work to compile than a grammar may; make the schema or grammar smaller or its patterns simpler", ErrLimit)
	case errors.Is(err, regex.ErrSize):
		return fmt.Errorf("%w: %w", ErrLimit, err)
	}
	return err
}

type compiler struct {
	b     *Builder
	g     *Grammar
	fits  []bool // by symbol: some text fits
	empty []bool // by symbol: the empty text fits
	steps []step // by symbol
	known []bool // by symbol: steps has it
}

// spread calls decide for every symbol, and again for the users of each symbol that became true, until nothing changes.
func (c *compiler) spread(value []bool, decide func(s *symbol) bool) {
	symbols := c.b.symbols
	users := make([][]Symbol, len(symbols))
	for i := range symbols {
		for _, a := range symbols[i].alternatives {
			for _, s := range a {
				users[s] = append(users[s], Symbol(i))
			}
		}
		if symbols[i].kind == kindRepeat {
			users[symbols[i].child] = append(users[symbols[i].child], Symbol(i))
		}
		for _, m := range symbols[i].members {
			for _, part := range m.Symbols {
				users[part] = append(users[part], Symbol(i))
			}
		}
	}
	var work []Symbol
	check := func(s Symbol) {
		if !value[s] && decide(&symbols[s]) {
			value[s] = true
			work = append(work, s)
		}
	}
	for i := range symbols {
		check(Symbol(i))
	}
	for len(work) > 0 {
		s := work[len(work)-1]
		work = work[:len(work)-1]
		for _, u := range users[s] {
			check(u)
		}
	}
}

func every(symbols []Symbol, value []bool) bool {
	for _, s := range symbols {
		if !value[s] {
			return false
		}
	}
	return true
}

func anyAlternative(s *symbol, value []bool) bool {
	for _, a := range s.alternatives {
		if every(a, value) {
			return true
		}
	}
	return false
}

func (c *compiler) productive() {
	c.fits = make([]bool, len(c.b.symbols))
	c.spread(c.fits, func(s *symbol) bool {
		switch s.kind {
		case kindRegex:
			nothing, err := s.regex.IsNothingUnder(c.b.limits.Meter, c.g.own.Room())
			if err != nil {
				c.b.fail(compileError(err))
			}
			return !nothing
		case kindToken:
			return true
		case kindRepeat:
			return s.least == 0 || c.fits[s.child]
		case kindAnyOrder:
			return c.ordered(s)
		default:
			return anyAlternative(s, c.fits)
		}
	})
}

func (c *compiler) empties() {
	c.empty = make([]bool, len(c.b.symbols))
	c.spread(c.empty, func(s *symbol) bool {
		switch s.kind {
		case kindRegex:
			return s.regex.Nullable()
		case kindToken, kindAnyOrder:
			return false
		case kindRepeat:
			return s.least == 0 || c.empty[s.child]
		default:
			return anyAlternative(s, c.empty)
		}
	})
}

// flatten writes the code of all symbols that start leads to.
func (c *compiler) flatten(start Symbol) {
	g := c.g
	c.steps, c.known = make([]step, len(c.b.symbols)), make([]bool, len(c.b.symbols))
	var todo, tokens []Symbol
	number := func(s Symbol) {
		if c.known[s] {
			return
		}
		c.known[s] = true
		switch c.b.symbols[s].kind {
		case kindRegex:
			c.steps[s] = step{opTerm, int32(len(g.regexes))}
			g.regexes = append(g.regexes, c.b.symbols[s].regex)
			if kind := c.b.symbols[s].item; kind != noItem {
				g.items = append(g.items, make([]itemKind, len(g.regexes)-len(g.items))...)
				g.items[len(g.regexes)-1] = kind
			}
			g.nullable = append(g.nullable, c.empty[s])
		case kindToken:
			tokens = append(tokens, s)
		default:
			c.steps[s] = step{opRule, int32(len(g.rules))}
			g.rules = append(g.rules, rule{nullable: c.empty[s]})
			todo = append(todo, s)
		}
	}
	number(start)
	for i := 0; i < len(todo); i++ {
		s := &c.b.symbols[todo[i]]
		if s.kind == kindRepeat {
			if c.fits[s.child] {
				number(s.child)
			}
			continue
		}
		if s.kind == kindAnyOrder {
			number(s.child)
			for _, m := range s.members {
				if every(m.Symbols, c.fits) {
					for _, part := range m.Symbols {
						number(part)
					}
				}
			}
			continue
		}
		for _, a := range s.alternatives {
			if every(a, c.fits) {
				for _, x := range a {
					number(x)
				}
			}
		}
	}
	for _, s := range tokens {
		c.steps[s] = step{opTerm, int32(len(g.regexes) + len(g.tokens))}
		g.tokens = append(g.tokens, c.b.symbols[s].token)
		g.nullable = append(g.nullable, false)
	}
	for _, s := range todo {
		c.write(s)
	}
	g.root = int32(len(g.rules))
	g.rules = append(g.rules, rule{})
	g.start = int32(len(g.code))
	g.code = append(g.code, c.steps[start], step{opEnd, g.root})
}

// write appends the code of a rule or a repetition; for now, starts holds the first place of each alternative.
func (c *compiler) write(id Symbol) {
	g, s, at := c.g, &c.b.symbols[id], c.steps[id].arg
	r := &g.rules[at]
	if s.kind == kindRepeat {
		r.least, r.most = s.least, s.most
		if c.empty[s.child] {
			r.least = 0 // a round that takes no text is a round that need not be
		}
		if s.most == 0 || !c.fits[s.child] {
			r.starts = append(r.starts, int32(len(g.code)))
			g.code = append(g.code, step{opEnd, at})
			return
		}
		r.child = c.steps[s.child]
		r.starts = append(r.starts, int32(len(g.code)))
		g.code = append(g.code, step{opCount, at})
		return
	}
	if s.kind == kindAnyOrder {
		r.starts = append(r.starts, int32(len(g.code)))
		c.writeOrder(s)
		return
	}
	for _, a := range s.alternatives {
		if !every(a, c.fits) {
			continue
		}
		r.starts = append(r.starts, int32(len(g.code)))
		for _, x := range a {
			g.code = append(g.code, c.steps[x])
		}
		g.code = append(g.code, step{opEnd, at})
	}
}

// starts makes each rule's starts all places that are reached by passing over symbols that may be empty, ends left out.
func (c *compiler) starts() error {
	g := c.g
	for i := range g.rules {
		var all []int32
		for _, p := range g.rules[i].starts {
			for g.code[p].op != opEnd {
				if err := c.b.limits.Meter.Spend(1); err != nil {
					return err
				}
				all = append(all, p)
				if !g.passable(g.code[p]) {
					break
				}
				p++
			}
		}
		g.rules[i].starts = all
	}
	return nil
}

// passable reports whether a step may take no text, so that the place after it counts as reached. A repetition has no place after it.
func (g *Grammar) passable(s step) bool {
	switch s.op {
	case opRule:
		return g.rules[s.arg].nullable
	case opTerm:
		return g.nullable[s.arg]
	default:
		return false
	}
}
