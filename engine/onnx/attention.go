package onnx

import (
	"fmt"
	"math"

	"weir/internal/tensor"
)

// attention is scaled dot product attention of ONNX's own domain, in float32, with
// groups of query heads for each key head, masks, and keys and values of the past.
func attention(n *node) (kernel, error) {
	if err := n.takes(3, 7); err != nil {
		return nil, err
	}
	if err := attentionTypes(&n.operands, 3); err != nil {
		return nil, err
	}
	a := attending{
		scale: n.float("scale", 0), softcap: n.float("softcap", 0), causal: n.integer("is_causal", 0) != 0, mode: n.integer("qk_matmul_output_mode", 0),
		left: n.integer("left_window_size", -1), right: n.integer("right_window_size", -1),
	}
	n.ignore("softmax_precision") // sums are float64
	queries, keys := n.integer("q_num_heads", 0), n.integer("kv_num_heads", 0)
	if n.has(6) {
		if err := n.oneOf(6, tensor.Int64); err != nil {
			return nil, err
		}
	}
	for i := range n.types {
		n.types[i] = tensor.Float32
	}
	return func(c *call) error {
		s := attended{attending: a}
		var err error
		for i, part := range []struct {
			to    *heads
			count int64
		}{{&s.q, queries}, {&s.k, keys}, {&s.v, keys}, {}, {&s.pastK, 0}, {&s.pastV, 0}} {
			if part.to != nil && c.in(i) != nil {
				if *part.to, err = headsOf(c.in(i), part.count); err != nil {
					return fmt.Errorf("input %d: %w", i, err)
				}
			}
		}
		if c.in(6) != nil {
			s.lengths = tensor.Values[int64](c.in(6))
		}
		if err := s.check(); err != nil {
			return err
		}
		if t := c.in(3); t != nil {
			if s.mask, err = s.masked(t); err != nil {
				return err
			}
		}
		return s.run(c, 1, 3)
	}, nil
}

