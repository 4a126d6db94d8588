package gbdt

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// readCatBoost reads what CatBoost's save_model(format="json") writes: oblivious trees, and trees grown depth-wise or by
// loss. Columns are CatBoost's flat features. Margins are RawFormulaVal; outputs are probabilities of classifiers and
// Exponent of the losses that predict gives that for, over all trees. Trees that split by categorical, text or embedding
// features are refused: their values are hashes and statistics of strings, which a row of numbers does not have.
//
// Sources: catboost/libs/model/model_export/json_model_helpers.cpp and cpu/evaluator_impl.cpp of CatBoost 1.2.
func readCatBoost(top object, o ReadOptions) (*Ensemble, error) {
	r := catboostReader{top: top, options: o, ensemble: &Ensemble{Format: "catboost json", Sums64: true}}
	for _, step := range []func() error{r.readFeatures, r.readScale, r.readLoss, r.readTrees} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("catboost: %w", err)
		}
	}
	return r.ensemble, nil
}

type catboostReader struct {
	top      object
	options  ReadOptions
	ensemble *Ensemble
	columns  []column // by float feature
	nodes    []Node
}

// column is where a float feature is in a row.
type column struct {
	flat        int32
	missingLeft bool
}

func (r *catboostReader) readFeatures() error {
	info, err := r.top.object("features_info")
	if err != nil {
		return err
	}
	for _, kind := range []string{"float_features", "categorical_features", "text_features", "embedding_features"} {
		if !info.has(kind) {
			continue
		}
		list, err := info.list(kind)
		if err != nil {
			return err
		}
		for i, v := range list {
			feature, ok := v.(object)
			if !ok {
				return fmt.Errorf("%s: element %d: %w", kind, i, wrong("", "an object", v))
			}
			if err := r.readFeature(kind, i, feature); err != nil {
				return fmt.Errorf("%s: element %d: %w", kind, i, err)
			}
		}
	}
	return nil
}

func (r *catboostReader) readFeature(kind string, index int, feature object) error {
	flat, err := feature.whole("flat_feature_index")
	if err != nil {
		return err
	}
	if flat < 0 || flat >= maxFeatures {
		return fmt.Errorf("flat_feature_index %d is not below %d", flat, maxFeatures)
	}
	e := r.ensemble
	e.Features = max(e.Features, flat+1)
	if name, _ := feature.text("feature_id"); name != "" && flat < 1<<16 {
		for len(e.FeatureNames) <= flat {
			e.FeatureNames = append(e.FeatureNames, strconv.Itoa(len(e.FeatureNames)))
		}
		e.FeatureNames[flat] = name
	}
	if kind != "float_features" {
		return nil
	}
	if i, err := feature.whole("feature_index"); err != nil || i != index {
		return fmt.Errorf("feature_index is %v", feature.get("feature_index"))
	}
	treatment, err := feature.text("nan_value_treatment")
	if err != nil {
		return err
	}
	c := column{flat: int32(flat)}
	switch treatment {
	case "AsIs", "AsFalse":
		c.missingLeft = true
	case "AsTrue":
	default:
		return fmt.Errorf("nan_value_treatment is %q", shorten(treatment))
	}
	r.columns = append(r.columns, c)
	return nil
}

// readScale reads scale_and_bias, [scale, [bias of each output]] or in old files [scale, bias].
func (r *catboostReader) readScale() error {
	e := r.ensemble
	scale, bias := 1.0, []float64{0}
	switch v := r.top.get("scale_and_bias").(type) {
	case nil:
	case []float64:
		if len(v) != 2 {
			return fmt.Errorf("scale_and_bias has %d elements", len(v))
		}
		scale, bias = v[0], v[1:]
	case []any:
		var ok1, ok2 bool
		if len(v) == 2 {
			scale, ok1 = v[0].(float64)
			bias, ok2 = v[1].([]float64)
		}
		if !ok1 || !ok2 {
			return errors.New("scale_and_bias is not a scale and a list of biases")
		}
	default:
		return wrong("scale_and_bias", "a list", v)
	}
	if len(bias) < 1 || len(bias) > maxOutputs {
		return fmt.Errorf("%d biases, not 1 to %d", len(bias), maxOutputs)
	}
	e.Outputs, e.Width = len(bias), len(bias)
	if scale != 1 {
		e.Scale = scale
	}
	if slices.ContainsFunc(bias, func(x float64) bool { return x != 0 }) {
		e.Base, e.BaseLast = bias, true
	}
	return nil
}

