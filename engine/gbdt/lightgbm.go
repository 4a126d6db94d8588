package gbdt

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unsafe"
)

// readLightGBM reads the text that LightGBM 2 to 4 save (v2 to v4). Margins are those of Booster.predict(raw_score=True), except
// that the mean of a random forest is taken here already; outputs are those of Booster.predict, over all trees.
//
// Sources: src/io/tree.cpp, include/LightGBM/tree.h, src/boosting/gbdt_model_text.cpp, src/c_api.cpp of LightGBM 4.6.
func readLightGBM(data []byte, o ReadOptions) (*Ensemble, error) {
	e := &Ensemble{Format: "lightgbm text", Rows64: true, Sums64: true, Width: 1, Rounding: Truncate}
	r := lightgbmReader{rest: data, options: o, ensemble: e}
	if err := r.read(); err != nil {
		return nil, fmt.Errorf("lightgbm: %w", err)
	}
	return e, nil
}

type lightgbmReader struct {
	rest     []byte
	options  ReadOptions
	ensemble *Ensemble
	nodes    []Node
}

// section holds the lines key=value of the header or of a tree; a line without a value is a key of "".
type section map[string][]byte

// line gives the next line without its end.
func (r *lightgbmReader) line() []byte {
	line, rest, _ := bytes.Cut(r.rest, []byte("\n"))
	r.rest = rest
	return bytes.TrimSuffix(line, []byte("\r"))
}

// section reads lines up to one that begins the next tree or ends the trees, and gives that one; nil at the end.
func (r *lightgbmReader) section() (section, []byte) {
	s := make(section, 24)
	for len(r.rest) > 0 {
		line := r.line()
		if len(line) == 0 {
			continue
		}
		key, value, ok := bytes.Cut(line, []byte("="))
		if string(key) == "Tree" || string(key) == "end of trees" || strings.HasPrefix(string(key), "feature importances") {
			return s, line
		}
		if ok || len(s) < 64 {
			s[string(key)] = value
		}
	}
	return s, nil
}

func (r *lightgbmReader) read() error {
	header, next := r.section()
	if err := r.readHeader(header); err != nil {
		return err
	}
	e := r.ensemble
	for bytes.HasPrefix(next, []byte("Tree=")) {
		var tree section
		tree, next = r.section()
		if err := r.readTree(tree); err != nil {
			return fmt.Errorf("tree %d: %w", len(e.Trees), err)
		}
	}
	if next == nil && e.Version != "v2" {
		return fmt.Errorf("the file ends after tree %d, without the line \"end of trees\": it was cut off", len(e.Trees)-1)
	}
	if sizes, ok := header["tree_sizes"]; ok && len(bytes.Fields(sizes)) != len(e.Trees) {
		return fmt.Errorf("%d trees, but %d tree_sizes", len(e.Trees), len(bytes.Fields(sizes)))
	}
	if len(e.Trees)%e.Outputs != 0 {
		return fmt.Errorf("%d trees, with %d in each iteration", len(e.Trees), e.Outputs)
	}
	if err := r.readCategoryNames(header["feature_infos"]); err != nil {
		return err
	}
	if _, ok := header["average_output"]; ok && len(e.Trees) > 0 {
		e.Divisor = float64(len(e.Trees) / e.Outputs)
	}
	return nil
}

func (r *lightgbmReader) readHeader(header section) error {
	e := r.ensemble
	switch e.Version = shorten(string(header["version"])); e.Version {
	case "v2", "v3", "v4":
	default:
		return fmt.Errorf("version %q is none of v2, v3, v4", e.Version)
	}
	last, err := header.whole("max_feature_idx")
	if err != nil {
		return err
	}
	e.Features = last + 1
	if e.Outputs, err = header.whole("num_class"); err != nil {
		return err
	}
	if _, ok := header["num_tree_per_iteration"]; ok {
		if e.Outputs, err = header.whole("num_tree_per_iteration"); err != nil {
			return err
		}
	}
	if e.Features < 1 || e.Features > maxFeatures || e.Outputs < 1 || e.Outputs > maxOutputs {
		return fmt.Errorf("%d features and %d trees per iteration, not 1 to %d and 1 to %d",
			e.Features, e.Outputs, maxFeatures, maxOutputs)
	}
	if names := strings.Split(string(header["feature_names"]), " "); len(names) == e.Features {
		e.FeatureNames = names
	}
	return r.readObjective(string(header["objective"]))
}

// lightgbmLinks has the objectives of LightGBM, except for their parameters. A file without one has that of the caller.
var lightgbmLinks = map[string]Transform{
	"": Identity, "custom": Identity, "regression": Identity, "regression_l1": Identity, "huber": Identity, "fair": Identity,
	"quantile": Identity, "mape": Identity, "lambdarank": Identity, "rank_xendcg": Identity,
	"poisson": Exp, "gamma": Exp, "tweedie": Exp,
	"binary": Sigmoid, "multiclassova": Sigmoid, "cross_entropy": Sigmoid,
	"multiclass": Softmax, "cross_entropy_lambda": Log1pExp,
	"xentropy": Sigmoid, "xentlambda": Log1pExp, // before 2.3
}

