package guard

import "testing"

// Margins makes the slices of a call, each of which ends where memory does.
type Margins struct {
	t     testing.TB
	names []string // those that are made so far
	short string   // the one that gets an element less
}

// Sized is what a call needs n elements of.
func Sized[T any](m *Margins, name string, n int) []T {
	m.names = append(m.names, name)
	x := Make[T](m.t, n)
	if name == m.short {
		x = x[: n-1 : n-1]
	}
	return x
}

// Filled is Sized with what x holds.
func Filled[T any](m *Margins, name string, x []T) []T {
	to := Sized[T](m, name, len(x))
	copy(to, x)
	return to
}

// Whole is n elements that say themselves how many they are.
func Whole[T any](m *Margins, n int) []T { return Make[T](m.t, n) }

// Check fails unless call returns with memory that is just enough for it, and is refused where any slice that is Sized has an element less.
func Check(t testing.TB, what string, call func(m *Margins)) {
	t.Helper()
	m := &Margins{t: t}
	if o := Run(func() { call(m) }); o != Returned {
		t.Errorf("%s: %s with memory that is just enough", what, o)
	}
	for _, name := range m.names {
		if o := Run(func() { call(&Margins{t: t, short: name}) }); o != Refused {
			t.Errorf("%s: %s with one element too few of %s", what, o, name)
		}
	}
}