// attentionTypes checks the inputs: input mask may be Bool.
func attentionTypes(o *operands, mask int) error {
	for i := range min(6, len(o.in)) {
		switch {
		case !o.has(i):
		case i == mask:
			if err := o.oneOf(i, tensor.Float32, tensor.Bool); err != nil {
				return err
			}
		default:
			if err := o.oneOf(i, tensor.Float32); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxHeads bounds each size of an attention: their products fit an int.
const maxHeads = 1 << 20

// heads are rows of size elements, one for each step of each head.
type heads struct {
	data                      []float32
	batch, count, steps, size int
	together                  bool // the heads of a step lie side by side
}

// headsOf reads [batch, heads, steps, size], or [batch, steps, heads*size] of count heads.
func headsOf(t *tensor.Tensor, count int64) (heads, error) {
	s := t.Shape
	data := tensor.Values[float32](t)
	switch {
	case len(s) == 4:
		return heads{data, int(s[0]), int(s[1]), int(s[2]), int(s[3]), false}, nil
	case len(s) == 3 && count > 0 && s[2]%count == 0:
		return heads{data, int(s[0]), int(count), int(s[1]), int(s[2] / count), true}, nil
	}
	return heads{}, fmt.Errorf("shape %v in %d heads", s, count)
}

// row is that of a step of a head.
func (h *heads) row(b, head, step int) []float32 {
	at := (b*h.count+head)*h.steps + step
	if h.together {
		at = (b*h.steps+step)*h.count + head
	}
	return h.data[at*h.size : (at+1)*h.size]
}

// attending is what a node says of its attention.
type attending struct {
	scale       float32 // 0: one over the root of the size
	softcap     float32 // 0: none
	causal      bool
	left, right int64 // how far a query sees; below zero: everything
	mode        int64 // what the output of scores has
}

// attended is one attention over heads of known shapes.
type attended struct {
	attending
	q, k, v, pastK, pastV heads
	lengths               []int64                                // keys that count, by batch; nil: all
	mask                  func(b, head, query int, to []float32) // adds to the scores of a query; nil: nothing
}

// total is how many keys there are.
func (s *attended) total() int { return s.pastK.steps + s.k.steps }

func (s *attended) check() error {
	q, k, v := &s.q, &s.k, &s.v
	for _, h := range []*heads{q, k, v, &s.pastK, &s.pastV} {
		if h.data != nil && h.size == 0 || max(h.batch, h.count, h.steps, h.size) > maxHeads {
			return fmt.Errorf("%d batches of %d heads of %d steps of size %d", h.batch, h.count, h.steps, h.size)
		}
	}
	if q.batch != k.batch || k.batch != v.batch || k.count != v.count || k.steps != v.steps || q.size != k.size || k.count == 0 || q.count%k.count != 0 {
		return fmt.Errorf("%d batches of %d heads of %d queries of size %d meet %d of %d heads of %d keys of size %d, and %d of %d heads of %d values",
			q.batch, q.count, q.steps, q.size, k.batch, k.count, k.steps, k.size, v.batch, v.count, v.steps)
	}
	if (s.pastK.data == nil) != (s.pastV.data == nil) || s.pastK.steps != s.pastV.steps {
		return fmt.Errorf("%d keys and %d values of the past", s.pastK.steps, s.pastV.steps)
	}
	for _, past := range []struct{ old, new *heads }{{&s.pastK, k}, {&s.pastV, v}} {
		if past.old.data != nil && (past.old.batch != k.batch || past.old.count != k.count || past.old.size != past.new.size) {
			return fmt.Errorf("%d batches of %d heads of size %d of the past", past.old.batch, past.old.count, past.old.size)
		}
	}
	if s.lengths != nil && len(s.lengths) != q.batch {
		return fmt.Errorf("%d lengths for %d batches", len(s.lengths), q.batch)
	}
	return nil
}

// masked reads a mask that broadcasts to [batch, heads, queries, keys]; keys that it
// does not have are masked.
func (s *attended) masked(t *tensor.Tensor) (func(b, head, query int, to []float32), error) {
	rank := len(t.Shape)
	if rank < 1 || rank > 4 {
		return nil, fmt.Errorf("a mask of shape %v", t.Shape)
	}
	strides := stretched(t.Shape, 4)
	for d, size := range []int{s.q.batch, s.q.count, s.q.steps} {
		if at := d - 4 + rank; at >= 0 && t.Shape[at] != 1 && t.Shape[at] != int64(size) {
			return nil, fmt.Errorf("a mask of shape %v for %d batches of %d heads of %d queries", t.Shape, s.q.batch, s.q.count, s.q.steps)
		}
	}
	width := int(t.Shape[rank-1])
	if width > s.total() {
		return nil, fmt.Errorf("a mask of shape %v for %d keys", t.Shape, s.total())
	}
	minus := float32(math.Inf(-1))
	return func(b, head, query int, to []float32) {
		at := b*strides[0] + head*strides[1] + query*strides[2]
		for i := range to {
			switch {
			case i >= width:
				to[i] = minus
			case t.Type == tensor.Bool:
				if t.Data[at+i] == 0 {
					to[i] = minus
				}
			default:
				to[i] += tensor.Values[float32](t)[at+i]
			}
		}
	}, nil
}

// run computes the output, and those of all keys and values from output present on, and
// of scores at output scores, where the node names them.
func (s *attended) run(c *call, present, scores int) error {
	out, err := s.output(c)
	if err != nil {
		return err
	}
	for i, part := range []struct{ old, new *heads }{{&s.pastK, &s.k}, {&s.pastV, &s.v}} {
		if err := joined(c, present+i, part.old, part.new); err != nil {
			return err
		}
	}
	var seen []float32
	total, size, width := s.total(), s.q.size, s.v.size
	if scores > 0 && c.wants(scores) {
		t, err := c.out(scores, int64(s.q.batch), int64(s.q.count), int64(s.q.steps), int64(total))
		if err != nil {
			return err
		}
		seen = tensor.Values[float32](t)
	}
	if len(out.data) == 0 {
		return nil
	}
	work := int64(s.q.batch) * int64(s.q.count) * int64(s.q.steps) * int64(total)
	if err := c.f.charge(work / 4 * int64(size+width)); err != nil {
		return err
	}
	memory, err := scratch[float32](c, total*(size+width+2)+size)
	if err != nil {
		return err
	}
	w := attentionMemory{keys: memory[:total*size], values: memory[total*size : total*(size+width)]}
	memory = memory[total*(size+width):]
	w.scores, w.bias, w.query = memory[:total], memory[total:2*total], memory[2*total:]
	group := s.q.count / s.k.count
	for b := range s.q.batch {
		for kv := range s.k.count {
			s.gather(&w, b, kv)
			for head := kv * group; head < (kv+1)*group; head++ {
				for i := range s.q.steps {
					if seen != nil {
						at := ((b*s.q.count+head)*s.q.steps + i) * total
						w.seen = seen[at : at+total]
					}
					s.query(&w, b, head, i, out.row(b, head, i))
				}
			}
		}
	}
	return nil
}

// attentionMemory is what a head is computed in.
type attentionMemory struct {
	keys   []float32 // [size, total]
	values []float32 // [total, size of a value]
	scores []float32 // of a query
	bias   []float32
	query  []float32
	seen   []float32 // the query's part of the output of scores; nil: none
}

// output makes output 0, as the queries are laid out.
func (s *attended) output(c *call) (*heads, error) {
	shape := []int64{int64(s.q.batch), int64(s.q.count), int64(s.q.steps), int64(s.v.size)}
	if s.q.together {
		shape = []int64{int64(s.q.batch), int64(s.q.steps), int64(s.q.count * s.v.size)}
	}
	t, err := c.out(0, shape...)
	if err != nil {
		return nil, err
	}
	return &heads{tensor.Values[float32](t), s.q.batch, s.q.count, s.q.steps, s.v.size, s.q.together}, nil
}

// joined writes the rows of the past and the new ones to an output.
func joined(c *call, i int, old, new *heads) error {
	if !c.wants(i) {
		return nil
	}
	t, err := c.out(i, int64(new.batch), int64(new.count), int64(old.steps+new.steps), int64(new.size))
	if err != nil {
		return err
	}
	if len(t.Data) == 0 {
		return nil
	}
	to := heads{tensor.Values[float32](t), new.batch, new.count, old.steps + new.steps, new.size, false}
	for b := range new.batch {
		for h := range new.count {
			for step := range to.steps {
				copy(to.row(b, h, step), stepOf(old, new, b, h, step))
			}
		}
	}
	return nil
}

// stepOf is the row of a step, of which the past's are the first.
func stepOf(old, new *heads, b, head, step int) []float32 {
	if step < old.steps {
		return old.row(b, head, step)
	}
	return new.row(b, head, step-old.steps)
}

// gather lays out the keys and the values of a head.
func (s *attended) gather(w *attentionMemory, b, kv int) {
	total, width := s.total(), s.v.size
	for t := range total {
		for i, x := range stepOf(&s.pastK, &s.k, b, kv, t) {
			w.keys[i*total+t] = x
		}
		copy(w.values[t*width:(t+1)*width], stepOf(&s.pastV, &s.v, b, kv, t))
	}
}

// query computes one row of the output.
func (s *attended) query(w *attentionMemory, b, head, i int, to []float32) {
	scale := s.scale
	if scale == 0 {
		scale = float32(1 / math.Sqrt(float64(s.q.size)))
	}
	for d, x := range s.q.row(b, head, i) {
		w.query[d] = x * scale
	}
	if len(w.scores) == 0 {
		clear(to)
		return
	}
	vectorProducts(w.scores, w.query, w.keys)
	w.show(s.mode == 0)
	if s.softcap != 0 {
		for t, x := range w.scores {
			w.scores[t] = s.softcap * float32(math.Tanh(float64(x/s.softcap)))
		}
	}
	w.show(s.mode == 1)
	open := s.biased(w, b, head, i)
	w.show(s.mode == 2)
	if open {
		softmaxRow(w.scores)
	} else {
		clear(w.scores)
	}
	w.show(s.mode == 3)
	vectorProducts(to, w.scores, w.values)
}

func (w *attentionMemory) show(now bool) {
	if now && w.seen != nil {
		copy(w.seen, w.scores)
	}
}

// biased adds the masks to the scores of a query, and reports whether any key is left.
func (s *attended) biased(w *attentionMemory, b, head, i int) bool {
	clear(w.bias)
	if s.mask != nil {
		s.mask(b, head, i, w.bias)
	}
	offset, length := s.pastK.steps, len(w.bias)
	if s.lengths != nil {
		length = int(max(0, min(s.lengths[b], int64(length))))
		offset = length - s.q.steps
	}
	minus := float32(math.Inf(-1))
	top := minus
	for t := range w.bias {
		at := i + offset // the query's own place
		if t >= length || s.causal && t > at || s.left >= 0 && int64(t) < int64(at)-s.left || s.right >= 0 && int64(t) > int64(at)+s.right {
			w.bias[t] = minus
		}
		top = max(top, w.bias[t])
		w.scores[t] += w.bias[t]
	}
	return top != minus
}

// softmaxRow is a softmax in place.
func softmaxRow(x []float32) {
	top, sum := float32(math.Inf(-1)), 0.0
	for _, v := range x {
		top = max(top, v)
	}
	for i, v := range x {
		x[i] = exp32(v - top)
		sum += float64(x[i])
	}
	for i := range x {
		x[i] = float32(float64(x[i]) / sum)
	}
}
