package grammar

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"weir/internal/reference"
	"weir/internal/work"
	"weir/tokenizer/grammar/regex"
)

// hostilePatterns have derivatives that grow with every byte.
var hostilePatterns = []string{
	`(\p{L}{1,500}|[^a-z]{3,700}){2,60}`,
	`([a-z]{1,90}[0-9]{1,90}|\w{2,300}|.{5,200}){3,80}`,
	`(.*a.{1,400}b.*|.{3,300}c){1,20}`,
	`(a{1,300}|a{2,400}|aa{3,500}|(ab|ba){0,200}){1,900}`,
}

// manyLetters is a vocabulary of letters and runs of them, in several scripts.
func manyLetters() *Vocabulary {
	var words []string
	for _, r := range "abcxyzäßéжшπλक字語한ㄱ09_- .,;{}" {
		words = append(words, string(r), strings.Repeat(string(r), 3), strings.Repeat(string(r), 9), string(r)+"a", "b"+string(r), string(r)+"9")
	}
	return bytesVocabulary(words)
}

// answerUntil follows an answer of a grammar, the same each time, until it ends with an error or after some tokens.
func answerUntil(m *Matcher, tokens int, each func(mask []uint64)) error {
	mask := make([]uint64, m.e.v.Words())
	for i := range tokens {
		if _, err := m.Mask(mask); err != nil {
			return err
		}
		each(mask)
		id := -1
		for k := range m.e.v.size {
			if at := (k + 37*i) % m.e.v.size; has(mask, at) {
				id = at
				break
			}
		}
		if id < 0 {
			return nil
		}
		if err := m.Accept(int32(id)); err != nil { //nolint:gosec // an id of a small vocabulary
			return err
		}
	}
	return nil
}

// TestS1HostilePatternsAreBounded: what a mask of any pattern takes is bounded in units of work and in bytes as the garbage collector counts
// them, whatever a single derivative holds; the answer ends with an ErrLimit where that is not enough.
func TestS1HostilePatternsAreBounded(t *testing.T) {
	reference.Slow(t)
	v := manyLetters()
	live := func() int64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc) //nolint:gosec // below 2^63
	}
	limits := Limits{Work: 2_000_000, Answer: 8_000_000, Bytes: 8 << 20}
	ended := 0
	for _, p := range hostilePatterns {
		before := live()
		b := NewBuilder(limits)
		g, err := b.Compile(b.Regex(mustParse(t, p)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := g.Matcher(v)
		if err != nil {
			t.Fatal(err)
		}
		last, most := int64(0), int64(0)
		err = answerUntil(m, 200, func([]uint64) {
			most = max(most, m.Taken()-last)
			last = m.Taken()
		})
		if err != nil && !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v", p, err)
		}
		if errors.Is(err, ErrLimit) {
			ended++
		}
		const single = 100_000 // of one call to Spend
		if most = max(most, m.Taken()-last); most > 2*int64(limits.Work+single) {
			t.Errorf("%s: a token took %d units, the limit of a mask is %d", p, most, limits.Work)
		}
		if took := live() - before; took > 2*int64(limits.Bytes) || g.Bytes() < took/2 {
			t.Errorf("%s: %d bytes are live, %d are said, the limit is %d", p, took, g.Bytes(), limits.Bytes)
		}
		runtime.KeepAlive(g)
		runtime.KeepAlive(m)
	}
	if ended == 0 {
		t.Error("no pattern exceeded a limit: nothing was shown")
	}
}

