// Package work bounds computations whose cost a client decides, such as those of a grammar: a Meter counts what a call does and can end it
// in the middle, an Account counts the bytes that are kept of it. Both count what the algorithm does and read no clock, so that the same
// calls end at the same place on every machine.
package work

import "errors"

// Errors of a Meter and an Account. Callers tell them apart.
var (
	// ErrSpent is the error of a meter whose limit is reached.
	ErrSpent = errors.New("the work takes more than its limit")
	// ErrLate is what Meter.Ask answers where the work has to go on at another time: what was worked out is kept, and the same call made
	// again goes on from there.
	ErrLate = errors.New("the work takes longer than there is time for it now")
)

// Stride is how many units may pass before a meter asks again; a unit takes some ten nanoseconds.
const Stride = 1024

// Meter counts units of work: an element of a list that is looked at, an entry of a table that is made. A nil Meter counts nothing and
// never ends anything. One goroutine uses it.
type Meter struct {
	Limit int64 // units that may be spent; 0 is no limit
	// Hurried says that the caller cannot wait: where another goroutine is at work on the same grammar, the call is late.
	Hurried bool
	// Aside runs a function that may wait for others, where the caller must not keep them waiting meanwhile. nil: it is just called.
	Aside func(wait func())
	Ask   func() error // is called before the first unit and then every Stride units; its error ends the work. It may wait. nil: never

	spent int64
	next  int64 // what may be spent before check is due
	err   error
}

// Spend counts units. Its error, which stays, says that the work must end.
func (m *Meter) Spend(units int) error {
	if m == nil {
		return nil
	}
	m.spent += int64(units)
	if m.spent < m.next {
		return nil
	}
	return m.check()
}

func (m *Meter) check() error {
	if m.err != nil {
		return m.err
	}
	switch {
	case m.Limit > 0 && m.spent > m.Limit:
		m.err = ErrSpent
	case m.Ask != nil:
		m.err = m.Ask()
	}
	if m.err != nil {
		m.next = 0 // every Spend from here on comes by
		return m.err
	}
	m.next = m.spent + Stride
	if m.Limit > 0 {
		m.next = min(m.next, m.Limit+1)
	}
	return nil
}

// Wait runs a function that may wait for others.
func (m *Meter) Wait(wait func()) {
	if m == nil || m.Aside == nil {
		wait()
		return
	}
	m.Aside(wait)
}

// Err is what ended the work, nil while it goes on.
func (m *Meter) Err() error {
	if m == nil {
		return nil
	}
	return m.err
}

// Spent is how many units were counted.
func (m *Meter) Spent() int64 {
	if m == nil {
		return 0
	}
	return m.spent
}

// Reset starts over, with the same limit and the same Ask.
func (m *Meter) Reset() { m.spent, m.next, m.err = 0, 0, nil }
