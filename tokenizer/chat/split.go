package chat

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// trimSet cuts characters of a set off the ends; the absent or None set is
// white space.
func trimSet(v, set Value, left, right bool) (Value, error) {
	inSet := isSpace
	switch {
	case set.isString():
		inSet = func(r rune) bool { return strings.ContainsRune(set.str, r) }
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
	return v.slice(from, to), nil
}

// splitText is str.split and, from the right, str.rsplit.
func (x *exec) splitText(v, separator Value, limit int, right bool) (Value, error) {
	var cuts []int // begin and end of each part
	switch {
	case !isGiven(separator):
		cuts = splitSpace(v.str, limit, right)
	case !separator.isString():
		return Value{}, errors.New("must be str or None, not " + separator.typeName())
	case separator.str == "":
		return Value{}, errors.New("empty separator")
	case right:
		cuts = splitRight(v.str, separator.str, limit)
	default:
		cuts = splitLeft(v.str, separator.str, limit)
	}
	return x.parts(v, cuts)
}

// parts cuts v at pairs of offsets.
func (x *exec) parts(v Value, cuts []int) (Value, error) {
	if err := x.scan(len(v.str)); err != nil {
		return Value{}, err
	}
	if err := x.list(len(cuts) / 2); err != nil {
		return Value{}, err
	}
	out := make([]Value, len(cuts)/2)
	for i := range out {
		out[i] = v.slice(cuts[2*i], cuts[2*i+1])
	}
	return listOf(out), nil
}

func splitLeft(s, separator string, limit int) []int {
	var cuts []int
	from := 0
	for limit != 0 {
		i := strings.Index(s[from:], separator)
		if i < 0 {
			break
		}
		cuts = append(cuts, from, from+i)
		from += i + len(separator)
		limit--
	}
	return append(cuts, from, len(s))
}

func splitRight(s, separator string, limit int) []int {
	var cuts []int
	to := len(s)
	for limit != 0 {
		i := strings.LastIndex(s[:to], separator)
		if i < 0 {
			break
		}
		cuts = append(cuts, to, i+len(separator))
		to = i
		limit--
	}
	return reversed(append(cuts, to, 0))
}

// reversed turns cuts that were found from the right around.
func reversed(cuts []int) []int {
	for i, j := 0, len(cuts)-1; i < j; i, j = i+1, j-1 {
		cuts[i], cuts[j] = cuts[j], cuts[i]
	}
	return cuts
}

func splitSpace(s string, limit int, right bool) []int {
	if right {
		return splitSpaceRight(s, limit)
	}
	var cuts []int
	for from := 0; ; limit-- {
		from = len(s) - len(strings.TrimLeftFunc(s[from:], isSpace))
		if from == len(s) {
			return cuts
		}
		if limit == 0 {
			return append(cuts, from, len(s))
		}
		n := strings.IndexFunc(s[from:], isSpace)
		if n < 0 {
			return append(cuts, from, len(s))
		}
		cuts = append(cuts, from, from+n)
		from += n
	}
}

func splitSpaceRight(s string, limit int) []int {
	var cuts []int
	for to := len(s); ; limit-- {
		to = len(strings.TrimRightFunc(s[:to], isSpace))
		if to == 0 {
			return reversed(cuts)
		}
		from := 0
		if limit != 0 {
			if i := strings.LastIndexFunc(s[:to], isSpace); i >= 0 {
				_, n := utf8.DecodeRuneInString(s[i:])
				from = i + n
			}
		}
		cuts = append(cuts, to, from)
		to = from
	}
}

// splitLines is str.splitlines.
func (x *exec) splitLines(v Value, keepEnds bool) (Value, error) {
	var cuts []int
	for from := 0; from < len(v.str); {
		end, next := lineEnd(v.str, from)
		if keepEnds {
			end = next
		}
		cuts = append(cuts, from, end)
		from = next
	}
	return x.parts(v, cuts)
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
func (x *exec) replaceText(v, old, by Value, limit int) (Value, error) {
	w := newBuilder(x.budget)
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
		if w.err != nil {
			break
		}
	}
	w.writeText(v.slice(min(from, len(v.str)), len(v.str)))
	return w.value()
}

// join puts separators between the texts of items.
func (x *exec) join(separator Value, next iteration, text func(Value) (Value, error)) (Value, error) {
	w := newBuilder(x.budget)
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
