package chat

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textMethods are those of Python's str.
func textMethods() map[string]filter {
	return map[string]filter{
		"capitalize":   plain("capitalize", capitalize),
		"center":       textPad("center", padBoth),
		"count":        textCount,
		"endswith":     textAffix("endswith", strings.HasSuffix),
		"find":         textFind("find", strings.Index, false),
		"format":       textFormat,
		"index":        textFind("index", strings.Index, true),
		"isalnum":      textAll(func(r rune) bool { return unicode.IsLetter(r) || isNumeric(r) }),
		"isalpha":      textAll(unicode.IsLetter),
		"isascii":      plain("isascii", func(_ *exec, v Value) (Value, error) { return boolean(isASCII(v.str)), nil }),
		"isdecimal":    textAll(unicode.IsDigit),
		"isdigit":      textAll(isDigitRune),
		"isidentifier": plain("isidentifier", textIsIdentifier),
		"islower":      textIsCase(unicode.IsLower),
		"isnumeric":    textAll(isNumeric),
		"isprintable":  plain("isprintable", textIsPrintable),
		"isspace":      textAll(isSpace),
		"istitle":      plain("istitle", textIsTitle),
		"isupper":      textIsCase(unicode.IsUpper),
		"join":         textJoin,
		"ljust":        textPad("ljust", padRight),
		"lower":        plain("lower", toLower),
		"lstrip":       textStrip("lstrip", true, false),
		"partition":    textPartition("partition", strings.Index),
		"removeprefix": textRemove("removeprefix", strings.HasPrefix),
		"removesuffix": textRemove("removesuffix", strings.HasSuffix),
		"replace":      textReplace,
		"rfind":        textFind("rfind", strings.LastIndex, false),
		"rindex":       textFind("rindex", strings.LastIndex, true),
		"rjust":        textPad("rjust", padLeft),
		"rpartition":   textPartition("rpartition", strings.LastIndex),
		"rsplit":       textSplit("rsplit", true),
		"rstrip":       textStrip("rstrip", false, true),
		"split":        textSplit("split", false),
		"splitlines":   textSplitLines,
		"startswith":   textAffix("startswith", strings.HasPrefix),
		"strip":        textStrip("strip", true, true),
		"swapcase":     plain("swapcase", swapLetters),
		"title":        plain("title", toTitle),
		"upper":        plain("upper", toUpper),
		"zfill":        textZeroFill,
	}
}

func dictMethods() map[string]filter {
	methods := map[string]filter{"get": dictGet, "copy": plain("copy", dictCopy)}
	for name, part := range map[string]viewPart{"keys": viewKeys, "values": viewValues, "items": viewItems} {
		methods[name] = plain(name, func(_ *exec, v Value) (Value, error) {
			return Value{kind: kindView, client: v.client, ref: &view{v.dict(), part}}, nil
		})
	}
	return methods
}

func dictGet(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("get", 1, "key", "default")
	if err != nil {
		return Value{}, err
	}
	if err := x.key(p[0]); err != nil {
		return Value{}, err
	}
	item, ok, err := v.dict().lookup(p[0])
	if err != nil || !ok {
		return p[1].or(None()), err
	}
	return item, nil
}

func dictCopy(x *exec, v Value) (Value, error) {
	return dictOf(v.dict().clone()).from(v), x.list(2 * v.dict().len())
}

func listMethods() map[string]filter {
	return map[string]filter{"index": listIndex, "count": listCount, "copy": plain("copy", listCopy)}
}

func listCopy(x *exec, v Value) (Value, error) {
	items, err := copyOf(x.budget, v)
	return listOf(items).from(v), err
}

func listIndex(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("index", 1, "value", "start", "stop")
	if err != nil {
		return Value{}, err
	}
	b, err := sliceBounds(len(v.items()), p[1], p[2], Value{})
	if err != nil {
		return Value{}, err
	}
	for i := b.from; i < b.from+b.count; i++ {
		if same, err := equalValues(x.budget, v.items()[i], p[0]); err != nil || same {
			return integer(i), err
		}
	}
	return Value{}, errors.New("value is not in list")
}

func listCount(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("count", 1, "value")
	if err != nil {
		return Value{}, err
	}
	n := 0
	for _, item := range v.items() {
		same, err := equalValues(x.budget, item, p[0])
		if err != nil {
			return Value{}, err
		}
		if same {
			n++
		}
	}
	return integer(n), nil
}

func textStrip(name string, left, right bool) filter {
	return func(x *exec, v Value, a args) (Value, error) {
		p, err := a.bind(name, 0, "chars")
		if err != nil {
			return Value{}, err
		}
		return trimSet(x.budget, v, p[0], left, right)
	}
}

func textSplit(name string, right bool) filter {
	return func(x *exec, v Value, a args) (Value, error) {
		p, err := a.bind(name, 0, "sep", "maxsplit")
		if err != nil {
			return Value{}, err
		}
		limit, err := p[1].or(integer(-1)).count("maxsplit")
		if err != nil {
			return Value{}, err
		}
		return splitText(x.budget, v, p[0], limit, right)
	}
}

