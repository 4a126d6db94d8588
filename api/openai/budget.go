package openai

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/stop"
	"weir/internal/inference"
	"weir/internal/work"
	"weir/tokenizer"
)

// budgetNames are the fields for the most tokens of a thought: vLLM's and llama-server's.
var budgetNames = []string{"thinking_token_budget", "thinking_budget_tokens"}

// thoughtBudget is how many tokens a thought may have.
type thoughtBudget struct {
	most int    // -1 is as many as the model likes
	name string // of the field that says so
}

func readBudget(o *jsonbody.Object, fault **api.Error) thoughtBudget {
	b := thoughtBudget{most: -1}
	for _, name := range budgetNames {
		n, ok := o.Integer(name, -1, math.MaxInt32, fault)
		switch {
		case !ok:
		case b.name != "" && int(n) != b.most:
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", name, "%s is %d and %s is %d; send one of them", b.name, b.most, name, n))
		default:
			b = thoughtBudget{int(n), name}
		}
	}
	return b
}

// bound sets the budget of a job's thoughts.
func (j *job) bound(o *jsonbody.Object, b thoughtBudget) *api.Error {
	if b.most < 0 {
		return nil
	}
	if j.reading == nil || !j.reading.thinks {
		var fault *api.Error
		o.Ignored(b.name, api.RefuseParam("unsupported_parameter", b.name,
			"%s bounds thoughts, and the model %s marks none; leave it out", b.name, j.model.ID), &fault)
		return fault
	}
	j.reading.budget = b.most
	return nil
}

// bounded is the constraint of the job's answers with the budget of their thoughts.
func (j *job) bounded() inference.Constraint {
	if j.kv.DoRemoteDecode {
		return nil
	}
	if r := j.reading; r != nil && r.budget >= 0 {
		return newBudget(j.model, r.budget, r.options.Opening.Thinking, j.constraint)
	}
	return j.constraint
}

// budgetRules are what the budgets of one request's choices have in common.
type budgetRules struct {
	tokenizer *tokenizer.Tokenizer
	most      int                 // tokens of the thought
	open, end stop.Pattern        // the markers of thoughts
	closing   []inference.TokenID // of the marker that ends a thought, and what must follow it
	again     bool                // another thought may follow, on the same budget
}

// budget is a constraint that ends a thought after some tokens: from then on only the
// tokens of the end marker are allowed. A thought that has ended is free, or bound by
// the constraint behind the budget. A rune whose bytes are several tokens is not cut.
type budget struct {
	*budgetRules
	inner inference.Constraint // nil: everything is allowed
	path  []budgetState        // the state now, and those before each token
}

// budgetState is small, as there is one for each token until the thought has ended.
type budgetState struct {
	phase   budgetPhase
	late    bool  // text has come, so that none opens a thought any more
	partial int8  // bytes that are missing of a rune
	matched int16 // of the marker that the phase waits for
	forced  int16 // tokens of the end marker that were forced
	used    int32 // tokens of the thought
}

type budgetPhase uint8

const (
	budgetBefore budgetPhase = iota // a thought may open
	budgetWithin
	budgetForced // the end marker is being written
	budgetAfter
)

// newBudget makes the constraint of a thought that has at most so many tokens. thinking
// says that the prompt has opened it.
func newBudget(m *models.Model, most int, thinking bool, inner inference.Constraint) *budget {
	r := &budgetRules{tokenizer: m.Tokenizer, most: most}
	open, end := m.Family.ThoughtMarkers()
	open = strings.TrimSpace(open)
	r.open, r.end = stop.NewPattern(open), stop.NewPattern(end)
	r.again = m.Family.RepeatsThoughts()
	closing := end + m.Family.AfterThought(inner == nil)
	r.closing = m.Tokenizer.AppendSpans(nil, []tokenizer.Span{{Text: closing, Control: true}}, tokenizer.EncodeOptions{})
	var start budgetState
	if thinking {
		start = r.within(budgetState{phase: budgetWithin})
	}
	return &budget{budgetRules: r, inner: inner, path: []budgetState{start}}
}

func (b *budget) now() *budgetState { return &b.path[len(b.path)-1] }

// Under says what counts the inner constraint's work.
func (b *budget) Under(m *work.Meter) {
	if b.inner != nil {
		b.inner.Under(m)
	}
}

