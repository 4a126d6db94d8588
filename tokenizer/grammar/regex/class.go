package regex

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

var (
	digits     = []RuneRange{{'0', '9'}}
	wordRunes  = []RuneRange{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}
	re2Blanks  = []RuneRange{{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}}
	javaBlanks = []RuneRange{{'\t', '\r'}, {' ', ' '}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
		{0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}}
)

// posix are the classes that RE2 has inside brackets.
var posix = map[string][]RuneRange{
	"alnum": {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}, "alpha": {{'A', 'Z'}, {'a', 'z'}}, "ascii": {{0, 0x7F}}, "blank": {{'\t', '\t'}, {' ', ' '}},
	"cntrl": {{0, 0x1F}, {0x7F, 0x7F}}, "digit": digits, "graph": {{'!', '~'}}, "lower": {{'a', 'z'}}, "print": {{' ', '~'}},
	"punct": {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}, "space": {{'\t', '\r'}, {' ', ' '}}, "upper": {{'A', 'Z'}}, "word": wordRunes,
	"xdigit": {{'0', '9'}, {'A', 'F'}, {'a', 'f'}},
}

// class reads what follows an opening bracket.
func (p *parser) class(fold bool) ([]RuneRange, error) {
	var set []RuneRange
	negated := p.skip("^")
	for first := true; ; first = false {
		if p.at >= len(p.text) {
			return nil, p.wrong("a [ without its ]")
		}
		if p.has("]") && (!first || p.flavor == JavaScript) {
			p.at++
			break
		}
		if p.flavor == RE2 && p.has("[:") {
			if c, ok, err := p.posixClass(); err != nil {
				return nil, err
			} else if ok {
				set = append(set, c...)
				continue
			}
		}
		from, many, err := p.member()
		if err != nil {
			return nil, err
		}
		if many != nil {
			set = append(set, many...)
			continue
		}
		to := from
		if p.has("-") && !p.has("-]") && p.at+1 < len(p.text) {
			p.at++
			if to, many, err = p.member(); err != nil {
				return nil, err
			}
			if many != nil { // [a-\d] is an a, a dash and digits
				set = append(append(set, RuneRange{from, from}, RuneRange{'-', '-'}), many...)
				continue
			}
			if to < from {
				return nil, p.wrong("a range in the wrong order")
			}
		}
		set = append(set, RuneRange{from, to})
	}
	set = normalRunes(set)
	if fold {
		set = foldRunes(set)
	}
	if negated {
		set = invertRunes(set)
	}
	return set, nil
}

func (p *parser) posixClass() ([]RuneRange, bool, error) {
	end := strings.Index(p.text[p.at:], ":]")
	if end < 2 {
		return nil, false, nil
	}
	name := p.text[p.at+2 : p.at+end]
	positive, inverted := strings.CutPrefix(name, "^")
	c, ok := posix[positive]
	if !ok {
		return nil, false, p.wrong("an unknown class [:" + abbreviate(name) + ":]")
	}
	p.at += end + 2
	if inverted {
		c = invertRunes(c)
	}
	return c, true, nil
}

