package gbdt

// Ensemble is a sum, mean, minimum or maximum of decision trees, whatever library trained it. The nodes and leaves of
// all trees lie in parallel arrays, tree after tree.
//
// A row goes through every tree from its first node. At a node it goes left where the node's test holds:
//
//   - x < Threshold (Less) or x <= Threshold, for a plain node;
//   - x == Threshold with the rule Equal;
//   - x is a category of set int(Threshold) with the rule Member.
//
// A missing value skips the test: it goes left with the rule MissingLeft and right without. NaN is always missing, so
// a reader of a library that computes with NaN gives the side that its arithmetic leads to. With the rule
// ZeroMissing every value from -1e-35 to 1e-35 is missing too.
//
// The leaf's value is added to the margin of the tree's output; with Width > 1 a leaf has a value for each output.
// The margins of a row are, in this order of operations: the trees' values in the order of Trees, starting from
// Base (or from 0 with BaseLast); divided by Divisor; times Scale; plus Base with BaseLast.
type Ensemble struct {
	Format    string   // of the file, as "xgboost json"
	Version   string   // of the format or of the library that wrote it; empty where the file does not say
	Objective string   // in the library's own words
	Notes     []string // what a user should know of the file

	Features     int        // columns of a row
	FeatureNames []string   // nil where the file has none
	Categories   [][]string // by feature: names of its categories, in the order of their numbers; nil where the file has none
	Classes      []string   // names of the classes in order of the outputs; nil where the file has none

	Outputs int  // margins of a row
	Rows64  bool // rows and thresholds are float64; otherwise every threshold is a float32, and x is rounded to one
	Sums64  bool // leaves, base and sums are float64; otherwise every one of them is a float32
	Less    bool // a plain node sends x < Threshold left, otherwise x <= Threshold

	Trees []Tree

	// By node. Only nodes with a test are nodes; a parent stands before its children.
	Feature   []int32
	Threshold []float64
	Left      []int32 // index of a node, or ^index of a leaf
	Right     []int32
	Rules     []Rule

	Values []float64 // by leaf, Width values each
	Width  int       // 1, or Outputs
	Linear *Linear   // nil: leaves are constants

	Sets      [][]uint32 // category c is in a set where bit c%32 of word c/32 is set
	Rounding  Rounding   // how a value becomes a category
	Aggregate Aggregate

	Base     []float64 // by output; nil: zeros
	BaseLast bool
	Divisor  float64 // 0: none
	Scale    float64 // 0: none

	Transform Transform // of margins to outputs
	Steepness float64   // of sigmoids: 1 / (1 + exp(-Steepness·x)); 0 means 1
	Coarse    bool      // Softmax and Exp take CatBoost's own exponential, not the C library's
}

// Tree is a tree's place in the arrays. Its nodes and leaves reach to those of the next tree. A tree without nodes
// is one leaf.
type Tree struct {
	Node, Leaf int32 // the first of each
	Output     int32 // where its value is added; 0 if leaves have a value for each output
}

// Rule says how a node tests a value.
type Rule uint8

// The rules of a node; they combine, except for Equal and Member.
const (
	MissingLeft Rule = 1 << iota // a missing value goes left
	ZeroMissing                  // values from -1e-35 to 1e-35 are missing
	Equal                        // left where x == Threshold
	Member                       // left where x is in set int(Threshold)

	rules = MissingLeft | ZeroMissing | Equal | Member
)

// Rounding is how the value of a column becomes a category.
type Rounding uint8

// XGBoost cuts off the fraction and knows no category below 0, not even -0.5. LightGBM cuts off the fraction first.
// For ONNX, only whole numbers are categories.
const (
	NonNegative Rounding = iota
	Truncate
	Whole
)

// Aggregate says how the values of trees become a margin.
type Aggregate uint8

// The aggregates; a mean is a Sum with a Divisor. The minimum and the maximum have the base added last.
const (
	Sum Aggregate = iota
	Min
	Max
)

// Linear holds LightGBM's linear leaves. The value of leaf i is Const[i] + Coefficient[j]·x[Feature[j]] for j from
// Start[i] to Start[i+1], added in this order; where one of those values is NaN, the leaf's constant value in Values
// counts instead. Values from -1e-35 to 1e-35 count as 0.
type Linear struct {
	Const       []float64
	Start       []int32 // one more than leaves
	Feature     []int32
	Coefficient []float64
}

// zeroThreshold is LightGBM's: smaller values are zeros.
const zeroThreshold = float64(float32(1e-35))

// nodes gives the nodes of tree t, from lo to hi.
func (e *Ensemble) nodes(t int) (lo, hi int32) {
	if t+1 < len(e.Trees) {
		return e.Trees[t].Node, e.Trees[t+1].Node
	}
	return e.Trees[t].Node, int32(len(e.Feature))
}

// leaves gives the leaves of tree t, from lo to hi.
func (e *Ensemble) leaves(t int) (lo, hi int32) {
	if t+1 < len(e.Trees) {
		return e.Trees[t].Leaf, e.Trees[t+1].Leaf
	}
	return e.Trees[t].Leaf, int32(len(e.Values) / e.Width)
}
