package regex

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Flavor is whose patterns are read.
type Flavor uint8

const (
	// JavaScript is ECMAScript with the flag u, as JSON Schema's keyword pattern has it.
	JavaScript Flavor = iota
	// RE2 is what RE2, Go and, as far as the language is regular, Python read.
	RE2
)

// Syntax says how a pattern is read.
type Syntax struct {
	Flavor     Flavor
	Search     bool // the pattern may match anywhere in a text; otherwise it has to match the whole
	IgnoreCase bool // letters match whatever their case, as (?i)
	DotAll     bool // a dot matches line ends, too, as (?s)
	Extended   bool // blanks and comments from # to the line's end are skipped, as Python's (?x)
}

// Errors of patterns. The first two are wrapped with the place and what stands there.
var (
	// ErrPattern is a pattern that is none.
	ErrPattern = errors.New("the pattern is not valid")
	// ErrUnsupported is a construct that is refused: lookaround, backreferences, word boundaries, atomic groups.
	ErrUnsupported = errors.New("the pattern has what is not served")
)

const (
	// MaxPattern is the most bytes of a pattern.
	MaxPattern = 64 << 10

	maxNesting = 250
	maxAnchors = 200
)

// Parse reads a pattern: JavaScript's may match anywhere in a text, as JSON Schema says, RE2's has to match the whole, as vLLM's guided_regex.
func Parse(pattern string, f Flavor) (*Regex, error) {
	return Syntax{Flavor: f, Search: f == JavaScript}.Parse(pattern)
}

// Parse reads a pattern. What it matches is valid UTF-8 throughout. Errors are an ErrPattern, an ErrUnsupported or an ErrSize.
func (s Syntax) Parse(pattern string) (*Regex, error) {
	if len(pattern) > MaxPattern {
		return nil, fmt.Errorf("%w: a pattern of %d bytes, the limit is %d", ErrSize, len(pattern), MaxPattern)
	}
	if !utf8.ValidString(pattern) {
		return nil, fmt.Errorf("%w: it is not UTF-8", ErrPattern)
	}
	p := parser{flavor: s.Flavor, text: pattern}
	a, err := p.alternatives(modes{s.IgnoreCase, s.DotAll, s.Extended})
	if err != nil {
		return nil, err
	}
	if p.at < len(p.text) {
		return nil, p.wrong("a ) that closes nothing")
	}
	return a.whole(s.Search), nil
}

// modes are the flags in force at a place.
type modes struct{ fold, dotAll, extended bool }

type parser struct {
	flavor  Flavor
	text    string
	at      int
	depth   int
	anchors int
}

func (p *parser) wrong(what string) error {
	return fmt.Errorf("%w: %s at byte %d of %q", ErrPattern, what, p.at, abbreviate(p.text))
}

func (p *parser) refuse(what string) error {
	return fmt.Errorf("%w: %s at byte %d of %q", ErrUnsupported, what, p.at, abbreviate(p.text))
}

func abbreviate(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func (p *parser) has(s string) bool { return strings.HasPrefix(p.text[p.at:], s) }

func (p *parser) skip(s string) bool {
	if !p.has(s) {
		return false
	}
	p.at += len(s)
	return true
}

// next takes one character; zero bytes wide at the end.
func (p *parser) next() rune {
	r, n := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += n
	return r
}

func (p *parser) alternatives(m modes) (anchored, error) {
	if p.depth++; p.depth > maxNesting {
		return anchored{}, fmt.Errorf("%w: groups nested more than %d deep", ErrSize, maxNesting)
	}
	defer func() { p.depth-- }()
	var all []anchored
	for {
		a, err := p.sequence(&m)
		if err != nil {
			return a, err
		}
		all = append(all, a)
		if !p.skip("|") {
			return anyOf(all), nil
		}
	}
}

// sequence reads up to | or ) or the end. Flags that stand alone hold to the end of the group, so m is changed.
func (p *parser) sequence(m *modes) (anchored, error) {
	var items []anchored
	for p.at < len(p.text) && !p.has("|") && !p.has(")") {
		if m.extended && p.blank() {
			continue
		}
		start := p.at
		item, repeatable, err := p.atom(m)
		if err != nil {
			return item, err
		}
		for m.extended && p.blank() {
		}
		if item, err = p.quantified(item, repeatable, start); err != nil {
			return item, err
		}
		items = append(items, item)
	}
	return sequenceOf(items), nil
}

// blank skips one blank or comment of the extended syntax.
func (p *parser) blank() bool {
	if p.at < len(p.text) && strings.IndexByte(" \t\n\r\f\v", p.text[p.at]) >= 0 {
		p.at++
		return true
	}
	if !p.has("#") {
		return false
	}
	if end := strings.IndexByte(p.text[p.at:], '\n'); end >= 0 {
		p.at += end
	} else {
		p.at = len(p.text)
	}
	return true
}

func (p *parser) atom(m *modes) (item anchored, repeatable bool, err error) {
	switch c := p.text[p.at]; c {
	case '^', '$':
		p.at++
		item, err = p.anchor(c == '^')
		return item, false, err
	case '(':
		p.at++
		return p.group(m)
	case '[':
		p.at++
		set, err := p.class(m.fold)
		return plainly(Runes(set...)), true, err
	case '.':
		p.at++
		return plainly(p.dot(*m)), true, nil
	case '\\':
		return p.escape(*m)
	case '*', '+', '?':
		return anchored{}, false, p.wrong("a quantifier that repeats nothing")
	case '{':
		if _, _, ok := p.count(); ok {
			return anchored{}, false, p.wrong("a quantifier that repeats nothing")
		}
	}
	return plainly(letter(p.next(), m.fold)), true, nil
}

func (p *parser) anchor(start bool) (anchored, error) {
	if p.anchors++; p.anchors > maxAnchors {
		return anchored{}, fmt.Errorf("%w: more than %d anchors", ErrSize, maxAnchors)
	}
	if start {
		return anchored{needsStart: empty}, nil
	}
	return anchored{needsEnd: empty}, nil
}

func (p *parser) dot(m modes) *Regex {
	switch {
	case m.dotAll:
		return anyRune
	case p.flavor == JavaScript:
		return Runes(invertRunes([]RuneRange{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}})...)
	default:
		return Runes(invertRunes([]RuneRange{{'\n', '\n'}})...)
	}
}

