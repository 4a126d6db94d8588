package notation

import (
	"errors"
	"strings"
	"testing"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

type read func(b *grammar.Builder, text string) (grammar.Symbol, error)

// byteVocabulary has one token a byte, and the control token <think> as id 256.
func byteVocabulary() *grammar.Vocabulary {
	pieces := make([][]byte, 257)
	for b := range 256 {
		pieces[b] = []byte{byte(b)}
	}
	return grammar.NewVocabulary(pieces, map[string]int32{"<think>": 256})
}

func compile(r read, text string) (*grammar.Matcher, error) {
	b := grammar.NewBuilder(grammar.Limits{})
	start, err := r(b, text)
	if err != nil {
		return nil, err
	}
	g, err := b.Compile(start)
	if err != nil {
		return nil, err
	}
	return g.Matcher(byteVocabulary())
}

// takes feeds a text, in which \x00 stands for the control token.
func takes(t *testing.T, m *grammar.Matcher, text string) bool {
	t.Helper()
	m = m.Fork()
	for i := range len(text) {
		id := int32(text[i])
		if id == 0 {
			id = 256
		}
		if err := m.Accept(id); errors.Is(err, grammar.ErrRefused) {
			return false
		} else if err != nil {
			t.Fatal(err)
		}
	}
	end, err := m.Mask(make([]uint64, 5))
	if err != nil {
		t.Fatal(err)
	}
	return end
}

type example struct {
	name     string
	text     string
	fit, not []string
}

func check(t *testing.T, r read, examples []example) {
	for _, x := range examples {
		m, err := compile(r, x.text)
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		for _, s := range x.fit {
			if !takes(t, m, s) {
				t.Errorf("%s: %q does not fit", x.name, s)
			}
		}
		for _, s := range x.not {
			if takes(t, m, s) {
				t.Errorf("%s: %q fits", x.name, s)
			}
		}
	}
}

var gbnfExamples = []example{
	{"json", `root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}`,
		[]string{`{}`, `{"a": 1}`, `{"a":[1,2,{"b":"\u00e9é"}],"c":null} `, "{\n  \"x\": -1.5e3}"},
		[]string{``, `[]`, `{"a" 1}`, `{"a": 01}`, `{"a": tru}`, "{\"a\": \"\n\"}", `{"a":1}}`}},
	{"one line and a group over many", "root ::= (\n  # first\n  \"1. \" move\n  [2-9] \".\" | \"x\" # or this\n)+\nmove ::= [a-h] [1-8]",
		[]string{"x", "1. e42.", "xx1. a19."}, []string{"", "1. e4", "1. i42."}},
	{"left recursion", `root ::= root "+" digit | digit
digit ::= [0-9]`, []string{"1", "1+2+3"}, []string{"", "+1", "1+"}},
	{"characters end where they may", `root ::= [a-z]+ "end"`, []string{"theend", "endend", "eend"}, []string{"end", "the"}},
	{"counts", `root ::= "a"{2} "b"{1,} "c"{0,2} "d"{,1} ("e" "f"){ 2 , 3 }`, []string{"aabefef", "aabbbccdefefef"}, []string{"abefef", "aabcccefef", "aabef", "aabddefef"}},
	{"escapes and classes", `root ::= "\x41\u00e9\U0001F600\t\"" [^a-z\]\-] [a\-c-] .`, []string{"Aé😀\t\"A-\n", "Aé😀\t\"éa日"}, []string{"Aé😀\t\"aaa", "Aé😀\t\"]aa", "Aé😀\t\"Ab."}},
	{"names and comments", "# head\nroot ::= first-rule second_rule2#tail\nfirst-rule ::= \"a\"\n\n\nsecond_rule2 ::= \"b\" |\n  \"c\"", []string{"ab", "ac"}, []string{"a", "abc"}},
	{"alternatives that begin lines", "root ::= \"a\"\n  | \"b\"\n  | \"c\" \"d\"\n", []string{"a", "b", "cd"}, []string{"c", ""}},
	{"nothing", `root ::= "a" | `, []string{"a", ""}, []string{"aa"}},
	{"tokens", "root ::= <think> [a-z]+ <[256]>", []string{"\x00abc\x00"}, []string{"\x00\x00", "abc"}},
	{"windows line ends", "root ::= a\r\na ::= \"x\"\r\n", []string{"x"}, []string{""}},
	{"a repetition of what may be empty", `root ::= ("a"?)* "b"{0,0} (("c"*)+)*`, []string{"", "aaacc"}, []string{"b", "ca"}},
}

func TestGBNF(t *testing.T) { check(t, GBNF, gbnfExamples) }

func TestGBNFThatIsRefused(t *testing.T) {
	for text, want := range map[string]error{
		``: ErrSyntax, `a ::= "x"`: ErrSyntax, `root ::= b`: ErrSyntax, `root ::= "a`: ErrSyntax, `root ::= [a`: ErrSyntax, `root ::= ("a"`: ErrSyntax,
		`root ::= "a")`: ErrSyntax, `root = "a"`: ErrSyntax, `root ::= "\q"`: ErrSyntax, `root ::= *`: ErrSyntax, `root ::= "a"{2,1}`: ErrSyntax,
		`root ::= "a"{`: ErrSyntax, `root ::= "a"{}`: ErrSyntax, `root ::= "a"{,}`: ErrSyntax, `root ::= [b-a]`: ErrSyntax, "root ::= \"\xff\"": ErrSyntax,
		"root ::= \"a\"\nroot ::= \"b\"": ErrSyntax, `root ::= "\x4"`: ErrSyntax, `root ::= "\uD800"`: ErrSyntax, `root ::= <th ink>`: ErrSyntax,
		`root ::= !<think>`: ErrUnsupported, `root ::= "a"{99999999999}`: grammar.ErrLimit, `root ::= <missing>`: grammar.ErrNoToken,
		`root ::= "a" root`: grammar.ErrNoText, `root ::= []`: grammar.ErrNoText,
		"root ::= " + strings.Repeat("(", 100_000): grammar.ErrLimit, strings.Repeat("#", MaxBytes+1): grammar.ErrLimit,
	} {
		if _, err := compile(GBNF, text); !errors.Is(err, want) {
			t.Errorf("%.60q: %v, want %v", text, err, want)
		}
	}
}

var larkExamples = []example{
	{"arithmetic", `
// a calculator
?start: sum
?sum: product
    | sum "+" product   -> add
    | sum "-" product   -> sub
?product: atom
    | product "*" atom  -> mul
?atom: NUMBER           -> number
     | "-" atom         -> neg
     | "(" sum ")"
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE
`, []string{"1", "1 + 2*3", " (1.5e3 - -2) * 3 ", "1+-(2)"}, []string{"", "1 +", "(1", "1 2", "a"}},
	{"terminals", `start: WORD ("," WORD)* "."
WORD: LETTER (LETTER | DIGIT | "_")~0..3
LETTER: "a".."z" | "A".."Z"
%import common.DIGIT`, []string{"a.", "aB_1,c."}, []string{".", "a,", "1.", "abcde."}},
	{"case and regex flags", `start: "select"i /[a-z]+/i "-" /x . y/x /a\/b/`, []string{"SELECTab-x_ya/b", "selectAB-xzya/b"},
		[]string{"select-x_ya/b", "SELECTab-xya/b"}},
	{"groups over lines", "start: (\"a\"\n  | \"b\" [ \"c\" ]\n)+ \"d\"~2 \"e\"{1,2}\n", []string{"adde", "bcbaddee"}, []string{"ade", "cdde"}},
	{"imports in a list", "%import common (CNAME, INT)\n%import common.ESCAPED_STRING -> STR\nstart: CNAME \"=\" (INT | STR)", []string{"_a1=12", `b="x\"y"`}, []string{"1=2", `b="x`}},
	{"escapes", `start: "\n\t\"\\\x41\u00e9" "it's"`, []string{"\n\t\"\\Aéit's"}, []string{""}},
	{"priority, alias, modifier", "!start.2: a | b\na.1: \"a\"\nb: B\nB.3: /b/\n", []string{"a", "b"}, []string{"ab"}},
	{"tokens", "%llguidance {}\nstart: <think> /[a-z]*/ <[256]> \"ok\"", []string{"\x00ab\x00ok", "\x00\x00ok"}, []string{"abok"}},
	{"alternatives behind the colon", "start:\n    | \"a\"\n    | \"b\"\n", []string{"a", "b"}, []string{"c"}},
	{"comments ignored", "start: \"a\" \"b\"\n%import common.C_COMMENT\n%ignore C_COMMENT\n%ignore / +/", []string{"ab", "/**/a /* x * y */ b  "}, []string{"a/*b"}},
}

func TestLark(t *testing.T) { check(t, Lark, larkExamples) }

func TestLarkThatIsRefused(t *testing.T) {
	for text, want := range map[string]error{
		``: ErrSyntax, `a: "x"`: ErrSyntax, `start: b`: ErrSyntax, `start: "a`: ErrSyntax, `start: /a`: ErrSyntax, `start "a"`: ErrSyntax,
		`start: ("a"`: ErrSyntax, "start: A\nA: A \"x\" | \"y\"": ErrSyntax, "start: A\nA: start": ErrSyntax, `start: "ab".."c"`: ErrSyntax,
		"start: \"a\"\nstart: \"b\"": ErrSyntax, `%import common.NOPE`: ErrSyntax, `start: "a"~3..2`: ErrSyntax, `start: "a" ->`: ErrSyntax,
		`%import python.NAME`: ErrUnsupported, `%declare A`: ErrUnsupported, `%override start: "a"`: ErrUnsupported, `start: %json {}`: ErrUnsupported,
		`start: @other`: ErrUnsupported, `start[capture]: "a"`: ErrUnsupported, `pair{a, b}: a b`: ErrUnsupported, `start: pair{"a", "b"}`: ErrUnsupported,
		`start: A & B`: ErrUnsupported, `start: /a(?=b)/`: regex.ErrUnsupported, `start: /a(/`: regex.ErrPattern, `%llguidance {"x": 1}`: ErrUnsupported,
		"start: A\nA: <think>": ErrUnsupported, `start: /a/m`: ErrUnsupported, `start: "a"~99999999999`: grammar.ErrLimit,
		"start: " + strings.Repeat("(", 100_000): grammar.ErrLimit,
	} {
		if _, err := compile(Lark, text); !errors.Is(err, want) {
			t.Errorf("%.60q: %v, want %v", text, err, want)
		}
	}
}

// TestErrorsNameThePlace: a grammar is written by a person, who looks for line and column.
func TestErrorsNameThePlace(t *testing.T) {
	_, err := compile(GBNF, "root ::= \"a\"\nb ::= [x")
	if err == nil || !strings.Contains(err.Error(), "line 2, column 9") {
		t.Errorf("GBNF: %v", err)
	}
	_, err = compile(Lark, "start: \"a\"\n  b c")
	if err == nil || !strings.Contains(err.Error(), "line 2, column 5") {
		t.Errorf("Lark: %v", err)
	}
}

func fuzz(f *testing.F, r read, examples []example) {
	for _, x := range examples {
		f.Add(x.text, strings.Join(x.fit, ""))
	}
	v := byteVocabulary()
	f.Fuzz(func(t *testing.T, text, answer string) {
		b := grammar.NewBuilder(grammar.Limits{Symbols: 5000, Items: 2000, States: 2000, Work: 2000})
		start, err := r(b, text)
		if err != nil {
			return
		}
		g, err := b.Compile(start)
		if err != nil {
			return
		}
		m, err := g.Matcher(v)
		if err != nil {
			return
		}
		mask := make([]uint64, v.Words())
		for i := range min(len(answer), 30) {
			end, err := m.Mask(mask)
			if err != nil {
				return // a limit
			}
			if !end && mask[0]|mask[1]|mask[2]|mask[3]|mask[4] == 0 {
				t.Fatalf("nothing may come after %q, and the answer may not end", answer[:i])
			}
			b := answer[i]
			if allowed := mask[b>>6]>>(b&63)&1 != 0; allowed != m.Allows(int32(b)) {
				t.Fatalf("%q after %q: mask %v, Allows says otherwise", b, answer[:i], allowed)
			} else if !allowed {
				return
			}
			if err := m.Accept(int32(b)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzGBNF(f *testing.F) { fuzz(f, GBNF, gbnfExamples) }

func FuzzLark(f *testing.F) { fuzz(f, Lark, larkExamples) }

// TestUndefinedRulesAreNamed: by the place where they are first named, which is worked out for the error alone: a grammar of a megabyte on
// one line names a rule at every few bytes.
func TestUndefinedRulesAreNamed(t *testing.T) {
	for _, c := range []struct {
		r           read
		text, place string
	}{
		{GBNF, "root ::= a b\na ::= \"x\"", `line 1, column 12: the rule "b"`},
		{Lark, "start: a\na: \"x\"\n | b c", `line 3, column 4: the rule "b"`},
	} {
		if _, err := compile(c.r, c.text); !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), c.place) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
}
