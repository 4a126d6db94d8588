package online

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/telemetry/monitor/feature"
)

// feastLayout is what Feast writes with its Redis online store: the entity's key in
// version 3 of its serialisation and the project behind it, fields by the hash of
// "view:feature", values as messages of type feast.types.Value.
type feastLayout struct{ target feature.Target }

// Numbers of feast.types.ValueType, as keys have them.
const (
	feastString = 2
	feastInt64  = 4
)

func (l feastLayout) key(id feature.ID) (string, error) {
	keys := l.target.Entities[id.Entity].Keys
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(keys[a].Input, keys[b].Input) })
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(keys))) //nolint:gosec // a handful
	for _, i := range order {
		out = binary.LittleEndian.AppendUint32(out, feastString)
		out = appendSized(out, keys[i].Input)
	}
	for _, i := range order {
		if keys[i].Type == feature.String {
			out = binary.LittleEndian.AppendUint32(out, feastString)
			out = appendSized(out, id.Parts[i])
			continue
		}
		n, err := strconv.ParseInt(id.Parts[i], 10, 64)
		if err != nil {
			return "", fmt.Errorf("key %q: %w", keys[i].Input, err)
		}
		out = binary.LittleEndian.AppendUint32(out, feastInt64)
		out = binary.LittleEndian.AppendUint32(out, 8)
		out = binary.LittleEndian.AppendUint64(out, uint64(n)) //nolint:gosec // kept as bits
	}
	return string(append(out, l.target.Project...)), nil
}

func appendSized(out []byte, text string) []byte {
	out = binary.LittleEndian.AppendUint32(out, uint32(len(text))) //nolint:gosec // a name, or a text of a request
	return append(out, text...)
}

func (feastLayout) field(view string, f feature.Field) string {
	return string(binary.LittleEndian.AppendUint32(nil, murmur3([]byte(view+":"+f.Name))))
}

func (feastLayout) time(view string) string { return "_ts:" + view }

// Fields of feast.types.Value.
const (
	feastValueBytes  = 1
	feastValueString = 2
	feastValueInt32  = 3
	feastValueInt64  = 4
	feastValueDouble = 5
	feastValueFloat  = 6
	feastValueBool   = 7
	feastValueTime   = 8 // in seconds since 1970
	feastValueNull   = 19
)

// value reads a message with one of the scalar fields. An empty message is a missing
// value; so are the lists and maps that no model takes, as of the wrong type.
func (feastLayout) value(t feature.Type, text string) feature.Value {
	v, data := feature.Value{}, []byte(text)
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return feature.Value{Kind: feature.WrongType}
		}
		data = data[n:]
		if v, n = feastScalar(number, wire, data); n < 0 {
			return feature.Value{Kind: feature.WrongType}
		}
		data = data[n:]
	}
	return v.Convert(t)
}

// feastScalar reads one field; n is below 0 where it is malformed.
func feastScalar(number protowire.Number, wire protowire.Type, data []byte) (v feature.Value, n int) {
	switch wire {
	case protowire.VarintType:
		u, n := protowire.ConsumeVarint(data)
		switch number {
		case feastValueInt32:
			return feature.IntOf(int64(int32(u))), n //nolint:gosec // the field's own bits
		case feastValueInt64:
			return feature.IntOf(int64(u)), n //nolint:gosec // the field's own bits
		case feastValueTime:
			if u == 1<<63 { // how Feast writes a time that is missing
				return feature.Value{}, n
			}
			return feature.IntOf(int64(u)), n //nolint:gosec // the field's own bits
		case feastValueBool:
			return feature.BoolOf(u != 0), n
		case feastValueNull:
			return feature.Value{}, n
		default:
			return feature.Value{Kind: feature.WrongType}, n
		}
	case protowire.Fixed64Type:
		u, n := protowire.ConsumeFixed64(data)
		if number == feastValueDouble {
			return feature.FloatOf(math.Float64frombits(u)), n
		}
		return feature.Value{Kind: feature.WrongType}, n
	case protowire.Fixed32Type:
		u, n := protowire.ConsumeFixed32(data)
		if number == feastValueFloat {
			return feature.FloatOf(float64(math.Float32frombits(u))), n
		}
		return feature.Value{Kind: feature.WrongType}, n
	case protowire.BytesType:
		b, n := protowire.ConsumeBytes(data)
		if number == feastValueString || number == feastValueBytes {
			return feature.TextOf(string(b)), n
		}
		return feature.Value{Kind: feature.WrongType}, n
	default:
		return feature.Value{}, -1
	}
}

// when reads a google.protobuf.Timestamp.
func (feastLayout) when(text string) time.Time {
	var seconds, nanos int64
	for data := []byte(text); len(data) > 0; {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 || wire != protowire.VarintType {
			return time.Time{}
		}
		u, m := protowire.ConsumeVarint(data[n:])
		if m < 0 {
			return time.Time{}
		}
		switch number {
		case 1:
			seconds = int64(u) //nolint:gosec // the field's own bits
		default: // 2; a Timestamp has no other
			nanos = int64(u) //nolint:gosec // the field's own bits
		}
		data = data[n+m:]
	}
	if seconds == 0 && nanos == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, nanos)
}

// murmur3 is MurmurHash3 of 32 bits with the seed 0, by Austin Appleby, who placed it in
// the public domain.
func murmur3(data []byte) uint32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	h, size := uint32(0), uint32(len(data)) //nolint:gosec // names
	for ; len(data) >= 4; data = data[4:] {
		h ^= bits.RotateLeft32(binary.LittleEndian.Uint32(data)*c1, 15) * c2
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	var k uint32
	for i, b := range data {
		k |= uint32(b) << (8 * i)
	}
	h ^= bits.RotateLeft32(k*c1, 15) * c2
	h ^= size
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}
