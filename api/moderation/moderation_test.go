package moderation

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

func mustPolicy(t testing.TB, rules ...RuleSpec) *Policy {
	t.Helper()
	return compiled(t, Spec{Name: "test", Rules: rules})
}

func compiled(t testing.TB, s Spec) *Policy {
	t.Helper()
	p, err := New(s, Options{Secret: []byte("secret")})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// filtered passes pieces through a filter.
func filtered(p *Policy, form Form, whole bool, pieces ...string) (out string, blocked bool, r *Report) {
	r = &Report{}
	f := p.NewFilter(form, whole, r)
	var dst []byte
	for _, piece := range pieces {
		if dst, blocked = f.Append(dst, []byte(piece)); blocked {
			return string(dst), true, r
		}
	}
	dst, blocked = f.Close(dst)
	return string(dst), blocked, r
}

var allPII = RuleSpec{ID: "personal", PII: PIIKinds(), Output: Redact}

func TestFilterReplacesPersonalData(t *testing.T) {
	p := mustPolicy(t, allPII)
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"nothing to see, 2026-11-22 at 14:50", "nothing to see, 2026-11-22 at 14:50"},
		{"write to a.b+c@mail.example.com.", "write to [email]."},
		{"<ann@example.org>,bob@example.org", "<[email]>,[email]"},
		{"jürgen.müller@firma-süd.de", "[email]"},
		{"请联系zhang@example.cn谢谢", "请联系[email]谢谢"},
		{"a@b, @handle, user@localhost", "a@b, @handle, user@localhost"},
		{"call +49 171 1234567 now", "call [phone] now"},
		{"(555) 223-4567", "[phone]"},
		{"card 4111 1111 1111 1111 12/27", "card [card] 12/27"},
		{"4111 1111 1111 1112", "4111 1111 1111 1112"},
		{"DE89 3704 0044 0532 0130 00 and more", "[iban] and more"},
		{"DE88370400440532013000", "DE88370400440532013000"},
		{"id_4111111111111111", "id_4111111111111111"},
		{"at 192.168.100.200, or 2001:db8::7334:1.", "at [ip], or [ip]."},
		{"192.168.100.300 std::vector 12:30:45", "192.168.100.300 std::vector 12:30:45"},
		{"ssn 123-45-6789, not 000-45-6789", "ssn [ssn], not 000-45-6789"},
		{"AKIAIOSFODNN7EXAMPLE", "[key]"},
		{"key ghp_0123456789abcdefghijABCDEFGHIJ012345.", "key [key]."},
		{"-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEow", 300) + "\n-----END RSA PRIVATE KEY-----\nafter", "[key]\nafter"},
	} {
		for _, whole := range []bool{false, true} {
			if got, blocked, _ := filtered(p, Plain, whole, c.text); got != c.want || blocked {
				t.Errorf("whole %v: %.80q is %.80q, not %.80q", whole, c.text, got, c.want)
			}
		}
	}
}

