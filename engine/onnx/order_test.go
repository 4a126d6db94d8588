package onnx

import (
	"slices"
	"testing"
)

// TestNodesAreBuiltBehindWhatTheyTake: files whose nodes stand in front of those that they take values of are read, as converters to float16 write them.
func TestNodesAreBuiltBehindWhatTheyTake(t *testing.T) {
	node := func(out string, in ...string) nodeProto { return nodeProto{inputs: in, outputs: []string{out}} }
	inner := &graphProto{nodes: []nodeProto{node("y", "c")}}
	branch := node("d", "x")
	branch.attributes = map[string]attribute{"then_branch": {graph: inner}}
	for _, c := range []struct {
		name  string
		nodes []nodeProto
		want  []int
	}{
		{"in order", []nodeProto{node("a", "x"), node("b", "a"), node("c", "x", "b")}, []int{0, 1, 2}},
		{"appended", []nodeProto{node("a", "c"), node("b", "a", "d"), node("c", "d"), node("d", "x")}, []int{3, 2, 0, 1}},
		{"taken by a graph within", []nodeProto{branch, node("c", "x")}, []int{1, 0}},
		{"around", []nodeProto{node("a", "b"), node("b", "a")}, []int{1, 0}},
	} {
		if got := orderOf(c.nodes); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
}
