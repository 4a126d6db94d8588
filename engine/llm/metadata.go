package llm

import (
	"fmt"
	"math"
	"strings"

	"weir/engine/gguf"
	"weir/internal/inference"
)

// maxSize bounds every count read from a file, far above any real model, so
// that products of three of them stay within an int64.
const maxSize = 1 << 20

// metadata reads hyper-parameters under the architecture's prefix and keeps
// the first error, so that a reader is a plain list.
type metadata struct {
	f      *gguf.File
	prefix string
	err    error
}

func (m *metadata) fail(key, format string, args ...any) {
	m.failKey(m.prefix+"."+key, format, args...)
}

// failKey is fail for a key without prefix.
func (m *metadata) failKey(key, format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("%w: %s %s", ErrModel, key, fmt.Sprintf(format, args...))
	}
}

func (m *metadata) keep(err error) {
	if m.err == nil && err != nil {
		m.err = fmt.Errorf("%w: %w", ErrModel, err)
	}
}

// size reads a count in [1, maxSize]; fallback 0 makes the key required. A
// per-layer array is taken where all its values agree.
func (m *metadata) size(key string, fallback int) int {
	full := m.prefix + "." + key
	if list, ok, err := m.f.Ints(full); ok && err == nil && len(list) > 0 {
		for _, v := range list {
			if v != list[0] {
				m.fail(key, "differs between layers (%d and %d), which is not supported", list[0], v)
				return 1
			}
		}
		return m.bounded(key, uint64(max(list[0], 0)))
	}
	v, ok, err := m.f.Uint(full)
	switch {
	case err != nil:
		m.keep(err)
		return 1
	case !ok && fallback == 0:
		m.fail(key, "is missing")
		return 1
	case !ok:
		return fallback
	}
	return m.bounded(key, v)
}

// sizes reads counts of layers: an array has one of each, a number is that of all. Fallback 0 makes the key required.
func (m *metadata) sizes(key string, layers, fallback int) []int {
	list, ok, err := m.f.Ints(m.prefix + "." + key)
	sizes := make([]int, layers)
	if !ok || err != nil { // a number, or none
		n := m.size(key, fallback)
		for i := range sizes {
			sizes[i] = n
		}
		return sizes
	}
	if len(list) != layers {
		m.fail(key, "is of %d layers, and the model has %d", len(list), layers)
		list = make([]int64, layers)
	}
	for i, v := range list {
		sizes[i] = m.bounded(key, uint64(max(v, 0)))
	}
	return sizes
}

// counts reads counts of layers that may be 0: an array has one of each, a number is that of all. An array may be longer than the layers, as
// it is in files whose last ones draft tokens.
func (m *metadata) counts(key string, layers int) []int {
	list, ok, err := m.f.Ints(m.prefix + "." + key)
	counts := make([]int, layers)
	switch {
	case !ok || err != nil: // a number, or none
		n := m.count(key)
		for i := range counts {
			counts[i] = n
		}
		return counts
	case len(list) < layers:
		m.fail(key, "is of %d layers, and the model has %d", len(list), layers)
		return counts
	}
	for i := range counts {
		if list[i] != 0 {
			counts[i] = m.bounded(key, uint64(max(list[i], 0)))
		}
	}
	return counts
}

// count is a size that may be 0, as it is where the key is missing.
func (m *metadata) count(key string) int {
	if v, ok, err := m.f.Uint(m.prefix + "." + key); err == nil && (!ok || v == 0) {
		return 0
	}
	return m.size(key, 0)
}

func (m *metadata) bounded(key string, v uint64) int {
	limit := uint64(maxSize)
	if strings.HasSuffix(key, "context_length") || key == "attention.temperature_length" {
		limit = 1 << 30
	}
	if v < 1 || v > limit {
		m.fail(key, "is %d, must be from 1 to %d", v, limit)
		return 1
	}
	return int(v)
}

// number reads a finite float; required where fallback is NaN.
func (m *metadata) number(key string, fallback float64) float64 {
	v, ok, err := m.f.Float(m.prefix + "." + key)
	switch {
	case err != nil:
		m.keep(err)
		return 1
	case !ok && math.IsNaN(fallback):
		m.fail(key, "is missing")
		return 1
	case !ok:
		return fallback
	case math.IsNaN(v) || math.IsInf(v, 0):
		m.fail(key, "is %v, must be finite", v)
		return 1
	}
	return v
}

func (m *metadata) flag(key string, fallback bool) bool {
	v, ok, err := m.f.Bool(m.prefix + "." + key)
	m.keep(err)
	if !ok {
		return fallback
	}
	return v
}

// unspecifiedPooling is what llama.cpp writes of models without pooling: -1, without its sign.
const unspecifiedPooling = math.MaxUint32

func (m *metadata) pooling(key string, fallback inference.Pooling) inference.Pooling {
	v, ok, err := m.f.Uint(m.prefix + "." + key)
	m.keep(err)
	switch {
	case !ok, v == unspecifiedPooling:
		return fallback
	case v > uint64(inference.PoolingRank):
		m.fail(key, "is %d; known are 0 (none), 1 (mean), 2 (cls), 3 (last) and 4 (rank)", v)
	}
	return inference.Pooling(v)
}

func (m *metadata) text(key string) string {
	s, _, err := m.f.String(m.prefix + "." + key)
	m.keep(err)
	return s
}

// windowPattern says which layers have the sliding window: an array says it of each, in booleans or, as llama.cpp writes it, in integers, and a
// number n leaves every n-th layer out.
func (m *metadata) windowPattern(layers int) []bool {
	const key = "attention.sliding_window_pattern"
	list, ok, err := m.f.Bools(m.prefix + "." + key)
	if err != nil {
		if numbers, found, wrong := m.f.Ints(m.prefix + "." + key); found && wrong == nil {
			list, ok = make([]bool, len(numbers)), true
			for i, n := range numbers {
				list[i] = n != 0
			}
		}
	}
	switch {
	case ok && len(list) == layers:
		return list
	case ok:
		m.fail(key, "is of %d layers, and the model has %d", len(list), layers)
		return nil
	case err == nil: // there is none
		return nil
	}
	return everyOtherThan(m.size(key, 1), layers)
}

// everyOtherThan is all layers except every n-th.
func everyOtherThan(n, layers int) []bool {
	list := make([]bool, layers)
	for i := range list {
		list[i] = (i+1)%n != 0
	}
	return list
}

// cap reads the limit of a soft cap; 0 is none.
func (m *metadata) cap(key string) float32 {
	v := m.number(key, 0)
	if v < 0 {
		m.fail(key, "is %v, must not be negative", v)
	}
	return float32(v)
}

// has reports whether the file has a key.
func (m *metadata) has(key string) bool {
	_, ok := m.f.Value(m.prefix + "." + key)
	return ok
}
