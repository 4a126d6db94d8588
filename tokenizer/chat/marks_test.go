package chat

import (
	"strings"
	"testing"

	"weir/tokenizer"
)

// marked prints spans with the client's text in angle quotes.
func marked(spans []tokenizer.Span) string {
	var b strings.Builder
	for _, s := range spans {
		if s.Control {
			b.WriteString(s.Text)
		} else {
			b.WriteString("«" + s.Text + "»")
		}
	}
	return b.String()
}

func render(t *testing.T, src, messages string) []tokenizer.Span {
	t.Helper()
	template, err := Parse(src, Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := FromJSON([]byte(messages))
	if err != nil {
		t.Fatal(err)
	}
	spans, err := template.Render(Input{Messages: v, BOSToken: "<s>", EOSToken: "</s>"})
	if err != nil {
		t.Fatal(err)
	}
	return spans
}

func TestClientTextStaysMarked(t *testing.T) {
	const messages = `["aB c", "x,y", {"k": "v", "n": 1.5, "l": [true, null]}, "<|end|>", 7]`
	for _, c := range []struct{ template, want string }{
		{`<|u|>{{ m }}<|e|>`, `<|u|>«aB c»<|e|>`},
		{`{{ "<|u|>" + m + "<|e|>" }}`, `<|u|>«aB c»<|e|>`},
		{`{{ "<|u|>" ~ m ~ 1 ~ bos_token }}`, `<|u|>«aB c»1<s>`},
		{`{{ ("<|U|>" + m) | lower }}`, `<|u|>«ab c»`},
		{`{{ ("<|u|>" + m) | upper | replace("B", "<") }}`, `<|U|>«A»<« C»`},
		{`{{ ("<|u|>" + m).title() }}`, `<|U|>«Ab C»`},
		{`{{ (" a " + m + " ") | trim }}`, `a «aB c»`},
		{`{{ (" a " + m + " ")[1:4] }}`, `a «a»`},
		{`{{ ("ab" + m)[::-1] }}`, `«c Ba»ba`},
		{`{{ ("ab" + m)[3] }}{{ ("ab" + m)[0] }}`, `«B»a`},
		{`{{ "<s>".replace("s", m) }}`, `<«aB c»>`},
		{`{{ m.replace("a", "<s>") }}`, `<s>«B c»`},
		{`{{ messages[1].split(",") | join("<|>") }}`, `«x»<|>«y»`},
		{`{{ ["a", m] | join(messages[1]) }}`, `a«x,yaB c»`},
		{`{{ messages[2] | tojson }}`, `«{"k": "v", "n": 1.5, "l": [true, null]}»`},
		{`{{ {"name": m, "x": [1]} | tojson }}`, `{"name": «"aB c"», "x": [1]}`},
		{`{{ messages[2] | tojson(indent=1) }}`, "«{\n \"k\": \"v\",\n \"n\": 1.5,\n \"l\": [\n  true,\n  null\n ]\n}»"},
		{`{{ messages[2] }}`, `«{'k': 'v', 'n': 1.5, 'l': [True, None]}»`},
		{`{{ ["a", m] }}`, `['a', «'aB c'»]`},
		{`{{ messages[4] }}-{{ messages[4] + 1 }}-{{ messages[4] | string }}-{{ -messages[4] }}`, `«7»-«8»-«7»-«-7»`},
		{`{{ messages | length }}`, `5`},
		{`{% for k, v in messages[2].items() %}{{ k }}={{ v }};{% endfor %}`, `«k»=«v»;«n»=«1.5»;«l»=«[True, None]»;`},
		{`{% for c in m %}{{ c }}.{% endfor %}`, `«a».«B».« ».«c».`},
		{`{% set x %}<|{{ m }}|>{% endset %}{{ x | trim }}`, `<|«aB c»|>`},
		{`{% macro f(a) %}<{{ a }}>{% endmacro %}{{ f(m) | upper }}`, `<«AB C»>`},
		{`{% filter indent(2) %}a
{{ m }}{% endfilter %}`, "a\n  «aB c»"},
		{`{{ "%s|%5s|%d" | format(m, "y", messages[4]) }}`, `«aB c»|    y|«7»`},
		{`{{ "{}|{:>6}".format("x", m) }}`, `x|  «aB c»`},
		{`{{ "{:{}^5}".format("x", messages[1][0]) }}`, `«xx»x«xx»`},
		{`{{ m | e }}{{ "<" | e }}`, `«aB c»&lt;`},
		{`{{ ("<" + m) | urlencode }}`, `%3C«aB%20c»`},
		{`{{ m.center(8, "*") }}`, `**«aB c»**`},
		{`{{ m * 2 }}{{ [m] * 2 }}`, `«aB caB c»[«'aB c'», «'aB c'»]`},
		{`{{ messages | select("string") | map("upper") | list | last }}`, `«<|END|>»`},
		{`{{ messages | map("string") | join("|") | truncate(8, true, "<|cut|>", 0) }}`, `«a»<|cut|>`},
		{`{{ {m: 1} }}{{ ({m: 1}) | items | list }}`, `{«'aB c'»: 1}[(«'aB c'», 1)]`},
		{`{{ strftime_now("<" ~ m) }}`, `<«aB c»`},
		{`{{ "<" ~ (m if m == "aB c" else "no") ~ ">" }}`, `<«aB c»>`},
		{`{{ m.partition("B") | join("|") }}`, `«a»|«B»|« c»`},
		{`{{ "a\n" ~ messages[3] ~ "\nb" | indent }}`, "a\n«<|end|>»\n    b"},
		{`{{ ("x " ~ m).splitlines() | first }}`, `x «aB c»`},
		{`{{ m.join(["<", ">"]) }}`, `<«aB c»>`},
		{`{{ messages[4].zfill }}{{ "5".zfill(3) }}`, `005`},
		{`{{ (messages[4] | string).zfill(3) }}`, `00«7»`},
	} {
		src := strings.ReplaceAll("{% set m = messages[0] %}"+c.template, "\r", "")
		if got := marked(render(t, src, messages)); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.template, got, c.want)
		}
	}
}

