package onnx

import (
	"fmt"

	"weir/internal/tensor"
)

// The attentions that ONNX Runtime's optimizer makes of those that exporters write out
// in products and softmax.

// multiHead is MultiHeadAttention: queries, keys and values of all heads, a bias that is
// added to them, and masks.
func multiHead(n *node) (kernel, error) {
	if err := n.takes(3, 8); err != nil {
		return nil, err
	}
	a, count, filter, err := fusedAttention(&n.attributeReader)
	if err != nil {
		return nil, err
	}
	for i := range n.in {
		want := tensor.Float32
		if i == 4 {
			want = tensor.Int32
		}
		if n.has(i) && n.typ(i) != want {
			return nil, fmt.Errorf("input %d is %v; %v is expected", i, n.typ(i), want)
		}
	}
	for i := range n.types {
		n.types[i] = tensor.Float32
	}
	return func(c *call) error {
		s := attended{attending: a}
		for i, to := range map[int]*heads{0: &s.q, 1: &s.k, 2: &s.v, 6: &s.pastK, 7: &s.pastV} {
			if c.in(i) == nil {
				continue
			}
			var err error
			if *to, err = headsOf(c.in(i), count); err != nil {
				return fmt.Errorf("input %d: %w", i, err)
			}
		}
		if t := c.in(3); t != nil {
			bias := tensor.Values[float32](t)
			for _, part := range []*heads{&s.q, &s.k, &s.v} {
				width := part.count * part.size
				if len(bias) < width || !part.together {
					return fmt.Errorf("a bias of shape %v does not fit", t.Shape)
				}
				part.add(bias[:width])
				bias = bias[width:]
			}
		}
		if err := s.check(); err != nil {
			return err
		}
		if err := s.fusedMasks(c.in(4), c.in(5), filter); err != nil {
			return err
		}
		return s.run(c, 1, 0)
	}, nil
}

// fusedAttention reads what both operators say, the number of heads, and the number
// that is added to masked scores.
func fusedAttention(r *attributeReader) (a attending, count int64, filter float32, err error) {
	a = attending{scale: r.float("scale", 0), causal: r.integer("unidirectional", 0) != 0, left: -1, right: -1, mode: -1}
	count, filter = r.integer("num_heads", 0), r.float("mask_filter_value", -10000)
	if count < 1 {
		err = fmt.Errorf("num_heads is %d", count)
	}
	return a, count, filter, err
}

// add adds a row to every step, in a copy.
func (h *heads) add(bias []float32) {
	to := make([]float32, len(h.data))
	for i, x := range h.data {
		to[i] = x + bias[i%len(bias)]
	}
	h.data = to
}

// fusedMasks reads a mask of keys, of whole numbers, and a bias of the scores.
func (s *attended) fusedMasks(keys, bias *tensor.Tensor, filter float32) error {
	var add func(b, head, query int, to []float32)
	if bias != nil {
		var err error
		if add, err = s.masked(bias); err != nil {
			return err
		}
		if bias.Shape[len(bias.Shape)-1] != int64(s.total()) {
			return fmt.Errorf("a bias of shape %v for %d keys", bias.Shape, s.total())
		}
	}
	if keys == nil {
		s.mask = add
		return nil
	}
	batch, total, queries := int64(s.q.batch), int64(s.total()), int64(s.q.steps)
	values, shape := tensor.Values[int32](keys), keys.Shape
	var open func(b, query, key int) bool
	switch {
	case len(shape) == 1 && shape[0] == batch: // how many keys count
		open = func(b, _, key int) bool { return key < int(values[b]) }
	case len(shape) == 2 && shape[0] == batch && shape[1] == total:
		open = func(b, _, key int) bool { return values[b*int(total)+key] != 0 }
	case len(shape) == 3 && shape[0] == batch && shape[1] == queries && shape[2] == total:
		open = func(b, query, key int) bool { return values[(b*int(queries)+query)*int(total)+key] != 0 }
	default:
		return fmt.Errorf("a mask of shape %v for %d batches of %d queries and %d keys is not supported; %s", shape, batch, queries, total, wayOut)
	}
	s.mask = func(b, head, query int, to []float32) {
		if add != nil {
			add(b, head, query, to)
		}
		for key := range to {
			if !open(b, query, key) {
				to[key] += filter
			}
		}
	}
	return nil
}

