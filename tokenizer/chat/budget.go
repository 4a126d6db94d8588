package chat

import (
	"fmt"
	"math/big"
)

// budget is what one render may still spend. Code whose amount of work depends
// on the template or on the client's data pays before it works.
type budget struct {
	o      Options
	steps  int // left
	bytes  int // scanned and not paid for yet: less than a whole step
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

// bytesPerStep are searched, compared or copied in less time than a step of
// plain evaluation takes.
const bytesPerStep = 64

// scan pays for reading n bytes, at the speed of memory. Bytes that are less
// than a whole step are carried over to the next call.
func (b *budget) scan(n int) error {
	b.bytes += n
	n, b.bytes = b.bytes/bytesPerStep, b.bytes%bytesPerStep
	return b.step(n)
}

// characters pays for examining each character of n bytes.
func (b *budget) characters(n int) error { return b.scan(8 * n) }

// touch pays for a filter, test or method that looks at a whole string, or
// calculates with a long integer.
func (b *budget) touch(v Value) error {
	switch v.kind {
	case kindString:
		return b.scan(len(v.str))
	case kindInt:
		return b.digits(v)
	}
	return nil
}

// digits pays for work on an integer that grows as multiplication does: so do
// division and the conversion to and from text.
func (b *budget) digits(v Value) error {
	n, ok := v.ref.(*big.Int)
	if !ok {
		return nil
	}
	words := n.BitLen() / 64
	return b.step(1 + words/2 + words*words/64)
}

// key pays for hashing a key. A small dict hashes each of its own keys again at
// every lookup, unless all are text.
func (b *budget) key(v Value) error {
	if v.kind == kindInt && v.ref != nil {
		for range maxSearched + 1 {
			if err := b.digits(v); err != nil {
				return err
			}
		}
		return nil
	}
	if v.kind != kindTuple {
		return b.touch(v)
	}
	for _, item := range v.items()[:min(len(v.items()), maxKeyItems)] {
		if item.kind == kindString { // the hash of a tuple holds its strings quoted
			if err := b.text(0, 2*len(item.str)); err != nil {
				return err
			}
			if err := b.characters((maxSearched + 1) * len(item.str)); err != nil {
				return err
			}
			continue
		}
		if err := b.enter(); err != nil {
			return err
		}
		err := b.key(item)
		b.leave()
		if err != nil {
			return err
		}
	}
	return nil
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
