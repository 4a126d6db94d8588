package memory

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/iotest"
)

func TestRead(t *testing.T) {
	failed := errors.New("cut")
	for name, tc := range map[string]struct {
		bytes, most, limit int
		total              int64
		end, want          error
	}{
		"declared":           {bytes: 100 << 10, most: 100<<10 + 1, limit: 1 << 20, total: 1 << 20},
		"not declared":       {bytes: 100 << 10, limit: 1 << 20, total: 1 << 20},
		"less than declared": {bytes: 10, most: 1 << 20, limit: 1 << 20, total: 1 << 20},
		"more than declared": {bytes: 100 << 10, most: 10, limit: 1 << 20, total: 1 << 20},
		"at the limit":       {bytes: 100 << 10, limit: 100 << 10, total: 1 << 20},
		"above the limit":    {bytes: 100<<10 + 1, limit: 100 << 10, total: 1 << 20, want: ErrTooLarge},
		"no room":            {bytes: 100 << 10, limit: 1 << 20, total: 128 << 10, want: ErrNeverFits},
		"no budget":          {bytes: 100 << 10, limit: 1 << 20},
		"all that it may":    {bytes: 100 << 10, limit: 100 << 10, total: 200 << 10}, // which is twice the largest body
		"one byte above":     {bytes: 100<<10 + 1, limit: 200 << 10, total: 136 << 10, want: ErrNeverFits},
		"cut":                {bytes: 10, limit: 1 << 20, total: 1 << 20, end: failed, want: failed},
	} {
		b := New(tc.total)
		s := b.Share()
		if tc.total == 0 {
			s = Share{}
		}
		end := tc.end
		if end == nil {
			end = io.EOF
		}
		want := bytes.Repeat([]byte("b"), tc.bytes)
		got, err := s.Read(io.MultiReader(bytes.NewReader(want), iotest.ErrReader(end)), tc.most, tc.limit)
		if !errors.Is(err, tc.want) || err == nil && !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if held := b.Used(); tc.total > 0 && held != int64(cap(got)) {
			t.Errorf("%s: %d bytes are held for a buffer of %d", name, held, cap(got))
		}
		if s.Release(); b.Used() != 0 {
			t.Errorf("%s: %d bytes are held behind the end", name, b.Used())
		}
	}
}

// What a slow client still reads counts, and does not have every further body collect garbage in vain.
func TestBuffersThatAreReadStillCount(t *testing.T) {
	b := New(1 << 20)
	s := b.Share()
	body, ok := s.Buffer(700 << 10)
	if !ok {
		t.Fatal("there was no room")
	}
	s.Release()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 50 {
		if _, ok := s.Buffer(100 << 10); ok {
			t.Fatal("there was room, and the buffer is in use")
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.NumGC - before.NumGC; n > 10 {
		t.Errorf("%d collections for 50 bodies", n)
	}
	if b.Resident() != 700<<10 {
		t.Errorf("%d bytes count", b.Resident())
	}
	runtime.KeepAlive(body)
	b.collected = b.collected.Add(-liveTime)
	if _, ok := s.Buffer(100 << 10); !ok {
		t.Error("the buffer that is not read any more stands in the way")
	}
}

// A body for which others leave no room may come again; one that has none alone may not.
func TestNeverFits(t *testing.T) {
	b := New(1 << 20)
	other, s := b.Share(), b.Share()
	held, _ := other.Buffer(600 << 10)
	if _, err := s.Read(bytes.NewReader(make([]byte, 300<<10)), 0, 1<<20); !errors.Is(err, ErrNoRoom) {
		t.Errorf("beside another one: %v", err)
	}
	runtime.KeepAlive(held)
	s.Release()
	other.Release()
	if s.NeverFits(700<<10) || !s.NeverFits(800<<10) {
		t.Error("a quarter is kept for small bodies, and no more")
	}
	if unbound := (Share{}); unbound.NeverFits(1 << 40) {
		t.Error("without a budget all fits")
	}
}
