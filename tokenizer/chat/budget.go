package chat

import "fmt"

// budget is what one render may still spend. It is checked wherever a
// template, not the program text, decides how much work there is.
type budget struct {
	o      Options
	steps  int // left
	memory int // bytes left of all strings and lists made
	depth  int // nesting now
}

func newBudget(o Options) *budget {
	return &budget{o: o, steps: o.MaxSteps, memory: o.MaxMemoryBytes}
}

func limitError(format string, args ...any) error {
	return &Error{Reason: Limit, Message: fmt.Sprintf(format, args...)}
}

// step pays for n units of work.
func (b *budget) step(n int) error {
	b.steps -= n
	if b.steps < 0 {
		return limitError("more than %d steps", b.o.MaxSteps)
	}
	return nil
}

// scan pays for looking at n bytes.
func (b *budget) scan(n int) error { return b.step(n / 64) }

// touch pays for a filter, test or method that looks at a whole string.
func (b *budget) touch(v Value) error {
	if v.kind != kindString {
		return nil
	}
	return b.scan(len(v.str))
}

// text pays for n bytes appended to a string that has size bytes.
func (b *budget) text(size, n int) error {
	if n > b.o.MaxOutputBytes-size {
		return limitError("text of more than %d bytes", b.o.MaxOutputBytes)
	}
	return b.alloc(n)
}

// alloc pays for n bytes of memory.
func (b *budget) alloc(n int) error {
	if n > b.memory {
		return limitError("values of more than %d bytes in all", b.o.MaxMemoryBytes)
	}
	b.memory -= n
	return b.scan(n)
}

// valueBytes is the size of a Value in a list.
const valueBytes = 48

// list pays for n list items.
func (b *budget) list(n int) error {
	if n > b.memory/valueBytes {
		return b.alloc(b.memory + 1)
	}
	return b.alloc(n * valueBytes)
}

// enter goes one level deeper; leave must follow when it gives nil.
func (b *budget) enter() error {
	if b.depth >= b.o.MaxDepth {
		return limitError("nesting deeper than %d levels", b.o.MaxDepth)
	}
	b.depth++
	return nil
}

func (b *budget) leave() { b.depth-- }
