package pii

import "strings"

// Bank accounts, payment cards and phone numbers are written in groups of digits.

const (
	minIBANChars = 15
	maxIBANChars = 34
)

// FindIBAN finds a country, two check digits and an account, in groups or without, whose
// remainder by 97 is 1 (ISO 13616).
func FindIBAN(text string, from int) (start, end int) {
	for i := from; i+minIBANChars <= len(text); i++ {
		if isLetter(text[i]) && isLetter(text[i+1]) && isDigit(text[i+2]) && isDigit(text[i+3]) && beginsWord(text, i) {
			if end := ibanEnd(text, i); end > 0 {
				return i, end
			}
		}
	}
	return -1, -1
}

// ibanEnd is where the longest account that begins at i ends, or 0.
func ibanEnd(text string, i int) (end int) {
	rest := 0 // of the account without country and check digits, which count at its end
	for n, at := 4, i+4; n < maxIBANChars && at < len(text); at++ {
		b := text[at]
		if (b == ' ' || b == '-') && at+1 < len(text) && isAlnum(text[at+1]) {
			continue
		}
		if !isAlnum(b) {
			break
		}
		rest = remainder(rest, text[at:at+1])
		n++
		if n >= minIBANChars && endsWord(text, at+1) && remainder(rest, text[i:i+4]) == 1 {
			end = at + 1
		}
	}
	return end
}

// remainder goes on with the remainder by 97 of a number; letters are 10 to 35.
func remainder(r int, text string) int {
	for i := range len(text) {
		if b := text[i]; isDigit(b) {
			r = (r*10 + int(b-'0')) % 97
		} else {
			r = (r*100 + int(b|0x20-'a') + 10) % 97
		}
	}
	return r
}

// group is a run of digits in a text.
type group struct{ start, end int }

// run is a row of groups with one or two separators between them, as far as a card or
// a phone number can reach.
type run struct {
	text   string
	groups [maxDigits]group
	n      int
	digits []byte // of all groups, in memory
	memory [maxDigits]byte
}

// maxDigits is the most that a card or a phone number has.
const maxDigits = 19

// read takes in the row that begins with the digit at i.
func (r *run) read(text string, i int) {
	r.text, r.n = text, 0
	digits := r.memory[:0]
	for i < len(text) && isDigit(text[i]) {
		g := group{start: i}
		for i < len(text) && isDigit(text[i]) {
			if len(digits) == maxDigits {
				r.digits = digits[:r.count(r.n)]
				return // the last group does not fit
			}
			digits = append(digits, text[i])
			i++
		}
		g.end = i
		r.groups[r.n] = g
		r.n++
		for n := 0; n < 2 && i < len(text) && strings.IndexByte(" -./()", text[i]) >= 0; n++ {
			i++
		}
	}
	r.digits = digits
}

// count is how many digits the first n groups have.
func (r *run) count(n int) (digits int) {
	for _, g := range r.groups[:n] {
		digits += g.end - g.start
	}
	return digits
}

// findNumber looks at each beginning of a group of digits for the longest row of groups
// that is one of what is looked for. is gets a row and how many of its groups count.
func findNumber(text string, from int, is func(r *run, n int) bool) (start, end int) {
	var r run
	for i := from; i < len(text); i++ {
		if !isDigit(text[i]) {
			continue
		}
		if beginsNumber(text, i) {
			r.read(text, i)
			for n := r.n; n > 0; n-- {
				if end := r.groups[n-1].end; endsWord(text, end) && is(&r, n) {
					return i, end
				}
			}
		}
		for i < len(text) && isDigit(text[i]) {
			i++
		}
	}
	return -1, -1
}

// beginsNumber is false inside of a word and behind a decimal point.
func beginsNumber(text string, i int) bool {
	switch {
	case !beginsWord(text, i), i > 0 && text[i-1] == '_':
		return false
	case i > 1 && text[i-1] == '.' && isDigit(text[i-2]):
		return false
	}
	return true
}

// FindCard finds payment cards: 13 to 19 digits with the check digit of ISO 7812.
func FindCard(text string, from int) (start, end int) {
	return findNumber(text, from, func(r *run, n int) bool {
		digits := r.digits[:r.count(n)]
		return len(digits) >= 13 && digits[0] >= '2' && digits[0] <= '6' && r.isPlain(n) && luhn(digits)
	})
}

// isPlain reports whether one space or dash is between the first n groups.
func (r *run) isPlain(n int) bool {
	for i := 1; i < n; i++ {
		if between := r.text[r.groups[i-1].end:r.groups[i].start]; between != " " && between != "-" {
			return false
		}
	}
	return true
}

func luhn(digits []byte) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			d *= 2
			if d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// FindPhone finds phone numbers: international ones, those of one country that begin
// with 0, and North American ones.
func FindPhone(text string, from int) (start, end int) {
	start, end = findNumber(text, from, isPhone)
	for start > from && (text[start-1] == '+' || text[start-1] == '(') {
		start--
	}
	return start, end
}

func isPhone(r *run, n int) bool {
	digits := r.digits[:r.count(n)]
	first := r.groups[0]
	switch {
	case followsPlus(r.text, first.start):
		return len(digits) >= 7 && len(digits) <= 15
	case digits[0] == '0' && len(digits) > 1 && digits[1] == '0':
		return len(digits) >= 10 && len(digits) <= 17 && digits[2] != '0'
	case digits[0] == '0':
		return len(digits) >= 9 && len(digits) <= 13 && first.end-first.start > 1 && !r.isDate(n)
	case len(digits) == 11 && digits[0] == '1':
		return n > 1 && r.isAmerican(digits[1:], 1, n)
	}
	return len(digits) == 10 && r.isAmerican(digits, 0, n)
}

// followsPlus reports whether + or +( stands before i, and is no sum.
func followsPlus(text string, i int) bool {
	if i > 1 && text[i-1] == '(' {
		i--
	}
	return i > 0 && text[i-1] == '+' && beginsWord(text, i-1)
}

// isDate: 01-02-2026 14:30 is no phone number.
func (r *run) isDate(n int) bool {
	return n >= 3 && r.size(0) == 2 && r.size(1) == 2 && r.size(2) == 4
}

func (r *run) size(i int) int { return r.groups[i].end - r.groups[i].start }

// isAmerican takes area code, exchange and number, together or apart, without a country
// code; they begin with the group from.
func (r *run) isAmerican(digits []byte, from, n int) bool {
	if digits[0] < '2' || digits[3] < '2' {
		return false
	}
	switch n - from {
	case 1:
		return true
	case 2:
		return r.size(from) == 3 || r.size(from) == 6
	case 3:
		return r.size(from) == 3 && r.size(from+1) == 3
	}
	return false
}
