package notation

import (
	"fmt"

	"weir/tokenizer/grammar/regex"
)

// finish checks the terminals and, where something is ignored, puts it behind every terminal of a rule and before the first.
func (p *lark) finish(start int) (int, error) {
	for _, r := range p.rules {
		if isTerminal(r.name) {
			if err := p.checkTerminal(&r, r.body); err != nil {
				return 0, err
			}
		}
	}
	if err := p.checkLoops(); err != nil {
		return 0, err
	}
	if len(p.ignored) == 0 {
		return start, nil
	}
	for _, e := range p.ignored {
		if err := p.checkTerminal(&definition{name: "%ignore"}, e); err != nil {
			return 0, err
		}
	}
	gap := repeat(alt(p.ignored), 0, regex.Unbounded)
	for i := range p.rules {
		if !isTerminal(p.rules[i].name) {
			p.rules[i].body = p.spaced(p.rules[i].body, gap)
		}
	}
	p.rules = append(p.rules, definition{name: "answer", body: seq([]*expr{gap, {kind: exprRef, rule: start}})})
	return len(p.rules) - 1, nil
}

// checkTerminal refuses rules and control tokens inside a terminal.
func (p *lark) checkTerminal(d *definition, e *expr) error {
	if e.kind == exprRef && !isTerminal(p.rules[e.rule].name) {
		return fmt.Errorf("%w: the terminal %s uses the rule %q; terminals are made of terminals", ErrSyntax, d.name, p.rules[e.rule].name)
	}
	if e.kind == exprToken {
		return fmt.Errorf("%w: %s: a control token inside a terminal; use it in a rule", ErrUnsupported, d.name)
	}
	for _, k := range e.kids {
		if err := p.checkTerminal(d, k); err != nil {
			return err
		}
	}
	return nil
}

// checkLoops refuses terminals that use themselves.
func (p *lark) checkLoops() error {
	const unseen, open, done = 0, 1, 2
	state := make([]int, len(p.rules))
	var visit func(r int) error
	var walk func(e *expr) error
	walk = func(e *expr) error {
		if e.kind == exprRef {
			return visit(e.rule)
		}
		for _, k := range e.kids {
			if err := walk(k); err != nil {
				return err
			}
		}
		return nil
	}
	visit = func(r int) error {
		switch {
		case !isTerminal(p.rules[r].name) || state[r] == done:
			return nil
		case state[r] == open:
			return fmt.Errorf("%w: the terminal %s uses itself; make it a rule", ErrSyntax, p.rules[r].name)
		}
		state[r] = open
		err := walk(p.rules[r].body)
		state[r] = done
		return err
	}
	for r := range p.rules {
		if err := visit(r); err != nil {
			return err
		}
	}
	return nil
}

// spaced puts the gap behind every terminal.
func (p *lark) spaced(e *expr, gap *expr) *expr {
	switch {
	case e.kind == exprLeaf, e.kind == exprToken, e.kind == exprRef && isTerminal(p.rules[e.rule].name):
		return &expr{kind: exprSeq, kids: []*expr{e, gap}}
	case e.kind == exprRef:
		return e
	}
	c := *e
	c.kids = make([]*expr, len(e.kids))
	for i, k := range e.kids {
		c.kids[i] = p.spaced(k, gap)
	}
	return &c
}
