package grammar

// pruned copies parts of a trie, with the nodes above them, so that what is left can be walked as a trie again.
type pruned struct {
	from  []node
	path  []int // the current node of from and those above it, by depth
	nodes []node
	open  []int // where the copies of the current path lie in nodes, by depth; their sizes are not known yet
}

// at says that the walk has come to node i. It is called for every node that is visited, before the node is kept.
func (p *pruned) at(i int) {
	d := int(p.from[i].depth)
	p.path = append(p.path[:d-1], i)
	if len(p.open) >= d {
		p.seal(d - 1)
	}
}

// keepNode copies the current node.
func (p *pruned) keepNode(i int) {
	p.above(i)
	p.open = append(p.open, len(p.nodes))
	p.nodes = append(p.nodes, p.from[i])
}

// keepTree keeps the current node and all below it, as one node that refers to them.
func (p *pruned) keepTree(i int) {
	p.above(i)
	n := p.from[i]
	p.nodes = append(p.nodes, node{size: 1, token: int32(i), depth: n.depth | wholeTree, byte: n.byte})
}

// above copies the nodes above node i, without their tokens.
func (p *pruned) above(i int) {
	for d := len(p.open); d < int(p.from[i].depth)-1; d++ {
		p.open = append(p.open, len(p.nodes))
		n := p.from[p.path[d]]
		n.token = none
		p.nodes = append(p.nodes, n)
	}
}

// seal writes the sizes of the copies on the path below a depth.
func (p *pruned) seal(depth int) {
	for _, o := range p.open[depth:] {
		p.nodes[o].size = uint32(len(p.nodes) - o)
	}
	p.open = p.open[:depth]
}

func (p *pruned) take() []node {
	p.seal(0)
	return p.nodes
}
