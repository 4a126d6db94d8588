package onnx

// The cells of recurrent networks, whose functions are the activations of a node in
// its order. Gates lie one after the other, each of the hidden size.

// lstm has the gates i, o, f and c.
type lstm struct {
	functions []func(x float32) float32
	clip      float64
	coupled   bool // the forget gate is what the input gate leaves
}

func (l *lstm) biased(to, bias []float32) { addTo(to, bias[:len(to)], bias[len(to):]) }

func (l *lstm) step(w *cellWeights, x, h, c, work []float32) {
	vectorProducts(work, h, w.states)
	l.advance(w, x, h, c, work)
}

// advance is step once work has the products of the state.
func (l *lstm) advance(w *cellWeights, x, h, c, work []float32) {
	n := len(h)
	for i := range n {
		in, out, forget, cell := x[i]+work[i], x[n+i]+work[n+i], x[2*n+i]+work[2*n+i], x[3*n+i]+work[3*n+i]
		if w.peepholes != nil {
			in += w.peepholes[i] * c[i]
			forget += w.peepholes[2*n+i] * c[i]
		}
		in = l.functions[0](clipped(in, l.clip))
		if l.coupled {
			forget = 1 - in
		} else {
			forget = l.functions[0](clipped(forget, l.clip))
		}
		c[i] = forget*c[i] + in*l.functions[1](clipped(cell, l.clip))
		if w.peepholes != nil {
			out += w.peepholes[n+i] * c[i]
		}
		work[i] = l.functions[0](clipped(out, l.clip))
	}
	for i := range n { // all of h is read before it changes
		h[i] = work[i] * l.functions[2](c[i])
	}
}

// gru has the gates z, r and h.
type gru struct {
	functions []func(x float32) float32
	clip      float64
	linear    bool // the reset gate is applied after the product
}

// biased leaves the state's bias of the last gate to the step, which multiplies it where linear is set.
func (g *gru) biased(to, bias []float32) {
	n := len(to) / 3
	addTo(to[:2*n], bias[:2*n], bias[3*n:5*n])
	last := to[2*n:]
	for i := range last {
		last[i] += bias[2*n+i]
		if !g.linear {
			last[i] += bias[5*n+i]
		}
	}
}

func (g *gru) step(w *cellWeights, x, h, _, work []float32) {
	n := len(h)
	vectorProducts(work, h, w.states)
	reset := work[n : 2*n]
	for i := range n {
		work[i] = g.functions[0](clipped(x[i]+work[i], g.clip)) // the update gate
		reset[i] = g.functions[0](clipped(x[n+i]+reset[i], g.clip))
	}
	last := work[2*n:]
	if g.linear {
		for i := range n {
			product := last[i]
			if w.bias != nil {
				product += w.bias[5*n+i]
			}
			last[i] = reset[i] * product
		}
	} else {
		g.resetFirst(w, reset, h, last)
	}
	for i := range n {
		candidate := g.functions[1](clipped(x[2*n+i]+last[i], g.clip))
		h[i] = (1-work[i])*candidate + work[i]*h[i]
	}
}

// resetFirst computes the product of the reset state with the last gate's weights.
func (g *gru) resetFirst(w *cellWeights, reset, h, to []float32) {
	n := len(h)
	clear(to)
	for j := range n {
		a := reset[j] * h[j]
		for i, b := range w.states[j*3*n+2*n : (j+1)*3*n] {
			to[i] = fused(a, b, to[i])
		}
	}
}

// rnn has one gate.
type rnn struct {
	functions []func(x float32) float32
	clip      float64
}

func (r *rnn) biased(to, bias []float32) { addTo(to, bias[:len(to)], bias[len(to):]) }

func (r *rnn) step(w *cellWeights, x, h, _, work []float32) {
	vectorProducts(work, h, w.states)
	for i := range h {
		h[i] = r.functions[0](clipped(x[i]+work[i], r.clip))
	}
}

func addTo(to, a, b []float32) {
	for i := range to {
		to[i] += a[i] + b[i]
	}
}

// clipped bounds x by what clip says; 0 bounds nothing.
func clipped(x float32, clip float64) float32 {
	if clip == 0 {
		return x
	}
	return clamped(x, -float32(clip), float32(clip))
}
