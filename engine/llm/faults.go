package llm

import (
	"fmt"
	"math/bits"
	"runtime/debug"

	"weir/engine/kernel/pool"
	"weir/internal/inference"
)

// phase says what the loop was doing when a panic came.
type phase uint8

const (
	taking phase = iota // in requests and cancels
	planning
	computing
	emitting
	committing
	reporting
	finishing
	checking
	hooking
	resetting
	explaining
	constraining
	listing
	transferring
	proposing
	numPhases
)

func (p phase) String() string {
	return [numPhases]string{
		"taking in a request", "planning a step", "computing a step", "emitting tokens", "committing a step",
		"reporting a step", "finishing a request", "checking the counts", "a hook",
		"resetting the prefix cache", "explaining requests", "a request's constraint", "listing the prefix cache",
		"transferring kv blocks", "proposing draft tokens",
	}[p]
}

// faults are the panics and broken invariants that the loop has caught, with what it was doing then.
type faults struct {
	onFault func(text string) // nil: the counts only
	atPhase func(phase)       // of tests

	phase    phase             // what the loop is doing
	broken   [numPhases]uint64 // panics per phase
	unproven int               // schedulers built in a row of which none completed a step
	last     string            // the text of the last one that was told

	panics, recounts, rebuilds uint64
}

// at records the phase that begins.
func (f *faults) at(p phase) {
	f.phase = p
	if f.atPhase != nil {
		f.atPhase(p)
	}
}

// panicked counts and reports a recovered panic. The deferred function that
// recovered it calls panicked. The error is for the requests that fail by it.
func (f *faults) panicked(value any) error {
	where := f.phase
	f.count(where, value, debug.Stack)
	return fmt.Errorf("%w: panic in %v: %v", inference.ErrInternal, where, value)
}

// constraintBroke counts and reports a panic in a request's constraint. The error is
// for that request, the only one that fails by it.
func (f *faults) constraintBroke(p *pool.Fault) error {
	f.count(constraining, p.Value, func() []byte { return p.Stack })
	return fmt.Errorf("%w: an internal error of the grammar's matcher", inference.ErrConstraint)
}

// count counts a panic. A hook or a request that breaks in every step must not fill the log.
func (f *faults) count(where phase, value any, stack func() []byte) {
	f.panics++
	f.broken[where]++
	if n := f.broken[where]; bits.OnesCount64(n) == 1 {
		f.tell(fmt.Sprintf("panic in %v, number %d: %v\n%s", where, n, value, stack()))
	}
}

// recounted reports a count that the check found wrong.
func (f *faults) recounted(err error) {
	f.recounts++
	f.tell(err.Error())
}

// tell reports a bug that was caught to OnFault.
func (f *faults) tell(text string) {
	f.last = text
	if f.onFault != nil {
		defer func() {
			if recover() != nil {
				f.panics++
			}
		}()
		f.onFault(text)
	}
}

// hook calls one of the options' hooks. A panic in a hook fails no request.
func (f *faults) hook(call func()) {
	defer func() {
		if v := recover(); v != nil {
			f.phase = hooking
			_ = f.panicked(v)
		}
	}()
	call()
}

// rebuilding counts a new scheduler, and says how many were built since a step completed.
func (f *faults) rebuilding() (unproven int) {
	f.rebuilds++
	f.unproven++
	return f.unproven
}
