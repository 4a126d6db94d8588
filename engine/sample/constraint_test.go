package sample

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/kernel/isa"
	"weir/internal/inference"
	"weir/internal/work"
)

// must is Sample where no error may come.
func (s *Sampler) must(logits []float32, w *Scratch) inference.TokenID {
	id, err := s.Sample(logits, w)
	if err != nil {
		panic(err)
	}
	return id
}

// oracle is a constraint by definition: what may follow is a function of what came.
type oracle struct {
	came  []inference.TokenID
	next  func(came []inference.TokenID) (legal []inference.TokenID, end bool)
	fails error // of Mask
	deaf  error // of Accept
}

func (*oracle) Under(*work.Meter) {}

func (o *oracle) Mask(dst []uint64) (bool, error) {
	clear(dst)
	legal, end := o.next(o.came)
	for _, id := range legal {
		dst[id/64] |= 1 << (id % 64)
	}
	return end, o.fails
}

func (o *oracle) Allows(id inference.TokenID) bool {
	legal, _ := o.next(o.came)
	return slices.Contains(legal, id)
}

func (o *oracle) Accept(id inference.TokenID) error {
	o.came = append(o.came, id)
	return o.deaf
}

func (o *oracle) Rollback(n int) { o.came = o.came[:len(o.came)-n] }

func (o *oracle) Fork() inference.Constraint {
	return &oracle{came: slices.Clone(o.came), next: o.next}
}

func (o *oracle) Forced(dst []inference.TokenID) []inference.TokenID { return dst }

// someNext allows a few tokens that depend on what came, and sometimes the end.
func someNext(r *rand.Rand, vocabulary int) func([]inference.TokenID) ([]inference.TokenID, bool) {
	seed := r.Uint64()
	return func(came []inference.TokenID) (legal []inference.TokenID, end bool) {
		h := rand.New(rand.NewPCG(seed, uint64(len(came))))
		for range h.IntN(6) {
			legal = append(legal, h.Int32N(int32(vocabulary)))
		}
		return legal, len(legal) == 0 || h.IntN(3) == 0
	}
}

// A sampler with a constraint draws what one without it draws from a row that was
// masked by definition, whatever else it is told.
func TestConstraintsEqualTheDefinition(t *testing.T) {
	for _, level := range isa.Levels() {
		r, w := rand.New(rand.NewPCG(41, 42)), &Scratch{Level: level}
		ended, overruled, narrowed := 0, 0, 0
		for range 300 {
			vocabulary := 4 + r.IntN(200)
			p := someParams(r)
			p.AllowedTokens, p.BadWords = someMasks(r, vocabulary)
			p.Seed, p.MinTokens = r.Uint64(), r.IntN(4)
			p.End, p.Ignored = []inference.TokenID{0, 1}, []inference.TokenID{2}
			if r.IntN(3) == 0 {
				p.Temperature = 0
			}
			bare := p
			bare.AllowedTokens, bare.BadWords, bare.MinTokens = nil, nil, 0
			next := someNext(r, vocabulary)
			p.Constraint = &oracle{next: next}
			got, want := New(p, nil), New(bare, nil)
			var output []inference.TokenID
			for range 24 {
				row := make([]float32, vocabulary)
				for i := range row {
					row[i] = float32(3 * r.NormFloat64())
				}
				legal, end := next(output)
				legal = slices.DeleteFunc(legal, func(id inference.TokenID) bool { return id <= 2 })
				switch {
				case len(legal) == 0 && !end:
					legal = nil
				case len(legal) == 0:
					legal = []inference.TokenID{0, 1, 2}
				case end && len(output) >= p.MinTokens:
					legal = append(legal, 0, 1)
				}
				wished := slices.DeleteFunc(slices.Clone(legal), func(id inference.TokenID) bool {
					q := p
					q.MinTokens = 0
					return masked(q, output, id)
				})
				switch {
				case len(wished) == 0:
					overruled++
				case len(wished) < len(legal):
					narrowed++
					fallthrough
				default:
					legal = wished
				}
				reference := slices.Clone(row)
				for i := range reference {
					if !slices.Contains(legal, inference.TokenID(i)) {
						reference[i] = float32(math.Inf(-1))
					}
				}
				a, err := got.Sample(row, w)
				if len(legal) == 0 {
					if !errors.Is(err, inference.ErrConstraint) {
						t.Fatalf("nothing is legal after %v: token %d, %v", output, a, err)
					}
					break
				}
				if b := want.must(reference, w); err != nil || a != b {
					t.Fatalf("%v after %v: token %d, %v, want %d of %v", level, output, a, err, b, legal)
				}
				if a <= 2 {
					ended++
					break
				}
				output = append(output, a)
			}
		}
		if ended < 50 || overruled < 50 || narrowed < 50 {
			t.Errorf("%d ends, overruled %d times, narrowed %d times: too few to show anything", ended, overruled, narrowed)
		}
	}
}

