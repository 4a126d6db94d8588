package bench

import (
	"strings"
	"testing"
	"time"
)

// RTO is when requests are answered again for good: a success among failures is none, and neither is what waits for a dead process's
// idempotency key. RPO is that of the oldest write that is lost.
func TestRecoveryAndLoss(t *testing.T) {
	const fault = 100 * time.Millisecond
	after := func(pattern string) (list []attempt) {
		list = append(list, attempt{at: 50 * time.Millisecond, ok: true})
		for i, c := range pattern {
			list = append(list, attempt{at: fault + time.Duration(i+1)*time.Millisecond, ok: c == '+', held: c == 'h'})
		}
		return list
	}
	for pattern, want := range map[string]time.Duration{
		"+++":                          1 * time.Millisecond,
		"---+++":                       4 * time.Millisecond,
		"-+-+++":                       4 * time.Millisecond,
		"--+h+h+h+":                    3 * time.Millisecond,
		"-+-" + dots(99):               4 * time.Millisecond,
		"-" + dots(99) + "-" + dots(9): 2 * time.Millisecond,
		"-" + dots(98) + "-" + dots(9): 101 * time.Millisecond,
		"+-" + dots(20000):             3 * time.Millisecond,
		"---":                          0,
		"":                             0,
		dots(10) + "-":                 0,
	} {
		at, ok := recovery(after(pattern), fault)
		if ok != (want > 0) || ok && at-fault != want {
			t.Errorf("%.20s: %v after the fault, %v; want %v", pattern, at-fault, ok, want)
		}
	}
	var row DrillRow
	for _, acked := range []time.Duration{90 * time.Millisecond, 20 * time.Millisecond, 120 * time.Millisecond} {
		row.lose(acked, fault)
	}
	if row.Lost != 3 || row.Seconds != 0.08 {
		t.Errorf("%+v", row)
	}
}

func dots(n int) string { return strings.Repeat("+", n) }