func TestFilterBlocksBeforeTheMatch(t *testing.T) {
	p := mustPolicy(t,
		RuleSpec{ID: "bombs", Category: "illicit/violent", Words: []string{"pipe bomb", "naïve", "爆弾"}, Output: Block, Input: Block},
		RuleSpec{ID: "codes", Patterns: []string{`\bx-[0-9]{4}\b`, `(?m)^END$`}, Output: Block},
		RuleSpec{ID: "mail", PII: []string{"email"}, Output: Redact},
		RuleSpec{ID: "fruit", Words: []string{"apple"}, Output: Flag, Input: Flag})
	for _, c := range []struct {
		text, want string
		blocked    bool
		rule       string
	}{
		{"make a Pipe  BOMB now", "make a ", true, "bombs"},
		{"pipe bombs are plural", "pipe bombs are plural", false, ""},
		{"a pipe_bomb", "a pipe_bomb", false, ""},
		{"NAÏVE", "", true, "bombs"},
		{"これは爆弾です", "これは", true, "bombs"},
		{"ask a@b.co for the x-1234", "ask [email] for the ", true, "codes"},
		{"x-12345 ax-1234", "x-12345 ax-1234", false, ""},
		{"BEND\nEND\nx", "BEND\n", true, "codes"},
		{"THE END", "THE END", false, ""},
		{"the END", "the END", false, ""},
		{"one apple, two apples", "one apple, two apples", false, ""},
	} {
		got, blocked, r := filtered(p, Plain, false, c.text)
		if got != c.want || blocked != c.blocked {
			t.Errorf("%q is %q, blocked %v; want %q", c.text, got, blocked, c.want)
		}
		if f := r.Blocked(); (f != nil) != c.blocked || f != nil && (f.Rule != c.rule || f.Side != Output) {
			t.Errorf("%q reports %+v", c.text, r.Findings)
		}
	}
	_, _, r := filtered(p, Plain, false, "apple apple a@b.co apple")
	if len(r.Findings) != 2 || r.Findings[0].Count != 3 || r.Findings[0].Bytes != 15 || r.Findings[0].Action != Flag {
		t.Errorf("findings %+v", r.Findings)
	}
	in := &Report{}
	if !p.Check("a pipe bomb and an apple", in, nil) || in.Blocked() == nil || in.Blocked().Category != "illicit/violent" || in.Blocked().Side != Input {
		t.Errorf("input: %+v", in.Findings)
	}
	in = &Report{}
	if p.Check("an apple", in, nil) || len(in.Findings) != 1 || in.Findings[0].Action != Flag {
		t.Errorf("input: %+v", in.Findings)
	}
	in = &Report{}
	p.Classify("apple a@b.co x-1234", in, nil)
	if len(in.Findings) != 3 {
		t.Errorf("all rules: %+v", in.Findings)
	}
}

func TestFilterHoldsBackOnlyWhatMayMatch(t *testing.T) {
	p := mustPolicy(t, RuleSpec{ID: "a", Words: []string{"pipe bomb"}, Output: Block}, RuleSpec{ID: "b", Words: []string{"fruit"}, Output: Flag})
	f := p.NewFilter(Plain, false, nil)
	var sent string
	for _, step := range []struct{ piece, want string }{
		{"Hello", "Hello"}, {" wor", " wor"}, {"ld, a pi", "ld, a "}, {"pe", ""}, {" smoke", "pipe smoke"}, {" fruit", " fruit"}, {" p", " "},
	} {
		out, _ := f.Append(nil, []byte(step.piece))
		if string(out) != step.want {
			t.Errorf("after %q and %q: %q, want %q", sent, step.piece, out, step.want)
		}
		sent += step.piece
	}
	if out, _ := f.Close(nil); string(out) != "p" {
		t.Errorf("at the end: %q", out)
	}
}

// A match that is longer than the window: what the window has no room for is sent, and the rest is not.
func TestFilterWindowBoundsWhatIsHeld(t *testing.T) {
	p := compiled(t, Spec{HoldBackTokens: 2, Rules: []RuleSpec{{ID: "long", Patterns: []string{`<[a-z]{1,40}>`}, Output: Redact, Replacement: "#"}}})
	for _, c := range []struct{ text, want string }{
		{"a <abc> b", "a # b"},
		{"a <abcdefghijkl> b", "a <abcde# b"},
		{"a <abcdefghijkl b", "a <abcdefghijkl b"},
	} {
		if got, _, _ := filtered(p, Plain, false, c.text); got != c.want {
			t.Errorf("%q is %q, want %q", c.text, got, c.want)
		}
	}
	if got, _, _ := filtered(p, Plain, true, "a <abcdefghijkl> b"); got != "a # b" {
		t.Errorf("whole: %q", got)
	}
	held := 0
	f := p.NewFilter(Plain, false, nil)
	sent := 0
	for i, b := range []byte("<" + strings.Repeat("a", 39) + "b c") {
		out, _ := f.Append(nil, []byte{b})
		sent += len(out)
		held = max(held, i+1-sent)
	}
	if held > 8 {
		t.Errorf("%d bytes were held back, with a window of 8", held)
	}
}

