package onnx

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// message walks over the fields of a serialized protobuf message. Every length is
// checked against the bytes that are there; nothing is copied.
type message struct {
	rest []byte
	what string // the message's name, for errors

	number int
	kind   protowire.Type
	scalar uint64 // a varint or fixed field's bits
	bytes  []byte // a length-delimited field's content
	err    error
}

func read(what string, data []byte) message { return message{rest: data, what: what} }

// next moves to the next field; false at the end and at a fault, which err tells.
func (m *message) next() bool {
	if m.err != nil || len(m.rest) == 0 {
		return false
	}
	number, kind, n := protowire.ConsumeTag(m.rest)
	if n < 0 {
		return m.fail("a field's tag")
	}
	m.rest, m.number, m.kind = m.rest[n:], int(number), kind
	m.scalar, m.bytes = 0, nil
	switch kind {
	case protowire.VarintType:
		m.scalar, n = protowire.ConsumeVarint(m.rest)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(m.rest)
		m.scalar = uint64(v)
	case protowire.Fixed64Type:
		m.scalar, n = protowire.ConsumeFixed64(m.rest)
	case protowire.BytesType:
		m.bytes, n = protowire.ConsumeBytes(m.rest)
	default: // groups, which ONNX has none of
		n = -1
	}
	if n < 0 {
		return m.fail(fmt.Sprintf("field %d", number))
	}
	m.rest = m.rest[n:]
	return true
}

func (m *message) fail(what string) bool {
	m.err = fmt.Errorf("%s: %s is cut off or malformed", m.what, what)
	return false
}

// expect reports whether the field has the wire type kind; else the message is at fault.
func (m *message) expect(kind protowire.Type) bool {
	if m.kind != kind && m.err == nil {
		m.err = fmt.Errorf("%s: field %d has wire type %d, not %d", m.what, m.number, m.kind, kind)
	}
	return m.err == nil
}

func (m *message) integer() int64 {
	m.expect(protowire.VarintType)
	return int64(m.scalar)
}

func (m *message) text() string {
	m.expect(protowire.BytesType)
	return string(m.bytes)
}

func (m *message) content() []byte {
	m.expect(protowire.BytesType)
	return m.bytes
}

// varints appends a repeated integer field, packed or not.
func (m *message) varints(to []int64) []int64 {
	if m.kind == protowire.VarintType {
		return append(to, int64(m.scalar))
	}
	if !m.expect(protowire.BytesType) {
		return to
	}
	if to == nil {
		to = make([]int64, 0, varintCount(m.bytes))
	}
	for rest := m.bytes; len(rest) > 0; {
		v, n := protowire.ConsumeVarint(rest)
		if n < 0 {
			m.fail(fmt.Sprintf("packed field %d", m.number))
			return to
		}
		to, rest = append(to, int64(v)), rest[n:]
	}
	return to
}

// varintCount is how many varints end within data.
func varintCount(data []byte) int {
	n := 0
	for _, b := range data {
		if b < 0x80 {
			n++
		}
	}
	return n
}

// floats appends a repeated float field, packed or not.
func (m *message) floats(to []float32) []float32 {
	if m.kind == protowire.Fixed32Type {
		return append(to, math.Float32frombits(uint32(m.scalar)))
	}
	if !m.expect(protowire.BytesType) || len(m.bytes)%4 != 0 {
		m.fail(fmt.Sprintf("packed field %d", m.number))
		return to
	}
	if to == nil {
		to = make([]float32, 0, len(m.bytes)/4)
	}
	for rest := m.bytes; len(rest) > 0; rest = rest[4:] {
		to = append(to, math.Float32frombits(binary.LittleEndian.Uint32(rest)))
	}
	return to
}

// doubles appends a repeated double field, packed or not.
func (m *message) doubles(to []float64) []float64 {
	if m.kind == protowire.Fixed64Type {
		return append(to, math.Float64frombits(m.scalar))
	}
	if !m.expect(protowire.BytesType) || len(m.bytes)%8 != 0 {
		m.fail(fmt.Sprintf("packed field %d", m.number))
		return to
	}
	if to == nil {
		to = make([]float64, 0, len(m.bytes)/8)
	}
	for rest := m.bytes; len(rest) > 0; rest = rest[8:] {
		to = append(to, math.Float64frombits(binary.LittleEndian.Uint64(rest)))
	}
	return to
}
