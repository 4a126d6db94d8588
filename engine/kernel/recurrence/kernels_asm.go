//go:build amd64 && !purego && !noasm

package recurrence

import "weir/engine/kernel/isa"

func deltaRule(level isa.Level, r *run) {
	r.check()
	switch level {
	case isa.AVX512:
		deltaRuleAVX512(&r.state[0], &r.k[0], &r.q[0], &r.v[0], &r.out[0], &r.decay[0], &r.gain[0], r.rows(), r.dim, r.stride, r.beside, r.across, r.skip)
	case isa.AVX2:
		deltaRuleAVX2(&r.state[0], &r.k[0], &r.q[0], &r.v[0], &r.out[0], &r.decay[0], &r.gain[0], r.rows(), r.dim, r.stride, r.beside, r.across, r.skip)
	default:
		deltaRulePortable(r)
	}
}

func scan(level isa.Level, r *run) {
	r.check()
	switch level {
	case isa.AVX512:
		scanAVX512(&r.state[0], &r.k[0], &r.q[0], &r.v[0], &r.out[0], &r.decay[0], &r.gain[0], r.rows(), r.dim, r.stride, r.beside, r.across, r.skip)
	case isa.AVX2:
		scanAVX2(&r.state[0], &r.k[0], &r.q[0], &r.v[0], &r.out[0], &r.decay[0], &r.gain[0], r.rows(), r.dim, r.stride, r.beside, r.across, r.skip)
	default:
		scanPortable(r)
	}
}

func deltaOnce(level isa.Level, o *once) {
	o.check()
	switch level {
	case isa.AVX512:
		deltaOnceAVX512(&o.from[0], &o.state[0], &o.k[0], &o.q[0], &o.v[0], &o.out[0], &o.decay[0], &o.gain[0], o.dim, o.tiles(), o.skip)
	case isa.AVX2:
		deltaOnceAVX2(&o.from[0], &o.state[0], &o.k[0], &o.q[0], &o.v[0], &o.out[0], &o.decay[0], &o.gain[0], o.dim, o.tiles(), o.skip)
	default:
		o.deltaPortable()
	}
}

func scanOnce(level isa.Level, o *once) {
	o.check()
	switch level {
	case isa.AVX512:
		scanOnceAVX512(&o.from[0], &o.state[0], &o.k[0], &o.q[0], &o.v[0], &o.out[0], &o.decay[0], &o.gain[0], o.dim, o.tiles(), o.skip)
	case isa.AVX2:
		scanOnceAVX2(&o.from[0], &o.state[0], &o.k[0], &o.q[0], &o.v[0], &o.out[0], &o.decay[0], &o.gain[0], o.dim, o.tiles(), o.skip)
	default:
		o.scanPortable()
	}
}

func convolve(level isa.Level, dst, bias []float32, rows [][]float32, w []float32, stride int) {
	n := len(dst)
	if n == 0 {
		return
	}
	var first [mostTaps]*float32
	_, _ = bias[n-1], w[(len(rows)-1)*stride+n-1]
	for t, row := range rows {
		_ = row[n-1]
		first[t] = &row[0]
	}
	switch level {
	case isa.AVX512:
		convolveAVX512(dst, &bias[0], &first[0], &w[0], stride, len(rows))
	case isa.AVX2:
		convolveAVX2(dst, &bias[0], &first[0], &w[0], stride, len(rows))
	default:
		convolvePortable(dst, bias, rows, w, stride)
	}
}
