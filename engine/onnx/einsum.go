package onnx

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/tensor"
)

// einsum is Einstein's sum. Operands are taken from left to right: what only the next
// one has and nothing needs later is summed, and two of them make a product of stacks
// of matrices, whose sums go in one order.
func einsum(n *node) (kernel, error) {
	if err := n.takes(1, maxNames); err != nil {
		return nil, err
	}
	if err := n.sameTypes(); err != nil {
		return nil, err
	}
	e, err := parseEinsum(n.str("equation", ""), len(n.in))
	if err != nil {
		return nil, err
	}
	n.gives(n.typ(0))
	switch n.typ(0) {
	case tensor.Float32:
		return einsumBy(e, multiply32), nil
	case tensor.Float64:
		return einsumBy(e, multiply64), nil
	case tensor.Int32:
		return einsumBy(e, multiplyIntegers[int32]), nil
	case tensor.Int64:
		return einsumBy(e, multiplyIntegers[int64]), nil
	}
	return nil, n.oneOf(0, numeric...)
}

func multiplyIntegers[T int32 | int64](dst, x, w []T, m, k, n int) {
	clear(dst)
	for i := range m {
		for j := range k {
			a := x[i*k+j]
			for at, b := range w[j*n : (j+1)*n] {
				dst[i*n+at] += a * b
			}
		}
	}
}

// ellipsis stands for the dimensions that an equation does not name; expanded, its
// labels are below zero.
const ellipsis = '.'

// equation has labels of the operands' dimensions and of the output's.
type equation struct {
	operands [][]rune
	output   []rune
	implicit bool // the output is not given
}

func parseEinsum(text string, operands int) (*equation, error) {
	text = strings.ReplaceAll(text, " ", "")
	left, right, explicit := strings.Cut(text, "->")
	e := &equation{implicit: !explicit}
	for term := range strings.SplitSeq(left, ",") {
		labels, err := labelled(term)
		if err != nil {
			return nil, fmt.Errorf("equation %q: %w", text, err)
		}
		e.operands = append(e.operands, labels)
	}
	var err error
	if e.output, err = labelled(right); err != nil {
		return nil, fmt.Errorf("equation %q: %w", text, err)
	}
	if len(e.operands) != operands {
		return nil, fmt.Errorf("equation %q is of %d operands; there are %d", text, len(e.operands), operands)
	}
	all := slices.Concat(e.operands...)
	for i, label := range e.output {
		if slices.Contains(e.output[:i], label) || label != ellipsis && !slices.Contains(all, label) {
			return nil, fmt.Errorf("equation %q: the output's label %q is there twice, or no operand has it", text, label)
		}
	}
	return e, nil
}

// labelled reads a term: letters, and at most one ellipsis.
func labelled(term string) ([]rune, error) {
	var labels []rune
	for at := 0; at < len(term); at++ {
		switch b := term[at]; {
		case b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z':
			labels = append(labels, rune(b))
		case strings.HasPrefix(term[at:], "...") && !slices.Contains(labels, ellipsis):
			labels = append(labels, ellipsis)
			at += 2
		default:
			return nil, fmt.Errorf("%q is no term of letters with one ellipsis at most", term)
		}
	}
	if len(labels) > maxRank {
		return nil, fmt.Errorf("%q has more than %d dimensions", term, maxRank)
	}
	return labels, nil
}

// spread replaces ellipses by labels below zero, the last dimension's -1, for operands
// of those ranks.
func (e *equation) spread(ranks []int) (*equation, error) {
	hidden := 0
	x := &equation{}
	for i, labels := range e.operands {
		at := slices.Index(labels, ellipsis)
		more := ranks[i] - len(labels)
		if at >= 0 {
			more++
		}
		if more < 0 || at < 0 && more > 0 {
			return nil, fmt.Errorf("operand %d has %d dimensions", i, ranks[i])
		}
		hidden = max(hidden, more)
		x.operands = append(x.operands, filled(labels, more))
	}
	if e.implicit {
		x.output = implied(x.operands, hidden)
	} else {
		x.output = filled(e.output, hidden)
	}
	if len(x.output) > maxRank {
		return nil, fmt.Errorf("%d dimensions; the limit is %d", len(x.output), maxRank)
	}
	return x, nil
}