// readObjective reads an objective and its parameters, as "binary sigmoid:1" and "regression sqrt".
func (r *lightgbmReader) readObjective(text string) error {
	name, parameters, _ := strings.Cut(text, " ")
	transform, known := lightgbmLinks[name]
	e := r.ensemble
	e.Objective, e.Transform = name, transform
	switch own := r.options.Transform; {
	case own != nil:
		e.Transform = *own
		return nil
	case !known:
		return fmt.Errorf("objective %q is unknown: what its outputs are cannot be told; name them with the option transform (identity: the margins)", shorten(name))
	}
	for p := range strings.FieldsSeq(parameters) {
		value, isSigmoid := strings.CutPrefix(p, "sigmoid:")
		switch {
		case isSigmoid:
			x, err := strconv.ParseFloat(value, 64)
			if err != nil || x <= 0 || math.IsInf(x, 0) {
				return fmt.Errorf("objective %q: the sigmoid's steepness is %q", shorten(text), shorten(value))
			}
			e.Steepness = x
		case p == "sqrt" && transform == Identity && name != "huber":
			e.Transform = SignedSquare
		}
	}
	return nil
}

// lightgbmTree holds a tree's arrays: by node, by leaf, and those of categories and linear terms.
type lightgbmTree struct {
	feature, left, right, decision []int
	threshold                      []float64
	leafValue                      []float64
	sets                           [][]uint32
	linear                         []*Terms // nil: leaves are constants
}

func (r *lightgbmReader) readTree(s section) error {
	leaves, err := s.whole("num_leaves")
	if err != nil {
		return err
	}
	// A leaf has two bytes or more of text.
	if leaves < 1 || leaves > len(s["leaf_value"]) {
		return fmt.Errorf("num_leaves is %d, with %d bytes of leaf_value", leaves, len(s["leaf_value"]))
	}
	t, err := readLightGBMArrays(s, leaves)
	if err != nil {
		return err
	}
	r.nodes = r.nodes[:0]
	for n := range leaves - 1 {
		node, err := t.node(n)
		if err != nil {
			return fmt.Errorf("node %d: %w", n, err)
		}
		r.nodes = append(r.nodes, node)
	}
	for i, value := range t.leafValue {
		leaf := Node{Left: -1, Right: -1, Value: value}
		if t.linear != nil {
			leaf.Linear = t.linear[i]
		}
		r.nodes = append(r.nodes, leaf)
	}
	return r.ensemble.Add(r.nodes, len(r.ensemble.Trees)%r.ensemble.Outputs)
}

func readLightGBMArrays(s section, leaves int) (*lightgbmTree, error) {
	t := &lightgbmTree{}
	var err error
	if t.leafValue, err = s.floats("leaf_value", leaves); err != nil {
		return nil, err
	}
	nodes := leaves - 1
	if nodes > 0 {
		if t.threshold, err = s.floats("threshold", nodes); err != nil {
			return nil, err
		}
		for _, array := range []struct {
			name string
			to   *[]int
		}{
			{"split_feature", &t.feature}, {"left_child", &t.left}, {"right_child", &t.right}, {"decision_type", &t.decision},
		} {
			if *array.to, err = s.integers(array.name, nodes); err != nil {
				return nil, err
			}
		}
	}
	if categorical, err := s.whole("num_cat"); err != nil {
		return nil, err
	} else if categorical > 0 {
		if err := t.readCategories(s, categorical); err != nil {
			return nil, err
		}
	}
	if string(s["is_linear"]) == "1" {
		return t, t.readLinear(s)
	}
	return t, nil
}

// readCategories cuts cat_threshold, the words of all sets, into the n sets.
func (t *lightgbmTree) readCategories(s section, n int) error {
	boundaries, err := s.integers("cat_boundaries", n+1)
	if err != nil {
		return err
	}
	numbers, err := s.integers("cat_threshold", boundaries[n])
	if err != nil {
		return err
	}
	words := make([]uint32, len(numbers))
	for i, x := range numbers {
		if words[i] = uint32(x); x < 0 {
			return fmt.Errorf("cat_threshold: element %d is %d", i, x)
		}
	}
	for i, b := range boundaries[:n] {
		if b < 0 || b > boundaries[i+1] || boundaries[i+1] > len(words) {
			return fmt.Errorf("cat_boundaries: set %d is from %d to %d of %d", i, b, boundaries[i+1], len(words))
		}
		t.sets = append(t.sets, words[b:boundaries[i+1]])
	}
	return nil
}

