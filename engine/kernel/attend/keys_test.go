package attend

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/kernel/isa"
)

// biasedSequence has keys whose common part is a hundred times as large as what tells them apart, another one for each
// segment, and channels that are large in keys where they are small in queries. It returns the form that takes both out.
func biasedSequence(r *rand.Rand, kv *KV, length int, q []float32) (*sequence, KeyForm) {
	width := kv.KVHeads * kv.HeadDim
	segments := (length + segmentTokens - 1) / segmentTokens
	form := KeyForm{Centers: randoms(r, segments*width), Scales: make([]float32, width)}
	for i := range form.Centers {
		form.Centers[i] *= 100
	}
	for i := range form.Scales {
		form.Scales[i] = float32(math.Exp2(float64(r.IntN(9) - 4)))
	}
	s := newSequence(r, kv, length, (length+15)/16)
	for i := range s.k {
		s.k[i] = s.k[i]/form.Scales[i%width] + form.Centers[i/(segmentTokens*width)*width+i%width]
	}
	for i := range q { // as many heads of queries as of keys
		q[i] *= form.Scales[i%width]
	}
	return s, form
}

// lastRow is attention of the last position of a sequence that is stored.
func lastRow(c *device, kv *KV, s *sequence, q []float32, length int) []float32 {
	out := make([]float32, len(q))
	c.Attend(Query{Out: out, Q: q, KV: kv, Heads: kv.KVHeads, Scale: 0.1, Spans: []Span{{Count: 1, Start: length - 1, Blocks: s.blocks}}})
	return out
}

func TestKeysInTheirFormAttendAsTheyAre(t *testing.T) {
	const heads, dim = 2, 64
	lengths := []int{1, 17, 512, 513, 1100, centersTogether*segmentTokens + 40}
	if testing.Short() {
		lengths = lengths[:5]
	}
	for _, level := range isa.Levels() {
		c := newDevice(2, level)
		defer c.Close()
		for _, length := range lengths {
			r := rand.New(rand.NewPCG(41, uint64(length)))
			kv := newKV(t, KVQ8, 16, (length+15)/16+1, heads, dim)
			q := randoms(r, heads*dim)
			s, form := biasedSequence(r, kv, length, q)
			want := make([]float32, len(q))
			for h := range heads {
				s.reference(want[h*dim:(h+1)*dim], q[h*dim:(h+1)*dim], h, heads, length, 0.1)
			}
			s.store(c, kv)
			plain := near(lastRow(c, kv, s, q, length), want)
			kv.SetKeyForm(0, form)
			s.store(c, kv)
			formed := near(lastRow(c, kv, s, q, length), want)
			if !(formed < 0.02) || length > 16 && !(plain > 10*formed) {
				t.Errorf("%v, %d tokens: the error is %.4f with centers and scales, and %.4f without", level, length, formed, plain)
			}
		}
	}
}

// Rows have the same bits alone and together, with centers that are joined and without.
func TestRowsInAFormDoNotDependOnTheBatch(t *testing.T) {
	const heads, dim, length = 2, 64, 1060
	for _, level := range isa.Levels() {
		one, three := newDevice(1, level), newDevice(3, level)
		defer one.Close()
		defer three.Close()
		r := rand.New(rand.NewPCG(42, 1))
		kv := newKV(t, KVQ8, 16, (length+15)/16+1, heads, dim)
		q := randoms(r, 40*heads*dim)
		s, form := biasedSequence(r, kv, length, q)
		kv.SetKeyForm(0, form)
		s.store(three, kv)
		for _, start := range []int{490, length - 40} { // from one segment into the next, and behind two
			whole := make([]float32, len(q))
			three.Attend(Query{Out: whole, Q: q, KV: kv, Heads: heads, Scale: 0.1, Spans: []Span{{Count: 40, Start: start, Blocks: s.blocks}}})
			for row := range 40 {
				part := q[row*heads*dim:][:heads*dim]
				for workers, c := range map[int]*device{1: one, 3: three} { // three share the row's segments
					if got := lastRow(c, kv, s, part, start+row+1); !slices.Equal(got, whole[row*heads*dim:][:heads*dim]) {
						t.Fatalf("%v: position %d has other bits alone, computed by %d, than beside others", level, start+row, workers)
					}
				}
			}
		}
	}
}

// Stores that do not round keep keys as they are, and layers without a form, too.
func TestOnlyRoundedKeysHaveAForm(t *testing.T) {
	for _, typ := range kvTypes {
		kv := newKV(t, typ, 16, 2, 1, 32)
		if form := kv.form(0); form.centers != nil || form.scales != nil {
			t.Errorf("%v: a form that was not set", typ)
		}
		kv.SetKeyForm(0, KeyForm{Centers: make([]float32, 32), Scales: slices.Repeat([]float32{2}, 32)})
		form := kv.form(0)
		if got := form.scales != nil && form.centers != nil; got != typ.rounds() {
			t.Errorf("%v: has a form: %v", typ, got)
		}
		if a, b := typ.Layout(), KVF16.Layout(); (a == b) != (typ == KVF16) {
			t.Errorf("%v: layout %q beside %q", typ, a, b)
		}
	}
}
