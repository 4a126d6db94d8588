// Package reasoning bounds the tokens of a model's thought.
package reasoning

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

// Names are the fields for the most tokens of a thought: vLLM's and llama-server's.
var Names = []string{"thinking_token_budget", "thinking_budget_tokens"}

// Budget is how many tokens a thought may have.
type Budget struct {
	Most int    // -1 is as many as the model likes
	Name string // of the field that says so
}

// ReadBudget reads the budget of a request.
func ReadBudget(o *jsonbody.Object, fault **api.Error) Budget {
	b := Budget{Most: -1}
	for _, name := range Names {
		n, ok := o.Integer(name, -1, math.MaxInt32, fault)
		switch {
		case !ok:
		case b.Name != "" && int(n) != b.Most:
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", name, "%s is %d and %s is %d; send one of them", b.Name, b.Most, name, n))
		default:
			b = Budget{int(n), name}
		}
	}
	return b
}

// rules are what the budgets of one request's choices have in common.
type rules struct {
	tokenizer *tokenizer.Tokenizer
	most      int                 // tokens of the thought
	open, end stop.Pattern        // the markers of thoughts
	closing   []inference.TokenID // of the marker that ends a thought, and what must follow it
	again     bool                // another thought may follow, on the same budget
}

// Constraint is a constraint that ends a thought after some tokens: from then on only the
// tokens of the end marker are allowed. A thought that has ended is free, or bound by
// the constraint behind the budget. A rune whose bytes are several tokens is not cut.
type Constraint struct {
	*rules
	inner inference.Constraint // nil: everything is allowed
	path  []state              // the state now, and those before each token
}

// state is small, as there is one for each token until the thought has ended.
type state struct {
	phase   phase
	late    bool  // text has come, so that none opens a thought any more
	partial int8  // bytes that are missing of a rune
	matched int16 // of the marker that the phase waits for
	forced  int16 // tokens of the end marker that were forced
	used    int32 // tokens of the thought
}

type phase uint8

const (
	before phase = iota // a thought may open
	within
	forced // the end marker is being written
	after
)

// Bound makes the constraint of a thought that has at most so many tokens. thinking
// says that the prompt has opened it.
func Bound(m *models.Model, most int, thinking bool, inner inference.Constraint) *Constraint {
	r := &rules{tokenizer: m.Tokenizer, most: most}
	open, end := m.Family.ThoughtMarkers()
	open = strings.TrimSpace(open)
	r.open, r.end = stop.NewPattern(open), stop.NewPattern(end)
	r.again = m.Family.RepeatsThoughts()
	closing := end + m.Family.AfterThought(inner == nil)
	r.closing = m.Tokenizer.AppendSpans(nil, []tokenizer.Span{{Text: closing, Control: true}}, tokenizer.EncodeOptions{})
	var start state
	if thinking {
		start = r.within(state{phase: within})
	}
	return &Constraint{rules: r, inner: inner, path: []state{start}}
}

func (b *Constraint) now() *state { return &b.path[len(b.path)-1] }

// IsEnding reports whether the end of the thought is being written.
func (b *Constraint) IsEnding() bool { return b.now().phase == forced }

// Under says what counts the inner constraint's work.
func (b *Constraint) Under(m *work.Meter) {
	if b.inner != nil {
		b.inner.Under(m)
	}
}

// Mask is the inner constraint's except for the end of a thought.
func (b *Constraint) Mask(dst []uint64) (end bool, err error) {
	if s := b.now(); s.phase == forced {
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
func (b *Constraint) Allows(id inference.TokenID) bool {
	if s := b.now(); s.phase == forced {
		return id == b.closing[s.forced]
	}
	return b.inner == nil || b.inner.Allows(id)
}

// Accept takes in a token.
func (b *Constraint) Accept(id inference.TokenID) error {
	if b.inner != nil {
		if err := b.inner.Accept(id); err != nil {
			return err
		}
	}
	b.path = append(b.path, b.step(*b.now(), id))
	return nil
}

// Rollback takes back tokens.
func (b *Constraint) Rollback(tokens int) {
	b.path = b.path[:len(b.path)-tokens]
	if b.inner != nil {
		b.inner.Rollback(tokens)
	}
}

// Fork is a copy.
func (b *Constraint) Fork() inference.Constraint {
	fork := &Constraint{rules: b.rules, path: slices.Clone(b.path)}
	if b.inner != nil {
		fork.inner = b.inner.Fork()
	}
	return fork
}

// Forced appends what must come next.
func (b *Constraint) Forced(dst []inference.TokenID) []inference.TokenID {
	if s := b.now(); s.phase == forced {
		return append(dst, b.closing[s.forced:]...)
	}
	if b.inner != nil {
		return b.inner.Forced(dst)
	}
	return dst
}

// step is the state after one more token.
func (r *rules) step(s state, id inference.TokenID) state {
	if s.phase == after {
		return s
	}
	if s.phase == forced {
		if s.forced++; int(s.forced) == len(r.closing) {
			return r.after(s)
		}
		return s
	}
	piece := r.tokenizer.AppendPiece(nil, id, true)
	if s.phase == before {
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
func (r *rules) after(s state) state {
	if r.again {
		return state{phase: before, late: true, used: s.used}
	}
	return state{phase: after}
}

// opened looks for the marker that opens a thought: at the beginning of an answer, and
// after that only where a control token begins it, as text may speak of it.
func (r *rules) opened(s state, piece []byte, control bool) state {
	k := int(s.matched)
	for _, c := range piece {
		if k == 0 && s.late && !control {
			break
		}
		before := k
		if k = r.open.Advance(k, c); k == len(r.open.Text) {
			return state{phase: within, used: s.used}
		}
		if k <= before && (before > 0 || c != ' ' && c != '\n') && !control {
			s.late, k = true, 0
		}
	}
	s.matched = int16(k) //nolint:gosec // at most the marker's length
	return s
}

// within begins to force the end of a thought whose budget is spent.
func (r *rules) within(s state) state {
	if s.phase == within && int(s.used) >= r.most && s.partial == 0 {
		s.phase = forced
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
