package onnx

import (
	"fmt"
	"slices"

	"weir/internal/tensor"
)

// columnsIn is how many columns input 0 has, 0 where that is not known at load.
func columnsIn(o *operands) int64 {
	if o.b.g != &o.b.m.graph {
		return 0
	}
	for i, id := range o.b.g.given {
		if id == o.in[0] {
			if shape := o.b.m.inputs[i].Shape; len(shape) > 0 && shape[len(shape)-1] > 0 {
				return shape[len(shape)-1]
			}
		}
	}
	return 0
}

// realsOf are the numbers of an attribute in one of its two forms: floats, or a tensor
// of name_as_tensor.
func realsOf(r *attributeReader, name string, double bool) ([]float64, error) {
	if t := r.tensor(name + "_as_tensor"); t != nil {
		return tensorReals(t, double)
	}
	return widened(r.floats(name)), nil
}

func widened(from []float32) []float64 {
	to := make([]float64, len(from))
	for i, x := range from {
		to[i] = float64(x)
	}
	return to
}

// tensorReals are the elements of a tensor of the type that the node computes in.
func tensorReals(t *tensor.Tensor, double bool) ([]float64, error) {
	switch {
	case t == nil:
		return nil, nil
	case t.Type == tensor.Float64 && double:
		return tensor.Values[float64](t), nil
	case t.Type == tensor.Float32:
		return widened(tensor.Values[float32](t)), nil
	}
	return nil, fmt.Errorf("numbers of type %v for inputs of another", t.Type)
}

// treesOf reads the attributes of TreeEnsembleRegressor and TreeEnsembleClassifier,
// whose leaves' weights have names that begin with weight.
func treesOf(r *attributeReader, f *forest, weight string) error {
	r.ignore("nodes_hitrates", "nodes_hitrates_as_tensor")
	treeIDs, nodeIDs := r.integers("nodes_treeids"), r.integers("nodes_nodeids")
	yes, no := r.integers("nodes_truenodeids"), r.integers("nodes_falsenodeids")
	features, tracks := r.integers("nodes_featureids"), r.integers("nodes_missing_value_tracks_true")
	a, _ := r.attribute("nodes_modes")
	thresholds, err := realsOf(r, "nodes_values", f.double)
	if err != nil {
		return err
	}
	count := len(nodeIDs)
	for _, have := range []int{len(treeIDs), len(yes), len(no), len(features), len(a.strings), len(thresholds)} {
		if have != count {
			return fmt.Errorf("the lists of nodes have %d and %d elements", count, have)
		}
	}
	if tracks != nil && len(tracks) != count {
		return fmt.Errorf("%d nodes_missing_value_tracks_true for %d nodes", len(tracks), count)
	}
	where := make(map[[2]int64][2]int32, count) // tree and node in the file: tree and node here
	first := make(map[int64]int32)
	for i := range nodeIDs {
		t, known := first[treeIDs[i]]
		if !known {
			t = int32(len(f.trees))
			first[treeIDs[i]] = t
			f.trees = append(f.trees, nil)
		}
		m, ok := modes[string(a.strings[i])]
		if !ok {
			return fmt.Errorf("node %d has mode %q, which is unknown", nodeIDs[i], text(a.strings[i]))
		}
		key := [2]int64{treeIDs[i], nodeIDs[i]}
		if _, taken := where[key]; taken {
			return fmt.Errorf("tree %d has two nodes %d", treeIDs[i], nodeIDs[i])
		}
		where[key] = [2]int32{t, int32(len(f.trees[t]))}
		f.trees[t] = append(f.trees[t], branch{
			mode: m, feature: features[i], threshold: thresholds[i], track: tracks != nil && tracks[i] == 1,
		})
	}
	for i := range nodeIDs {
		at := where[[2]int64{treeIDs[i], nodeIDs[i]}]
		b := &f.trees[at[0]][at[1]]
		if b.mode == leaf {
			continue
		}
		for _, child := range []struct {
			id int64
			to *int32
		}{{yes[i], &b.yes}, {no[i], &b.no}} {
			to, ok := where[[2]int64{treeIDs[i], child.id}]
			if !ok {
				return fmt.Errorf("node %d of tree %d leads to node %d, which is not there", nodeIDs[i], treeIDs[i], child.id)
			}
			*child.to = to[1]
		}
	}
	return leavesOf(r, f, weight, where)
}