func (t *lightgbmTree) readLinear(s section) error {
	leaves := len(t.leafValue)
	constants, err1 := s.floats("leaf_const", leaves)
	counts, err2 := s.integers("num_features", leaves)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	total := 0
	for _, n := range counts {
		if total += n; n < 0 || total > len(s["leaf_features"]) {
			return fmt.Errorf("num_features has %d, with %d bytes of leaf_features", n, len(s["leaf_features"]))
		}
	}
	features, err1 := s.integers("leaf_features", total)
	coefficients, err2 := s.floats("leaf_coeff", total)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for i, n := range counts {
		terms := &Terms{Const: constants[i], Coefficient: coefficients[:n]}
		for _, f := range features[:n] {
			terms.Feature = append(terms.Feature, int32(f))
		}
		features, coefficients = features[n:], coefficients[n:]
		t.linear = append(t.linear, terms)
	}
	return nil
}

// The bits of decision_type.
const (
	lightgbmCategorical = 1
	lightgbmDefaultLeft = 2
	lightgbmMissingBits = 2 // the kinds of missing values begin at this bit

	lightgbmMissingNone = 0 // NaN counts as 0
	lightgbmMissingZero = 1
	lightgbmMissingNaN  = 2
)

func (t *lightgbmTree) node(n int) (Node, error) {
	decision := t.decision[n]
	node := Node{Left: t.child(t.left[n]), Right: t.child(t.right[n]), Feature: int32(t.feature[n])}
	if decision&lightgbmCategorical != 0 {
		set, err := t.set(t.threshold[n])
		node.Rule, node.Set = Member, set // NaN goes right
		return node, err
	}
	node.Threshold = flushed(t.threshold[n])
	missingLeft := decision&lightgbmDefaultLeft != 0
	switch kind := decision >> lightgbmMissingBits & 3; kind {
	case lightgbmMissingNone:
		missingLeft = t.threshold[n] >= 0
	case lightgbmMissingZero:
		node.Rule = ZeroMissing
	case lightgbmMissingNaN:
	default:
		return node, fmt.Errorf("decision_type %d: missing values of kind %d", decision, kind)
	}
	if missingLeft {
		node.Rule |= MissingLeft
	}
	return node, nil
}

// flushed gives the threshold t with which x <= t is what LightGBM computes, which sets values from -1e-35 to 1e-35 to 0
// before it looks at them.
func flushed(t float64) float64 {
	switch {
	case t >= 0 && t < zeroThreshold:
		return zeroThreshold
	case t < 0 && t >= -zeroThreshold:
		return math.Nextafter(-zeroThreshold, math.Inf(-1))
	}
	return t
}

// child gives the index in the list of nodes and, after them, leaves.
func (t *lightgbmTree) child(c int) int32 {
	if c < 0 {
		return int32(len(t.left) + ^c)
	}
	if c >= len(t.left) { // not one of the leaves
		return math.MaxInt32
	}
	return int32(c)
}

// set gives the set of a categorical node, whose number stands in the threshold's place.
func (t *lightgbmTree) set(number float64) ([]uint32, error) {
	if number != math.Trunc(number) || number < 0 || number >= float64(len(t.sets)) {
		return nil, fmt.Errorf("category set %v of %d", number, len(t.sets))
	}
	return t.sets[int(number)], nil
}

// whole gives the whole number of a key.
func (s section) whole(key string) (int, error) {
	text, ok := s[key]
	if !ok {
		return 0, fmt.Errorf("%q is missing", key)
	}
	n, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s=%q is no whole number", key, shorten(string(text)))
	}
	return int(n), nil
}

// floats gives the n numbers of a key.
func (s section) floats(key string, n int) ([]float64, error) {
	return parseList(s, key, n, func(text string) (float64, error) {
		x, err := strconv.ParseFloat(text, 64)
		if errors.Is(err, strconv.ErrRange) {
			err = nil // infinite, as for C
		}
		return x, err
	})
}

// integers gives the n whole numbers of a key, each above -2^31 and below 2^32.
func (s section) integers(key string, n int) ([]int, error) {
	return parseList(s, key, n, func(text string) (int, error) {
		x, err := strconv.ParseInt(text, 10, 64)
		if x <= math.MinInt32 || x > math.MaxUint32 {
			return 0, strconv.ErrRange
		}
		return int(x), err
	})
}

// parseList parses a list separated by spaces. It allocates for the numbers that stand there, not for those promised.
func parseList[T any](s section, key string, n int, parse func(string) (T, error)) ([]T, error) {
	text, ok := s[key]
	if !ok {
		return nil, fmt.Errorf("%q is missing", key)
	}
	list := make([]T, 0, min(n, len(text)/2+1))
	for token := range bytes.FieldsSeq(text) {
		x, err := parse(unsafe.String(&token[0], len(token)))
		if err != nil {
			return nil, fmt.Errorf("%s: element %d is %q", key, len(list), shorten(string(token)))
		}
		list = append(list, x)
	}
	if len(list) != n {
		return nil, fmt.Errorf("%s has %d elements, not %d", key, len(list), n)
	}
	return list, nil
}
