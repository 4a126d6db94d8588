package chat

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// letterCase is the case that recase gives a character.
type letterCase uint8

const (
	lowerCase letterCase = iota
	upperCase
	titleCase
	swapCase
)

// recase changes the case of every character; pick is asked with the character
// before (-1 at the beginning) which case the next one gets.
func recase(bud *budget, v Value, pick func(prev rune) letterCase) (Value, error) {
	if err := bud.characters(2 * len(v.str)); err != nil {
		return Value{}, err
	}
	w := newBuilder(bud)
	w.safe = v.safe
	offset, prev := 0, rune(-1)
	for run, client := range v.runs() {
		for i, r := range run {
			c := pick(prev)
			if c == swapCase {
				c = upperCase
				if unicode.IsUpper(r) || unicode.IsTitle(r) {
					c = lowerCase
				}
			}
			w.writeCase(v.str, offset+i, r, c, client)
			prev = r
		}
		offset += len(run)
	}
	return w.value()
}

func (w *builder) writeCase(s string, i int, r rune, c letterCase, client bool) {
	switch special, ok := specialCase[r]; {
	case c == lowerCase && r == 0x130:
		w.write("i\u0307", client)
	case c == lowerCase && r == 0x3a3:
		w.writeRune(lowerSigma(s, i), client)
	case c == lowerCase:
		w.writeRune(unicode.ToLower(r), client)
	case ok && c == upperCase:
		w.write(special.upper, client)
	case ok:
		w.write(special.title, client)
	case c == upperCase:
		w.writeRune(unicode.ToUpper(r), client)
	default:
		w.writeRune(unicode.ToTitle(r), client)
	}
}

// sigmaWindow bounds how far around a sigma is looked, so that the time for
// text of nothing but sigmas and marks grows with its length only.
const sigmaWindow = 64

// lowerSigma is the lower case of the capital sigma at i: ς at the end of a
// word, σ elsewhere.
func lowerSigma(s string, i int) rune {
	ignorable := func(r rune) bool {
		return strings.ContainsRune("'.:^`\u00a8\u00ad\u00b7\u2019\u2027", r) ||
			unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk)
	}
	before := strings.TrimRightFunc(s[max(0, i-sigmaWindow):i], ignorable)
	after := strings.TrimLeftFunc(s[i+utf8.RuneLen(0x3a3):min(len(s), i+sigmaWindow)], ignorable)
	last, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(after)
	if isCased(last) && (after == "" || !isCased(next)) {
		return 0x3c2
	}
	return 0x3c3
}

func isCased(r rune) bool { return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) }

func toLower(x *exec, v Value) (Value, error) {
	if isASCII(v.str) && strings.IndexFunc(v.str, unicode.IsUpper) < 0 {
		return v, x.characters(len(v.str))
	}
	return recase(x.budget, v, func(rune) letterCase { return lowerCase })
}

func toUpper(x *exec, v Value) (Value, error) {
	return recase(x.budget, v, func(rune) letterCase { return upperCase })
}

func toTitle(x *exec, v Value) (Value, error) {
	return recase(x.budget, v, func(prev rune) letterCase {
		if prev >= 0 && isCased(prev) {
			return lowerCase
		}
		return titleCase
	})
}

func capitalize(x *exec, v Value) (Value, error) {
	return recase(x.budget, v, func(prev rune) letterCase {
		if prev >= 0 {
			return lowerCase
		}
		return titleCase
	})
}

func swapLetters(x *exec, v Value) (Value, error) {
	return recase(x.budget, v, func(rune) letterCase { return swapCase })
}

// titleWords is the title filter: upper case after white space and opening
// brackets.
func titleWords(x *exec, v Value) (Value, error) {
	return recase(x.budget, v, func(prev rune) letterCase {
		if prev < 0 || isSpace(prev) || strings.ContainsRune("-({[<", prev) {
			return upperCase
		}
		return lowerCase
	})
}
