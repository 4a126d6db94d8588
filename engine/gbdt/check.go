package gbdt

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Limits of an ensemble, far above what anyone serves. They bound the time of one row and keep indices in an int32.
const (
	maxFeatures = 1 << 24
	maxOutputs  = 1 << 16
	maxTrees    = 1 << 20
	maxNodes    = 1 << 28 // of all trees
	maxDepth    = 1 << 12
)

// check says what is wrong with an ensemble, so that no kernel needs to look at an index again: every index is in
// range, every node and leaf belongs to one parent in its own tree, parents stand before children.
func (e *Ensemble) check() error {
	if err := e.checkShape(); err != nil {
		return err
	}
	depth := make([]int32, len(e.Feature))
	seen := make([]bool, len(e.Values)/e.Width)
	for t := range e.Trees {
		if err := e.checkTree(t, depth, seen); err != nil {
			return fmt.Errorf("tree %d of %d: %w", t, len(e.Trees), err)
		}
	}
	if err := e.checkNumbers(); err != nil {
		return err
	}
	if err := e.checkOutputs(); err != nil {
		return err
	}
	return e.checkLinear()
}

func (e *Ensemble) checkShape() error {
	n := len(e.Feature)
	switch {
	case e.Features < 1 || e.Features > maxFeatures:
		return fmt.Errorf("%d features, not 1 to %d", e.Features, maxFeatures)
	case e.Outputs < 1 || e.Outputs > maxOutputs:
		return fmt.Errorf("%d outputs, not 1 to %d", e.Outputs, maxOutputs)
	case len(e.Trees) > maxTrees:
		return fmt.Errorf("%d trees, not at most %d", len(e.Trees), maxTrees)
	case n > maxNodes || len(e.Values) > maxNodes:
		return fmt.Errorf("%d nodes and %d leaf values, not at most %d of each", n, len(e.Values), maxNodes)
	case len(e.Threshold) != n || len(e.Left) != n || len(e.Right) != n || len(e.Rules) != n:
		return fmt.Errorf("%d features of nodes, but %d thresholds, %d left and %d right children, %d rules",
			n, len(e.Threshold), len(e.Left), len(e.Right), len(e.Rules))
	case e.Width != 1 && e.Width != e.Outputs:
		return fmt.Errorf("leaves of %d values with %d outputs", e.Width, e.Outputs)
	case len(e.Values)%e.Width != 0:
		return fmt.Errorf("%d leaf values, not a multiple of %d", len(e.Values), e.Width)
	case e.Base != nil && len(e.Base) != e.Outputs:
		return fmt.Errorf("%d base scores with %d outputs", len(e.Base), e.Outputs)
	case e.FeatureNames != nil && len(e.FeatureNames) != e.Features:
		return fmt.Errorf("%d feature names with %d features", len(e.FeatureNames), e.Features)
	case e.Rows64 && !e.Sums64:
		return errors.New("rows of float64 with sums of float32")
	case e.Aggregate > Max || e.Rounding > Whole || e.Transform >= transforms:
		return fmt.Errorf("aggregate %d, rounding %d or transformation %d is unknown", e.Aggregate, e.Rounding, e.Transform)
	case e.Aggregate != Sum && e.Base != nil && !e.BaseLast:
		return errors.New("a minimum or maximum that starts from base scores")
	case e.Transform.width(e.Outputs) < 1:
		return fmt.Errorf("transformation %v of %d outputs", e.Transform, e.Outputs)
	}
	return nil
}

