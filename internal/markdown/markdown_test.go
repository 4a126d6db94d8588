package markdown

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func shown(t testing.TB, pieces ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out)
	for _, p := range pieces {
		if _, err := w.Write([]byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// named writes styles as <b>, so that tests can be read.
var named = strings.NewReplacer("\x1b[0m", "<>", "\x1b[0;1m", "<b>", "\x1b[0;3m", "<i>", "\x1b[0;1;3m", "<bi>", "\x1b[0;1;4m", "<h1>",
	"\x1b[0;36m", "<c>", "\x1b[0;1;36m", "<bc>", "\x1b[0;2m", "<f>", "\x1b[0;2;1m", "<fb>", "\x1b[0;1;2m", "<fb>")

func TestMarks(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"plain text\nof lines\n", "plain text\nof lines\n"},
		{"a **bold** and *slanted* word", "a <b>bold<> and <i>slanted<> word"},
		{"***both*** and **bold *both* bold**", "<bi>both<> and <b>bold <bi>both<b> bold<>"},
		{"2 * 3 * 4 and 2*3*4", "2 * 3 * 4 and 2<i>3<>4"},
		{"snake_case_name and __init__ and _so_", "snake_case_name and <b>init<> and <i>so<>"},
		{"# Title\n## Part\ntext #5 # not\n#no", "<h1>Title<>\n<b>Part<>\ntext #5 # not\n#no"},
		{"- one\n* two\n  + three\n-5 degrees\n", "• one\n• two\n  • three\n-5 degrees\n"},
		{"1. first\n2) second", "1. first\n2) second"},
		{"> said\nnot", "<f>│ said<>\nnot"},
		{"use `a*b*c` or ``a`b``", "use <c>a*b*c<> or <c>a`b<>"},
		{"```go\nx := *p // **no**\n# no heading\n```\nafter *it*", "<f>```go<>\n<c>x := *p // **no**<>\n<c># no heading<>\n<f>```<>\nafter <i>it<>"},
		{"---\n***\n- - -\n--", "<f>────────<>\n<f>────────<>\n<f>────────<>\n--"},
		{`\*not\* \_it\_ C:\dir \\`, `*not* _it_ C:\dir \`},
		{"**never closed\nnext", "<b>never closed<>\nnext"},
		{"`never closed\nnext", "<c>never closed<>\nnext"},
		{"- **Name**: text", "• <b>Name<>: text"},
		{"| a | b |\n|---|---|\n", "| a | b |\n|---|---|\n"},
		{"****", "<f>────────<>"}, {"**", "**"}, {"\\", "\\"}, {"*", "*"}, {"#", "#"}, {"   ", "   "},
		{"**Größe** ist größer", "<b>Größe<> ist größer"},
	} {
		if got := named.Replace(shown(t, test.text)); got != test.want {
			t.Errorf("%q is shown as\n%s, want\n%s", test.text, got, test.want)
		}
	}
}

var styles = regexp.MustCompile("\x1b\\[[0-9;]*m")

// FuzzWriter: a text in any two pieces is shown the same, ends without a style, and letters stay in their order.
func FuzzWriter(f *testing.F) {
	for _, s := range []string{"# a\n- **b** `c`\n```\nd\n```\n> e", "a\\*b\n***\n_x_", "* *\n--- -\n**a*b**c*"} {
		f.Add(s, uint8(3))
	}
	letters := regexp.MustCompile(`[^a-zA-Z0-9]+`)
	f.Fuzz(func(t *testing.T, text string, cut uint8) {
		if strings.ContainsRune(text, '\x1b') {
			t.Skip("not for a terminal")
		}
		at := int(cut) % (len(text) + 1)
		whole := shown(t, text)
		if got := shown(t, text[:at], text[at:]); got != whole {
			t.Fatalf("%q cut at %d is shown as\n%q, whole as\n%q", text, at, got, whole)
		}
		bare := styles.ReplaceAllString(whole, "")
		if got, want := letters.ReplaceAllString(bare, ""), letters.ReplaceAllString(text, ""); got != want {
			t.Fatalf("%q is shown with the letters %q", text, got)
		}
		if strings.Count(bare, "\n") != strings.Count(text, "\n") {
			t.Fatalf("%q is shown in other lines: %q", text, whole)
		}
		if all := styles.FindAllString(whole, -1); len(all) > 0 && all[len(all)-1] != "\x1b[0m" {
			t.Fatalf("%q leaves the style %q", text, all[len(all)-1])
		}
	})
}

// Example shows an answer of a model as it comes.
func Example() {
	var terminal bytes.Buffer
	w := NewWriter(&terminal)
	for _, token := range []string{"A *", "*KV ", "cache", "** keeps keys."} {
		_, _ = w.Write([]byte(token))
	}
	_ = w.Close()
	fmt.Printf("%q\n", terminal.String())
	// Output: "A \x1b[0;1mKV cache\x1b[0m keeps keys."
}
