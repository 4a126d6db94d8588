//go:build !amd64 || purego || noasm

package recurrence

import "weir/engine/kernel/isa"

func deltaRule(_ isa.Level, r *run) {
	r.check()
	deltaRulePortable(r)
}

func scan(_ isa.Level, r *run) {
	r.check()
	scanPortable(r)
}

func deltaOnce(_ isa.Level, o *once) {
	o.check()
	o.deltaPortable()
}

func scanOnce(_ isa.Level, o *once) {
	o.check()
	o.scanPortable()
}

func convolve(_ isa.Level, dst, bias []float32, rows [][]float32, w []float32, stride int) {
	convolvePortable(dst, bias, rows, w, stride)
}
