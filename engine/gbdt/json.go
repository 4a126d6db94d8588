package gbdt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unsafe"
)

// maxNesting bounds how deep objects and lists lie in one another. CatBoost's trees that are not oblivious nest by depth,
// two levels each.
const maxNesting = 512

// parseJSON gives the document of a JSON text. encoding/json would make an interface of every number; a model is
// millions of them. Numbers with a fraction or an exponent are rounded once to bits, 32 or 64, because a float32 is
// not always what a float64 of the same digits rounds to. NaN, Infinity and -Infinity are numbers, as XGBoost writes them.
func parseJSON(data []byte, bits int) (any, error) {
	p := jsonParser{data: data, bits: bits, keys: make(map[string]string)}
	v, err := p.value(0)
	if err == nil {
		if p.space(); p.at < len(p.data) {
			err = errors.New("something follows the document")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("json: byte %d of %d: %w", p.at, len(data), err)
	}
	return v, nil
}

type jsonParser struct {
	data []byte
	at   int
	bits int
	keys map[string]string // one string for all fields of that name
}

var errEnd = errors.New("the document ends early")

func (p *jsonParser) space() {
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// next gives the next byte that is no white space, without going past it; 0 at the end.
func (p *jsonParser) next() byte {
	p.space()
	if p.at < len(p.data) {
		return p.data[p.at]
	}
	return 0
}

// expect goes past c.
func (p *jsonParser) expect(c byte) error {
	switch got := p.next(); {
	case got == c:
		p.at++
		return nil
	case p.at >= len(p.data):
		return errEnd
	default:
		return fmt.Errorf("%q where %q is due", got, c)
	}
}

func (p *jsonParser) value(depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nested deeper than %d", maxNesting)
	}
	switch c := p.next(); {
	case p.at >= len(p.data):
		return nil, errEnd
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.list(depth)
	case c == '"':
		return p.text()
	case c == '-' || '0' <= c && c <= '9' || c == 'N' || c == 'I':
		return p.number()
	case p.word("true"):
		return true, nil
	case p.word("false"):
		return false, nil
	case p.word("null"):
		return nil, nil
	default:
		return nil, fmt.Errorf("%q begins no value", c)
	}
}

// word goes past a word if it is next.
func (p *jsonParser) word(w string) bool {
	if !bytes.HasPrefix(p.data[p.at:], []byte(w)) {
		return false
	}
	p.at += len(w)
	return true
}

func (p *jsonParser) object(depth int) (object, error) {
	p.at++
	var o object
	if p.next() == '}' {
		p.at++
		return o, nil
	}
	for {
		if p.next() != '"' {
			return nil, errors.New("a field without a name in quotes")
		}
		key, err := p.text()
		if err != nil {
			return nil, err
		}
		if err := p.expect(':'); err != nil {
			return nil, err
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o = append(o, field{p.intern(key), v})
		if p.next() != ',' {
			return o, p.expect('}')
		}
		p.at++
	}
}

// intern gives one string for equal keys, so that the many objects of a model share their fields' names.
func (p *jsonParser) intern(key string) string {
	if known, ok := p.keys[key]; ok {
		return known
	}
	if len(p.keys) < 256 {
		p.keys[key] = key
	}
	return key
}

func (p *jsonParser) list(depth int) (any, error) {
	p.at++
	var l listBuilder
	if p.next() == ']' {
		p.at++
		return l.list(), nil
	}
	for {
		if c := p.next(); l.mixed == nil && (c == '-' || '0' <= c && c <= '9') {
			x, err := p.number()
			if err != nil {
				return nil, err
			}
			l.number(x)
		} else {
			v, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			l.add(v)
		}
		if p.next() != ',' {
			return l.list(), p.expect(']')
		}
		p.at++
	}
}

func (p *jsonParser) text() (string, error) {
	start := p.at
	for p.at++; p.at < len(p.data); p.at++ {
		switch p.data[p.at] {
		case '\\':
			p.at++
		case '"':
			p.at++
			quoted := p.data[start:p.at]
			if bytes.IndexByte(quoted, '\\') < 0 {
				return string(quoted[1 : len(quoted)-1]), nil
			}
			var s string
			if err := json.Unmarshal(quoted, &s); err != nil {
				return "", fmt.Errorf("string: %w", err)
			}
			return s, nil
		}
	}
	return "", errEnd
}

func (p *jsonParser) number() (float64, error) {
	start, bits := p.at, 64
	for ; p.at < len(p.data); p.at++ {
		switch c := p.data[p.at]; {
		case '0' <= c && c <= '9' || c == '-' || c == '+':
		case c == '.' || c == 'e' || c == 'E':
			bits = p.bits
		default:
			return p.convert(p.data[start:p.at], bits)
		}
	}
	return p.convert(p.data[start:p.at], bits)
}

// convert gives the value of a number's text. A number above the largest float is infinite, as for C.
func (p *jsonParser) convert(text []byte, bits int) (float64, error) {
	switch {
	case len(text) == 0 && p.word("NaN"):
		return math.NaN(), nil
	case len(text) == 0 && p.word("Infinity"):
		return math.Inf(1), nil
	case string(text) == "-" && p.word("Infinity"):
		return math.Inf(-1), nil
	case len(text) == 0:
		return 0, errors.New("no number")
	}
	x, err := strconv.ParseFloat(unsafe.String(&text[0], len(text)), bits)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%q is no number", shorten(string(text)))
	}
	return x, nil
}
