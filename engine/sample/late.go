package sample

import (
	"errors"
	"fmt"

	"weir/internal/inference"
	"weir/internal/work"
)

// A constraint may take longer than a step has time for it. Its sampler is late then: the
// step goes on without its row, Prepare works the mask out beside the steps, and the row
// is computed and sampled again. Nothing of that shows in the token.

// lateMask is what a sampler that was late has in hand.
type lateMask struct {
	owes bool              // owed was sampled, and the constraint was not told yet
	owed inference.TokenID //

	ready bool     // mask, end and err are those of the next token
	mask  []uint64 // kept from one time to the next
	end   bool
	err   error

	kept  bool              // token was sampled, and the row will come again
	token inference.TokenID //
}

// Prepare works out what the next token may be, of a vocabulary of some tokens. Another
// goroutine than the step loop's may call it, while nothing else uses the sampler. What it
// fails with, Sample says; except for a meter that ends it, whose error Prepare returns.
func (s *Sampler) Prepare(vocabulary int, m *work.Meter) error {
	if s.constraint == nil || s.late.kept || s.late.ready {
		return nil
	}
	s.late.mask = room(s.late.mask, vocabulary)
	end, err := s.legalNow(s.late.mask, m)
	if err != nil && !errors.Is(err, inference.ErrConstraint) {
		return err
	}
	s.late.ready, s.late.end, s.late.err = true, end, err
	return nil
}

// Keep says that the row of the token that was sampled last is sampled again, since
// another choice of the row was late: the same token is given then.
func (s *Sampler) Keep(id inference.TokenID) { s.late.kept, s.late.token = true, id }

// settle tells the constraint of a token that it was not told of in time.
func (s *Sampler) settle(m *work.Meter) error {
	s.constraint.Under(m)
	if !s.late.owes {
		return nil
	}
	err := s.constraint.Accept(s.late.owed)
	switch {
	case err == nil:
		s.late.owes = false
		return nil
	case isMeters(m, err):
		return err
	}
	return fmt.Errorf("%w: token %d, which the grammar allowed as number %d: %w", inference.ErrConstraint, s.late.owed, s.sampled, err)
}

// legalNow is the constraint's mask for the next token.
func (s *Sampler) legalNow(dst []uint64, m *work.Meter) (end bool, err error) {
	if s.late.ready {
		s.late.ready = false
		copy(dst, s.late.mask)
		return s.late.end, s.late.err
	}
	if err := s.settle(m); err != nil {
		return false, err
	}
	end, err = s.constraint.Mask(dst)
	if err != nil && !isMeters(m, err) {
		err = fmt.Errorf("%w after %d tokens: %w", inference.ErrConstraint, s.sampled, err)
	}
	return end, err
}

// isMeters reports whether an error is the meter's and not the constraint's.
func isMeters(m *work.Meter, err error) bool {
	return errors.Is(err, work.ErrLate) || m.Err() != nil && errors.Is(err, m.Err())
}