// TestInterruptedMasksAreTheSame: a call that a meter ends in the middle of a derivation changes nothing that is seen, and made again with more
// room it gives what it would have given at once.
func TestInterruptedMasksAreTheSame(t *testing.T) {
	reference.Slow(t)
	v := manyLetters()
	late := 0
	for i, build := range []func(b *Builder) Symbol{
		func(b *Builder) Symbol { return b.Regex(mustParse(t, `(\p{L}{1,5}|[^a-z]{3,7}){2,6}`)) },
		func(b *Builder) Symbol { return b.Regex(mustParse(t, `(.{0,9}a.{1,4}b|[^c]{3,9}c){1,5}`)) },
		func(b *Builder) Symbol {
			return b.Regex(regex.And(mustParse(t, `[a-z0-9 ]{1,40}|.{2,20}`), regex.Without("aab", "x9")))
		},
		arithmetic,
		func(b *Builder) Symbol {
			s := b.Rule("s")
			b.Add(s, []Symbol{s, s}, []Symbol{b.Regex(mustParse(t, `[a-z]{1,3}`))}, []Symbol{b.Token("<end>")}, []Symbol{})
			return s
		},
	} {
		compile := func() *Matcher {
			b := NewBuilder(Limits{})
			g, err := b.Compile(build(b))
			if err != nil {
				t.Fatal(err)
			}
			vocabulary := v
			if i == 4 {
				vocabulary = NewVocabulary(append(slices.Clone(v.pieces), nil), map[string]int32{"<end>": int32(v.size)}) //nolint:gosec // small
			}
			m, err := g.Matcher(vocabulary)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		var want [][]uint64
		if err := answerUntil(compile(), 25, func(mask []uint64) { want = append(want, slices.Clone(mask)) }); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(uint64(i), 7))
		m := compile()
		mask := make([]uint64, m.e.v.Words())
		// again makes a call until it is in time, each time with a little more room.
		again := func(call func() error) error {
			for room := int64(1); ; room += room/4 + int64(r.IntN(200)) {
				meter := &work.Meter{Ask: func() error { return nil }}
				spent := int64(0)
				meter.Ask = func() error {
					if spent += work.Stride; spent > room {
						return work.ErrLate
					}
					return nil
				}
				m.Under(meter)
				if err := call(); !errors.Is(err, work.ErrLate) {
					return err
				}
				late++
			}
		}
		for n := range want {
			if err := again(func() error { _, err := m.Mask(mask); return err }); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(mask, want[n]) {
				t.Fatalf("grammar %d: mask %d differs after interruptions", i, n)
			}
			for k := range m.e.v.size {
				if at := (k + 37*n) % m.e.v.size; has(mask, at) {
					if err := again(func() error { return m.Accept(int32(at)) }); err != nil { //nolint:gosec // small
						t.Fatal(err)
					}
					break
				}
			}
		}
	}
	if late < 100 {
		t.Errorf("%d calls were interrupted: too few to show anything", late)
	}
}

// TestHurriedCallsDoNotWait: a call that cannot wait is late while another goroutine is at work on the same grammar.
func TestHurriedCallsDoNotWait(t *testing.T) {
	b := NewBuilder(Limits{})
	g, err := b.Compile(b.Regex(mustParse(t, hostilePatterns[1])))
	if err != nil {
		t.Fatal(err)
	}
	v := manyLetters()
	slow, err := g.Matcher(v)
	if err != nil {
		t.Fatal(err)
	}
	hurried := slow.Fork()
	hurried.Under(&work.Meter{Hurried: true})
	mask := make([]uint64, v.Words())
	asked := false
	slow.Under(&work.Meter{Ask: func() error { // in the middle of a derivation, with the grammar locked
		if slow.e.mu.TryLock() {
			slow.e.mu.Unlock()
			return nil
		}
		asked = true
		if _, err := hurried.Mask(mask); !errors.Is(err, work.ErrLate) {
			t.Errorf("%v, want an ErrLate", err)
		}
		return errors.New("enough")
	}})
	if _, err := slow.Mask(mask); err == nil || !asked {
		t.Errorf("the derivation was not interrupted: %v", err)
	}
	if _, err := hurried.Mask(mask); err != nil && !errors.Is(err, ErrLimit) {
		t.Errorf("once no call is at work: %v", err)
	}
}
