package llm

import (
	"context"
	"errors"
	"testing"

	"weir/internal/inference"
)

// An inbox that closes takes nothing new, but what a loop has been promised still comes, and ends the loop only then.
func TestInboxCloses(t *testing.T) {
	b, woken := newInbox[int](), 0
	b.wake = func() { woken++ }
	if err := b.submit(1, 1, 2); err != nil {
		t.Fatal(err)
	}
	b.setClosing(false)
	if err := b.submit(0, 3); !errors.Is(err, inference.ErrUnavailable) {
		t.Errorf("submit to an inbox that closes: %v", err)
	}
	taken, closing, abort := b.take(nil)
	if len(taken) != 2 || closing || abort {
		t.Errorf("took %v, closing %v, abort %v; one command is still to come", taken, closing, abort)
	}
	b.arrive(4, 5) // 5 is about 4
	b.post(6)
	if taken, closing, _ = b.take(taken[:0]); len(taken) != 3 || !closing {
		t.Errorf("took %v, closing %v after the last command came", taken, closing)
	}
	if woken != 4 {
		t.Errorf("the loop was woken %d times for 4 calls that change what it is to do", woken)
	}
}

// Close cancels what runs once its context has ended, behind its hooks, and waits for the loop.
func TestInboxCloseCancels(t *testing.T) {
	b := newInbox[int]()
	told := false
	b.wake = func() {
		if b.abort {
			told = true
			close(b.stopped)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	hooked := false
	if err := b.close(ctx, func() { hooked = true }); !errors.Is(err, context.Canceled) || !told || !hooked {
		t.Errorf("close: %v, the loop was told %v, the hook called %v", err, told, hooked)
	}
}
