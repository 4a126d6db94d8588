package onnx

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/engine/gbdt"
	"weir/internal/tensor"
)

var aggregates = map[string]gbdt.Aggregate{"SUM": gbdt.Sum, "AVERAGE": gbdt.Sum, "MIN": gbdt.Min, "MAX": gbdt.Max}

// treeRegressor makes TreeEnsembleRegressor.
func treeRegressor(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	if err := n.oneOf(0, numeric...); err != nil {
		return nil, err
	}
	f := &forest{targets: int(n.integer("n_targets", 1)), double: n.typ(0) == tensor.Float64}
	if f.targets < 1 || f.targets > 1<<16 {
		return nil, fmt.Errorf("n_targets is %d", f.targets)
	}
	name := n.str("aggregate_function", "SUM")
	var ok bool
	if f.pick, ok = aggregates[name]; !ok {
		return nil, fmt.Errorf("aggregate_function %q is unknown", name)
	}
	f.average = name == "AVERAGE"
	if err := treesOf(&n.attributeReader, f, "target"); err != nil {
		return nil, err
	}
	base, err := realsOf(&n.attributeReader, "base_values", f.double)
	if err != nil {
		return nil, err
	}
	if len(base) == f.targets {
		f.base = base
	} else if len(base) > 0 {
		return nil, fmt.Errorf("%d base_values of %d targets", len(base), f.targets)
	}
	t, err := transformOf(&n.attributeReader)
	if err != nil {
		return nil, err
	}
	n.gives(tensor.Float32)
	return regression(&n.operands, f, t, tensor.Float32)
}

// regression makes the kernel of a forest whose sums are the output.
func regression(o *operands, f *forest, t transform, to tensor.Type) (kernel, error) {
	m, err := f.model(columnsIn(o))
	if err != nil {
		return nil, err
	}
	f.trees = nil
	if f.targets == 1 && t != probit {
		t = asIs // as ONNX Runtime has it: other transforms are for several scores
	}
	if f.double {
		return func(c *call) error { return regress64(c, f, m, t, to) }, nil
	}
	return func(c *call) error {
		x, rows, err := treeRows[float32](c, m)
		if err != nil {
			return err
		}
		out, err := c.out(0, rows, int64(m.Margins()))
		if err != nil {
			return err
		}
		scores := tensor.Values[float32](out)
		m.Margins32(x, scores)
		withoutTrees(f, scores)
		if t != asIs {
			for at := 0; at < len(scores); at += m.Margins() {
				t.apply(scores[at : at+m.Margins()])
			}
		}
		return nil
	}, nil
}

// withoutTrees sets the targets to their base where a minimum or maximum had nothing to choose from.
func withoutTrees[T float](f *forest, scores []T) {
	if f.pick == gbdt.Sum {
		return
	}
	for i, s := range scores {
		if !math.IsInf(float64(s), 0) {
			continue
		}
		scores[i] = 0
		if f.base != nil {
			scores[i] = T(f.base[i%f.targets])
		}
	}
}

func regress64(c *call, f *forest, m *gbdt.Model, t transform, to tensor.Type) error {
	x, rows, err := treeRows[float64](c, m)
	if err != nil {
		return err
	}
	out, err := c.out(0, rows, int64(m.Margins()))
	if err != nil {
		return err
	}
	scores := make([]float64, int(rows)*m.Margins())
	if to == tensor.Float64 {
		scores = tensor.Values[float64](out)
	}
	m.Margins64(x, scores)
	withoutTrees(f, scores)
	for at := 0; at < len(scores); at += m.Margins() {
		t.apply64(scores[at : at+m.Margins()])
	}
	if to == tensor.Float32 {
		narrow := tensor.Values[float32](out)
		for i, s := range scores {
			narrow[i] = float32(s)
		}
	}
	return nil
}

// treeRows are the rows of input 0 with as many columns as the model has.
func treeRows[T float](c *call, m *gbdt.Model) ([]T, int64, error) {
	in := c.in(0)
	rows, columns, err := table(in)
	if err != nil {
		return nil, 0, err
	}
	want := int64(m.Features())
	if columns < want {
		return nil, 0, fmt.Errorf("rows have %d columns; the trees test column %d", columns, want-1)
	}
	var x []T
	switch in.Type {
	case tensor.Float32:
		x, err = asType[T](c, tensor.Values[float32](in))
	case tensor.Float64:
		x, err = asType[T](c, tensor.Values[float64](in))
	case tensor.Int32:
		x, err = converted[T](c, tensor.Values[int32](in))
	default:
		x, err = converted[T](c, tensor.Values[int64](in))
	}
	if err != nil || columns == want {
		return x, rows, err
	}
	narrow := make([]T, 0, rows*want)
	for r := range rows {
		narrow = append(narrow, x[r*columns:r*columns+want]...)
	}
	return narrow, rows, nil
}

