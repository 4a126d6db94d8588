package gbdt

import (
	"errors"
	"fmt"
	"strings"
)

// readXGBoost reads the document that XGBoost 1.0 to 3.x save as JSON and, since 1.6, as UBJSON; size is the file's in bytes. Margins are those of
// Booster.predict(output_margin=True), and outputs those of Booster.predict, over all trees.
// Sums start from the base score, as XGBoost has them since 1.3; 1.2 added it last, so its own last bits on its files differ.
//
// Sources: doc/model.schema, src/tree/io_utils.h, src/gbm/gbtree_model.cc, src/learner.cc, src/common/categorical.h of XGBoost 3.2.
func readXGBoost(root any, format string, size int, o ReadOptions) (*Ensemble, error) {
	top, _ := root.(object)
	learner, err := top.object("learner")
	if err != nil {
		return nil, fmt.Errorf("xgboost: %w", err)
	}
	r := xgboostReader{
		learner: learner, options: o, words: baseSetWords + setWordsPerByte*size,
		ensemble: &Ensemble{Format: format, Less: true, Rounding: NonNegative},
	}
	if version, err := top.numbers("version"); err == nil {
		parts := make([]string, len(version))
		for i, v := range version {
			parts[i] = fmt.Sprint(v)
		}
		r.ensemble.Version = shorten(strings.Join(parts, "."))
	}
	if err := errors.Join(r.readParameters(), r.readObjective()); err != nil {
		return nil, fmt.Errorf("xgboost: %w", err)
	}
	if err := r.readBooster(); err != nil {
		return nil, fmt.Errorf("xgboost: %w", err)
	}
	return r.ensemble, nil
}

type xgboostReader struct {
	learner  object
	options  ReadOptions
	ensemble *Ensemble
	weights  []float64 // of trees, of the booster dart; nil: all 1
	nodes    []Node    // of one tree; used again for the next
	targets  int       // size_leaf_vector of the trees before; 0 before the first
	words    int       // that sets of categories may still have
}

func (r *xgboostReader) readParameters() error {
	p, err := r.learner.object("learner_model_param")
	if err != nil {
		return err
	}
	e := r.ensemble
	if e.Features, err = p.whole("num_feature"); err != nil {
		return err
	}
	classes, err := p.whole("num_class")
	if err != nil {
		return err
	}
	targets := 1
	if p.has("num_target") {
		if targets, err = p.whole("num_target"); err != nil {
			return err
		}
	}
	e.Outputs = max(classes, targets, 1)
	if e.Outputs > maxOutputs || e.Features > maxFeatures {
		return fmt.Errorf("%d features and %d outputs, not at most %d and %d", e.Features, e.Outputs, maxFeatures, maxOutputs)
	}
	if names, err := r.learner.texts("feature_names"); err == nil && len(names) == e.Features {
		e.FeatureNames = names
	}
	return r.readBaseScore(p)
}

// readBaseScore reads the one base score, or since 3.1 the list of one per output.
func (r *xgboostReader) readBaseScore(p object) error {
	text, err := p.text("base_score")
	if err != nil {
		return err
	}
	v, err := parseJSON([]byte(text), 32)
	if err != nil {
		return fmt.Errorf("base_score %q: %w", shorten(text), err)
	}
	list, ok := v.([]float64)
	if x, one := v.(float64); one {
		list, ok = []float64{x}, true
	}
	if !ok || (len(list) != 1 && len(list) != r.ensemble.Outputs) {
		return fmt.Errorf("base_score %q is not one number for each of %d outputs", shorten(text), r.ensemble.Outputs)
	}
	base := make([]float64, r.ensemble.Outputs)
	for i := range base {
		base[i] = float64(float32(list[min(i, len(list)-1)]))
	}
	r.ensemble.Base = base
	return nil
}

// link is how an objective relates margins, outputs and the base score, which the file has as an output.
type link struct {
	transform Transform
	margin    func(float32) float32 // of a base score; nil: the same
}

var (
	logistic = link{Sigmoid, xgboostLogit}
	logged   = link{Exp, logSingle}
)