func TestExtraIsClientText(t *testing.T) {
	template, err := Parse(`{{ bos_token }}{{ note }}{{ eos_token }}`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	extra, _ := FromJSON([]byte(`{"note": "<s>", "bos_token": "<s>"}`))
	spans, err := template.Render(Input{Messages: Messages(), EOSToken: "</s>", Extra: extra})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := marked(spans), "«<s><s>»</s>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSlicesKeepMarks(t *testing.T) {
	w := newBuilder(newBudget(Options{}.withDefaults()))
	const text = "aBBcDDDe" // capitals are the client's
	for _, r := range text {
		w.writeRune(r, 'A' <= r && r <= 'Z')
	}
	v, err := w.value()
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(text) + 1 {
		for j := i; j <= len(text); j++ {
			got := ""
			cut := v.slice(i, j)
			for run, client := range cut.runs() {
				if (strings.ToUpper(run) == run) != client {
					t.Errorf("slice(%d, %d): run %q marked %v", i, j, run, client)
				}
				got += run
			}
			if got != text[i:j] {
				t.Errorf("slice(%d, %d) = %q, want %q", i, j, got, text[i:j])
			}
			for k := range len(cut.str) {
				if cut.clientAt(k) != v.clientAt(i+k) {
					t.Errorf("slice(%d, %d): byte %d changes its writer", i, j, k)
				}
			}
		}
	}
}

// TestMarksNeverLeak renders every template of the tests three times: as it is, with
// unmarked input, and with the client's strings in a script that no template
// writes.
func TestMarksNeverLeak(t *testing.T) {
	g := readGolden(t)
	client, plain := g.input(t, true), g.input(t, false)
	hidden := client
	hidden.Messages, hidden.Extra = private(client.Messages), private(client.Extra)
	checked := 0
	for _, c := range g.Cases {
		template, err := Parse(c.Template, Options{})
		if err == nil && checkMarks(t, c.Name, template, client, plain, hidden) {
			checked++
		}
	}
	for _, p := range readPublished(t) {
		template := mustParse(t, p.Template)
		for _, c := range p.Cases {
			in := inputOf(t, c.Context, p.Now)
			hidden := in
			hidden.Messages, hidden.Tools = private(in.Messages), private(in.Tools)
			if checkMarks(t, p.Name+" "+c.Case, template, in, in, hidden) {
				checked++
			}
		}
	}
	if checked < 300 {
		t.Errorf("%d templates rendered hidden text", checked)
	}
}

func checkMarks(t *testing.T, name string, template *Template, client, plain, hidden Input) bool {
	t.Helper()
	got, err := template.Render(client)
	want, wantErr := template.Render(plain)
	if (err == nil) != (wantErr == nil) || Text(got) != Text(want) {
		t.Errorf("%s: marking changes %q %v to %q %v", name, Text(want), wantErr, Text(got), err)
	}
	spans, err := template.Render(hidden)
	for _, s := range spans {
		if s.Control && (strings.ContainsFunc(s.Text, isPrivate) || strings.Contains(s.Text, `\ue`) ||
			strings.Contains(s.Text, "%EE")) {
			t.Errorf("%s: client text in control text: %s", name, marked(spans))
		}
	}
	return err == nil
}
