package gbdt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// parseUBJSON gives the document of a Universal Binary JSON: what XGBoost writes, with every integer type as a length
// (XGBoost's own are all int64), and objects with a count. Lists of a type have one byte or more per element, which
// bounds their length by the file's.
func parseUBJSON(data []byte) (any, error) {
	p := ubjsonParser{data: data, keys: make(map[string]string)}
	v, err := p.value(p.marker(), 0)
	if err == nil && p.at < len(p.data) {
		err = errors.New("something follows the document")
	}
	if err != nil {
		return nil, fmt.Errorf("ubjson: byte %d of %d: %w", p.at, len(data), err)
	}
	return v, nil
}

type ubjsonParser struct {
	data []byte
	at   int
	keys map[string]string
}

// marker gives the next type marker, past no-ops; 0 at the end.
func (p *ubjsonParser) marker() byte {
	for p.at < len(p.data) {
		p.at++
		if c := p.data[p.at-1]; c != 'N' {
			return c
		}
	}
	return 0
}

// peek says whether c is next.
func (p *ubjsonParser) peek(c byte) bool { return p.at < len(p.data) && p.data[p.at] == c }

// take gives the next n bytes.
func (p *ubjsonParser) take(n int) ([]byte, error) {
	if n < 0 || n > len(p.data)-p.at {
		return nil, fmt.Errorf("%d bytes are due, %d are left", n, len(p.data)-p.at)
	}
	p.at += n
	return p.data[p.at-n : p.at], nil
}

func (p *ubjsonParser) value(marker byte, depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nested deeper than %d", maxNesting)
	}
	switch marker {
	case 0:
		return nil, errEnd
	case 'Z':
		return nil, nil
	case 'T', 'F':
		return marker == 'T', nil
	case 'S':
		return p.text()
	case 'C':
		b, err := p.take(1)
		return string(b), err
	case '[':
		return p.list(depth)
	case '{':
		return p.object(depth)
	default:
		return p.number(marker)
	}
}

// ubjsonWidth gives the size of a number's type; 0 for a type that is none.
func ubjsonWidth(marker byte) int {
	switch marker {
	case 'i', 'U':
		return 1
	case 'I':
		return 2
	case 'l', 'd':
		return 4
	case 'L', 'D':
		return 8
	}
	return 0
}

func (p *ubjsonParser) number(marker byte) (float64, error) {
	width := ubjsonWidth(marker)
	if width == 0 {
		return 0, fmt.Errorf("%q is no type", marker)
	}
	b, err := p.take(width)
	if err != nil {
		return 0, err
	}
	return ubjsonNumber(marker, b), nil
}

// ubjsonNumber gives the big-endian number of a type at the beginning of b.
func ubjsonNumber(marker byte, b []byte) float64 {
	switch marker {
	case 'i':
		return float64(int8(b[0]))
	case 'U':
		return float64(b[0])
	case 'I':
		return float64(int16(binary.BigEndian.Uint16(b)))
	case 'l':
		return float64(int32(binary.BigEndian.Uint32(b)))
	case 'd':
		return float64(math.Float32frombits(binary.BigEndian.Uint32(b)))
	case 'L':
		return float64(int64(binary.BigEndian.Uint64(b)))
	default:
		return math.Float64frombits(binary.BigEndian.Uint64(b))
	}
}

// length reads a length: a whole number of any type.
func (p *ubjsonParser) length() (int, error) {
	marker := p.marker()
	if marker == 'd' || marker == 'D' {
		return 0, errors.New("a length is no integer")
	}
	x, err := p.number(marker)
	if err != nil {
		return 0, err
	}
	// Nothing has more elements than bytes are left.
	if x < 0 || x > float64(len(p.data)-p.at) {
		return 0, fmt.Errorf("a length of %v with %d bytes left", x, len(p.data)-p.at)
	}
	return int(x), nil
}

func (p *ubjsonParser) text() (string, error) {
	n, err := p.length()
	if err != nil {
		return "", err
	}
	b, err := p.take(n)
	return string(b), err
}

// counted reads what may stand at the beginning of a list or object: the type of all elements and their count. Without a
// count it is negative.
func (p *ubjsonParser) counted() (marker byte, n int, err error) {
	if p.peek('$') {
		p.at++
		marker = p.marker()
		if !p.peek('#') {
			return 0, 0, errors.New("a type without a count")
		}
	}
	if !p.peek('#') {
		return 0, -1, nil
	}
	p.at++
	n, err = p.length()
	return marker, n, err
}

func (p *ubjsonParser) list(depth int) (any, error) {
	marker, n, err := p.counted()
	if err != nil {
		return nil, err
	}
	if width := ubjsonWidth(marker); width > 0 {
		return p.numbers(marker, n, width)
	}
	if marker != 0 {
		return nil, fmt.Errorf("a list of type %q", marker)
	}
	var l listBuilder
	for i := 0; i != n; i++ {
		marker := p.marker()
		if n < 0 && marker == ']' {
			break
		}
		v, err := p.value(marker, depth+1)
		if err != nil {
			return nil, err
		}
		l.add(v)
	}
	return l.list(), nil
}

// numbers reads a list of numbers of one type.
func (p *ubjsonParser) numbers(marker byte, n, width int) ([]float64, error) {
	b, err := p.take(n * width)
	if err != nil {
		return nil, err
	}
	list := make([]float64, n)
	for i := range list {
		list[i] = ubjsonNumber(marker, b[i*width:])
	}
	return list, nil
}

func (p *ubjsonParser) object(depth int) (object, error) {
	kind, n, err := p.counted()
	if err != nil {
		return nil, err
	}
	if kind != 0 {
		return nil, fmt.Errorf("an object of type %q", kind)
	}
	var o object
	for i := 0; i != n; i++ {
		if n < 0 && p.peek('}') {
			p.at++
			break
		}
		key, err := p.text()
		if err != nil {
			return nil, err
		}
		v, err := p.value(p.marker(), depth+1)
		if err != nil {
			return nil, err
		}
		if known, ok := p.keys[key]; ok {
			key = known
		} else if len(p.keys) < 256 {
			p.keys[key] = key
		}
		o = append(o, field{key, v})
	}
	return o, nil
}
