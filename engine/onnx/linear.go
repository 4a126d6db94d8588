package onnx

import (
	"fmt"
	"math"
	"strconv"

	"weir/internal/tensor"
)

// transform is a post_transform: what a model of ai.onnx.ml does to its scores.
type transform uint8

const (
	asIs transform = iota
	logistic
	softmaxed
	softmaxZero
	probit
)

var transforms = map[string]transform{
	"NONE": asIs, "LOGISTIC": logistic, "SOFTMAX": softmaxed, "SOFTMAX_ZERO": softmaxZero, "PROBIT": probit,
}

func transformOf(r *attributeReader) (transform, error) {
	name := r.str("post_transform", "NONE")
	t, ok := transforms[name]
	if !ok {
		return asIs, fmt.Errorf("post_transform %q is unknown", name)
	}
	return t, nil
}

// apply changes the scores of one row.
func (t transform) apply(scores []float32) {
	switch t {
	case logistic:
		for i, x := range scores {
			scores[i] = logistic32(x)
		}
	case softmaxed:
		softmax32(scores)
	case softmaxZero:
		softmaxZero32(scores)
	case probit:
		for i, x := range scores {
			scores[i] = probit32(x)
		}
	}
}

// logistic32 is 1/(1+exp(-x)) in the steps of ONNX's definition in float32.
func logistic32(x float32) float32 {
	v := 1 / (1 + exp32(-abs32(x)))
	if x < 0 {
		return 1 - v
	}
	return v
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// powers are 2^(i/32).
var powers = func() (t [32]float64) {
	for i := range t {
		t[i] = math.Exp2(float64(i) / 32)
	}
	return t
}()

// exp32 is exp of float32: 2^(k/32) from a table, times the series of what is left,
// of which the terms beyond the fourth are below 2^-39.
func exp32(x float32) float32 {
	if !(x > -87 && x < 88) { // the result may be no normal number
		return float32(math.Exp(float64(x)))
	}
	z := float64(x) * (32 / math.Ln2)
	k := math.RoundToEven(z)
	r := (z - k) * (math.Ln2 / 32)
	series := 1 + r*(1+r*(1.0/2+r*(1.0/6+r*(1.0/24))))
	i := int(k)
	scale := math.Float64frombits(uint64(1023+i>>5) << 52)
	return float32(powers[i&31] * scale * series)
}

func softmax32(scores []float32) {
	top, sum := float32(-math.MaxFloat32), float32(0)
	for _, x := range scores {
		if x > top {
			top = x
		}
	}
	for i, x := range scores {
		scores[i] = exp32(x - top)
		sum += scores[i]
	}
	for i := range scores {
		scores[i] /= sum
	}
}

// softmaxZero32 is a softmax that leaves zeros zero.
func softmaxZero32(scores []float32) {
	top, sum := float32(-math.MaxFloat32), float32(0)
	for _, x := range scores {
		if x > top {
			top = x
		}
	}
	shrink := exp32(-top)
	for i, x := range scores {
		if abs32(x) > 0.0000001 {
			scores[i] = exp32(x - top)
			sum += scores[i]
		} else {
			scores[i] *= shrink
		}
	}
	for i := range scores {
		scores[i] /= sum
	}
}

// probit32 is the quantile of the normal distribution, by the approximation that
// Winitzki gave for the inverse error function.
func probit32(x float32) float32 {
	y := 2*x - 1
	sign := float32(1)
	if y < 0 {
		sign = -1
	}
	pi, a := float32(3.14159), float32(0.147) // the definition's, rounded
	l := float32(math.Log(float64((1 - y) * (1 + y))))
	v := 2/(pi*a) + float32(0.5*l)
	w := float32(1 / a * l)
	root := -v + float32(math.Sqrt(float64(float32(v*v)-w)))
	return 1.41421356 * (sign * float32(math.Sqrt(float64(root))))
}

// classes are the labels of a classifier: integers or strings.
type classes struct {
	ints    []int64
	strings [][]byte
}

func classesOf(r *attributeReader, ints, strings string) classes {
	return classes{r.integers(ints), r.strings(strings)}
}

func (k *classes) count() int { return max(len(k.ints), len(k.strings)) }

func (k *classes) typ() tensor.Type {
	if len(k.strings) > 0 {
		return tensor.Bytes
	}
	return tensor.Int64
}

// write gives row of a label output the class at index.
func (k *classes) write(out *tensor.Tensor, row, index int) {
	if out.Type == tensor.Bytes {
		out.Strings[row] = k.strings[index]
		return
	}
	tensor.Values[int64](out)[row] = k.ints[index]
}

// names are the classes as text.
func (k *classes) names() []string {
	var names []string
	for _, s := range k.strings {
		names = append(names, text(s))
	}
	if names == nil {
		for _, i := range k.ints {
			names = append(names, strconv.FormatInt(i, 10))
		}
	}
	return names
}

// classifier has two outputs: the label of each row, and scores by class.
func classifier(rs *results, k *classes) {
	rs.gives(k.typ(), tensor.Float32)
	rs.labels, rs.labelled = k.names(), 1
}

// scored calls f for every row of a classifier with the row's scores; f says which
// class it is.
func scored(c *call, k *classes, rows, width int64, f func(row int, scores []float32) int) error {
	var labels, out *tensor.Tensor
	var err error
	if c.wants(0) {
		if labels, err = c.out(0, rows); err != nil {
			return err
		}
	}
	spare := make([]float32, width)
	if c.wants(1) {
		if out, err = c.out(1, rows, width); err != nil {
			return err
		}
	}
	for r := range int(rows) {
		scores := spare
		if out != nil {
			scores = tensor.Values[float32](out)[r*int(width) : (r+1)*int(width)]
		}
		class := f(r, scores)
		if labels != nil {
			k.write(labels, r, class)
		}
	}
	return nil
}

// affine are the coefficients of a linear model, one column per target.
type affine struct {
	w                []float32 // [features, targets]
	intercepts       []float32 // of the targets; nil: none
	features, target int
}

func affineOf(r *attributeReader, targets int, intercepts []float32) (*affine, error) {
	w := r.floats("coefficients")
	if targets <= 0 || len(w) == 0 || len(w)%targets != 0 {
		return nil, fmt.Errorf("%d coefficients for %d targets", len(w), targets)
	}
	if intercepts != nil && len(intercepts) != targets {
		return nil, fmt.Errorf("%d intercepts for %d targets", len(intercepts), targets)
	}
	features := len(w) / targets
	return &affine{transposed(w, targets, features), intercepts, features, targets}, nil
}

// scores computes rows of targets into to.
func (a *affine) scores(to, x []float32, rows int) {
	multiply32(to, x, a.w, rows, a.features, a.target)
	if a.intercepts == nil {
		return
	}
	for r := range rows {
		for i, b := range a.intercepts {
			to[r*a.target+i] += b
		}
	}
}

// rows checks the columns of input 0 and says how many rows it has.
func (a *affine) rows(c *call) (int64, error) {
	rows, columns, err := table(c.in(0))
	if err == nil && columns != int64(a.features) {
		err = fmt.Errorf("rows have %d columns; the model has %d coefficients each", columns, a.features)
	}
	return rows, err
}

func linearRegressor(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	t, err := transformOf(&n.attributeReader)
	if err != nil {
		return nil, err
	}
	a, err := affineOf(&n.attributeReader, int(n.integer("targets", 1)), n.floats("intercepts"))
	if err != nil {
		return nil, err
	}
	if a.target == 1 && t != probit {
		t = asIs // as ONNX Runtime has it: other transforms are for several scores
	}
	n.gives(tensor.Float32)
	return func(c *call) error {
		rows, err := a.rows(c)
		if err != nil {
			return err
		}
		x, err := c.floats(0)
		if err != nil {
			return err
		}
		out, err := c.out(0, rows, int64(a.target))
		if err != nil {
			return err
		}
		to := tensor.Values[float32](out)
		a.scores(to, x, int(rows))
		for r := range int(rows) {
			t.apply(to[r*a.target : (r+1)*a.target])
		}
		return nil
	}, n.oneOf(0, numeric...)
}

func linearClassifier(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	t, err := transformOf(&n.attributeReader)
	if err != nil {
		return nil, err
	}
	n.ignore("multi_class")
	k := classesOf(&n.attributeReader, "classlabels_ints", "classlabels_strings")
	intercepts := n.floats("intercepts")
	a, err := affineOf(&n.attributeReader, len(intercepts), intercepts)
	if err != nil {
		return nil, err
	}
	both := a.target == 1 && k.count() == 2
	if !both && (a.target < 2 || a.target != k.count()) {
		return nil, fmt.Errorf("%d intercepts for %d classes", a.target, k.count())
	}
	classifier(&n.results, &k)
	return func(c *call) error {
		rows, err := a.rows(c)
		if err != nil {
			return err
		}
		x, err := c.floats(0)
		if err != nil {
			return err
		}
		row := make([]float32, a.target)
		return scored(c, &k, rows, int64(k.count()), func(r int, scores []float32) int {
			a.scores(row, x[r*a.features:(r+1)*a.features], 1)
			if both {
				second(t, scores, row[0])
				return int(bit(row[0] > 0))
			}
			copy(scores, row)
			t.apply(scores)
			return greatest(row)
		})
	}, n.oneOf(0, numeric...)
}

// second fills the scores of two classes from the one that a model computes.
func second(t transform, scores []float32, x float32) {
	switch t {
	case logistic:
		scores[1] = logistic32(x)
		scores[0] = 1 - scores[1]
	case probit:
		scores[1] = probit32(x)
		scores[0] = 1 - scores[1]
	default:
		scores[1], scores[0] = x, 1-x
	}
}

// greatest is the index of the first greatest element.
func greatest(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}