// asType is the slice itself where its elements are of type T.
func asType[T, S float](c *call, from []S) ([]T, error) {
	if same, ok := any(from).([]T); ok {
		return same, nil
	}
	return converted[T](c, from)
}

// decision is how a classifier of trees turns sums into scores and a class.
type decision struct {
	classes
	transform
	present  []bool    // classes that some leaf has a weight for
	base     []float64 // as many as the file has
	positive bool      // no weight is negative
	single   bool      // two classes, of which the leaves know one
}

// treeClassifier makes TreeEnsembleClassifier.
func treeClassifier(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	if err := n.oneOf(0, numeric...); err != nil {
		return nil, err
	}
	d := &decision{classes: classesOf(&n.attributeReader, "classlabels_int64s", "classlabels_strings"), positive: true}
	f := &forest{targets: d.count(), double: n.typ(0) == tensor.Float64}
	if f.targets < 2 || f.targets > 1<<16 {
		return nil, fmt.Errorf("%d classes", f.targets)
	}
	if err := treesOf(&n.attributeReader, f, "class"); err != nil {
		return nil, err
	}
	var err error
	if d.transform, err = transformOf(&n.attributeReader); err != nil {
		return nil, err
	}
	if d.base, err = realsOf(&n.attributeReader, "base_values", f.double); err != nil {
		return nil, err
	}
	if len(d.base) > f.targets || f.targets > 2 && len(d.base) != 0 && len(d.base) != f.targets {
		return nil, fmt.Errorf("%d base_values of %d classes", len(d.base), f.targets)
	}
	if err := d.survey(f); err != nil {
		return nil, err
	}
	m, err := f.model(columnsIn(&n.operands))
	if err != nil {
		return nil, err
	}
	classifier(&n.results, &d.classes)
	if f.double {
		return func(c *call) error { return classify(c, m, d, m.Margins64) }, nil
	}
	return func(c *call) error { return classify(c, m, d, m.Margins32) }, nil
}

// survey finds what the weights of the leaves say of the classes.
func (d *decision) survey(f *forest) error {
	d.present = make([]bool, f.targets)
	for _, t := range f.trees {
		for i := range t {
			for j, class := range t[i].targets {
				if class < 0 || class >= int64(f.targets) {
					return fmt.Errorf("a leaf is for class %d of %d", class, f.targets)
				}
				d.present[class] = true
				d.positive = d.positive && !(t[i].weights[j] < 0)
			}
		}
	}
	seen := 0
	for _, p := range d.present {
		seen += int(bit(p))
	}
	d.single = f.targets == 2 && seen == 1
	if seen == 0 && len(d.base) == 0 {
		return errors.New("no leaf has a weight")
	}
	return nil
}

func classify[T float](c *call, m *gbdt.Model, d *decision, margins func(rows, out []T)) error {
	x, rows, err := treeRows[T](c, m)
	if err != nil {
		return err
	}
	k := m.Margins()
	if int64(k)*rows > c.f.budget/8 {
		return fmt.Errorf("%d rows of %d classes are too many", rows, k)
	}
	sums := make([]T, int(rows)*k)
	margins(x, sums)
	return scored(c, &d.classes, rows, int64(k), func(r int, scores []float32) int {
		s := sums[r*k : (r+1)*k]
		if k == 2 {
			return two(d, s, scores)
		}
		best := -1
		for i := range s {
			if len(d.base) > 0 {
				s[i] += T(d.base[i])
			}
			if (d.present[i] || len(d.base) > 0) && (best < 0 || s[i] > s[best]) {
				best = i
			}
		}
		finishScores(d.transform, s, scores)
		return best
	})
}

