package classic

import (
	"errors"
	"fmt"

	"weir/engine/gbdt"
	"weir/engine/onnx"
)

// Load reads a model of any format known here, checks it, chooses its kernel, finds out
// what its rows cost, and compares the golden rows.
func Load(data []byte, name string, o Options) (*Version, error) {
	m, err := read(data, o)
	if err != nil {
		return nil, err
	}
	v := newVersion(name, m, o)
	if o.Golden != nil {
		if err := o.Golden.check(v); err != nil {
			v.Close()
			return nil, err
		}
		v.warm(o.Golden.Inputs)
	} else {
		v.warm(nil)
	}
	return v, nil
}

// ErrFormat is a file that is no classical model of any kind; one that is broken gives other errors.
var ErrFormat = gbdt.ErrFormat

// Close gives up what Load took outside of Go's memory, once nothing computes with it any
// more. Who has loaded it calls this once.
func (v *Version) Close() { v.hold.release() }

// read finds the format by the file's content.
func read(data []byte, o Options) (model, error) {
	if isProtobuf(data) {
		if o.Transform != "" {
			return nil, errors.New("read model: the option transform is of tree models; an ONNX model has its outputs")
		}
		m, err := onnx.Load(data)
		if err != nil {
			return nil, fmt.Errorf("read model: %w", err)
		}
		return &graph{m, 2 * int64(len(data))}, nil // the graph's tensors, and frames of those that run
	}
	how := gbdt.ReadOptions{BestIteration: o.BestIteration}
	if o.Transform != "" {
		t, err := gbdt.ParseTransform(o.Transform)
		if err != nil {
			return nil, fmt.Errorf("read model: %w", err)
		}
		how.Transform = &t
	}
	m, err := gbdt.ReadWith(data, how)
	if err != nil {
		return nil, fmt.Errorf("read model: %w", err)
	}
	return newTrees(m, len(data)), nil
}

// isProtobuf reports whether a file begins as an ONNX model does: with its version, a small
// number in the first field. Tree models begin with text or a brace.
func isProtobuf(data []byte) bool {
	return len(data) > 2 && data[0] == 0x08 && data[1] > 0 && data[1] < 0x20
}
