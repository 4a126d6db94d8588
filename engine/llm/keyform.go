package llm

import (
	"math"

	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
)

// formKeys tells the store how to keep keys of a layer whose keys and queries have a bias, or a norm with a weight: less
// the bias, and with channels of keys as large as those of queries. All of it is read from the weights, so that
// a file has one form everywhere. r turns the layer's keys, nil: nothing does; length is the longest sequence.
func (a *attention) formKeys(c *kernel.CPU, pages *attend.Pages, r *rope, length int) {
	if a.readsFrom != ownKeys {
		return
	}
	kv := pages.Table(a.table)
	switch {
	case a.headNorm:
		k, q := squares(a.kNorm.Weight), squares(a.qNorm.Weight)
		if k != nil && q != nil {
			kv.SetKeyForm(a.slot, attend.KeyForm{Scales: a.balance(r, repeat(k, a.kvHeads), repeat(q, a.heads))})
		}
	case a.rowNorm.norm != absent && a.kNorm.Weight != nil && a.qNorm.Weight != nil:
		kv.SetKeyForm(a.slot, attend.KeyForm{Scales: a.balance(r, squares(a.kNorm.Weight), squares(a.qNorm.Weight))})
	case a.k.bias != nil && a.q.bias != nil && a.kNorm.Weight == nil:
		k, q := rowEnergies(c, &a.k, a.norms.before.Weight), rowEnergies(c, &a.q, a.norms.before.Weight)
		for j, b := range squares(a.q.bias) {
			q[j] += b
		}
		a.addRemainder(r, k)
		kv.SetKeyForm(a.slot, attend.KeyForm{Centers: a.centers(r, length), Scales: a.balance(r, k, q)})
	}
}

// squares are those of x, nil of nil.
func squares(x []float32) (list []float64) {
	for _, v := range x {
		list = append(list, float64(v)*float64(v))
	}
	return list
}

// repeat is x for each of so many heads.
func repeat(x []float64, heads int) (list []float64) {
	for range heads {
		list = append(list, x...)
	}
	return list
}

// rowEnergies are the mean squares of a matrix's results, without its bias: of inputs whose mean square is one before
// they meet the norm's weight.
func rowEnergies(c *kernel.CPU, l *linear, norm []float32) []float64 {
	j := &energyJob{l: l, norm: norm, energy: make([]float64, l.w.Rows), scratch: make([][]float32, c.Threads())}
	for i := range j.scratch {
		j.scratch[i] = make([]float32, l.w.Cols)
	}
	c.Run(j, l.w.Rows, 16)
	return j.energy
}

type energyJob struct {
	l       *linear
	norm    []float32 // nil: ones
	energy  []float64
	scratch [][]float32
}

// Do computes one row's.
func (j *energyJob) Do(worker, row int) {
	x, sum := j.scratch[worker], 0.0
	j.l.w.DecodeRow(x, row)
	for i, v := range x {
		f := float64(v)
		if j.norm != nil {
			f *= float64(j.norm[i])
		}
		sum += f * f
	}
	j.energy[row] = sum
}

// turned is how much of a bias of pair i is left in the mean of a segment, whose positions turn it.
func (r *rope) turned(i int) float64 {
	u := r.freq[i] * attend.SegmentTokens / 2
	if u == 0 {
		return 1
	}
	return math.Sin(u) / u
}

// addRemainder adds to the energies of keys what centers leave of the bias.
func (a *attention) addRemainder(r *rope, energy []float64) {
	if r == nil {
		return
	}
	for h := 0; h < len(energy); h += a.headDim {
		for i := range r.half {
			x, y := r.pair(i)
			bx, by, mean := float64(a.k.bias[h+x]), float64(a.k.bias[h+y]), r.turned(i)
			left := (bx*bx + by*by) * (1 - mean*mean) / 2
			energy[h+x] += left
			energy[h+y] += left
		}
	}
}

// centers are the mean biases of keys in each segment of a sequence, as positions turn them: [segments][kvHeads*headDim].
func (a *attention) centers(r *rope, length int) []float32 {
	if r == nil {
		return a.k.bias
	}
	segments := (length + attend.SegmentTokens - 1) / attend.SegmentTokens
	by := vector.Rotation{
		Style: r.style, Heads: a.kvHeads, HeadDim: a.headDim, Half: r.half,
		Cos: make([]float32, segments*r.half), Sin: make([]float32, segments*r.half),
	}
	var list []float32
	for s := range segments {
		cos, sin := by.Cos[s*r.half:][:r.half], by.Sin[s*r.half:][:r.half]
		r.angles(cos, sin, s*attend.SegmentTokens+attend.SegmentTokens/2)
		for i := range r.half {
			mean := float32(r.turned(i))
			cos[i], sin[i] = cos[i]*mean, sin[i]*mean
		}
		list = append(list, a.k.bias...)
		by.Rope(isa.Portable, list, s)
	}
	return list
}

// mostBalance is the largest exponent of a scale.
const mostBalance = 8

// balance chooses what channels of keys, of mean squares k, are to be multiplied with so that they are as large as those of queries, q,
// up to one factor of the head: powers of two, the same for both of a rotated pair. nil: nothing.
func (a *attention) balance(r *rope, k, q []float64) []float32 {
	scales, group, some := make([]float32, len(k)), a.heads/a.kvHeads, false
	for h := range a.kvHeads {
		keys, queries := k[h*a.headDim:][:a.headDim], make([]float64, a.headDim)
		for i, e := range q[h*group*a.headDim:][:group*a.headDim] {
			queries[i%a.headDim] += e
		}
		if r != nil {
			r.share(keys)
			r.share(queries)
		}
		whole := ratio(sum(queries), sum(keys))
		for i := range keys {
			n := max(-mostBalance, min(mostBalance, math.Round(ratio(queries[i], keys[i])-whole)))
			scales[h*a.headDim+i] = float32(math.Exp2(n))
			some = some || n != 0
		}
	}
	if !some {
		return nil
	}
	return scales
}

// ratio is the exponent of the scale that makes b, a mean square, equal to a where a is divided by it; 0 where either is nothing.
func ratio(a, b float64) float64 {
	if !(a > 0 && b > 0) {
		return 0
	}
	return math.Log2(a/b) / 4
}

func sum(x []float64) (total float64) {
	for _, v := range x {
		total += v
	}
	return total
}

// pair is which values of a head make pair i.
func (r *rope) pair(i int) (x, y int) {
	if r.style == vector.RopeNorm {
		return 2 * i, 2*i + 1
	}
	return i, i + r.half
}

// share gives both of a pair the mean of the two.
func (r *rope) share(x []float64) {
	for i := range r.half {
		a, b := r.pair(i)
		mean := (x[a] + x[b]) / 2
		x[a], x[b] = mean, mean
	}
}
