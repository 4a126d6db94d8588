package onnx

import "slices"

// orderOf is the order in which nodes are built: each behind those whose outputs it takes, and else as the file has them. Converters append
// nodes that stand in front of others. Nodes that wait for one another keep their places, and the builder names what is missing.
func orderOf(list []nodeProto) []int {
	by := make(map[string]int) // nodes by what they compute
	for i := range list {
		for _, name := range list[i].outputs {
			if name != "" {
				by[name] = i
			}
		}
	}
	order := make([]int, 0, len(list))
	begun := make([]bool, len(list))
	type visit struct {
		node  int
		needs []int
	}
	var open []visit
	begin := func(i int) {
		begun[i] = true
		var needs []int
		list[i].eachName(func(name string) {
			if j, ok := by[name]; ok && !begun[j] {
				needs = append(needs, j)
			}
		})
		slices.Sort(needs) // attributes are in no order
		open = append(open, visit{i, needs})
	}
	for i := range list {
		if begun[i] {
			continue
		}
		for begin(i); len(open) > 0; {
			v := &open[len(open)-1]
			if len(v.needs) == 0 {
				order = append(order, v.node)
				open = open[:len(open)-1]
				continue
			}
			next := v.needs[0]
			v.needs = v.needs[1:]
			if !begun[next] {
				begin(next)
			}
		}
	}
	return order
}

// eachName gives the names of values that a node takes, in its graphs as well.
func (p *nodeProto) eachName(f func(name string)) {
	for _, name := range p.inputs {
		f(name)
	}
	for _, a := range p.attributes {
		if a.graph == nil {
			continue
		}
		for i := range a.graph.nodes {
			a.graph.nodes[i].eachName(f)
		}
		for i := range a.graph.outputs {
			f(a.graph.outputs[i].name)
		}
	}
}
