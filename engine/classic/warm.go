package classic

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"weir/internal/tensor"
)

const (
	// probeRows is how many rows tell whether rows are independent of each other.
	probeRows = 64
	// warmTime is about how long the measurement of a version's cost takes.
	warmTime = 20 * time.Millisecond
)

// warm finds out what a version is served by: whether its rows may be computed together
// and apart, and what they cost. rows are the golden ones, nil where there are none.
// Nothing is found of a model that takes neither them nor made-up rows: its requests
// are computed one by one, and their cost is learned from them. A model of which one row takes
// seconds is computed apart.
func (v *Version) warm(rows []tensor.Tensor) {
	in := v.sample(rows)
	if s, ok := v.model.(stoppable); ok && in == nil && v.apart == nil && s.tryLeast() {
		v.apart = s
	}
	if v.apart != nil || in == nil {
		v.separable = false
		return
	}
	if v.separable {
		v.separable = v.independent(in)
	}
	sizes := []int{1, 8, probeRows, 512}
	if !v.separable {
		sizes = []int{int(max(in[0].Rows(), 1))}
	}
	end := time.Now().Add(warmTime)
	for _, n := range sizes {
		v.measure(in, n, end)
	}
}

// sample is rows that the model computes: golden ones repeated, or made-up ones; nil where it
// fails for both.
func (v *Version) sample(golden []tensor.Tensor) []tensor.Tensor {
	if v.apart != nil {
		return nil
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // any values will do, the same each time
	for _, given := range [][]tensor.Tensor{golden, v.invent(probeRows, random)} {
		if given == nil {
			continue
		}
		in, _, err := v.model.accept(given)
		if err != nil {
			continue
		}
		if s, ok := v.model.(stoppable); ok && v.isTooMuch(s, in) {
			v.separable = false
			if in[0].Rows() < 2 || v.isTooMuch(s, parts(in, 0, 1)) {
				v.apart = s
				return nil
			}
			return parts(in, 0, 1)
		}
		if _, err := v.compute(in); err == nil {
			if v.separable {
				in = repeat(in, probeRows)
			}
			return in
		}
	}
	return nil
}

// isTooMuch reports whether a model takes seconds for some rows.
func (v *Version) isTooMuch(s stoppable, in []tensor.Tensor) (is bool) {
	defer func() { _ = recover() }() // compute tells of it
	_, is, _ = s.try(in)
	return is
}

// repeat makes so many rows of some.
func repeat(in []tensor.Tensor, rows int) []tensor.Tensor {
	have := int(in[0].Rows())
	if have == 0 {
		return nil
	}
	var sets [][]tensor.Tensor
	for n := 0; n < rows; n += have {
		sets = append(sets, in)
	}
	return parts(join(sets), 0, rows)
}

// invent makes up inputs; nil where the specification leaves open what they look like.
func (v *Version) invent(rows int, r *rand.Rand) []tensor.Tensor {
	list := make([]tensor.Tensor, len(v.desc.Inputs))
	for i := range v.desc.Inputs {
		spec := &v.desc.Inputs[i]
		shape := slices.Clone(spec.Shape)
		for d := range shape {
			if shape[d] == tensor.Any {
				if d > 0 || !v.model.batches() {
					return nil
				}
				shape[d] = int64(rows)
			}
		}
		n, err := tensor.Elements(shape, 1<<24)
		if err != nil {
			return nil
		}
		t := tensor.Tensor{Name: spec.Name, Type: spec.Type, Shape: shape}
		switch spec.Type {
		case tensor.Float32:
			t = tensor.Of(spec.Name, spec.Type, shape, randoms(n, func() float32 { return float32(r.NormFloat64() * 3) }))
		case tensor.Float64:
			t = tensor.Of(spec.Name, spec.Type, shape, randoms(n, func() float64 { return r.NormFloat64() * 3 }))
		case tensor.Bytes:
			t.Strings = make([][]byte, n)
			for k := range t.Strings {
				t.Strings[k] = []byte("a")
			}
		default:
			t.Data = make([]byte, n*int64(spec.Type.Size())) // zeros are the integers that most models know
		}
		list[i] = t
	}
	return list
}

func randoms[T any](n int64, next func() T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = next()
	}
	return list
}

// independent reports whether rows have the same outputs, bit for bit, computed all
// together, in pieces, and alone.
func (v *Version) independent(in []tensor.Tensor) bool {
	all, err := v.compute(in)
	if err != nil || checkRows(all, probeRows) != nil {
		return false
	}
	for _, piece := range []int{1, 7, probeRows / 2} {
		for from := 0; from < probeRows; from += piece {
			to := min(from+piece, probeRows)
			out, err := v.compute(parts(in, from, to))
			if err != nil || checkRows(out, to-from) != nil || !same(out, parts(all, from, to)) {
				return false
			}
		}
	}
	return true
}

// same reports whether tensors have the same bits.
func same(a, b []tensor.Tensor) bool {
	return slices.EqualFunc(a, b, func(x, y tensor.Tensor) bool {
		return bytes.Equal(x.Data, y.Data) && slices.EqualFunc(x.Strings, y.Strings, bytes.Equal)
	})
}

// measure observes the least time of some runs of n rows: other rows each time, as
// requests have them.
func (v *Version) measure(in []tensor.Tensor, n int, end time.Time) {
	have := int(max(in[0].Rows(), 1))
	if v.separable && n > have {
		in = repeat(in, n)
		have = n
	}
	const runs = 16
	least := time.Duration(math.MaxInt64)
	for i := range runs {
		some := in
		if v.separable && n < have {
			from := i * n % (have - n + 1)
			some = parts(in, from, from+n)
		}
		begin := time.Now()
		if _, err := v.compute(some); err != nil {
			return
		}
		least = min(least, time.Since(begin))
		if time.Now().After(end) && i > 0 {
			break
		}
	}
	v.observe(n, least)
}