// xgboostLinks has the objectives of XGBoost.
var xgboostLinks = map[string]link{
	"reg:squarederror": {}, "reg:linear": {}, "reg:squaredlogerror": {}, "reg:pseudohubererror": {}, "reg:absoluteerror": {},
	"reg:quantileerror": {}, "binary:logitraw": {},
	"rank:pairwise": {}, "rank:ndcg": {}, "rank:map": {},
	"reg:logistic": logistic, "binary:logistic": logistic, "binary:hinge": {transform: Hinge},
	"reg:gamma": logged, "reg:tweedie": logged, "count:poisson": logged,
	"survival:cox": logged, "survival:aft": logged,
	"multi:softprob": {transform: Softmax}, "multi:softmax": {transform: ArgMax},
}

// xgboostLogit is the margin of a probability, in float32.
func xgboostLogit(p float32) float32 {
	const least = 1e-6
	p = min(max(p, least), 1-float32(least))
	return -logSingle(1/p - 1)
}

func (r *xgboostReader) readObjective() error {
	o, err := r.learner.object("objective")
	if err != nil {
		return err
	}
	name, err := o.text("name")
	if err != nil {
		return err
	}
	l, known := xgboostLinks[name]
	if !known {
		return fmt.Errorf("objective %q is unknown: what its outputs are cannot be told", shorten(name))
	}
	r.ensemble.Objective, r.ensemble.Transform = name, l.transform
	if own := r.options.Transform; own != nil {
		r.ensemble.Transform = *own
	}
	if l.margin != nil {
		for i, x := range r.ensemble.Base {
			r.ensemble.Base[i] = float64(l.margin(float32(x)))
		}
	}
	return nil
}

func (r *xgboostReader) readBooster() error {
	booster, err := r.learner.object("gradient_booster")
	if err != nil {
		return err
	}
	name, err := booster.text("name")
	if err != nil {
		return err
	}
	weights := booster.get("weight_drop")
	switch name {
	case "gbtree":
	case "dart":
		if booster, err = booster.object("gbtree"); err != nil {
			return err
		}
	default:
		return fmt.Errorf("booster %q has no trees that this server could evaluate; gbtree and dart have", shorten(name))
	}
	model, err := booster.object("model")
	if err != nil {
		return err
	}
	if weights == nil {
		weights = model.get("weight_drop")
	}
	if weights != nil {
		var ok bool
		if r.weights, ok = weights.([]float64); !ok {
			return wrong("weight_drop", "a list of numbers", weights)
		}
	}
	if err := r.readCategoryNames(model); err != nil {
		return err
	}
	return r.readTrees(model)
}

// kept is how many of the trees predict: all, or those up to the iteration that early stopping chose, where it is asked for. A note
// says so where the two differ.
func (r *xgboostReader) kept(model object, trees int) int {
	attributes, err := r.learner.object("attributes")
	if err != nil {
		return trees
	}
	best, err := attributes.whole("best_iteration")
	rounds, _ := model.numbers("iteration_indptr")
	if err != nil || best < 0 || best+1 >= len(rounds)-1 {
		return trees
	}
	note := "early stopping chose the first %d of %d iterations: XGBoost's scikit-learn classes predict with those, Booster.predict and this server with all; " +
		"the option best_iteration keeps those alone"
	n, isWhole := whole(rounds[best+1])
	if r.options.BestIteration && isWhole && n > 0 && int(n) <= trees {
		trees, note = int(n), "the first %d of %d iterations predict, which early stopping chose"
	}
	r.ensemble.Notes = append(r.ensemble.Notes, fmt.Sprintf(note, best+1, len(rounds)-1))
	return trees
}

// readTrees reads the trees in the order of their ids.
func (r *xgboostReader) readTrees(model object) error {
	trees, err := model.list("trees")
	if err != nil {
		return err
	}
	outputs, err := model.numbers("tree_info")
	if err != nil {
		return err
	}
	if len(outputs) != len(trees) || (r.weights != nil && len(r.weights) != len(trees)) {
		return fmt.Errorf("%d trees, but tree_info of %d and weight_drop of %d", len(trees), len(outputs), len(r.weights))
	}
	ordered := make([]object, len(trees))
	for i, v := range trees {
		tree, ok := v.(object)
		if !ok {
			return fmt.Errorf("tree %d: %w", i, wrong("", "an object", v))
		}
		id := i
		if tree.has("id") {
			if id, err = tree.whole("id"); err != nil {
				return fmt.Errorf("tree %d: %w", i, err)
			}
		}
		if id < 0 || id >= len(trees) || ordered[id] != nil {
			return fmt.Errorf("tree %d has the id %d, which another has or which is not below %d", i, id, len(trees))
		}
		ordered[id] = tree
	}
	for i, tree := range ordered[:r.kept(model, len(ordered))] {
		output, ok := whole(outputs[i])
		if !ok {
			return fmt.Errorf("tree_info of tree %d is %v", i, outputs[i])
		}
		if err := r.readTree(tree, i, int(output)); err != nil {
			return fmt.Errorf("tree %d of %d: %w", i, len(trees), err)
		}
	}
	return nil
}