// Mask is the inner constraint's but for the end of a thought.
func (b *budget) Mask(dst []uint64) (end bool, err error) {
	if s := b.now(); s.phase == budgetForced {
		clear(dst)
		id := b.closing[s.forced]
		dst[id/64] |= 1 << (id % 64)
		return false, nil
	}
	if b.inner != nil {
		return b.inner.Mask(dst)
	}
	for i := range dst {
		dst[i] = ^uint64(0)
	}
	return true, nil
}

// Allows reports whether a token may come next.
func (b *budget) Allows(id inference.TokenID) bool {
	if s := b.now(); s.phase == budgetForced {
		return id == b.closing[s.forced]
	}
	return b.inner == nil || b.inner.Allows(id)
}

// Accept takes in a token.
func (b *budget) Accept(id inference.TokenID) error {
	if b.inner != nil {
		if err := b.inner.Accept(id); err != nil {
			return err
		}
	}
	b.path = append(b.path, b.step(*b.now(), id))
	return nil
}

// Rollback takes back tokens.
func (b *budget) Rollback(tokens int) {
	b.path = b.path[:len(b.path)-tokens]
	if b.inner != nil {
		b.inner.Rollback(tokens)
	}
}

// Fork is a copy.
func (b *budget) Fork() inference.Constraint {
	fork := &budget{budgetRules: b.budgetRules, path: slices.Clone(b.path)}
	if b.inner != nil {
		fork.inner = b.inner.Fork()
	}
	return fork
}

// Forced appends what must come next.
func (b *budget) Forced(dst []inference.TokenID) []inference.TokenID {
	if s := b.now(); s.phase == budgetForced {
		return append(dst, b.closing[s.forced:]...)
	}
	if b.inner != nil {
		return b.inner.Forced(dst)
	}
	return dst
}

// step is the state after one more token.
func (r *budgetRules) step(s budgetState, id inference.TokenID) budgetState {
	if s.phase == budgetAfter {
		return s
	}
	if s.phase == budgetForced {
		if s.forced++; int(s.forced) == len(r.closing) {
			return r.after(s)
		}
		return s
	}
	piece := r.tokenizer.AppendPiece(nil, id, true)
	if s.phase == budgetBefore {
		return r.within(r.opened(s, piece, r.tokenizer.IsControl(id)))
	}
	s.used++
	k := int(s.matched)
	for _, c := range piece {
		if k = r.end.Advance(k, c); k == len(r.end.Text) {
			return r.after(s)
		}
	}
	s.matched = int16(k) //nolint:gosec // at most the marker's length
	s.partial = missingBytes(s.partial, piece)
	return r.within(s)
}

// after is the state behind the end of a thought.
func (r *budgetRules) after(s budgetState) budgetState {
	if r.again {
		return budgetState{phase: budgetBefore, late: true, used: s.used}
	}
	return budgetState{phase: budgetAfter}
}

// opened looks for the marker that opens a thought: at the beginning of an answer, and
// after that only where a control token begins it, as text may speak of it.
func (r *budgetRules) opened(s budgetState, piece []byte, control bool) budgetState {
	k := int(s.matched)
	for _, c := range piece {
		if k == 0 && s.late && !control {
			break
		}
		before := k
		if k = r.open.Advance(k, c); k == len(r.open.Text) {
			return budgetState{phase: budgetWithin, used: s.used}
		}
		if k <= before && (before > 0 || c != ' ' && c != '\n') && !control {
			s.late, k = true, 0
		}
	}
	s.matched = int16(k) //nolint:gosec // at most the marker's length
	return s
}

// within begins to force the end of a thought whose budget is spent.
func (r *budgetRules) within(s budgetState) budgetState {
	if s.phase == budgetWithin && int(s.used) >= r.most && s.partial == 0 {
		s.phase = budgetForced
	}
	return s
}

// missingBytes is how many bytes the last rune lacks after piece; missing is how many it
// lacked before.
func missingBytes(missing int8, piece []byte) int8 {
	for _, c := range piece {
		switch {
		case missing > 0 && !utf8.RuneStart(c):
			missing--
		case c >= 0xf0 && c < 0xf8:
			missing = 3
		case c >= 0xe0 && c < 0xf0:
			missing = 2
		case c >= 0xc0 && c < 0xe0:
			missing = 1
		default:
			missing = 0
		}
	}
	return missing
}
