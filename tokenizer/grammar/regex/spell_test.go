package regex_test

import (
	"strconv"
	"testing"

	"weir/tokenizer/grammar/regex"
)

// quoted writes quotes, backslashes and line ends as JSON does.
var quoted = regex.NewSpelling(func(b byte) string {
	switch b {
	case '"', '\\':
		return `\` + string(rune(b))
	case '\n':
		return `\n`
	}
	return string([]byte{b})
})

func TestSpelling(t *testing.T) {
	for _, c := range []struct {
		pattern  string
		fits     []string
		fitsNone []string
	}{
		{`^a"b$`, []string{`a\"b`}, []string{`a"b`, `a\\"b`}},
		{`^[^x]$`, []string{`y`, `\"`, `\\`, `\n`, `é`}, []string{`x`, `\`, `"`, `\x`, `\"\"`}},
		{`^(?:\\|\n){2}$`, []string{`\\\n`, `\n\n`}, []string{`\\`, "\n\n"}},
		{`^[é-ü]+$`, []string{`éü`}, []string{`e`, ``}},
	} {
		r, err := regex.Parse(c.pattern, regex.JavaScript)
		if err != nil {
			t.Fatal(err)
		}
		check := func(r *regex.Regex, text string, want bool) {
			t.Helper()
			if got, err := r.Matches([]byte(text)); err != nil || got != want {
				t.Errorf("%s and %q: %v (%v), want %v", c.pattern, text, got, err, want)
			}
		}
		for _, text := range c.fits {
			check(quoted.Regex(r), text, true)
			check(quoted.Regex(regex.Not(r)), text, false)
		}
		for _, text := range c.fitsNone {
			check(quoted.Regex(r), text, false)
		}
	}
	contrary := quoted.Regex(regex.Not(regex.Literal(`"`)))
	for text, want := range map[string]bool{`\"`: false, `"`: false, `a`: true, ``: true, `\"\"`: true} {
		if got, err := contrary.Matches([]byte(text)); err != nil || got != want {
			t.Errorf("the contrary of a quote and %q: %v (%v), want %v", text, got, err, want)
		}
	}
}

func TestMultiple(t *testing.T) {
	for _, divisor := range []int{1, 2, 3, 7, 10, 64, 97, 1000} {
		r := regex.Multiple(divisor)
		for n := range 2_000 {
			for _, text := range []string{strconv.Itoa(n), "-" + strconv.Itoa(n), strconv.Itoa(n/10) + "." + strconv.Itoa(n%10)} {
				got, err := r.Matches([]byte(text))
				if err != nil || got != (n%divisor == 0) {
					t.Fatalf("%s as a multiple of %d: %v (%v)", text, divisor, got, err)
				}
			}
		}
	}
	seven := regex.And(regex.Multiple(7), regex.Repeat(regex.ByteRange('1', '6'), 1, 1))
	if nothing, err := seven.IsNothing(); err != nil || !nothing {
		t.Errorf("one digit from 1 to 6 that is a multiple of 7: nothing is %v (%v)", nothing, err)
	}
}