// checkTree checks tree t; depth and seen have room for all nodes and leaves.
func (e *Ensemble) checkTree(t int, depth []int32, seen []bool) error {
	tree := e.Trees[t]
	if t == 0 && (tree.Node != 0 || tree.Leaf != 0) {
		return fmt.Errorf("starts at node %d and leaf %d", tree.Node, tree.Leaf)
	}
	lo, hi := e.nodes(t)
	first, last := e.leaves(t)
	// A binary tree has one leaf more than nodes; then it is enough that no child has two parents.
	if lo < 0 || hi < lo || int(hi) > len(e.Feature) || first < 0 || int(last) > len(seen) ||
		int64(last)-int64(first) != int64(hi)-int64(lo)+1 {
		return fmt.Errorf("nodes %d to %d and leaves %d to %d", lo, hi, first, last)
	}
	if tree.Output < 0 || int(tree.Output) >= e.Outputs || (e.Width > 1 && tree.Output != 0) {
		return fmt.Errorf("output %d of %d", tree.Output, e.Outputs)
	}
	for n := lo; n < hi; n++ {
		if n > lo && depth[n] == 0 {
			return fmt.Errorf("node %d has no parent before it", n-lo)
		}
		if depth[n] >= maxDepth {
			return fmt.Errorf("deeper than %d", maxDepth)
		}
		if err := e.checkNode(n); err != nil {
			return fmt.Errorf("node %d: %w", n-lo, err)
		}
		for _, child := range [2]int32{e.Left[n], e.Right[n]} {
			switch {
			case child >= 0 && (child <= n || child >= hi || depth[child] != 0),
				child < 0 && (^child < first || ^child >= last || seen[^child]):
				return fmt.Errorf("node %d: child %d is no node or leaf after it, or has another parent", n-lo, child)
			case child >= 0:
				depth[child] = depth[n] + 1
			default:
				seen[^child] = true
			}
		}
	}
	return nil
}

func (e *Ensemble) checkNode(n int32) error {
	rule, threshold := e.Rules[n], e.Threshold[n]
	if e.Feature[n] < 0 || int(e.Feature[n]) >= e.Features {
		return fmt.Errorf("feature %d of %d", e.Feature[n], e.Features)
	}
	if rule&^rules != 0 || rule&(Equal|Member) == Equal|Member {
		return fmt.Errorf("rule %#x", uint8(rule))
	}
	if rule&Member != 0 && (threshold != math.Trunc(threshold) || threshold < 0 || threshold >= float64(len(e.Sets))) {
		return fmt.Errorf("set %v of %d", threshold, len(e.Sets))
	}
	if math.IsNaN(threshold) {
		return errors.New("the threshold is NaN")
	}
	if !e.Rows64 && rule&Member == 0 && float64(float32(threshold)) != threshold {
		return fmt.Errorf("threshold %v is no float32", threshold)
	}
	return nil
}

// checkOutputs checks that a minimum or maximum has something to choose from.
func (e *Ensemble) checkOutputs() error {
	if e.Aggregate == Sum {
		return nil
	}
	seen := make([]bool, e.Outputs)
	for _, t := range e.Trees {
		for j := range e.Width {
			seen[int(t.Output)+j] = true
		}
	}
	if j := slices.Index(seen, false); j >= 0 {
		return fmt.Errorf("the minimum or maximum of output %d has no trees", j)
	}
	return nil
}

// checkNumbers checks that an ensemble of float32 has no number that is none.
func (e *Ensemble) checkNumbers() error {
	if e.Sums64 {
		return nil
	}
	for _, list := range [][]float64{e.Values, e.Base, {e.Divisor, e.Scale}} {
		for _, x := range list {
			if float64(float32(x)) != x && !math.IsNaN(x) {
				return fmt.Errorf("the value %v of a leaf, base score, divisor or scale is no float32", x)
			}
		}
	}
	return nil
}

func (e *Ensemble) checkLinear() error {
	l := e.Linear
	if l == nil {
		return nil
	}
	leaves := len(e.Values) / e.Width
	if e.Width != 1 || !e.Rows64 || len(l.Const) != leaves || len(l.Start) != leaves+1 ||
		len(l.Feature) != len(l.Coefficient) || l.Start[0] != 0 || int(l.Start[leaves]) != len(l.Feature) {
		return fmt.Errorf("linear leaves of %d constants, %d starts, %d features, %d coefficients for %d leaves of %d values",
			len(l.Const), len(l.Start), len(l.Feature), len(l.Coefficient), leaves, e.Width)
	}
	for i := range leaves {
		if l.Start[i] > l.Start[i+1] {
			return fmt.Errorf("linear leaf %d from %d to %d", i, l.Start[i], l.Start[i+1])
		}
	}
	for i, f := range l.Feature {
		if f < 0 || int(f) >= e.Features {
			return fmt.Errorf("coefficient %d is for feature %d of %d", i, f, e.Features)
		}
	}
	return nil
}