// Scenarios 8 and 9 of structured output: a complete grammar ends an answer before min_tokens and though the
// end is ignored; an answer that may go on heeds both.
func TestJ8ACompleteGrammarEndsWhateverTheRequestAsks(t *testing.T) {
	const stop, ignored, text = 3, 4, 7
	sampler := func(end bool, legal ...inference.TokenID) *Sampler {
		next := func([]inference.TokenID) ([]inference.TokenID, bool) { return legal, end }
		return New(params(func(p *Params) {
			p.Temperature, p.MinTokens = 0, 5
			p.End, p.Ignored = []inference.TokenID{stop}, []inference.TokenID{ignored}
			p.Constraint = &oracle{next: next}
		}), nil)
	}
	row := func() []float32 { return []float32{9, 9, 9, 1, 2, 9, 9, 0} } // forbidden tokens are likelier
	if id := sampler(true).must(row(), &Scratch{}); id != ignored {
		t.Errorf("complete: token %d, want the likelier end", id)
	}
	if id := sampler(true, text).must(row(), &Scratch{}); id != text {
		t.Errorf("may end before min_tokens: token %d, want %d", id, text)
	}
	s := sampler(true, text)
	s.sampled = 5
	if id := s.must(row(), &Scratch{}); id != stop {
		t.Errorf("may end after min_tokens: token %d, want %d", id, stop)
	}
	if id := sampler(false, text, stop, ignored).must(row(), &Scratch{}); id != text { // scenario 6
		t.Errorf("may not end: token %d, want %d", id, text)
	}
}

// Scenario 17: what breaks a constraint is an error, never a token.
func TestJ17AConstraintThatFailsIsAnError(t *testing.T) {
	broken := errors.New("broken")
	one := func([]inference.TokenID) ([]inference.TokenID, bool) { return []inference.TokenID{1}, false }
	none := func([]inference.TokenID) ([]inference.TokenID, bool) { return nil, false }
	for _, o := range []*oracle{{next: one, fails: broken}, {next: one, deaf: broken}, {next: none}} {
		s := New(params(func(p *Params) { p.Constraint = o }), nil)
		_, err := s.Sample([]float32{1, 2, 3}, &Scratch{})
		if !errors.Is(err, inference.ErrConstraint) || (o.fails != nil || o.deaf != nil) && !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
	}
}

// Where the model gives every legal token no probability at all, one of them comes.
func TestAConstraintWinsOverLogitsOfNothing(t *testing.T) {
	inf := float32(math.Inf(-1))
	for _, temperature := range []float32{0, 1} {
		o := &oracle{next: func([]inference.TokenID) ([]inference.TokenID, bool) { return []inference.TokenID{2, 3}, false }}
		s := New(params(func(p *Params) { p.Temperature, p.Constraint = temperature, o }), nil)
		if id := s.must([]float32{5, 5, inf, inf}, &Scratch{}); id != 2 {
			t.Errorf("temperature %v: token %d, want the lowest legal one", temperature, id)
		}
	}
}

func TestLegalLeavesTheConstraintAsItWas(t *testing.T) {
	o := &oracle{next: func(came []inference.TokenID) ([]inference.TokenID, bool) {
		return []inference.TokenID{inference.TokenID(len(came)) + 5, 0}, true
	}}
	s := New(params(func(p *Params) { p.Constraint, p.End = o, []inference.TokenID{0} }), nil)
	for _, c := range []struct {
		guess []inference.TokenID
		want  int
	}{{[]inference.TokenID{5, 6, 7}, 3}, {[]inference.TokenID{5, 9, 7}, 1}, {[]inference.TokenID{5, 0, 7}, 1}, {nil, 0}} {
		if n := s.Legal(c.guess, nil); n != c.want || len(o.came) != 0 {
			t.Errorf("%v: %d are legal, want %d; the constraint has %v", c.guess, n, c.want, o.came)
		}
	}
}

// flat allows every second token, for no memory.
type flat struct{ oracle }

func (*flat) Mask(dst []uint64) (bool, error) {
	for i := range dst {
		dst[i] = 0x5555_5555_5555_5555
	}
	return false, nil
}

func (*flat) Accept(inference.TokenID) error { return nil }

func TestConstraintsDoNotAllocate(t *testing.T) {
	const vocabulary = 4000
	p := params(func(p *Params) {
		p.TopP, p.Constraint, p.End = 0.9, &flat{}, []inference.TokenID{5}
		p.AllowedTokens = []inference.TokenID{2, 4, 5, 6}
	})
	s, w, logits := New(p, nil), &Scratch{}, make([]float32, vocabulary)
	step := func() {
		for i := range logits {
			logits[i] = float32(i % 17)
		}
		s.must(logits, w)
	}
	step()
	if n := testing.AllocsPerRun(200, step); n > 0 {
		t.Errorf("%v allocations per token", n)
	}
}

// sparse allows a few tokens, or all but a few.
type sparse struct {
	flat
	words []uint64
}

func (s *sparse) Mask(dst []uint64) (bool, error) {
	copy(dst, s.words)
	return false, nil
}

// What a mask costs beside the drawing.
func BenchmarkConstraint(b *testing.B) {
	rows := distributions()
	all := make([]uint64, (vocabulary+63)/64)
	for i := range all {
		all[i] = ^uint64(0)
	}
	few, most := make([]uint64, len(all)), slices.Clone(all)
	for id := inference.TokenID(0); id < 6000; id += 21 {
		set(few, id)
		unset(most, 7*id)
	}
	for name, c := range map[string]inference.Constraint{"none": nil, "few": &sparse{words: few}, "most": &sparse{words: most}, "half": &flat{}} {
		b.Run("allowed="+name, func(b *testing.B) {
			s, w, logits := New(params(func(p *Params) { p.Constraint = c }), nil), &Scratch{}, slices.Clone(rows["peaky"])
			s.must(logits, w)
			b.ReportAllocs()
			for b.Loop() {
				copy(logits, rows["peaky"])
				s.must(logits, w)
			}
		})
	}
}