// member reads one character inside brackets, or an escape that stands for many.
func (p *parser) member() (rune, []RuneRange, error) {
	if !p.skip(`\`) {
		return p.next(), nil, nil
	}
	if p.at >= len(p.text) {
		return 0, nil, p.wrong(`a \ at the end`)
	}
	if p.skip("b") {
		return '\b', nil, nil
	}
	if p.flavor == JavaScript && p.skip("-") {
		return '-', nil, nil
	}
	return p.escaped()
}

// escape reads a backslash and what follows it, outside brackets.
func (p *parser) escape(m modes) (anchored, bool, error) {
	p.at++
	if p.at >= len(p.text) {
		return anchored{}, false, p.wrong(`a \ at the end`)
	}
	switch c := p.text[p.at]; {
	case c == 'b' || c == 'B':
		return anchored{}, false, p.refuse("a word boundary")
	case c >= '1' && c <= '9', c == 'k' && (p.flavor == JavaScript || p.has("k<")):
		return anchored{}, false, p.refuse("a backreference")
	case p.flavor == RE2 && (c == 'A' || c == 'z' || c == 'Z'):
		p.at++
		a, err := p.anchor(c == 'A')
		return a, false, err
	case p.flavor == RE2 && c == 'Q':
		p.at++
		text, _, _ := strings.Cut(p.text[p.at:], `\E`)
		p.at = min(p.at+len(text)+2, len(p.text))
		if !m.fold {
			return plainly(Literal(text)), text != "", nil
		}
		var letters []*Regex
		for _, r := range text {
			letters = append(letters, letter(r, true))
		}
		return plainly(Concat(letters...)), text != "", nil
	}
	r, many, err := p.escaped()
	switch {
	case err != nil:
		return anchored{}, false, err
	case many == nil:
		return plainly(letter(r, m.fold)), true, nil
	case m.fold:
		many = foldRunes(many)
	}
	return plainly(Runes(many...)), true, nil
}

// escaped reads what follows a backslash: one character, or a class of many, which is not nil.
func (p *parser) escaped() (rune, []RuneRange, error) {
	c := p.next()
	switch c {
	case 'd', 'D':
		return 0, orInverted(digits, c == 'D'), nil
	case 'w', 'W':
		return 0, orInverted(wordRunes, c == 'W'), nil
	case 's', 'S':
		blanks := re2Blanks
		if p.flavor == JavaScript {
			blanks = javaBlanks
		}
		return 0, orInverted(blanks, c == 'S'), nil
	case 'p', 'P':
		set, err := p.property()
		if err != nil {
			return 0, nil, err
		}
		return 0, orInverted(set, c == 'P'), nil
	case 'n':
		return '\n', nil, nil
	case 'r':
		return '\r', nil, nil
	case 't':
		return '\t', nil, nil
	case 'f':
		return '\f', nil, nil
	case 'v':
		return '\v', nil, nil
	case 'a':
		if p.flavor == RE2 {
			return '\a', nil, nil
		}
	case 'c':
		if p.flavor == JavaScript && p.at < len(p.text) && unicode.IsLetter(rune(p.text[p.at])) && p.text[p.at] < 0x80 {
			p.at++
			return rune(p.text[p.at-1] & 31), nil, nil
		}
	case '0':
		return p.octal()
	case 'x':
		return p.hex(2)
	case 'u':
		return p.unicodeEscape()
	case 'U':
		if p.flavor == RE2 {
			return p.hex(8)
		}
	}
	if unicode.IsLetter(c) || unicode.IsDigit(c) {
		p.at -= len(string(c))
		return 0, nil, p.wrong("an unknown escape")
	}
	return c, nil, nil
}

func orInverted(set []RuneRange, inverted bool) []RuneRange {
	if inverted {
		set = invertRunes(set)
	}
	if set == nil {
		set = []RuneRange{}
	}
	return set
}

// octal reads up to two more digits after \0.
func (p *parser) octal() (rune, []RuneRange, error) {
	r := rune(0)
	for i := 0; i < 2 && p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '7'; i++ {
		r = r*8 + rune(p.text[p.at]-'0')
		p.at++
	}
	return r, nil, nil
}

// hex reads a number of hexadecimal digits, or any number of them in braces.
func (p *parser) hex(count int) (rune, []RuneRange, error) {
	digits := p.text[p.at:min(p.at+count, len(p.text))]
	if p.has("{") {
		end := strings.IndexByte(p.text[p.at:], '}')
		if end < 0 {
			return 0, nil, p.wrong("a { without its }")
		}
		digits = p.text[p.at+1 : p.at+end]
		count = end + 1
	} else if len(digits) < count {
		return 0, nil, p.wrong("too few hexadecimal digits")
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || n > maxRune {
		return 0, nil, p.wrong("no character of hexadecimal digits")
	}
	p.at += count
	return rune(n), nil, nil
}

// unicodeEscape reads what follows \u, two surrogates as one character.
func (p *parser) unicodeEscape() (rune, []RuneRange, error) {
	high, many, err := p.hex(4)
	if err != nil || high < 0xD800 || high > 0xDBFF || !p.has(`\u`) {
		return high, many, err
	}
	at := p.at
	p.at += 2
	if low, _, err := p.hex(4); err == nil && low >= 0xDC00 && low <= 0xDFFF {
		return 0x10000 + (high-0xD800)<<10 + (low - 0xDC00), nil, nil
	}
	p.at = at // half a character, which no text has
	return high, nil, nil
}

// property reads the name of a Unicode property: a category, a script or one of a few binary ones.
func (p *parser) property() ([]RuneRange, error) {
	if p.at >= len(p.text) {
		return nil, p.wrong(`a \p without a name`)
	}
	name := p.text[p.at : p.at+1]
	end := p.at + 1
	if p.has("{") {
		n := strings.IndexByte(p.text[p.at:], '}')
		if n < 0 {
			return nil, p.wrong("a { without its }")
		}
		name, end = p.text[p.at+1:p.at+n], p.at+n+1
	}
	name, inverted := strings.CutPrefix(name, "^")
	set, ok := propertyRunes(name)
	if !ok {
		return nil, p.refuse("the unknown property " + abbreviate(name))
	}
	p.at = end
	if inverted {
		set = invertRunes(set)
	}
	return set, nil
}

func propertyRunes(name string) ([]RuneRange, bool) {
	kind, value, ok := strings.Cut(name, "=")
	if !ok {
		kind, value = "", name
	}
	category := kind == "" || kind == "gc" || kind == "General_Category"
	script := kind == "" || kind == "sc" || kind == "Script" || kind == "scx" || kind == "Script_Extensions"
	if category {
		if alias, ok := unicode.CategoryAliases[value]; ok {
			value = alias
		}
		if t, ok := unicode.Categories[value]; ok {
			return tableRunes(t), true
		}
	}
	if script {
		if t, ok := unicode.Scripts[value]; ok {
			return tableRunes(t), true
		}
	}
	if kind != "" {
		return nil, false
	}
	switch value {
	case "Any":
		return []RuneRange{{0, maxRune}}, true
	case "ASCII":
		return []RuneRange{{0, 0x7F}}, true
	case "Alphabetic", "Alpha":
		return tableRunes(unicode.L, unicode.Nl, unicode.Other_Alphabetic), true
	case "Lowercase", "Lower":
		return tableRunes(unicode.Ll, unicode.Other_Lowercase), true
	case "Uppercase", "Upper":
		return tableRunes(unicode.Lu, unicode.Other_Uppercase), true
	}
	if t, ok := unicode.Properties[value]; ok {
		return tableRunes(t), true
	}
	return nil, false
}

func tableRunes(tables ...*unicode.RangeTable) []RuneRange {
	var set []RuneRange
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			set = append(set, RuneRange{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			set = append(set, RuneRange{r, r})
		}
	}
	for _, t := range tables {
		for _, r := range t.R16 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range t.R32 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	return normalRunes(set)
}

// cased are all characters that have others of another case, sorted.
var cased = sync.OnceValue(func() []rune {
	var all []rune
	for r := range rune(0x20000) {
		if unicode.SimpleFold(r) != r {
			all = append(all, r)
		}
	}
	return all
})

// foldRunes adds the other cases of all characters.
func foldRunes(set []RuneRange) []RuneRange {
	folded := slices.Clone(set)
	all := cased()
	for _, r := range set {
		i, _ := slices.BinarySearch(all, r.First)
		for ; i < len(all) && all[i] <= r.Last; i++ {
			for o := unicode.SimpleFold(all[i]); o != all[i]; o = unicode.SimpleFold(o) {
				folded = append(folded, RuneRange{o, o})
			}
		}
	}
	return normalRunes(folded)
}