// filled puts n labels where the ellipsis stands.
func filled(labels []rune, n int) []rune {
	at := slices.Index(labels, ellipsis)
	if at < 0 {
		return labels
	}
	to := slices.Clone(labels[:at])
	for i := range n {
		to = append(to, rune(i-n))
	}
	return append(to, labels[at+1:]...)
}

// implied is the output of an equation without one: the ellipsis, and the labels that
// are there once, in order.
func implied(operands [][]rune, hidden int) []rune {
	output := filled([]rune{ellipsis}, hidden)
	count := make(map[rune]int)
	for _, label := range slices.Concat(operands...) {
		count[label]++
	}
	var once []rune
	for label, n := range count {
		if n == 1 && label > 0 {
			once = append(once, label)
		}
	}
	slices.Sort(once)
	return append(output, once...)
}

// array is an operand or what was made of some.
type array[T number] struct {
	labels []rune
	sizes  []int
	data   []T
}

func einsumBy[T float32 | float64 | int32 | int64](e *equation, multiply func(dst, x, w []T, m, k, n int)) kernel {
	return func(c *call) error {
		ranks := make([]int, c.inputs())
		for i := range ranks {
			ranks[i] = len(c.in(i).Shape)
		}
		x, err := e.spread(ranks)
		if err != nil {
			return err
		}
		sizes, err := x.sizes(c)
		if err != nil {
			return err
		}
		s := &summing[T]{c, sizes, multiply}
		var result *array[T]
		for i := range x.operands {
			needed := slices.Concat(slices.Concat(x.operands[i+1:]...), x.output)
			next := s.operand(i, x.operands[i])
			if result == nil {
				result, err = s.reduced(next, needed)
			} else {
				result, err = s.product(result, next, needed)
			}
			if err != nil {
				return err
			}
		}
		shape := make([]int64, len(x.output))
		for i, label := range x.output {
			shape[i] = int64(sizes[label])
		}
		out, err := c.out(0, shape...)
		if err != nil {
			return err
		}
		s.arranged(tensor.Values[T](out), result, x.output)
		return nil
	}
}

// sizes are those of the labels' dimensions; a size of 1 is stretched to another's.
func (e *equation) sizes(c *call) (map[rune]int, error) {
	sizes := make(map[rune]int)
	for i, labels := range e.operands {
		for d, label := range labels {
			size, known := sizes[label]
			have := int(c.in(i).Shape[d])
			switch {
			case !known || size == 1:
				sizes[label] = have
			case have != size && have != 1:
				return nil, fmt.Errorf("a dimension of %d and of %d have one label", size, have)
			}
		}
	}
	return sizes, nil
}

// summing is the work of one run.
type summing[T float32 | float64 | int32 | int64] struct {
	c        *call
	sizes    map[rune]int
	multiply func(dst, x, w []T, m, k, n int)
}

// operand is input i.
func (s *summing[T]) operand(i int, labels []rune) *array[T] {
	t := s.c.in(i)
	a := &array[T]{labels: labels, data: tensor.Values[T](t)}
	for _, size := range t.Shape {
		a.sizes = append(a.sizes, int(size))
	}
	return a
}

// volume is how many elements dimensions of those labels have.
func (s *summing[T]) volume(labels []rune) (int, error) {
	shape := make([]int64, len(labels))
	for i, label := range labels {
		shape[i] = int64(s.sizes[label])
	}
	n, err := tensor.Elements(shape, s.c.f.budget/8)
	if err != nil {
		return 0, fmt.Errorf("a part of the sum is too large: %w", err)
	}
	return int(n), nil
}