// xgboostTree holds a tree's arrays, by node.
type xgboostTree struct {
	left, right, feature, condition, defaultLeft []float64
	categorical                                  []float64 // 1 for a split by categories; nil: none
	sets                                         map[int][]uint32
	leafWeights                                  []float64 // of trees whose leaves are vectors
	byNode                                       bool      // leafWeights have values for every node, else for leaves
	weight                                       *float32  // of the whole tree, of the booster dart; nil: none
}

func (r *xgboostReader) readTree(o object, index, output int) error {
	width, err := r.leafWidth(o)
	if err != nil {
		return err
	}
	t, err := readXGBoostArrays(o, width > 1)
	if err != nil {
		return err
	}
	if err := r.readCategories(t, o); err != nil {
		return err
	}
	if r.weights != nil {
		weight := float32(r.weights[index])
		t.weight = &weight
	}
	r.nodes = r.nodes[:0]
	for n := range t.left {
		node, err := t.node(n, width)
		if err != nil {
			return fmt.Errorf("node %d: %w", n, err)
		}
		r.nodes = append(r.nodes, node)
	}
	return r.ensemble.Add(r.nodes, output)
}

// leafWidth gives the values of a leaf, which all trees have the same number of.
func (r *xgboostReader) leafWidth(o object) (int, error) {
	width := 1
	if p, err := o.object("tree_param"); err == nil && p.has("size_leaf_vector") {
		if width, err = p.whole("size_leaf_vector"); err != nil {
			return 0, err
		}
		width = max(width, 1) // 0 in old files
	}
	if r.targets == 0 {
		r.targets = width
		r.ensemble.Width = width
	}
	if width != r.targets || (width > 1 && width != r.ensemble.Outputs) {
		return 0, fmt.Errorf("leaves of %d values, with %d outputs and %d values in the trees before",
			width, r.ensemble.Outputs, r.targets)
	}
	return width, nil
}

func readXGBoostArrays(o object, vectors bool) (*xgboostTree, error) {
	t := &xgboostTree{}
	for _, array := range []struct {
		name string
		to   *[]float64
	}{
		{"left_children", &t.left}, {"right_children", &t.right}, {"split_indices", &t.feature},
		{"split_conditions", &t.condition}, {"default_left", &t.defaultLeft},
	} {
		list, err := o.numbers(array.name)
		if err != nil {
			return nil, err
		}
		if *array.to = list; len(list) != len(t.left) {
			return nil, fmt.Errorf("%d left_children, but %d %s", len(t.left), len(list), array.name)
		}
	}
	if !vectors {
		return t, nil
	}
	// XGBoost 2.0 to 3.1 saved the values of every node.
	name := "leaf_weights"
	if t.byNode = !o.has(name); t.byNode {
		name = "base_weights"
	}
	var err error
	t.leafWeights, err = o.numbers(name)
	return t, err
}

