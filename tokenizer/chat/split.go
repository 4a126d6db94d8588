package chat

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// trimSet cuts characters of a set off the ends; the absent or None set is
// white space.
func trimSet(bud *budget, v, set Value, left, right bool) (Value, error) {
	inSet := isSpace
	switch {
	case set.isString():
		if err := bud.characters(4 * len(set.str)); err != nil {
			return Value{}, err
		}
		members := make(map[rune]bool, min(len(set.str), 64))
		for _, r := range set.str {
			members[r] = true
		}
		inSet = func(r rune) bool { return members[r] }
	case isGiven(set):
		return Value{}, errors.New("strip arg must be None or str, not " + set.typeName())
	}
	from, to := 0, len(v.str)
	if right {
		to = len(strings.TrimRightFunc(v.str, inSet))
	}
	if left {
		from = to - len(strings.TrimLeftFunc(v.str[:to], inSet))
	}
	return v.slice(from, to), bud.characters(2 * (len(v.str) - (to - from)))
}

// pieces are the parts of a string that is being split, as offsets: begin and
// end of each, or the other way around where they are found from the right.
// Each is paid for as it is found.
type pieces struct {
	b   *budget
	at  []int
	err error
}

// pieceBytes is the memory of one part: its value, its offsets and their growth.
const pieceBytes = valueBytes + 4*8

func (p *pieces) add(from, to int) {
	if p.err == nil {
		p.err = p.b.alloc(pieceBytes)
	}
	if p.err == nil {
		p.at = append(p.at, from, to)
	}
}

// splitText is str.split and, from the right, str.rsplit.
func splitText(bud *budget, v, separator Value, limit int, right bool) (Value, error) {
	p := &pieces{b: bud}
	switch {
	case !isGiven(separator):
		if err := bud.characters(len(v.str)); err != nil {
			return Value{}, err
		}
		p.splitSpace(v.str, limit, right)
	case !separator.isString():
		return Value{}, errors.New("must be str or None, not " + separator.typeName())
	case separator.str == "":
		return Value{}, errors.New("empty separator")
	case right:
		p.splitRight(v.str, separator.str, limit)
	default:
		p.splitLeft(v.str, separator.str, limit)
	}
	return p.of(v)
}

// of cuts v into the parts.
func (p *pieces) of(v Value) (Value, error) {
	if p.err != nil {
		return Value{}, p.err
	}
	if err := p.b.scan(len(v.str)); err != nil {
		return Value{}, err
	}
	out := make([]Value, len(p.at)/2)
	for i := range out {
		out[i] = v.slice(p.at[2*i], p.at[2*i+1])
	}
	return listOf(out), nil
}

func (p *pieces) splitLeft(s, separator string, limit int) {
	from := 0
	for ; limit != 0 && p.err == nil; limit-- {
		i := strings.Index(s[from:], separator)
		if i < 0 {
			break
		}
		p.add(from, from+i)
		from += i + len(separator)
	}
	p.add(from, len(s))
}

func (p *pieces) splitRight(s, separator string, limit int) {
	to := len(s)
	for ; limit != 0 && p.err == nil; limit-- {
		i := strings.LastIndex(s[:to], separator)
		if i < 0 {
			break
		}
		p.add(to, i+len(separator))
		to = i
	}
	p.add(to, 0)
	p.reverse()
}

// reverse turns parts that were found from the right around.
func (p *pieces) reverse() { slices.Reverse(p.at) }

func (p *pieces) splitSpace(s string, limit int, right bool) {
	if right {
		p.splitSpaceRight(s, limit)
		return
	}
	for from := 0; p.err == nil; limit-- {
		from = len(s) - len(strings.TrimLeftFunc(s[from:], isSpace))
		if from == len(s) {
			return
		}
		n := strings.IndexFunc(s[from:], isSpace)
		if limit == 0 || n < 0 {
			p.add(from, len(s))
			return
		}
		p.add(from, from+n)
		from += n
	}
}

func (p *pieces) splitSpaceRight(s string, limit int) {
	for to := len(s); p.err == nil; limit-- {
		to = len(strings.TrimRightFunc(s[:to], isSpace))
		if to == 0 {
			break
		}
		from := 0
		if limit != 0 {
			if i := strings.LastIndexFunc(s[:to], isSpace); i >= 0 {
				_, n := utf8.DecodeRuneInString(s[i:])
				from = i + n
			}
		}
		p.add(to, from)
		to = from
	}
	p.reverse()
}

// splitLines is str.splitlines.
func splitLines(bud *budget, v Value, keepEnds bool) (Value, error) {
	if err := bud.characters(len(v.str)); err != nil {
		return Value{}, err
	}
	p := &pieces{b: bud}
	for from := 0; from < len(v.str) && p.err == nil; {
		end, next := lineEnd(v.str, from)
		if keepEnds {
			end = next
		}
		p.add(from, end)
		from = next
	}
	return p.of(v)
}

// lineEnd gives where the line that begins at from ends, and the next begins.
func lineEnd(s string, from int) (end, next int) {
	i := strings.IndexFunc(s[from:], func(r rune) bool {
		return '\n' <= r && r <= '\r' || 0x1c <= r && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
	})
	if i < 0 {
		return len(s), len(s)
	}
	end = from + i
	if strings.HasPrefix(s[end:], "\r\n") {
		return end, end + 2
	}
	_, n := utf8.DecodeRuneInString(s[end:])
	return end, end + n
}

// replaceText is str.replace; a negative limit is none.
func replaceText(bud *budget, v, old, by Value, limit int) (Value, error) {
	w := newBuilder(bud)
	w.safe = v.safe
	from := 0
	for limit != 0 && from <= len(v.str) {
		i := strings.Index(v.str[from:], old.str)
		if i < 0 {
			break
		}
		at := from + i
		w.writeText(v.slice(from, at))
		w.writeText(by)
		from = at + len(old.str)
		if old.str == "" {
			n := byteOffset(v.str[at:], 1)
			w.writeText(v.slice(at, at+n))
			if from = at + n; n == 0 {
				break
			}
		}
		limit--
		if w.fail(bud.step(1)); w.err != nil {
			break
		}
	}
	w.writeText(v.slice(min(from, len(v.str)), len(v.str)))
	return w.value()
}

// joinTexts puts separators between the texts of items.
func joinTexts(bud *budget, separator Value, next iteration, text func(Value) (Value, error)) (Value, error) {
	w := newBuilder(bud)
	for first := true; ; first = false {
		item, ok, err := next()
		if err != nil {
			return Value{}, err
		}
		if !ok {
			return w.value()
		}
		if !first {
			w.writeText(separator)
		}
		s, err := text(item)
		if err != nil {
			return Value{}, err
		}
		w.writeText(s)
	}
}
