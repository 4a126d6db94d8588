package onnx

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/tensor"
)

// attributeReader gives a node's attributes, and notes which it was asked for.
type attributeReader struct {
	given   map[string]attribute
	read    []string // attributes that it was asked for
	special []string // those that it was asked for as graphs or types
}

func (r *attributeReader) attribute(name string) (attribute, bool) {
	r.read = append(r.read, name)
	a, ok := r.given[name]
	return a, ok
}

func (r *attributeReader) integer(name string, otherwise int64) int64 {
	if a, ok := r.attribute(name); ok {
		return a.i
	}
	return otherwise
}

func (r *attributeReader) float(name string, otherwise float32) float32 {
	if a, ok := r.attribute(name); ok {
		return a.f
	}
	return otherwise
}

func (r *attributeReader) str(name, otherwise string) string {
	if a, ok := r.attribute(name); ok {
		return string(a.s)
	}
	return otherwise
}

func (r *attributeReader) integers(name string) []int64 { a, _ := r.attribute(name); return a.ints }

func (r *attributeReader) floats(name string) []float32 { a, _ := r.attribute(name); return a.floats }

func (r *attributeReader) strings(name string) [][]byte {
	a, _ := r.attribute(name)
	return clones(a.strings)
}

// clones copies strings out of the file's bytes, into one memory.
func clones(from [][]byte) [][]byte {
	if len(from) == 0 {
		return nil
	}
	size := 0
	for _, s := range from {
		size += len(s)
	}
	memory := make([]byte, 0, size)
	to := make([][]byte, len(from))
	for i, s := range from {
		start := len(memory)
		memory = append(memory, s...)
		to[i] = memory[start:len(memory):len(memory)]
	}
	return to
}

func (r *attributeReader) graph(name string) *graphProto {
	a, _ := r.attribute(name)
	r.special = append(r.special, name)
	return a.graph
}

func (r *attributeReader) valueType(name string) *valueProto {
	a, _ := r.attribute(name)
	r.special = append(r.special, name)
	return a.value
}

func (r *attributeReader) tensor(name string) *tensor.Tensor {
	a, _ := r.attribute(name)
	return a.tensor
}

// ignore names attributes that change no result.
func (r *attributeReader) ignore(names ...string) { r.read = append(r.read, names...) }

// checkAttributes refuses attributes that the constructor did not ask for: they would
// change what the operator means.
func (r *attributeReader) checkAttributes() error {
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(r.given)) {
		if a := r.given[name]; !slices.Contains(r.read, name) || a.foreign || a.refers != "" || (a.graph != nil || a.value != nil) && !slices.Contains(r.special, name) {
			unknown = append(unknown, name)
		}
	}
	if unknown != nil {
		return fmt.Errorf("attribute %s is not supported; %s", strings.Join(unknown, ", "), wayOut)
	}
	return nil
}
