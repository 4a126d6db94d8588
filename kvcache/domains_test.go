package kvcache

import (
	"math"
	"testing"
)

// Floors are equal parts of the pool; protection ends by time, in any order.
func TestDomainTableProtects(t *testing.T) {
	a, b := Domain{bits: 1}, Domain{bits: 2}
	dt := domainTable{usable: 100, floorPercent: 50, slots: map[Domain]int32{a: 0, b: 1}, domains: []domain{
		{key: a, resident: 30, cached: 30}, {key: b, resident: 20, cached: 5},
	}, soonest: math.MaxInt64}
	if n := dt.floor(); n != 25 || !dt.aboveFloor(0) || dt.aboveFloor(1) {
		t.Fatalf("each of two domains keeps %d blocks, want 25", n)
	}
	if n := dt.protectedFrom(1); n != 0 {
		t.Errorf("%d blocks are protected before Protect", n)
	}
	dt.Protect(a, 20)
	dt.Protect(b, 10)
	for _, c := range []struct {
		slot int32
		want int
	}{{1, 25}, {0, 5}, {noDomain, 30}} {
		if n := dt.protectedFrom(c.slot); n != c.want {
			t.Errorf("from slot %d %d blocks are protected, want %d", c.slot, n, c.want)
		}
	}
	dt.Advance(10)
	if n := dt.protectedFrom(noDomain); n != 25 || dt.soonest != 20 {
		t.Errorf("after the first time %d blocks are protected, next at %d, want 25 and 20", n, dt.soonest)
	}
	if dt.Advance(20); len(dt.protected) != 0 || dt.protectedFrom(noDomain) != 0 {
		t.Error("the protection does not end")
	}
	if err := dt.checkProtection(); err != nil {
		t.Error(err)
	}
}
