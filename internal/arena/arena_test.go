package arena

import (
	"errors"
	"strings"
	"testing"
)

func TestArena(t *testing.T) {
	a, err := New(10000)
	if err != nil {
		t.Fatal(err)
	}
	first, err := a.Alloc(3, 1)
	if err != nil {
		t.Fatal(err)
	}
	second, err := a.Alloc(100, 64)
	if err != nil {
		t.Fatal(err)
	}
	if a.UsedBytes() != 164 || a.CapacityBytes() != 10000 {
		t.Errorf("%d of %d bytes used", a.UsedBytes(), a.CapacityBytes())
	}
	if len(first) != 3 || cap(first) != 3 || len(second) != 100 || cap(second) != 100 {
		t.Errorf("slices of %d/%d and %d/%d bytes", len(first), cap(first), len(second), cap(second))
	}
	for i := range second {
		if second[i] != 0 {
			t.Fatal("memory is not zeroed")
		}
		second[i] = 1
	}
	if _, err := a.Alloc(10000-164+1, 1); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "164 of 10000") {
		t.Errorf("one byte too many: %v", err)
	}
	if _, err := a.Alloc(10000-164, 1); err != nil {
		t.Errorf("all the rest: %v", err)
	}
	if _, err := a.Alloc(0, 4096); !errors.Is(err, ErrFull) {
		t.Errorf("nothing, aligned beyond the end: %v", err)
	}
	for range 2 {
		if err := a.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Alloc(1, 1); !errors.Is(err, ErrFull) {
		t.Errorf("allocation after Release: %v", err)
	}
}

func TestArenaRefusesSenselessSizes(t *testing.T) {
	if _, err := New(-1); !errors.Is(err, ErrSize) {
		t.Errorf("negative capacity: %v", err)
	}
	if _, err := New(1 << 62); err == nil {
		t.Error("2^62 bytes were reserved")
	}
	a, err := New(0)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := a.Alloc(0, 64); err != nil || len(b) != 0 {
		t.Errorf("nothing from an empty arena: %v, %v", b, err)
	}
	for _, c := range []struct{ n, align int }{{-1, 1}, {1, 0}, {1, 3}, {1, -8}, {1, 8192}} {
		if _, err := a.Alloc(c.n, c.align); !errors.Is(err, ErrSize) {
			t.Errorf("%d bytes aligned to %d: %v", c.n, c.align, err)
		}
	}
}
