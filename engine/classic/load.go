package classic

import (
	"fmt"

	"weir/engine/gbdt"
)

// Load reads a model of any format known here, checks it, chooses its kernel, finds out
// what its rows cost, and compares the golden rows.
func Load(data []byte, name string, o Options) (*Version, error) {
	m, err := read(data)
	if err != nil {
		return nil, err
	}
	v := newVersion(name, m, o)
	if o.Golden != nil {
		if err := o.Golden.check(v); err != nil {
			return nil, err
		}
		v.warm(o.Golden.Inputs)
	} else {
		v.warm(nil)
	}
	return v, nil
}

// read finds the format by the file's content.
func read(data []byte) (model, error) {
	m, err := gbdt.Read(data)
	if err != nil {
		return nil, fmt.Errorf("read model: %w", err)
	}
	return newTrees(m, len(data)), nil
}