// leavesOf gives the leaves their weights.
func leavesOf(r *attributeReader, f *forest, weight string, where map[[2]int64][2]int32) error {
	treeIDs, nodeIDs, targets := r.integers(weight+"_treeids"), r.integers(weight+"_nodeids"), r.integers(weight+"_ids")
	weights, err := realsOf(r, weight+"_weights", f.double)
	if err != nil {
		return err
	}
	for _, have := range []int{len(treeIDs), len(nodeIDs), len(targets)} {
		if have != len(weights) {
			return fmt.Errorf("the lists of %s have %d and %d elements", weight, len(weights), have)
		}
	}
	for i, w := range weights {
		at, ok := where[[2]int64{treeIDs[i], nodeIDs[i]}]
		if !ok {
			return fmt.Errorf("%s_weights: node %d of tree %d is not there", weight, nodeIDs[i], treeIDs[i])
		}
		b := &f.trees[at[0]][at[1]]
		b.targets, b.weights = append(b.targets, targets[i]), append(b.weights, w)
	}
	return nil
}

// sharedNodes are the attributes of TreeEnsemble: the nodes and leaves of all trees.
type sharedNodes struct {
	yes, no, yesLeaf, noLeaf []int64
	features, tracks         []int64
	splits                   []float64
	modes                    []byte
	sets                     [][]float64 // of the nodes of mode member, by node
	targets                  []int64
	weights                  []float64
	seen                     []bool
}

func (s *sharedNodes) check(members []float64) error {
	count := len(s.modes)
	for _, have := range []int{len(s.yes), len(s.no), len(s.yesLeaf), len(s.noLeaf), len(s.features), len(s.splits)} {
		if have != count {
			return fmt.Errorf("the lists of nodes have %d and %d elements", count, have)
		}
	}
	if s.tracks != nil && len(s.tracks) != count {
		return fmt.Errorf("%d nodes_missing_value_tracks_true for %d nodes", len(s.tracks), count)
	}
	if len(s.targets) != len(s.weights) {
		return fmt.Errorf("%d leaf_targetids and %d leaf_weights", len(s.targets), len(s.weights))
	}
	s.seen = make([]bool, count)
	s.sets = make([][]float64, count)
	for i, m := range s.modes {
		if m >= byte(leaf) {
			return fmt.Errorf("node %d has mode %d, which is unknown", i, m)
		}
		if mode(m) != member {
			continue
		}
		// One set ends at a value that is not a number; the next node's follows.
		end := slices.IndexFunc(members, func(x float64) bool { return x != x })
		if end < 0 {
			if end = len(members); end == 0 {
				return fmt.Errorf("membership_values has no set for node %d", i)
			}
		}
		s.sets[i] = members[:end]
		members = members[min(end+1, len(members)):]
	}
	return nil
}

// tree collects the nodes that a root leads to.
func (s *sharedNodes) tree(root int64) ([]branch, error) {
	if root < 0 || root >= int64(len(s.modes)) {
		return nil, fmt.Errorf("a root is node %d of %d", root, len(s.modes))
	}
	var t []branch
	type place struct {
		index  int64
		isLeaf bool
		parent int32
		no     bool
	}
	waiting := []place{{index: root, parent: -1}}
	for len(waiting) > 0 {
		p := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		if p.parent >= 0 {
			to := &t[p.parent].yes
			if p.no {
				to = &t[p.parent].no
			}
			*to = int32(len(t))
		}
		if p.isLeaf {
			if p.index < 0 || p.index >= int64(len(s.weights)) {
				return nil, fmt.Errorf("a node leads to leaf %d of %d", p.index, len(s.weights))
			}
			t = append(t, branch{mode: leaf, targets: s.targets[p.index : p.index+1], weights: s.weights[p.index : p.index+1]})
			continue
		}
		if p.index < 0 || p.index >= int64(len(s.modes)) {
			return nil, fmt.Errorf("a node leads to node %d of %d", p.index, len(s.modes))
		}
		if s.seen[p.index] {
			return nil, fmt.Errorf("node %d has two parents, or a tree and a root", p.index)
		}
		s.seen[p.index] = true
		i, at := p.index, int32(len(t))
		t = append(t, branch{
			mode: mode(s.modes[i]), feature: s.features[i], threshold: s.splits[i],
			track: s.tracks != nil && s.tracks[i] == 1, members: s.sets[i],
		})
		waiting = append(waiting, place{s.no[i], s.noLeaf[i] != 0, at, true}, place{s.yes[i], s.yesLeaf[i] != 0, at, false})
	}
	return t, nil
}