// catboostLinks has CatBoost's losses, with what predict_proba of its classifiers and predict of its regressors and rankers make of
// margins. QueryCrossEntropy trains on GPUs only; a ranker predicts it as the others.
var catboostLinks = map[string]Transform{
	"Logloss": Sigmoid, "CrossEntropy": Sigmoid, "Focal": Sigmoid,
	"MultiLogloss": Sigmoid, "MultiCrossEntropy": Sigmoid, "MultiClassOneVsAll": Sigmoid, "MultiClass": Softmax,
	"Poisson": Exp, "Tweedie": Exp,
	"RMSE": Identity, "LogCosh": Identity, "Lq": Identity, "MAE": Identity, "Quantile": Identity, "MultiQuantile": Identity,
	"Expectile": Identity, "LogLinQuantile": Identity, "MAPE": Identity, "RMSPE": Identity, "Huber": Identity, "Cox": Identity,
	"SurvivalAft": Identity, "MultiRMSE": Identity, "MultiRMSEWithMissingValues": Identity,
	"PairLogit": Identity, "PairLogitPairwise": Identity, "YetiRank": Identity, "YetiRankPairwise": Identity, "QueryRMSE": Identity,
	"GroupQuantile": Identity, "QuerySoftMax": Identity, "QueryCrossEntropy": Identity, "StochasticFilter": Identity,
	"LambdaMart": Identity, "StochasticRank": Identity,
}

// catboostRefusals has losses whose outputs need more than a link, and why.
var catboostRefusals = map[string]string{
	"RMSEWithUncertainty": "it predicts a mean and a variance, each in its own way",
	"": "there is none, so that what the outputs are cannot be told: CatBoost drops it where models of different losses were summed; " +
		"name the outputs with the option transform",
	"PythonUserDefinedPerObject":       catboostOwnLoss,
	"PythonUserDefinedMultiTarget":     catboostOwnLoss,
	"PythonUserDefinedMultiRegression": catboostOwnLoss,
}

const catboostOwnLoss = "CatBoostClassifier makes probabilities of a loss of your own and CatBoostRegressor does not, and the file does not say " +
	"which it was; name the outputs with the option transform (sigmoid or identity)"

// readLoss reads the loss, which says what the outputs are.
func (r *catboostReader) readLoss() error {
	info, err := r.top.object("model_info")
	if err != nil {
		return err
	}
	e := r.ensemble
	e.Objective, e.Coarse = catboostLoss(info), true
	transform, known := catboostLinks[e.Objective]
	switch why := catboostRefusals[e.Objective]; {
	case r.options.Transform != nil:
		transform = *r.options.Transform
	case why != "":
		return fmt.Errorf("the loss %q is not evaluated here: %s", e.Objective, why)
	case !known:
		return fmt.Errorf("the loss %q is unknown: what its outputs are cannot be told; name them with the option transform (identity: the margins)",
			shorten(e.Objective))
	}
	e.Transform = transform
	e.Version, _ = info.text("catboost_version_info")
	e.Version = release(e.Version)
	classes, _ := info.get("class_params").(object)
	switch names := classes.get("class_names").(type) {
	case []float64:
		for _, x := range names {
			e.Classes = append(e.Classes, fmt.Sprint(x))
		}
	case []any:
		for _, v := range names {
			e.Classes = append(e.Classes, fmt.Sprint(v))
		}
	}
	return nil
}

// catboostLoss names the loss that a model was trained with. Where models were summed it stands in a text of JSON.
func catboostLoss(info object) string {
	loss, _ := info.get("loss_function").(object)
	if text, err := info.text("loss_function"); err == nil {
		parsed, _ := parseJSON([]byte(text), 64) // a text that is no JSON names no loss
		loss, _ = parsed.(object)
	}
	if params, err := info.object("params"); err == nil {
		if own, err := params.object("loss_function"); err == nil {
			loss = own
		}
	}
	name, _ := loss.text("type")
	return name
}

func (r *catboostReader) readTrees() error {
	name, read := "oblivious_trees", r.readOblivious
	if !r.top.has(name) {
		name, read = "trees", r.readNested
	}
	trees, err := r.top.list(name)
	if err != nil {
		return err
	}
	for i, v := range trees {
		tree, ok := v.(object)
		if !ok {
			return fmt.Errorf("tree %d of %d: %w", i, len(trees), wrong("", "an object", v))
		}
		r.nodes = r.nodes[:0]
		err := read(tree)
		if err == nil {
			err = r.ensemble.Add(r.nodes, 0)
		}
		if err != nil {
			return fmt.Errorf("tree %d of %d: %w", i, len(trees), err)
		}
	}
	return nil
}