func TestFilterKeepsArgumentsValid(t *testing.T) {
	p := mustPolicy(t, RuleSpec{ID: "pii", PII: []string{"email", "phone"}, Output: Redact},
		RuleSpec{ID: "word", Words: []string{"bomb"}, Output: Block},
		RuleSpec{ID: "quote", Patterns: []string{`q","r`}, Output: Redact})
	for _, c := range []struct {
		text, want string
		blocked    bool
	}{
		{`{"to":"ann@example.org","n":1}`, `{"to":"[email]","n":1}`, false},
		{`{"to":"ann\u0040example.org"}`, `{"to":"[email]"}`, false},
		{`{"phone":2125550199,"x":[+1]}`, `{"phone":"[phone]","x":[+1]}`, false},
		{`{"text":"a\nbomb"}`, `{"text":"a\n`, true},
		{`{"text":"\u0062omb"}`, `{"text":"`, true},
		{`{"text":"q","r":1}`, `{"text":"`, true}, // the match goes over the end of a string
		{`{"text":"a \"b\" c"}`, `{"text":"a \"b\" c"}`, false},
	} {
		got, blocked, _ := filtered(p, JSON, false, c.text)
		if got != c.want || blocked != c.blocked {
			t.Errorf("%s is %s, blocked %v; want %s", c.text, got, blocked, c.want)
		}
		if !blocked && json.Valid([]byte(c.text)) && !json.Valid([]byte(got)) {
			t.Errorf("%s became %s", c.text, got)
		}
	}
}

// splitRules have all that can go wrong where a text is divided.
func splitRules(t testing.TB, tokens int) *Policy {
	return compiled(t, Spec{Name: "split", HoldBackTokens: tokens, Rules: []RuleSpec{
		{ID: "pii", PII: PIIKinds(), Output: Redact},
		{ID: "words", Words: []string{"爆弾", "pipe bomb", "naïve", "the end"}, Output: Block},
		{ID: "overlap", Patterns: []string{`ab{1,9}c?`, `b{2,4}d`, `\bcd\b`}, Output: Redact, Replacement: "é"},
		{ID: "capped", Patterns: []string{`<.*>`}, MaxMatchBytes: 60, Output: Redact},
		{ID: "seen", Patterns: []string{`[aeiou]{2}`, `(?m)^x$`}, Output: Flag},
	}})
}

var splitTexts = []string{
	"abbbbc abbbd bbbd cd <a> <b", "write to jürgen.müller@firma-süd.de, or +49 171 1234567! 4111 1111 1111 1111",
	"a naïve idea", "not naively: これは爆弾です", "<" + strings.Repeat("x", 80) + "> <abc> >", "x\nx\ny -----BEGIN PRIVATE KEY-----\nMIIE\nabc\n-----",
	"\xff\xfe@\xf0\x9f", strings.Repeat("ab", 60) + "the  END", `{"a":"ann\u0040example.org","b":"\ud83d\ude00 a\"b","c":2125550199,"d":"abbc"}`,
	"10.0.0.1 123-45-6789 sk-abcdefghijklmnopqrstuvwxyz. DE89 3704 0044 0532 0130 00",
}

func TestAnySplitGivesTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, tokens := range []int{1, 3, 32} {
		p := splitRules(t, tokens)
		for _, text := range splitTexts {
			for range 40 {
				checkSplit(t, p, text, func(n int) int { return 1 + r.IntN(n) })
			}
		}
	}
}