// readCategories makes a bit set of each categorical node's categories.
func (r *xgboostReader) readCategories(t *xgboostTree, o object) error {
	if !o.has("split_type") {
		return nil
	}
	var err error
	if t.categorical, err = o.numbers("split_type"); err != nil {
		return err
	}
	if len(t.categorical) != len(t.left) {
		return fmt.Errorf("%d left_children, but %d split_type", len(t.left), len(t.categorical))
	}
	nodes, err1 := o.numbers("categories_nodes")
	starts, err2 := o.numbers("categories_segments")
	sizes, err3 := o.numbers("categories_sizes")
	categories, err4 := o.numbers("categories")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	if len(starts) != len(nodes) || len(sizes) != len(nodes) {
		return fmt.Errorf("%d categories_nodes, but %d categories_segments and %d categories_sizes", len(nodes), len(starts), len(sizes))
	}
	t.sets = make(map[int][]uint32, len(nodes))
	used := 0
	for i := range nodes {
		node, ok1 := whole(nodes[i])
		start, ok2 := whole(starts[i])
		size, ok3 := whole(sizes[i])
		if !ok1 || !ok2 || !ok3 || start < 0 || size < 0 || int64(start)+int64(size) > int64(len(categories)) {
			return fmt.Errorf("categories %v to %v+%v of node %v, of %d", starts[i], starts[i], sizes[i], nodes[i], len(categories))
		}
		// Segments do not overlap in any file that XGBoost writes; sets of a file's size each would be unbounded.
		if used += int(size); used > len(categories) {
			return errors.New("the segments of categories overlap")
		}
		set, err := r.bitSet(categories[start : start+size])
		if err != nil {
			return fmt.Errorf("categories of node %d: %w", node, err)
		}
		t.sets[int(node)] = set
	}
	return nil
}

// Limits of categories. XGBoost takes categories up to 2^24, above which float32 has not every whole number. A set is
// as long as its largest category asks for, so that a few bytes of a file would be megabytes; the sets of a file have at most so
// many words of 4 bytes.
const (
	maxCategory     = 1<<24 - 1
	baseSetWords    = 1 << 22
	setWordsPerByte = 16
)

func (r *xgboostReader) bitSet(categories []float64) ([]uint32, error) {
	largest := int32(0)
	for _, x := range categories {
		c, ok := whole(x)
		if !ok || c < 0 || c > maxCategory {
			return nil, fmt.Errorf("category %v is not 0 to %d", x, maxCategory)
		}
		largest = max(largest, c)
	}
	words := int(largest/32 + 1)
	if r.words -= words; r.words < 0 {
		return nil, fmt.Errorf("categories up to %d, and those before, need more memory than a file of this size gets", largest)
	}
	set := make([]uint32, words)
	for _, x := range categories {
		set[int(x)/32] |= 1 << (int(x) % 32)
	}
	return set, nil
}

// node gives node n. A categorical node sends its categories to the right, so its children change sides.
func (t *xgboostTree) node(n, width int) (Node, error) {
	left, ok1 := whole(t.left[n])
	right, ok2 := whole(t.right[n])
	feature, ok3 := whole(t.feature[n])
	if !ok1 || !ok2 || !ok3 {
		return Node{}, fmt.Errorf("children %v and %v, feature %v", t.left[n], t.right[n], t.feature[n])
	}
	condition := float64(float32(t.condition[n]))
	if left < 0 {
		return t.leaf(n, int(right), width)
	}
	node := Node{Left: left, Right: right, Feature: feature, Threshold: condition}
	if t.defaultLeft[n] != 0 {
		node.Rule = MissingLeft
	}
	if t.categorical != nil && t.categorical[n] == 1 {
		node.Set = t.sets[n]
		if node.Set == nil {
			return Node{}, errors.New("splits by categories and has none")
		}
		node.Left, node.Right = right, left
		node.Rule = Member | (node.Rule ^ MissingLeft)
	}
	return node, nil
}

// leaf gives leaf n. Leaves of several values have the index of their values where other nodes have the right child, unless
// values stand by node.
func (t *xgboostTree) leaf(n, index, width int) (Node, error) {
	leaf := Node{Left: -1, Right: -1}
	if width == 1 {
		leaf.Value = t.weighted(t.condition[n])
		return leaf, nil
	}
	if t.byNode {
		index = n
	}
	if index < 0 || (index+1)*width > len(t.leafWeights) {
		return leaf, fmt.Errorf("leaf %d of %d values, of %d", index, width, len(t.leafWeights))
	}
	leaf.Values = make([]float64, width)
	for i, x := range t.leafWeights[index*width : (index+1)*width] {
		leaf.Values[i] = t.weighted(x)
	}
	return leaf, nil
}

// weighted multiplies a leaf's value by the tree's weight, rounded as XGBoost rounds the product for each row: it adds the
// leaf of a tree with a weight to zero first, so that minus zero becomes zero.
func (t *xgboostTree) weighted(value float64) float64 {
	if t.weight == nil {
		return float64(float32(value))
	}
	return float64((float32(value) + 0) * *t.weight)
}
