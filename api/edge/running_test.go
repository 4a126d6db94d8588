package edge

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestDrainTwiceAndConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRunning()
		r.Enter()
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Second)
				defer cancel()
				if err := r.Drain(ctx, time.Second); err == nil {
					t.Error("a drain ended although a request runs")
				}
			})
		}
		wg.Wait()
		if r.Enter() {
			t.Error("a request entered after the drain")
		}
		r.Leave()
		if err := r.Drain(context.Background(), time.Second); err != nil {
			t.Error(err)
		}
	})
}

// A server without requests drains without an error, however little time it has.
func TestDrainOfNothingTakesNoTime(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 200 {
		if err := NewRunning().Drain(over, 0); err != nil {
			t.Fatal(err)
		}
	}
}