// two is the decision between two classes, of which the leaves may know one: the
// other's score follows from it. A class without weights scores 0; which base values
// count for it is ONNX Runtime's choice, as the definition is silent.
func two[T float](d *decision, s []T, scores []float32) int {
	switch len(d.base) {
	case 2:
		if d.present[1] {
			s[1] = T(d.base[1]) + s[0]
			s[0] = -s[1]
		} else {
			s[0] += T(d.base[0])
		}
	case 1:
		s[0] += T(d.base[0])
	}
	for i := range s {
		if !d.present[i] {
			s[i] = 0
		}
	}
	strength, threshold := s[0], T(0)
	switch {
	case d.present[0] && d.present[1]:
		threshold, strength = s[0], s[1]
	case d.present[1]:
		strength = s[1]
	}
	if d.single && d.positive {
		threshold = 0.5
	}
	best := int(bit(strength > threshold))
	if d.present[1] || len(d.base) == 2 {
		finishScores(d.transform, s, scores)
		return best
	}
	x := s[0]
	switch {
	case d.transform == probit:
		scores[0], scores[1] = probit32(float32(x)), 0
	case d.transform == logistic:
		scores[0], scores[1] = logistic32(float32(-x)), logistic32(float32(x))
	case d.positive:
		scores[0], scores[1] = float32(1-x), float32(x)
	default:
		scores[0], scores[1] = float32(-x), float32(x)
	}
	return best
}

// finishScores transforms a row's sums into scores.
func finishScores[T float](t transform, s []T, scores []float32) {
	if t == softmaxed || t == softmaxZero {
		if double, ok := any(s).([]float64); ok {
			t.apply64(double)
			t = asIs
		}
	}
	for i, x := range s {
		scores[i] = float32(x)
	}
	t.apply(scores)
}

// apply64 changes the scores of one row that are float64.
func (t transform) apply64(scores []float64) {
	switch t {
	case softmaxed:
		top, sum := slices.Max(scores), 0.0
		for i, x := range scores {
			scores[i] = math.Exp(x - top)
			sum += scores[i]
		}
		for i := range scores {
			scores[i] /= sum
		}
	case logistic, probit, softmaxZero:
		narrow := make([]float32, len(scores))
		for i, x := range scores {
			narrow[i] = float32(x)
		}
		t.apply(narrow)
		for i, x := range narrow {
			scores[i] = float64(x)
		}
	}
}

// transformNumbers are the post_transform numbers of TreeEnsemble.
var transformNumbers = []transform{asIs, softmaxed, logistic, softmaxZero, probit}

// treeEnsemble makes TreeEnsemble, which took the place of both others in set 5.
func treeEnsemble(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	if err := n.oneOf(0, floating...); err != nil {
		return nil, err
	}
	f := &forest{targets: int(n.integer("n_targets", 1)), double: n.typ(0) == tensor.Float64}
	if f.targets < 1 || f.targets > 1<<16 {
		return nil, fmt.Errorf("n_targets is %d", f.targets)
	}
	aggregate, number := n.integer("aggregate_function", 1), n.integer("post_transform", 0)
	if aggregate < 0 || aggregate > 3 || number < 0 || number >= int64(len(transformNumbers)) {
		return nil, fmt.Errorf("aggregate_function %d or post_transform %d is unknown", aggregate, number)
	}
	f.average = aggregate == 0
	f.pick = []gbdt.Aggregate{gbdt.Sum, gbdt.Sum, gbdt.Min, gbdt.Max}[aggregate]
	s := &sharedNodes{
		yes: n.integers("nodes_truenodeids"), no: n.integers("nodes_falsenodeids"),
		yesLeaf: n.integers("nodes_trueleafs"), noLeaf: n.integers("nodes_falseleafs"),
		features: n.integers("nodes_featureids"), tracks: n.integers("nodes_missing_value_tracks_true"),
		targets: n.integers("leaf_targetids"),
	}
	n.ignore("nodes_hitrates")
	var err error
	if s.splits, err = tensorReals(n.tensor("nodes_splits"), f.double); err != nil {
		return nil, err
	}
	if s.weights, err = tensorReals(n.tensor("leaf_weights"), f.double); err != nil {
		return nil, err
	}
	members, err := tensorReals(n.tensor("membership_values"), f.double)
	if err != nil {
		return nil, err
	}
	if t := n.tensor("nodes_modes"); t != nil && t.Type == tensor.Uint8 {
		s.modes = t.Data
	}
	if err := s.check(members); err != nil {
		return nil, err
	}
	for _, root := range n.integers("tree_roots") {
		t, err := s.tree(root)
		if err != nil {
			return nil, err
		}
		f.trees = append(f.trees, t)
	}
	n.gives(n.typ(0))
	return regression(&n.operands, f, transformNumbers[number], n.typ(0))
}