// packedAttention is Attention of ONNX Runtime: the product with the weights of queries,
// keys and values first.
func packedAttention(n *node) (kernel, error) {
	if err := n.takes(3, 7); err != nil {
		return nil, err
	}
	a, count, filter, err := fusedAttention(&n.attributeReader)
	if err != nil {
		return nil, err
	}
	sizes := n.integers("qkv_hidden_sizes")
	if n.integer("do_rotary", 0) != 0 || n.has(4) || n.has(6) || sizes != nil && len(sizes) != 3 || len(n.outputs) > 1 {
		return nil, fmt.Errorf("with rotation or keys of the past is not supported; %s", wayOut)
	}
	n.ignore("past_present_share_buffer", "rotary_embedding_dim")
	for i, want := range []tensor.Type{tensor.Float32, tensor.Float32, tensor.Float32, tensor.Int32, tensor.Invalid, tensor.Float32} {
		if n.has(i) && n.typ(i) != want {
			return nil, fmt.Errorf("input %d is %v; %v is expected", i, n.typ(i), want)
		}
	}
	n.gives(tensor.Float32)
	return func(c *call) error {
		x, w, bias := c.in(0), c.in(1), tensor.Values[float32](c.in(2))
		if len(x.Shape) != 3 || len(w.Shape) != 2 || w.Shape[0] != x.Shape[2] || int64(len(bias)) != w.Shape[1] {
			return fmt.Errorf("weights of shape %v and a bias of %d for an input of shape %v", w.Shape, len(bias), x.Shape)
		}
		width := int(w.Shape[1])
		of := []int64{w.Shape[1] / 3, w.Shape[1] / 3, w.Shape[1] / 3}
		if sizes != nil {
			of = sizes
		}
		rows, err := tensor.Elements([]int64{x.Shape[0], x.Shape[1], w.Shape[1]}, c.f.budget/4)
		if err != nil || width == 0 || min(of[0], of[1], of[2]) < 0 || of[0]+of[1]+of[2] != w.Shape[1] {
			return fmt.Errorf("weights of shape %v for an input of shape %v", w.Shape, x.Shape)
		}
		if err := c.f.charge(rows / 4 * x.Shape[2]); err != nil {
			return err
		}
		all := make([]float32, rows)
		multiply32(all, tensor.Values[float32](x), tensor.Values[float32](w), int(x.Shape[0]*x.Shape[1]), int(x.Shape[2]), width)
		s, from := attended{attending: a}, 0
		for i, to := range []*heads{&s.q, &s.k, &s.v} {
			part := tensor.Of("", tensor.Float32, []int64{x.Shape[0], x.Shape[1], of[i]}, columnsOf(all, width, from, int(of[i])))
			if *to, err = headsOf(&part, count); err != nil {
				return err
			}
			if of[i] > 0 {
				to.add(bias[from : from+int(of[i])])
			}
			from += int(of[i])
		}
		if err := s.check(); err != nil {
			return err
		}
		if err := s.fusedMasks(c.in(3), c.in(5), filter); err != nil {
			return err
		}
		return s.run(c, 1, 0)
	}, nil
}

// columnsOf are those of a matrix from one on.
func columnsOf(x []float32, width, from, n int) []float32 {
	to := make([]float32, 0, len(x)/max(1, width)*n)
	for at := 0; at < len(x); at += width {
		to = append(to, x[at+from:at+from+n]...)
	}
	return to
}
