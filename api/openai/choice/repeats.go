package choice

import (
	"bytes"

	"weir/api/openai/job"
	"weir/tokenizer/family"
)

// repeats holds a call back while it may be an earlier one of the same answer again. A model that has to call, and may call more than once,
// can go in circles: its first repeat ends the list, and is not told.
type repeats struct {
	told  []madeCall
	now   madeCall
	start family.Part   // of the call that is held back
	held  bool          // what has come of the call stands in an earlier one, too
	parts []family.Part // scratch
}

// madeCall is a call of the answer.
type madeCall struct {
	name      string
	arguments []byte
}

func newRepeats(r *job.Reading) *repeats {
	if r.Options.Choice.Mode != family.Required || !r.Options.Choice.Parallel {
		return nil
	}
	return &repeats{}
}

// pass gives what of a part of a call may be told, with what was held back before it. again says that the call has ended and is a repeat.
// The parts are valid until the next call.
func (r *repeats) pass(p *family.Part) (parts []family.Part, again bool) {
	r.parts = r.parts[:0]
	switch p.Kind {
	case family.CallStart:
		r.now, r.start = madeCall{name: p.Name}, *p
		r.held = r.mayRepeat()
	case family.CallArguments:
		r.now.arguments = append(r.now.arguments, p.Bytes...)
	default:
	}
	switch {
	case r.held && p.Kind == family.CallEnd && r.isRepeat():
		return nil, true
	case r.held && (p.Kind == family.CallEnd || !r.mayRepeat()):
		r.held = false
		r.parts = append(r.parts, r.start)
		if len(r.now.arguments) > 0 {
			r.parts = append(r.parts, family.Part{Kind: family.CallArguments, Call: r.start.Call, Bytes: r.now.arguments})
		}
		if p.Kind == family.CallEnd {
			r.parts = append(r.parts, *p)
		}
	case !r.held:
		r.parts = append(r.parts, *p)
	}
	if p.Kind == family.CallEnd {
		r.told = append(r.told, r.now)
	}
	return r.parts, false
}

// mayRepeat reports whether an earlier call begins as this one does.
func (r *repeats) mayRepeat() bool {
	for _, t := range r.told {
		if t.name == r.now.name && bytes.HasPrefix(t.arguments, r.now.arguments) {
			return true
		}
	}
	return false
}

func (r *repeats) isRepeat() bool {
	for _, t := range r.told {
		if t.name == r.now.name && bytes.Equal(t.arguments, r.now.arguments) {
			return true
		}
	}
	return false
}
