package onnx

import (
	"errors"
	"fmt"
	"math"

	"weir/engine/gbdt"
)

// forest collects the trees of an operator, in whatever form the operator set gives
// them, and makes a gbdt.Model of them. The trees' values are added in the order of
// the file, as ONNX Runtime does on one thread.
type forest struct {
	trees   [][]branch
	targets int
	double  bool // thresholds and sums are float64
	average bool
	pick    gbdt.Aggregate
	base    []float64 // added to the sums, where it has one for each target
}

// branch is a node of a tree: a test that leads to two others, or a leaf.
type branch struct {
	mode      mode
	feature   int64
	threshold float64
	members   []float64 // of mode member
	track     bool      // what is not a number takes the true branch
	yes, no   int32     // in the tree
	targets   []int64   // of a leaf
	weights   []float64
}

// mode is a node's comparison, by the numbers of TreeEnsemble.
type mode uint8

const (
	leq mode = iota
	lt
	gte
	gt
	eq
	neq
	member
	leaf
)

var modes = map[string]mode{
	"BRANCH_LEQ": leq, "BRANCH_LT": lt, "BRANCH_GTE": gte, "BRANCH_GT": gt, "BRANCH_EQ": eq, "BRANCH_NEQ": neq, "LEAF": leaf,
}

// nothing is the value of a leaf for a target that it has no weight for.
func (f *forest) nothing() float64 {
	switch f.pick {
	case gbdt.Min:
		return math.Inf(1)
	case gbdt.Max:
		return math.Inf(-1)
	}
	return 0
}

// valuesPerWeight bounds the memory of leaves that name few of many targets.
const valuesPerWeight = 64

// model makes the evaluator; columns is how many a row has, 0 where that is not known.
func (f *forest) model(columns int64) (*gbdt.Model, error) {
	e := &gbdt.Ensemble{
		Format: "onnx", Outputs: f.targets, Rows64: f.double, Sums64: f.double, Rounding: gbdt.Whole,
		Aggregate: f.pick, Base: f.base, BaseLast: f.base != nil, Features: int(max(columns, 1)),
	}
	if f.average {
		e.Divisor = float64(len(f.trees))
	}
	weights, leaves := 0, 0
	strict, loose := false, false
	for _, t := range f.trees {
		for i := range t {
			b := &t[i]
			if b.mode == leaf {
				weights += len(b.weights)
				leaves++
				continue
			}
			if b.feature < 0 || b.feature >= 1<<24 || columns > 0 && b.feature >= columns {
				return nil, fmt.Errorf("a node tests column %d of %d", b.feature, columns)
			}
			e.Features = max(e.Features, int(b.feature)+1)
			strict = strict || b.mode == lt || b.mode == gte
			loose = loose || b.mode == leq || b.mode == gt
		}
	}
	e.Less = strict && !loose
	e.Width = 1
	if !f.oneTargetPerTree() {
		e.Width = f.targets
		if leaves*f.targets > valuesPerWeight*weights+1<<20 {
			return nil, fmt.Errorf("%d leaves of %d targets have %d weights only", leaves, f.targets, weights)
		}
	}
	for i, t := range f.trees {
		nodes, output, err := f.nodes(e, t)
		if err == nil {
			err = e.Add(nodes, output)
		}
		if err != nil {
			return nil, fmt.Errorf("tree %d: %w", i, err)
		}
	}
	return gbdt.New(e)
}

// oneTargetPerTree reports whether all leaves of each tree have one weight, for the
// same target.
func (f *forest) oneTargetPerTree() bool {
	if f.targets == 1 {
		return true
	}
	for _, t := range f.trees {
		target := int64(-1)
		for i := range t {
			if t[i].mode != leaf {
				continue
			}
			if len(t[i].targets) != 1 || target >= 0 && t[i].targets[0] != target {
				return false
			}
			target = t[i].targets[0]
		}
	}
	return true
}

// nodes turns a tree into gbdt's, whose left is where the test holds.
func (f *forest) nodes(e *gbdt.Ensemble, t []branch) ([]gbdt.Node, int, error) {
	nodes := make([]gbdt.Node, len(t))
	output := 0
	var values []float64 // of all leaves
	for i := range t {
		b := &t[i]
		if b.mode != leaf {
			var err error
			if nodes[i], err = b.node(e.Less, f.double); err != nil {
				return nil, 0, err
			}
			continue
		}
		n := &nodes[i]
		n.Left, n.Right = -1, -1
		if e.Width > 1 {
			at := len(values)
			values = append(values, make([]float64, e.Width)...)
			n.Values = values[at : at+e.Width : at+e.Width]
			for j := range n.Values {
				n.Values[j] = f.nothing()
			}
		}
		for j, target := range b.targets {
			switch {
			case target < 0 || target >= int64(f.targets):
				return nil, 0, fmt.Errorf("a leaf is for target %d of %d", target, f.targets)
			case e.Width > 1 && f.pick == gbdt.Sum:
				n.Values[target] += b.weights[j]
			case e.Width > 1:
				n.Values[target] = b.weights[j]
			case j == 0:
				n.Value, output = b.weights[0], int(target)
			}
		}
	}
	return nodes, output, nil
}

// node turns a test into one that gbdt knows: of the opposite comparisons with the
// branches exchanged, of LT among LEQ with the next smaller threshold.
func (b *branch) node(less, double bool) (gbdt.Node, error) {
	n := gbdt.Node{Left: b.yes, Right: b.no, Feature: int32(b.feature), Threshold: b.threshold}
	missingLeft := b.track
	switch b.mode {
	case gte, gt, neq:
		n.Left, n.Right = b.no, b.yes
		// A comparison with what is not a number is false, except for NEQ.
		missingLeft = !b.track && b.mode != neq
	case member:
		n.Rule |= gbdt.Member
		var err error
		if n.Set, err = setOf(b.members); err != nil {
			return n, err
		}
	}
	if b.mode == eq || b.mode == neq {
		n.Rule |= gbdt.Equal
	}
	if missingLeft {
		n.Rule |= gbdt.MissingLeft
	}
	if math.IsNaN(b.threshold) && b.mode != member {
		return n, errors.New("a threshold is not a number")
	}
	if (b.mode == lt || b.mode == gte) && !less {
		if math.IsInf(b.threshold, -1) {
			return n, errors.New("a threshold is -Inf among comparisons of other kinds")
		}
		n.Threshold = below(b.threshold, double)
	}
	return n, nil
}

// below is the next smaller number of the type that thresholds have.
func below(x float64, double bool) float64 {
	if !double {
		return float64(math.Nextafter32(float32(x), float32(math.Inf(-1))))
	}
	return math.Nextafter(x, math.Inf(-1))
}

// maxMember bounds the categories of a set.
const maxMember = 1 << 16

func setOf(members []float64) ([]uint32, error) {
	var set []uint32
	for _, m := range members {
		if m < 0 || m > maxMember || m != math.Trunc(m) {
			return nil, fmt.Errorf("a set has the member %v; whole numbers from 0 to %d are supported; %s", m, maxMember, wayOut)
		}
		for len(set) <= int(m)/32 {
			set = append(set, 0)
		}
		set[int(m)/32] |= 1 << (int(m) % 32)
	}
	return set, nil
}
