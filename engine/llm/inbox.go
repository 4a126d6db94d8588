package llm

import (
	"context"
	"fmt"
	"sync"

	"weir/internal/inference"
)

// inbox is what other goroutines ask of an engine's loop, and whether it takes more. The loop takes everything between two steps.
type inbox[C any] struct {
	wake    func()        // asks for the loop's next call
	stopped chan struct{} // closed when the loop has ended

	mu      sync.Mutex
	list    []C
	coming  int // commands that were submitted and are put in later
	closing bool
	abort   bool  // what still runs is to be cancelled
	dead    error // a fault that nothing mended
}

func newInbox[C any]() inbox[C] { return inbox[C]{stopped: make(chan struct{})} }

// refuses says why nothing new is taken, nil where it is.
func (b *inbox[C]) refuses() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal()
}

// refusal is refuses; the caller holds mu.
func (b *inbox[C]) refusal() error {
	if b.dead != nil {
		return b.dead
	}
	if b.closing {
		return fmt.Errorf("%w: it is shutting down", inference.ErrUnavailable)
	}
	return nil
}

// notReady says why nothing new is taken, for people; "" where it is.
func (b *inbox[C]) notReady() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.dead != nil:
		return b.dead.Error()
	case b.closing:
		return "the engine is closing"
	}
	return ""
}

// submit puts in commands that begin something, or refuses them. Some more are put in later, by arrive.
func (b *inbox[C]) submit(later int, commands ...C) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refusal(); err != nil {
		return err
	}
	b.coming += later
	b.list = append(b.list, commands...)
	b.wake()
	return nil
}

// arrive puts in a command that was submitted before, with others that belong to it.
func (b *inbox[C]) arrive(commands ...C) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coming--
	b.list = append(b.list, commands...)
	b.wake()
}

// post puts in a command about something that the loop has. It is never refused.
func (b *inbox[C]) post(c C) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, c)
	b.wake()
}

// take empties the inbox and leaves it the memory of what was taken before, which the loop has
// cleared. closing says that nothing comes any more; abort, that what still runs is to be cancelled.
func (b *inbox[C]) take(before []C) (commands []C, closing, abort bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	commands, b.list = b.list, before[:0]
	return commands, b.closing && b.coming == 0, b.abort
}

// die refuses everything from now on.
func (b *inbox[C]) die(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = why
}

// close refuses what is new, lets the loop finish until ctx ends, and then has it cancel the rest, behind hooks.
// It returns ctx's error if something had to be cancelled.
func (b *inbox[C]) close(ctx context.Context, hooks ...func()) error {
	b.setClosing(false)
	select {
	case <-b.stopped:
		return nil
	case <-ctx.Done():
	}
	for _, hook := range hooks {
		hook()
	}
	b.setClosing(true)
	<-b.stopped
	return ctx.Err()
}

func (b *inbox[C]) setClosing(abort bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closing, b.abort = true, abort
	b.wake()
}
