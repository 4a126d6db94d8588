package regex

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

func mustMatch(t *testing.T, r *Regex, text string) bool {
	t.Helper()
	ok, err := r.Matches([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// patterns are read alike by RE2 and here.
var patterns = []string{
	`abc`, `a|b|cd`, `(a|b)*c`, `a{2,3}`, `(ab){1,2}c?`, `[a-c]+[^a-c]`, `[]a]`, `[^]a]+`, `[\d-]+`, `\w+\s\d{2}`, `.+`, `(?s).+`, `(?i)straße|ab`,
	`(?i:a)b`, `\x41\x{e9}`, `\p{Lu}\p{Greek}*`, `\pL+`, `[[:alpha:]]+[[:^digit:]]`, `^a$`, `^(a|b)$`, `(^a|b)c`, `a(b$|c)d?`, `a\.b\\c`, `\Qa.b\E+`,
	`(?P<name>a)b`, `a*?b+?`, `é+`, `[é-ü]`, `日本|語`, ``, `a||b`, `(a*)*b`, `(a|ab)(c|bcd)`, `\t|\n|\v`, `a{0}b`, `[a\-z]+`, `\z`, `{`, `a{`,
	`(?i)k`, `[^\x00-\x{10FFFF}]`, `.{20}|.{3}`, `(a?){3}a{3}`, `[[:]`,
}

var texts = []string{
	"", "a", "b", "c", "ab", "abc", "aab", "aaa", "aaaa", "ac", "bc", "cd", "abab", "ababc", "abcd", "a.b", "a.b\\c", "a.ba", "A", "aB", "Ab", "AB",
	"STRASSE", "straße", "STRAßE", "STRAẞE", "é", "éé", "ü", "日本", "語", "日", "ab 12", "ab\u00a012", "foo_1\n99", "\n", "a\nb", "\t", "\v", "Aé", "Λ", "Λα", "Éα", "d", "1-2",
	"a-z", "abd", "a1", "ax", "]", "a]", "x", "xxx", "x{,3}", "{", "a{", "K", "k", "\u212a", "acd", "abbcd", "name", "-", "\x00", "aaaaaaaaaaaaaaaaaaaa",
	"😀", "😀😀😀", "aaaaaa", "zzz",
}

func TestRE2PatternsMatchAsGoReadsThem(t *testing.T) {
	for _, p := range patterns {
		whole, err := regexp.Compile(`\A(?:` + p + `)\z`)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Parse(p, RE2)
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		found, err := Syntax{Flavor: RE2, Search: true}.Parse(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range texts {
			if mustMatch(t, r, s) != whole.MatchString(s) {
				t.Errorf("%s matches the whole of %q: %v, Go says otherwise", p, s, !whole.MatchString(s))
			}
			if search := regexp.MustCompile(p); mustMatch(t, found, s) != search.MatchString(s) {
				t.Errorf("%s found in %q: %v, Go says otherwise", p, s, !search.MatchString(s))
			}
		}
	}
}

// TestPythonsOpenCounts: {,3} is text to RE2 and a count to Python, whose patterns guided_regex gets.
func TestPythonsOpenCounts(t *testing.T) {
	r, err := Parse(`x{,3}`, RE2)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"": true, "xxx": true, "xxxx": false, "x{,3}": false} {
		if got := mustMatch(t, r, text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestJavaScriptPatternsSearch(t *testing.T) {
	for _, c := range []struct {
		pattern  string
		fit, not []string
	}{
		{`^a|b$`, []string{"a", "ax", "xb", "b"}, []string{"xa", "bx", ""}},
		{`b`, []string{"abc", "b"}, []string{"", "ac"}},
		{`^\d{3}-\d{4}$`, []string{"555-1234"}, []string{"555-12345", "x555-1234"}},
		{`(^|,)a(,|$)`, []string{"a", "b,a", "a,b", "b,a,b"}, []string{"ba", "ab"}},
		{`^[^]$`, []string{"\n", "x"}, []string{"", "xy"}},
		{`[]`, nil, []string{"", "a"}},
		{`^\u{1F600}$`, []string{"😀"}, []string{"x"}},
		{`^\ud83d\ude00$`, []string{"😀"}, []string{"x"}},
		{`^\cJ$`, []string{"\n"}, []string{"J"}},
		{`^\s$`, []string{"\u00a0", "\ufeff", "\v"}, []string{"x", ""}},
		{`^.$`, []string{"x", "é"}, []string{"\n", "\u2028"}},
		{`^\p{Script=Greek}+$`, []string{"αβγ"}, []string{"abc"}},
		{`^\p{Uppercase_Letter}$`, []string{"É"}, []string{"é"}},
		{`^(?<year>\d+)$`, []string{"2026"}, []string{"x"}},
		{`^a{2,3}$`, []string{"aa", "aaa"}, []string{"a", "aaaa"}},
		{`^\/\-\.$`, []string{"/-."}, []string{"/-x"}},
		{`a^b`, nil, []string{"ab", "a^b"}},
		{`^$`, []string{""}, []string{"a"}},
	} {
		r, err := Parse(c.pattern, JavaScript)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		for _, s := range c.fit {
			if !mustMatch(t, r, s) {
				t.Errorf("%s does not match %q", c.pattern, s)
			}
		}
		for _, s := range c.not {
			if mustMatch(t, r, s) {
				t.Errorf("%s matches %q", c.pattern, s)
			}
		}
	}
}

func TestPatternsThatAreRefused(t *testing.T) {
	for pattern, want := range map[string]error{
		`(?=a)b`: ErrUnsupported, `(?!a)b`: ErrUnsupported, `(?<=a)b`: ErrUnsupported, `(?<!a)`: ErrUnsupported, `(a)\1`: ErrUnsupported,
		`\bx`: ErrUnsupported, `(?>a)`: ErrUnsupported, `a++`: ErrUnsupported, `(^a)*`: ErrUnsupported, `\p{Emoji_Nothing}`: ErrUnsupported,
		`(?m)^a`: ErrUnsupported, `(a`: ErrPattern, `a)`: ErrPattern, `[a`: ErrPattern, `*a`: ErrPattern, `a{3,2}`: ErrPattern, `a**`: ErrPattern,
		`[b-a]`: ErrPattern, `\`: ErrPattern, `\y`: ErrPattern, "\xff": ErrPattern, `a{99999999999999}`: ErrSize,
		strings.Repeat("(", 1000): ErrSize, strings.Repeat("a", MaxPattern+1): ErrSize, strings.Repeat("^?", 500) + "": ErrPattern,
		strings.Repeat("^", 500): ErrSize,
	} {
		for _, f := range []Flavor{JavaScript, RE2} {
			if _, err := Parse(pattern, f); !errors.Is(err, want) {
				t.Errorf("%.40s: %v, want %v", pattern, err, want)
			}
		}
	}
}

func TestCountsStayNumbers(t *testing.T) {
	for _, p := range []string{`a{1000000000}`, `(a{1,30000}b?){1,30000}`, `[a-z]{0,100000}[a-z]{0,100000}`} {
		r, err := Parse(p, RE2)
		if err != nil {
			t.Fatal(err)
		}
		a, n, err := NewAutomaton(r)
		if err != nil {
			t.Fatal(err)
		}
		at := n[0]
		for range 500 {
			if at, err = a.Derive(at, 'a'); err != nil {
				t.Fatal(err)
			}
		}
		if at == NoText || a.Size() > 10_000 {
			t.Errorf("%s: %d nodes for 500 bytes", p, a.Size())
		}
	}
}

func TestIsNothing(t *testing.T) {
	parse := func(p string) *Regex {
		r, err := Parse(p, RE2)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, c := range []struct {
		r    *Regex
		want bool
	}{
		{And(parse(`[a-m]+`), parse(`[n-z]+`)), true},
		{And(parse(`[a-n]+`), parse(`[n-z]+`)), false},
		{And(parse(`(ab)*`), parse(`(ba)*`)), false}, // the empty text
		{And(parse(`(ab)+`), parse(`(ba)+`)), true},
		{And(Without("x"), parse(`x*`), Not(Empty())), true},
		{Not(parse(`(?s).*`)), false}, // what is no UTF-8
		{And(AnyText(), Not(parse(`(?s).*`))), true},
		{Nothing(), true},
		{Words("a", "b"), false},
	} {
		got, err := c.r.IsNothing()
		if err != nil || got != c.want {
			t.Errorf("%v: nothing %v, %v", c.r, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, p := range patterns {
		f.Add(p, "abc", true)
	}
	f.Add(`^(a|b$)`, "b", false)
	f.Add(`[[:]`, "0", true)
	f.Fuzz(func(t *testing.T, pattern, text string, re2 bool) {
		flavor := JavaScript
		if re2 {
			flavor = RE2
		}
		r, err := Parse(pattern, flavor)
		if err != nil {
			return
		}
		if len(text) > 40 {
			text = text[:40]
		}
		if _, err := r.Matches([]byte(text)); err != nil && !errors.Is(err, ErrSize) {
			t.Fatal(err)
		}
	})
}
