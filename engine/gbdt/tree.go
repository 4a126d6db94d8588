package gbdt

import (
	"errors"
	"fmt"
)

// Node is a node or a leaf of a tree as a reader finds it, in any order.
type Node struct {
	Left, Right int32 // indices in the tree's own list; both negative: a leaf
	Feature     int32
	Rule        Rule
	Threshold   float64
	Set         []uint32 // with the rule Member, instead of Threshold; the ensemble keeps it

	Value  float64   // of a leaf
	Values []float64 // of a leaf, where Ensemble.Width > 1
	Linear *Terms    // of a leaf; nil: the value alone
}

// Terms is the linear part of a leaf: Const + the sum of Coefficient[i]·x[Feature[i]].
type Terms struct {
	Const       float64
	Feature     []int32
	Coefficient []float64
}

// Add appends a tree whose root is nodes[0], in preorder: a node, all that is left of it, all that is right of it. The
// leaves so lie from left to right. The tree's value goes to the margin of output, which is 0 where leaves have a value
// for each. Nodes that the root does not lead to are left out. Outputs and Width are set before.
func (e *Ensemble) Add(nodes []Node, output int) error {
	if len(e.Trees) >= maxTrees {
		return fmt.Errorf("more than %d trees", maxTrees)
	}
	if len(nodes) == 0 {
		return fmt.Errorf("tree %d has no nodes", len(e.Trees))
	}
	if output < 0 || output >= e.Outputs {
		return fmt.Errorf("tree %d is for output %d of %d", len(e.Trees), output, e.Outputs)
	}
	if e.Width == 0 {
		e.Width = 1
	}
	tree := Tree{Node: int32(len(e.Feature)), Leaf: int32(len(e.Values) / e.Width), Output: int32(output)}
	if err := (&treeAppender{ensemble: e, nodes: nodes}).add(); err != nil {
		return fmt.Errorf("tree %d: %w", len(e.Trees), err)
	}
	e.Trees = append(e.Trees, tree)
	return nil
}

// treeAppender walks a tree from its root and appends what it meets, left before right.
type treeAppender struct {
	ensemble *Ensemble
	nodes    []Node
	waiting  []pendingNode
}

// pendingNode is a node of the reader's list whose index in the ensemble its parent does not have yet.
type pendingNode struct {
	node   int32
	parent int32 // in the ensemble; -1 for the root
	right  bool
}

func (a *treeAppender) add() error {
	a.waiting = append(a.waiting[:0], pendingNode{parent: -1})
	for met := 0; len(a.waiting) > 0; met++ {
		next := a.waiting[len(a.waiting)-1]
		a.waiting = a.waiting[:len(a.waiting)-1]
		if next.node < 0 || int(next.node) >= len(a.nodes) {
			return fmt.Errorf("a child is node %d of %d", next.node, len(a.nodes))
		}
		if met == len(a.nodes) {
			return errors.New("a node has two parents or is its own descendant")
		}
		index, err := a.append(&a.nodes[next.node])
		switch {
		case err != nil:
			return fmt.Errorf("node %d: %w", next.node, err)
		case next.parent < 0:
		case next.right:
			a.ensemble.Right[next.parent] = index
		default:
			a.ensemble.Left[next.parent] = index
		}
	}
	return nil
}

// append gives the index of a node, or ^index of a leaf, and puts a node's children in line.
func (a *treeAppender) append(node *Node) (int32, error) {
	e := a.ensemble
	if node.Left < 0 && node.Right < 0 {
		return ^int32(len(e.Values) / e.Width), a.appendLeaf(node)
	}
	threshold := node.Threshold
	if node.Rule&Member != 0 {
		threshold = float64(len(e.Sets))
		e.Sets = append(e.Sets, node.Set)
	}
	n := int32(len(e.Feature))
	if n >= maxNodes {
		return 0, fmt.Errorf("more than %d nodes", maxNodes)
	}
	e.Feature = append(e.Feature, node.Feature)
	e.Threshold = append(e.Threshold, threshold)
	e.Rules = append(e.Rules, node.Rule)
	e.Left, e.Right = append(e.Left, 0), append(e.Right, 0)
	a.waiting = append(a.waiting, pendingNode{node.Right, n, true}, pendingNode{node.Left, n, false})
	return n, nil
}

func (a *treeAppender) appendLeaf(node *Node) error {
	e := a.ensemble
	if len(e.Values) > maxNodes-e.Width {
		return fmt.Errorf("more than %d leaf values", maxNodes)
	}
	switch {
	case e.Width == 1 && node.Values == nil:
		e.Values = append(e.Values, node.Value)
	case len(node.Values) == e.Width:
		e.Values = append(e.Values, node.Values...)
	default:
		return fmt.Errorf("a leaf has %d values, not %d", len(node.Values), e.Width)
	}
	if node.Linear == nil && e.Linear == nil {
		return nil
	}
	return e.appendTerms(node)
}

// appendTerms gives the last leaf its linear part. A leaf without one among linear leaves is its constant.
func (e *Ensemble) appendTerms(node *Node) error {
	leaf := len(e.Values) - 1
	l := e.Linear
	if l == nil {
		l = &Linear{Const: append([]float64(nil), e.Values[:leaf]...), Start: make([]int32, leaf+1)}
		e.Linear = l
	}
	terms := node.Linear
	if terms == nil {
		terms = &Terms{Const: node.Value}
	}
	if len(terms.Feature) != len(terms.Coefficient) {
		return fmt.Errorf("a linear leaf has %d features and %d coefficients", len(terms.Feature), len(terms.Coefficient))
	}
	l.Const = append(l.Const, terms.Const)
	l.Feature = append(l.Feature, terms.Feature...)
	l.Coefficient = append(l.Coefficient, terms.Coefficient...)
	l.Start = append(l.Start, int32(len(l.Feature)))
	return nil
}
