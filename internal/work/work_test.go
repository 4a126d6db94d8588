package work

import (
	"errors"
	"math"
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
	b.Close()
	if tenant.Bytes() != 30 || a.Room() != 50 || b.Bytes() != 0 {
		t.Errorf("%d bytes after one has closed, room for %d", tenant.Bytes(), a.Room())
	}
	var none *Account
	if none.Keep(1); none.Room() != math.MaxInt64 || none.Bytes() != 0 {
		t.Error("a nil account counts")
	}
}