func textSplitLines(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("splitlines", 0, "keepends")
	if err != nil {
		return Value{}, err
	}
	return splitLines(x.budget, v, p[0].truth())
}

// partOf narrows a string to [start, end) in characters, and gives the number of
// characters before it.
func partOf(bud *budget, v, start, end Value) (Value, int, error) {
	if !isGiven(start) && !isGiven(end) {
		return v, 0, nil
	}
	b, err := sliceBounds(runeCount(v.str), start, end, Value{})
	if err != nil {
		return Value{}, 0, err
	}
	narrow, err := sliceText(bud, v, start, end, Value{})
	return narrow, b.from, err
}

func textAffix(name string, has func(s, affix string) bool) filter {
	return func(x *exec, v Value, a args) (Value, error) {
		p, err := a.bind(name, 1, "prefix", "start", "end")
		if err != nil {
			return Value{}, err
		}
		s, _, err := partOf(x.budget, v, p[1], p[2])
		if err != nil {
			return Value{}, err
		}
		affixes := []Value{p[0]}
		if p[0].kind == kindTuple {
			affixes = p[0].items()
		}
		for _, affix := range affixes {
			if !affix.isString() {
				return Value{}, fmt.Errorf("%s first arg must be str or a tuple of str, not %s", name, affix.typeName())
			}
			if err := x.touch(affix); err != nil {
				return Value{}, err
			}
			if err := x.step(1); err != nil {
				return Value{}, err
			}
			if has(s.str, affix.str) {
				return boolean(true), nil
			}
		}
		return boolean(false), nil
	}
}

func textFind(name string, find func(s, sub string) int, must bool) filter {
	return func(x *exec, v Value, a args) (Value, error) {
		p, err := a.bind(name, 1, "sub", "start", "end")
		if err != nil {
			return Value{}, err
		}
		sub, err := p[0].text("sub")
		if err != nil {
			return Value{}, err
		}
		s, before, err := partOf(x.budget, v, p[1], p[2])
		if err != nil {
			return Value{}, err
		}
		at := find(s.str, sub.str)
		switch {
		case at < 0 && must:
			return Value{}, errors.New("substring not found")
		case at < 0:
			return integer(-1), nil
		}
		return integer(before + runeCount(s.str[:at])), nil
	}
}

func textCount(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("count", 1, "sub", "start", "end")
	if err != nil {
		return Value{}, err
	}
	sub, err := p[0].text("sub")
	if err != nil {
		return Value{}, err
	}
	s, _, err := partOf(x.budget, v, p[1], p[2])
	return integer(strings.Count(s.str, sub.str)), err
}

func textReplace(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("replace", 2, "old", "new", "count")
	if err != nil {
		return Value{}, err
	}
	limit, err := p[2].or(integer(-1)).count("count")
	if err != nil {
		return Value{}, err
	}
	for _, arg := range p[:2] {
		if _, err := arg.text("replace argument"); err != nil {
			return Value{}, err
		}
	}
	by := p[1]
	if v.safe && !by.safe {
		w := newBuilder(x.budget)
		w.escape(by)
		if by, err = w.value(); err != nil {
			return Value{}, err
		}
	}
	return replaceText(x.budget, v, p[0], by, limit)
}

func textRemove(name string, has func(s, affix string) bool) filter {
	return func(_ *exec, v Value, a args) (Value, error) {
		p, err := a.bind(name, 1, "affix")
		if err != nil {
			return Value{}, err
		}
		affix, err := p[0].text(name + " argument")
		switch {
		case err != nil || affix.str == "" || !has(v.str, affix.str):
			return v, err
		case name == "removeprefix":
			return v.slice(len(affix.str), len(v.str)), nil
		}
		return v.slice(0, len(v.str)-len(affix.str)), nil
	}
}

func textPartition(name string, find func(s, sub string) int) filter {
	return func(x *exec, v Value, a args) (Value, error) {
		p, err := a.bind(name, 1, "sep")
		if err != nil {
			return Value{}, err
		}
		sep, err := p[0].text("sep")
		if err != nil {
			return Value{}, err
		}
		if sep.str == "" {
			return Value{}, errors.New("empty separator")
		}
		at := find(v.str, sep.str)
		switch {
		case at >= 0:
			end := at + len(sep.str)
			return tupleOf(v.slice(0, at), v.slice(at, end), v.slice(end, len(v.str))), nil
		case name == "partition":
			return tupleOf(v, literal(""), literal("")), nil
		}
		return tupleOf(literal(""), literal(""), v), nil
	}
}

func textJoin(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("join", 1, "iterable")
	if err != nil {
		return Value{}, err
	}
	next, err := iterate(x.budget, p[0])
	if err != nil {
		return Value{}, err
	}
	return joinTexts(x.budget, v, next, func(item Value) (Value, error) {
		if !item.isString() {
			return Value{}, fmt.Errorf("sequence item: expected str instance, %s found", item.typeName())
		}
		return item, nil
	})
}

