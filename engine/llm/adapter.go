package llm

import (
	"errors"
	"fmt"
	"runtime"

	"weir/engine/gguf"
	"weir/engine/kernel/weight"
	"weir/internal/arena"
)

// ErrAdapter is wrapped by errors about the file of an adapter that cannot be used with a model.
var ErrAdapter = errors.New("unusable adapter")

// MostAdapterRank is the largest rank of an adapter, unless [Options] have a smaller one.
const MostAdapterRank = 512

// AdapterOptions say how an adapter is read.
type AdapterOptions struct {
	Name  string
	Scale float32 // by which all that it adds is multiplied; 0 is 1
}

// AdapterInfo describes a loaded adapter.
type AdapterInfo struct {
	Name    string
	Digest  string // of the tensors' names and shapes and of all values, as they were read, in hexadecimal; "" of one that was only described
	Rank    int    // the largest of its tensors
	Alpha   float32
	Scale   float32 // of the options
	Tensors int     // of the model that it changes
	Bytes   int64   // in memory
}

// mostAdapterScale bounds what adapters are scaled by, far above all that are made: answers behind larger ones overflow.
const mostAdapterScale = 1e6

// adapter is a LoRA adapter: to what a matrix W makes of x it adds scale*B(A x), A being [rank][inputs] and B [outputs][rank]. Its
// memory goes back once it was unloaded and the last request has ended that computes with it.
type adapter struct {
	info   AdapterInfo
	id     uint64 // in the order of loading
	deltas map[*weight.Matrix]*weight.LowRank
}

// readAdapter reads the adapter of a file that fits the model. Errors wrap ErrAdapter and name what does not fit.
func readAdapter(m *model, f *gguf.File, opts AdapterOptions, maxRank int) (*adapter, error) {
	x, a, err := checkAdapter(m, f, opts, maxRank)
	if err != nil {
		return nil, err
	}
	memory := new(tensorMemory)
	if err := x.loader.fill(memory, func(int64, int64) {}, func() error { return nil }); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrAdapter, err), memory.release())
	}
	if err := x.checkValues(a); err != nil {
		return nil, errors.Join(err, memory.release())
	}
	a.info.Digest = x.digest()
	runtime.AddCleanup(a, func(m *arena.Arena) { _ = m.Release() }, memory.arena)
	return a, nil
}

// DescribeAdapter tells what an adapter of a model would be, of which no weights are loaded. The error says why [Adapters.Load] would refuse it.
func DescribeAdapter(model, f *gguf.File, opts Options, own AdapterOptions) (AdapterInfo, error) {
	o, err := readOutline(model, &opts)
	if err != nil {
		return AdapterInfo{}, err
	}
	_, a, err := checkAdapter(o.shapes(), f, own, opts.MaxAdapterRank)
	if err != nil {
		return AdapterInfo{}, err
	}
	return a.info, nil
}
