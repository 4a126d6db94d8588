package onnx

import (
	"slices"
	"sync"

	"weir/internal/tensor"
)

// graph is steps over values: a model's, or the body of a node of control flow.
type graph struct {
	values  []value     // every tensor of the graph; a step names them by index
	steps   []step      // in the order of the file, which is that of the data
	given   []int       // values of the inputs
	wanted  []int       // values of the outputs
	buffers int         // how many memories a frame has
	wide    map[int]int // by values of float16: those that hold them in float32
	frames  sync.Pool
}

// value is a tensor of the graph, or a sequence of tensors, as it is known at load.
type value struct {
	name     string
	form     form
	typ      tensor.Type // of a sequence: of its elements
	parts    []int       // the values that a sequence is made of; nil: only a run tells
	constant *tensor.Tensor
	labels   []string // of the classes along the last axis; nil: none
	fromData bool     // it follows from what the model's inputs hold, not from their sizes alone
	buffer   int      // the frame's memory that holds it, or one of:
}

const (
	fresh   = -1 // every run allocates the memory, which goes to the caller
	foreign = -2 // the memory is the caller's or the model's, and is only read
)

// step is a node of the graph, ready to run.
type step struct {
	what    string // the node for errors
	run     kernel
	in, out []int // values; absent is -1
	alias   bool  // output 0 may share the memory of input 0
}

// absent marks an optional input or output that the node leaves out.
const absent = -1

// kernel computes a node's outputs from its inputs.
type kernel func(c *call) error

// keep makes a value one that outlives a run.
func (g *graph) keep(id int) {
	if g.values[id].buffer != foreign {
		g.values[id].buffer = fresh
	}
}

// finish plans the memory of a graph whose steps are all there.
func (g *graph) finish() {
	g.prune()
	g.placeBuffers()
}

// performAll runs all steps.
func (f *frame) performAll() error {
	for i := range f.graph.steps {
		if err := f.perform(&f.graph.steps[i]); err != nil {
			return err
		}
	}
	return nil
}

// prune drops the steps whose outputs nothing needs.
func (g *graph) prune() {
	needed := make([]bool, len(g.values))
	for _, id := range g.wanted {
		needed[id] = true
	}
	for i := len(g.steps) - 1; i >= 0; i-- {
		s := &g.steps[i]
		if !slices.ContainsFunc(s.out, func(id int) bool { return id != absent && needed[id] }) {
			g.steps = slices.Delete(g.steps, i, i+1)
			continue
		}
		for _, id := range s.in {
			if id != absent {
				needed[id] = true
			}
		}
	}
}

// placeBuffers gives the values that only steps use a memory each, which another
// value takes over after the last step that reads it.
func (g *graph) placeBuffers() {
	values := g.values
	root := make([]int, len(values)) // the value whose memory it is
	last := make([]int, len(values)) // the last step that reads the memory, by root
	for i := range root {
		root[i] = i
	}
	for i, s := range g.steps {
		for _, id := range s.in {
			if id != absent {
				last[root[id]] = i
			}
		}
		if s.alias && s.out[0] != absent && values[s.out[0]].buffer != fresh {
			root[s.out[0]] = root[s.in[0]]
		}
		for _, id := range s.out {
			if id != absent {
				last[root[id]] = max(last[root[id]], i)
			}
		}
	}
	var free []int
	for i, s := range g.steps {
		for _, id := range s.out {
			if id == absent || root[id] != id || values[id].buffer == fresh {
				continue
			}
			if len(free) == 0 {
				free = append(free, g.buffers)
				g.buffers++
			}
			values[id].buffer = free[len(free)-1]
			free = free[:len(free)-1]
		}
		freed := make(map[int]bool)
		for _, id := range slices.Concat(s.in, s.out) {
			if id == absent || last[root[id]] != i {
				continue
			}
			if buffer := values[root[id]].buffer; buffer >= 0 && !freed[buffer] {
				free, freed[buffer] = append(free, buffer), true
			}
		}
	}
}