// readOblivious makes the nodes of a tree with one split for each level. Bit i of a leaf's index is split i, so the last
// split is the root, and the leaves from left to right are in their order.
func (r *catboostReader) readOblivious(tree object) error {
	values, err := tree.numbers("leaf_values")
	if err != nil {
		return err
	}
	list, err := tree.list("splits")
	if err != nil {
		return err
	}
	width := r.ensemble.Width
	if len(list) > 30 || len(values) != width<<len(list) {
		return fmt.Errorf("%d splits, %d leaf_values, %d outputs", len(list), len(values), width)
	}
	levels := make([]Node, len(list))
	for i, v := range list {
		if levels[len(list)-1-i], err = r.split(v); err != nil {
			return fmt.Errorf("split %d: %w", i, err)
		}
	}
	for depth, node := range levels {
		for i := range 1 << depth {
			first := int32(1)<<(depth+1) - 1 // of the next level
			node.Left, node.Right = first+2*int32(i), first+2*int32(i)+1
			r.nodes = append(r.nodes, node)
		}
	}
	for ; len(values) > 0; values = values[width:] {
		r.nodes = append(r.nodes, r.leaf(values[:width]))
	}
	return nil
}

func (r *catboostReader) leaf(values []float64) Node {
	if len(values) == 1 {
		return Node{Left: -1, Right: -1, Value: values[0]}
	}
	return Node{Left: -1, Right: -1, Values: values}
}

// split gives a node without its children: right where x > border.
func (r *catboostReader) split(v any) (Node, error) {
	s, ok := v.(object)
	if !ok {
		return Node{}, wrong("split", "an object", v)
	}
	kind, err := s.text("split_type")
	if err != nil {
		return Node{}, err
	}
	if kind != "FloatFeature" {
		return Node{}, fmt.Errorf("split_type %s, by a categorical, text or embedding feature "+
			"(cat_feature_index %v), is not evaluated here: train on numbers, or serve it with CatBoost behind an upstream", shorten(kind), s.get("cat_feature_index"))
	}
	index, err := s.whole("float_feature_index")
	if err != nil {
		return Node{}, err
	}
	if index < 0 || index >= len(r.columns) {
		return Node{}, fmt.Errorf("float_feature_index %d of %d", index, len(r.columns))
	}
	border, ok := s.get("border").(float64)
	if !ok {
		return Node{}, wrong("border", "a number", s.get("border"))
	}
	node := Node{Feature: r.columns[index].flat, Threshold: float64(float32(border))}
	if r.columns[index].missingLeft {
		node.Rule = MissingLeft
	}
	return node, nil
}

// readNested makes the nodes of a tree whose nodes hold one another.
func (r *catboostReader) readNested(tree object) error {
	r.nodes = append(r.nodes, Node{})
	for waiting := []object{tree}; len(waiting) > 0; waiting = waiting[1:] {
		n := len(r.nodes) - len(waiting)
		node, children, err := r.nested(waiting[0])
		if err != nil {
			return fmt.Errorf("node %d: %w", n, err)
		}
		if children != nil {
			node.Left, node.Right = int32(len(r.nodes)), int32(len(r.nodes)+1)
			r.nodes = append(r.nodes, Node{}, Node{})
			waiting = append(waiting, children...)
		}
		r.nodes[n] = node
	}
	return nil
}

// nested gives a node and its two children, or a leaf.
func (r *catboostReader) nested(o object) (Node, []object, error) {
	if !o.has("split") {
		values, ok := o.get("value").([]float64)
		if x, one := o.get("value").(float64); one {
			values, ok = []float64{x}, true
		}
		if !ok {
			return Node{}, nil, wrong("value", "a number or a list of them", o.get("value"))
		}
		if len(values) != r.ensemble.Width {
			return Node{}, nil, fmt.Errorf("a leaf has %d values, not %d", len(values), r.ensemble.Width)
		}
		return r.leaf(values), nil, nil
	}
	node, err := r.split(o.get("split"))
	left, err1 := o.object("left")
	right, err2 := o.object("right")
	return node, []object{left, right}, errors.Join(err, err1, err2)
}