// checkSplit compares a text in pieces with the whole, in both forms.
func checkSplit(t *testing.T, p *Policy, text string, size func(most int) int) {
	t.Helper()
	for _, form := range []Form{Plain, JSON} {
		want, blocked, report := filtered(p, form, false, text)
		var pieces []string
		for rest := text; rest != ""; {
			n := min(size(min(len(rest), 9)), len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		got, gotBlocked, gotReport := filtered(p, form, false, pieces...)
		if got != want || gotBlocked != blocked || fmt.Sprint(gotReport.Findings) != fmt.Sprint(report.Findings) {
			t.Fatalf("form %d, %q\nin pieces %q\nis %q (%v, %+v)\nnot %q (%v, %+v)", form, text, pieces, got, gotBlocked, gotReport.Findings,
				want, blocked, report.Findings)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Fatalf("%q became %q", text, got)
		}
	}
}

// With a window as long as any match, what was sent holds no match of the rules: the automaton agrees with package regexp.
func TestFilterLeavesNothing(t *testing.T) {
	p := compiled(t, Spec{HoldBackTokens: 64, Rules: []RuleSpec{{ID: "ab", Patterns: []string{`ab{1,3}`, `c(?:d|é)c`}, Output: Redact, Replacement: "."}}})
	r := rand.New(rand.NewPCG(3, 4))
	letters := []rune("aabbcdéx")
	for range 500 {
		text := make([]rune, r.IntN(30))
		for i := range text {
			text[i] = letters[r.IntN(len(letters))]
		}
		got, _, _ := filtered(p, Plain, false, string(text))
		want := abPattern.ReplaceAllString(string(text), ".")
		if got != want {
			t.Fatalf("%q is %q, package regexp makes %q", string(text), got, want)
		}
	}
}

var abPattern = func() *regexp.Regexp {
	re := regexp.MustCompile(`(?i)ab{1,3}|c(?:d|é)c`)
	re.Longest()
	return re
}()

func TestPolicyRefuses(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spec       Spec
	}{
		{"no rules", "0 rules", Spec{}},
		{"hold back", "hold_back_tokens is 999", Spec{HoldBackTokens: 999, Rules: []RuleSpec{{ID: "a", Words: []string{"a"}, Input: Block}}}},
		{"role", `the role "admin"`, Spec{Roles: []string{"admin"}, Rules: []RuleSpec{{ID: "a", Words: []string{"a"}, Input: Block}}}},
		{"id", `has the id "a b"`, Spec{Rules: []RuleSpec{{ID: "a b", Words: []string{"a"}, Input: Block}}}},
		{"twice", "two rules", Spec{Rules: []RuleSpec{{ID: "a", Words: []string{"a"}, Input: Block}, {ID: "a", Words: []string{"a"}, Input: Block}}}},
		{"unbounded", "no longest length", Spec{Rules: []RuleSpec{{ID: "a", Patterns: []string{"x.*y"}, Input: Block}}}},
		{"too long", "can have 1200 bytes", Spec{Rules: []RuleSpec{{ID: "a", Patterns: []string{"[a-h]{600}[a-h]{600}"}, CaseSensitive: true, Input: Block}}}},
		{"empty match", "empty text", Spec{Rules: []RuleSpec{{ID: "a", Patterns: []string{"a?"}, Input: Block}}}},
		{"no pattern", "no regular expression", Spec{Rules: []RuleSpec{{ID: "a", Patterns: []string{"("}, Input: Block}}}},
		{"redact input", "input is redact", Spec{Rules: []RuleSpec{{ID: "a", Words: []string{"a"}, Input: Redact}}}},
		{"nothing to do", "does nothing", Spec{Rules: []RuleSpec{{ID: "a", Words: []string{"a"}}}}},
		{"looks for nothing", "looks for nothing", Spec{Rules: []RuleSpec{{ID: "a", Input: Block}}}},
		{"action", "must be one of", Spec{Rules: []RuleSpec{{ID: "a", Words: []string{"a"}, Output: "delete"}}}},
		{"pii", `pii "shoe"`, Spec{Rules: []RuleSpec{{ID: "a", PII: []string{"shoe"}, Output: Redact}}}},
		{"file", "names the file", Spec{Rules: []RuleSpec{{ID: "a", WordsFile: "x", Output: Redact}}}},
		{"replacement", "output is not redact", Spec{Rules: []RuleSpec{{ID: "a", Words: []string{"a"}, Replacement: "x", Output: Block}}}},
		{"classifier", "output must be ignore", Spec{Rules: []RuleSpec{{ID: "a", Classifier: &ClassifierSpec{Model: "m", Question: "q", Threshold: 0.5}, Output: Block}}}},
		{"threshold", "threshold", Spec{Rules: []RuleSpec{{ID: "a", Classifier: &ClassifierSpec{Model: "m", Question: "q"}, Input: Block}}}},
		{"classifier and words", "make two rules", Spec{Rules: []RuleSpec{{ID: "a", Words: []string{"a"}, Classifier: &ClassifierSpec{}, Input: Block}}}},
	} {
		if _, err := New(c.spec, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
}

func TestPolicyReadsFiles(t *testing.T) {
	files := map[string]string{"words": "# a comment\n\n  pipe bomb \r\nfuse\n", "patterns": "x[0-9]{2}\n"}
	p, err := New(Spec{Rules: []RuleSpec{{ID: "a", WordsFile: "words", PatternsFile: "patterns", Output: Redact, Replacement: "-"}}},
		Options{ReadFile: func(path string) ([]byte, error) { return []byte(files[path]), nil }})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := filtered(p, Plain, false, "a fuse, a pipe bomb, x12 # a comment"); got != "a -, a -, - # a comment" {
		t.Error(got)
	}
}

// Reports are shown to operators, and must not have text.
func TestReportHasNoText(t *testing.T) {
	p := mustPolicy(t, allPII)
	_, _, r := filtered(p, Plain, false, "ann@example.org bob@example.org ann@example.org")
	text := fmt.Sprintf("%+v", r.Findings)
	if len(r.Findings) != 1 || r.Findings[0].Count != 3 || strings.Contains(text, "ann") || r.Findings[0].Category != "pii" || len(r.Findings[0].Digest) != 16 {
		t.Error(text)
	}
	_, _, again := filtered(p, Plain, false, "ann@example.org")
	if again.Findings[0].Digest != r.Findings[0].Digest {
		t.Error("the same text has two digests")
	}
}

func TestAutomatonForgetsNothingItNeeds(t *testing.T) {
	var words []string
	for i := range 5000 {
		words = append(words, fmt.Sprintf("word%dx%d", i, i*7919%1000))
	}
	p := mustPolicy(t, RuleSpec{ID: "a", Words: words, Output: Redact, Replacement: "-"})
	text := "a word17x623 and word18x623, word4999x" + fmt.Sprint(4999*7919%1000)
	if got, _, _ := filtered(p, Plain, false, text); got != "a - and word18x623, -" {
		t.Error(got)
	}
}

// A filter allocates nothing for text that it lets through.
func TestFilterAllocatesNothing(t *testing.T) {
	p := mustPolicy(t, allPII, RuleSpec{ID: "w", Words: []string{"pipe bomb"}, Output: Block})
	f := p.NewFilter(Plain, false, nil)
	dst := make([]byte, 0, 1024)
	text := []byte("The quick brown fox, in 1999, jumps over 13 lazy dogs; ")
	for range 3 {
		dst, _ = f.Append(dst[:0], text)
	}
	if n := testing.AllocsPerRun(100, func() { dst, _ = f.Append(dst[:0], text) }); n > 0 {
		t.Errorf("%v allocations for %d bytes", n, len(text))
	}
}

func BenchmarkFilter(b *testing.B) {
	p := mustPolicy(b, allPII, RuleSpec{ID: "w", Words: []string{"pipe bomb", "fuse", "detonator"}, Output: Block})
	text := []byte(strings.Repeat("The quick brown fox, at 10:30 on 2026-11-22, wrote 42 lines about task-management. ", 100))
	f := p.NewFilter(Plain, false, nil)
	dst := make([]byte, 0, 2*len(text))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		dst, _ = f.Append(dst[:0], text)
	}
}

// Filters of one policy run at the same time on the automaton that they make together.
func TestFiltersShareAPolicy(t *testing.T) {
	p := splitRules(t, 8)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range splitTexts {
				text := splitTexts[(i+k)%len(splitTexts)]
				want, _, _ := filtered(p, Plain, false, text)
				if got, _, _ := filtered(p, Plain, false, strings.SplitAfter(text, "")...); got != want {
					t.Errorf("%q is %q, then %q", text, want, got)
				}
			}
		})
	}
	wg.Wait()
}