func letter(r rune, fold bool) *Regex {
	if fold {
		return Runes(foldRunes([]RuneRange{{r, r}})...)
	}
	return Literal(string(r))
}

// group reads what follows an opening parenthesis.
func (p *parser) group(m *modes) (anchored, bool, error) {
	inner := *m
	if p.skip("?") {
		switch {
		case p.has("=") || p.has("!"):
			return anchored{}, false, p.refuse("a lookahead")
		case p.has("<=") || p.has("<!"):
			return anchored{}, false, p.refuse("a lookbehind")
		case p.has(">"):
			return anchored{}, false, p.refuse("an atomic group")
		case p.has("P="):
			return anchored{}, false, p.refuse("a backreference")
		case p.has("P>") || p.has("R") || p.has("("):
			return anchored{}, false, p.refuse("recursion or a conditional")
		case p.skip("#"):
			end := strings.IndexByte(p.text[p.at:], ')')
			if end < 0 {
				return anchored{}, false, p.wrong("a comment without an end")
			}
			p.at += end + 1
			return plainly(empty), false, nil
		case p.skip("P<"), p.skip("<"):
			end := strings.IndexByte(p.text[p.at:], '>')
			if end <= 0 {
				return anchored{}, false, p.wrong("a group without a name")
			}
			p.at += end + 1
		default:
			scoped, err := p.flags(&inner)
			if err != nil {
				return anchored{}, false, err
			}
			if !scoped {
				*m = inner
				return plainly(empty), false, nil
			}
		}
	}
	a, err := p.alternatives(inner)
	if err == nil && !p.skip(")") {
		err = p.wrong("a ( without its )")
	}
	return a, true, err
}

// flags reads i, s, m, x, u and U with - up to : (a group follows, scoped) or ) (they hold from here on).
func (p *parser) flags(m *modes) (scoped bool, err error) {
	on := true
	for p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		switch c {
		case ':':
			return true, nil
		case ')':
			return false, nil
		case '-':
			on = false
		case 'i':
			m.fold = on
		case 's':
			m.dotAll = on
		case 'x':
			m.extended = on
		case 'u', 'U', 'a', 'L': // what they change is no part of the language here
		case 'm':
			if on {
				p.at--
				return false, p.refuse("the flag m, anchors at line ends")
			}
		default:
			p.at--
			return false, p.wrong("an unknown flag or group")
		}
	}
	return false, p.wrong("a ( without its )")
}

// count reads {least,most} without taking it in.
func (p *parser) count() (least, most int, ok bool) {
	rest := p.text[p.at:]
	end := strings.IndexByte(rest, '}')
	if end < 2 || rest[0] != '{' {
		return 0, 0, false
	}
	first, second, ranged := strings.Cut(rest[1:end], ",")
	if first == "" && (p.flavor == JavaScript || second == "") {
		return 0, 0, false
	}
	if least, ok = number(first); !ok && first != "" {
		return 0, 0, false
	}
	if !ranged {
		return least, least, true
	}
	if second == "" {
		return least, Unbounded, true
	}
	most, ok = number(second)
	return least, most, ok
}

// number reads decimal digits; anything above MaxCount comes out as one more than that.
func number(digits string) (int, bool) {
	n := 0
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		n = min(n*10+int(digits[i]-'0'), MaxCount+1)
	}
	return n, digits != ""
}

func (p *parser) quantified(item anchored, repeatable bool, start int) (anchored, error) {
	for p.at < len(p.text) {
		least, most := 0, Unbounded
		switch c := p.text[p.at]; c {
		case '*':
		case '+':
			least = 1
		case '?':
			most = 1
		case '{':
			var ok bool
			if least, most, ok = p.count(); !ok {
				return item, nil
			}
			p.at += strings.IndexByte(p.text[p.at:], '}')
		default:
			return item, nil
		}
		p.at++
		if !repeatable {
			return item, p.wrong("a quantifier that repeats nothing")
		}
		if least > MaxCount || most > MaxCount {
			return item, fmt.Errorf("%w: a count above %d in %q", ErrSize, MaxCount, abbreviate(p.text))
		}
		if most != Unbounded && least > most {
			return item, p.wrong("counts in the wrong order")
		}
		if p.has("+") {
			return item, p.refuse("a possessive quantifier")
		}
		p.skip("?") // lazy or greedy, the texts are the same
		var ok bool
		if item, ok = item.repeat(least, most); !ok {
			p.at = start
			return item, p.refuse("an anchor inside a repetition")
		}
		repeatable = false
	}
	return item, nil
}