// padding says where fill characters go.
type padding uint8

const (
	padLeft padding = iota
	padRight
	padBoth
)

func textPad(name string, where padding) filter {
	return func(x *exec, v Value, a args) (Value, error) {
		p, err := a.bind(name, 1, "width", "fillchar")
		if err != nil {
			return Value{}, err
		}
		return padText(x.budget, v, p[0], p[1], where)
	}
}

// padText fills a string up to a width in characters.
func padText(bud *budget, v, width, fill Value, where padding) (Value, error) {
	n, err := width.count("width")
	if err != nil {
		return Value{}, err
	}
	fill = fill.or(literal(" "))
	if !fill.isString() || runeCount(fill.str) != 1 {
		return Value{}, errors.New("the fill character must be exactly one character long")
	}
	missing := max(n-runeCount(v.str), 0)
	left, right := missing, 0
	switch where {
	case padRight:
		left, right = 0, missing
	case padBoth:
		left = missing/2 + missing&n&1
		right = missing - left
	}
	before, err := repeatText(bud, fill, left)
	if err != nil {
		return Value{}, err
	}
	after, err := repeatText(bud, fill, right)
	if err != nil {
		return Value{}, err
	}
	w := newBuilder(bud)
	w.safe = v.safe
	w.writeText(before)
	w.writeText(v)
	w.writeText(after)
	return w.value()
}

func textZeroFill(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("zfill", 1, "width")
	if err != nil {
		return Value{}, err
	}
	return zeroFill(x.budget, v, p[0])
}

// zeroFill puts zeros in front of the digits of a text, up to a width in characters.
func zeroFill(bud *budget, v, width Value) (Value, error) {
	n, err := width.count("width")
	if err != nil {
		return Value{}, err
	}
	zeros, err := repeatText(bud, literal("0"), max(n-runeCount(v.str), 0))
	if err != nil {
		return Value{}, err
	}
	sign := 0
	if v.str != "" && (v.str[0] == '-' || v.str[0] == '+') {
		sign = 1
	}
	w := newBuilder(bud)
	w.writeText(v.slice(0, sign))
	w.writeText(zeros)
	w.writeText(v.slice(sign, len(v.str)))
	return w.value()
}

// textAll makes a method that is true for a string that is not empty and whose
// characters all satisfy f.
func textAll(f func(rune) bool) filter {
	return plain("is...", func(x *exec, v Value) (Value, error) {
		if err := x.characters(len(v.str)); err != nil {
			return Value{}, err
		}
		all := strings.IndexFunc(v.str, func(r rune) bool { return !f(r) }) < 0
		return boolean(all && v.str != ""), nil
	})
}

func isNumeric(r rune) bool { return unicode.IsNumber(r) }

// isDigitRune is str.isdigit: decimal digits and their superscripts and such.
func isDigitRune(r rune) bool {
	switch {
	case unicode.IsDigit(r):
		return true
	case !unicode.Is(unicode.No, r):
		return false
	}
	return r == 0xb2 || r == 0xb3 || r == 0xb9 || r == 0x2070 || 0x2074 <= r && r <= 0x2079 || 0x2080 <= r && r <= 0x2089 ||
		0x2460 <= r && r <= 0x2468 || 0x2474 <= r && r <= 0x247c || 0x2488 <= r && r <= 0x2490 || r == 0x24ea ||
		0x24f5 <= r && r <= 0x24fd || r == 0x24ff || 0x2776 <= r && r <= 0x277e || 0x2780 <= r && r <= 0x2788 ||
		0x278a <= r && r <= 0x2792
}

func textIsCase(want func(rune) bool) filter {
	return plain("is...", func(x *exec, v Value) (Value, error) {
		return boolean(allCased(v.str, want)), x.characters(len(v.str))
	})
}

func textIsIdentifier(x *exec, v Value) (Value, error) {
	first, _ := utf8.DecodeRuneInString(v.str)
	ok := first == '_' || unicode.IsLetter(first)
	return boolean(ok && strings.IndexFunc(v.str, func(r rune) bool { return !isNamePart(r) }) < 0), x.characters(len(v.str))
}

func textIsPrintable(x *exec, v Value) (Value, error) {
	return boolean(strings.IndexFunc(v.str, func(r rune) bool { return !unicode.IsPrint(r) }) < 0), x.characters(len(v.str))
}

func textIsTitle(x *exec, v Value) (Value, error) {
	if err := x.characters(2 * len(v.str)); err != nil {
		return Value{}, err
	}
	found, prev := false, false
	for _, r := range v.str {
		upper := unicode.IsUpper(r) || unicode.IsTitle(r)
		if upper && prev || unicode.IsLower(r) && !prev {
			return boolean(false), nil
		}
		prev = isCased(r)
		found = found || prev
	}
	return boolean(found), nil
}
