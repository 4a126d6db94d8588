package tensor

import (
	"encoding/binary"
	"strconv"
)

// Integer reads a whole number of at most 64 bits; a Uint64 above them wraps. whole: the type is one of those.
func Integer(t Type, at []byte) (n int64, whole bool) {
	switch t {
	case Int8:
		return int64(int8(at[0])), true //nolint:gosec // the type's own bits
	case Uint8:
		return int64(at[0]), true
	case Int16:
		return int64(int16(binary.LittleEndian.Uint16(at))), true //nolint:gosec // the type's own bits
	case Uint16:
		return int64(binary.LittleEndian.Uint16(at)), true
	case Int32:
		return int64(int32(binary.LittleEndian.Uint32(at))), true //nolint:gosec // the type's own bits
	case Uint32:
		return int64(binary.LittleEndian.Uint32(at)), true
	case Int64, Uint64:
		return int64(binary.LittleEndian.Uint64(at)), true //nolint:gosec // the type's own bits
	default:
		return 0, false
	}
}

// Text is element i as the name of something: a byte string as it is, a whole number in decimal. false: it has none, or is of
// another type.
func (t *Tensor) Text(i int) (string, bool) {
	if t.Type == Bytes {
		if i >= len(t.Strings) {
			return "", false
		}
		return string(t.Strings[i]), true
	}
	size := t.Type.Size()
	if size == 0 || (i+1)*size > len(t.Data) {
		return "", false
	}
	n, whole := Integer(t.Type, t.Data[i*size:(i+1)*size])
	if t.Type == Uint64 {
		return strconv.FormatUint(uint64(n), 10), true //nolint:gosec // the type's own bits
	}
	return strconv.FormatInt(n, 10), whole
}