// make is memory for dimensions of those labels.
func (s *summing[T]) make(labels []rune) (*array[T], error) {
	n, err := s.volume(labels)
	if err != nil {
		return nil, err
	}
	if err := s.c.f.spend(8 * int64(n)); err != nil {
		return nil, fmt.Errorf("a part of the sum: %w", err)
	}
	a := &array[T]{labels: labels, data: make([]T, n)}
	for _, label := range labels {
		a.sizes = append(a.sizes, s.sizes[label])
	}
	return a, nil
}

// arranged writes an array's elements in the order of labels, all of which it has or
// repeats; a label that it has twice takes its diagonal.
func (s *summing[T]) arranged(to []T, a *array[T], labels []rune) {
	steps, index, sizes := make([]int, len(labels)), make([]int, len(labels)), make([]int, len(labels))
	stride := 1
	for d, label := range slices.Backward(a.labels) {
		if i := slices.Index(labels, label); i >= 0 && a.sizes[d] > 1 {
			steps[i] += stride
		}
		stride *= a.sizes[d]
	}
	for i, label := range labels {
		sizes[i] = s.sizes[label]
	}
	at := 0
	for i := range to {
		to[i] = a.data[at]
		at = advance(index, sizes, steps, at)
	}
}

// reduced sums the dimensions that nothing needs.
func (s *summing[T]) reduced(a *array[T], needed []rune) (*array[T], error) {
	var keep, drop []rune
	for i, label := range a.labels {
		switch {
		case slices.Contains(a.labels[:i], label):
		case slices.Contains(needed, label):
			keep = append(keep, label)
		default:
			drop = append(drop, label)
		}
	}
	if len(drop) == 0 && len(keep) == len(a.labels) {
		return a, nil
	}
	whole, err := s.make(slices.Concat(keep, drop))
	if err != nil {
		return nil, err
	}
	s.arranged(whole.data, a, whole.labels)
	sum, err := s.make(keep)
	if err != nil {
		return nil, err
	}
	if len(sum.data) == 0 {
		return sum, nil
	}
	width := len(whole.data) / len(sum.data)
	for i := range sum.data {
		var total T
		for _, x := range whole.data[i*width : (i+1)*width] {
			total += x
		}
		sum.data[i] = total
	}
	return sum, nil
}

// product multiplies two arrays and sums the dimensions of both that nothing needs.
func (s *summing[T]) product(a, b *array[T], needed []rune) (*array[T], error) {
	a, err := s.reduced(a, slices.Concat(needed, b.labels))
	if err != nil {
		return nil, err
	}
	if b, err = s.reduced(b, slices.Concat(needed, a.labels)); err != nil {
		return nil, err
	}
	var stack, rows, columns, inner []rune
	for _, label := range a.labels {
		both, later := slices.Contains(b.labels, label), slices.Contains(needed, label)
		switch {
		case both && later:
			stack = append(stack, label)
		case both:
			inner = append(inner, label)
		default:
			rows = append(rows, label)
		}
	}
	for _, label := range b.labels {
		if !slices.Contains(a.labels, label) {
			columns = append(columns, label)
		}
	}
	var n [4]int
	for i, labels := range [][]rune{stack, rows, inner, columns} {
		if n[i], err = s.volume(labels); err != nil {
			return nil, err
		}
	}
	x, err := s.make(slices.Concat(stack, rows, inner))
	if err != nil {
		return nil, err
	}
	y, err := s.make(slices.Concat(stack, inner, columns))
	if err != nil {
		return nil, err
	}
	to, err := s.make(slices.Concat(stack, rows, columns))
	if err != nil {
		return nil, err
	}
	if err := s.c.f.charge(int64(len(to.data)) / 4 * int64(n[2])); err != nil || len(to.data) == 0 {
		return to, err
	}
	s.arranged(x.data, a, x.labels)
	s.arranged(y.data, b, y.labels)
	for i := range n[0] {
		s.multiply(to.data[i*n[1]*n[3]:(i+1)*n[1]*n[3]], x.data[i*n[1]*n[2]:(i+1)*n[1]*n[2]], y.data[i*n[2]*n[3]:(i+1)*n[2]*n[3]], n[1], n[2], n[3])
	}
	return to, nil
}
