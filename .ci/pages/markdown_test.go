package pages

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// module is an expression for one of the page's own modules, whose path has its version.
func module(name string) string {
	return fmt.Sprintf(`import(document.querySelector("script[type=module]").src.replace(/playground\/main\.js$/, %q))`, name)
}

// awaited is what a promise of a string gives.
func (p *tab) awaited(expression string) string {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// Texts as elements, by the names of the elements and what they say.
func TestMarkdown(t *testing.T) {
	p := open(t, serve(t), "/playground/")
	for text, want := range map[string]string{
		"a *b* **c** ~~d~~ `e`":             "p(a em(b) strong(c) del(d) code(e))",
		"snake_case_name and 2*3*4":         "p(snake_case_name and 2em(3)4)",
		"# Title #\n\n## Sub":               "h3(Title)h4(Sub)",
		"- a\n- b\n  - c\n- [x] d":          "ul(li(a)li(bul(li(c)))li(span(☑)d))",
		"3. a\n4. b":                        "ol(li(a)li(b))",
		"> q\n> *r*":                        "blockquote(p(q em(r)))",
		"---":                               "hr()",
		"[x](https://example.org/a_b)":      "p(a(x))",
		"[x](javascript:alert(1))":          "p(x (javascript:alert(1)))",
		"a\\*b\\*":                          "p(a*b*)",
		"*open and **open":                  "p(*open and **open)",
		"| a | b |\n|:--|--:|\n| `|` | 2 |": "div(table(thead(tr(th(a)th(b)))tbody(tr(td(code(|))td(2)))))",
	} {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		got := p.awaited(fmt.Sprintf(`Promise.all([%s, %s]).then(([m, { h, render }]) => {
			const at = document.createElement("div");
			render(h(m.Markdown, { text: %s }), at);
			const say = (n) => n.nodeType === 3 ? n.data.replace(/\s+/g, " ") : n.localName + "(" + [...n.childNodes].map(say).join("") + ")";
			return [...at.firstChild.childNodes].map(say).join("");
		})`, module("lib/markdown.js"), module("lib/html.js"), quoted))
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

// A text that grows piece by piece has the blocks of the whole, and what is made to be slow is read quickly.
func TestMarkdownOfStreams(t *testing.T) {
	p := open(t, serve(t), "/playground/")
	got := p.awaited(module("lib/markdown.js") + `.then((m) => {
		let seed = 7;
		const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
		const bits = ["# h\n", "text\n", "\n", "- a\n", "  - b\n", "1. x\n", "~~~js\n", "~~~\n", "> q\n", "| a | b |\n", "|---|---|\n", "***\n", "   \n", "a", "|", "\r\n", "  more\n", "\t- t\n"];
		for (let i = 0; i < 5000; i++) {
			let text = "", before = null;
			for (let k = random(14) + 1; k; k--) { text += bits[random(bits.length)]; before = { text, list: m.grown(before, text) }; }
			if (JSON.stringify(m.blocks(text)) !== JSON.stringify(before.list)) return "differs: " + JSON.stringify(text);
		}
		for (const piece of ["*", "_", "[", "![", "**a", "](", "~~", "a*b", "[a](", "_a ", "<", "(", "\\"]) {
			const began = performance.now();
			m.inline(piece.repeat(20000 / piece.length));
			if (performance.now() - began > 3000) return "slow: " + piece;
		}
		for (const piece of ["> ", "- ", "#", " ", "|", "|-", "\n", "- a\n", "|a|b|\n|-|-|\n", "1. a\n"]) {
			const began = performance.now();
			m.blocks(piece.repeat(200000 / piece.length));
			if (performance.now() - began > 3000) return "slow: " + piece;
		}
		return "";
	})`)
	if got != "" {
		t.Error(got)
	}
}
