package work

import (
	"errors"
	"math"
	"runtime"
	"testing"
)

func TestMeterEndsAtItsLimit(t *testing.T) {
	m := Meter{Limit: 5000}
	for i := range 5000 {
		if err := m.Spend(1); err != nil {
			t.Fatalf("unit %d: %v", i, err)
		}
	}
	if err := m.Spend(1); !errors.Is(err, ErrSpent) {
		t.Fatalf("unit 5001: %v", err)
	}
	if err := m.Spend(0); !errors.Is(err, ErrSpent) || m.Err() == nil {
		t.Errorf("the error did not stay: %v", err)
	}
	if m.Reset(); m.Spend(5000) != nil || m.Spend(1) == nil {
		t.Error("a reset meter has not its limit again")
	}
}

func TestMeterAsks(t *testing.T) {
	asked := 0
	m := Meter{Ask: func() error {
		if asked++; asked > 3 {
			return ErrLate
		}
		return nil
	}}
	spent := 0
	for m.Spend(1) == nil {
		spent++
	}
	if want := 3 * Stride; asked != 4 || spent != want {
		t.Errorf("asked %d times over %d units, want 4 over %d", asked, spent, want)
	}
	if m.Spend(1); asked != 4 {
		t.Error("a meter that has ended asks again")
	}
	var none *Meter
	if none.Spend(1<<40) != nil || none.Err() != nil || none.Spent() != 0 {
		t.Error("a nil meter counts")
	}
}

func TestAccountsCountUpwards(t *testing.T) {
	tenant := NewAccount(100, nil)
	a, b := NewAccount(80, tenant), NewAccount(0, tenant)
	a.Keep(30)
	b.Keep(50)
	if tenant.Bytes() != 80 || a.Room() != 20 || b.Room() != 20 {
		t.Errorf("%d bytes, room for %d and %d", tenant.Bytes(), a.Room(), b.Room())
	}
	b.Keep(-50)
	if tenant.Bytes() != 30 || a.Room() != 50 || b.Bytes() != 0 {
		t.Errorf("%d bytes after one has given back, room for %d", tenant.Bytes(), a.Room())
	}
	var none *Account
	none.Reclaim()
	if none.Keep(1); none.Room() != math.MaxInt64 || none.Bytes() != 0 {
		t.Error("a nil account counts")
	}
}

// TestAccountsOfOwnersAreReclaimed: what an owner kept is given back once, however often it is asked for, when the owner is not referred to.
func TestAccountsOfOwnersAreReclaimed(t *testing.T) {
	type owner struct{ self, other *owner }
	tenant := NewAccount(1000, nil)
	grammar := NewAccount(0, tenant)
	keep := func(bytes int64) *owner {
		o := &owner{}
		o.self = o
		Of(o, 0, grammar).Keep(bytes)
		return o
	}
	kept := keep(1)
	for range 100 {
		a, b := keep(10), keep(10)
		a.other, b.other = b, a // a circle: the order in which they go is open
		if tenant.Bytes() < 500 {
			continue
		}
		if tenant.Reclaim(); tenant.Bytes() > 21 || tenant.Bytes() != grammar.Bytes() { // a and b may be found yet
			t.Fatalf("%d and %d bytes after all are gone but one, and the last two", tenant.Bytes(), grammar.Bytes())
		}
	}
	if tenant.Reclaim(); tenant.Bytes() != 1 || grammar.Bytes() != 1 {
		t.Errorf("%d and %d bytes at the end, want 1", tenant.Bytes(), grammar.Bytes())
	}
	runtime.KeepAlive(kept)
}
