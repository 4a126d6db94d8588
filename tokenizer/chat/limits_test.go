package chat

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"weir/internal/reference"
)

// bombs are templates that need far more steps or memory than a render may use.
var bombs = map[string]string{
	"text repeated": `{{ "a" * 100000000000 }}`,
	"text repeated in steps": `{% set ns = namespace(s="aaaaaaaa") %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}` +
		`{% endfor %}`,
	"list repeated":          `{{ [1] * 100000000000 }}`,
	"list doubled":           `{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}`,
	"range":                  `{% for i in range(10**9) %}{% endfor %}`,
	"range of a huge number": `{{ range(10**30) | list }}`,
	"nested loops":           `{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}`,
	"output in loops": `{% for a in range(99999) %}{% for b in range(99999) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` +
		`{% endfor %}{% endfor %}`,
	"macro without end":      `{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}`,
	"two macros without end": `{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}`,
	"call without end":       `{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}`,
	"recursive loop":         `{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}`,
	"power":                  `{{ 10 ** (10 ** 10) }}`,
	"power in steps":         `{% set ns = namespace(n=10) %}{% for i in range(99) %}{% set ns.n = ns.n * ns.n %}{% endfor %}`,
	"wide print":             `{{ "%1000000000d" % 1 }}{{ "x".center(10**12) }}`,
	"fields":                 `{% for i in range(9999) %}{{ "{:>60000}".format(1) }}{% endfor %}`,
	"shared list printed": `{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}` +
		`{{ ns.l }}`,
	"shared list compared": `{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}` +
		`{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}`,
	"shared list as JSON": `{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}` +
		`{{ ns.l | tojson }}`,
	"deep list printed": `{% set ns = namespace(l=[1]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}` +
		`{{ ns.l }}`,
	"deep list as JSON": `{% set ns = namespace(l=[1]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}` +
		`{{ ns.l | tojson }}`,
	"namespace in itself": `{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}`,
	"replace grows": `{% set ns = namespace(s="a" * 10000) %}{% for i in range(9) %}` +
		`{% set ns.s = ns.s | replace("a", "a" * 10000) %}{% endfor %}`,
	"join grows":              `{{ (range(99999) | list) | join("x" * 10000) }}`,
	"indent grows":            `{{ ("\n" * 99999) | indent(99999, blank=true) }}`,
	"JSON indent grows":       `{{ range(9999) | list | tojson(indent=99999) }}`,
	"batches filled":          `{{ [1] | batch(10**12, 1) | list }}`,
	"slices":                  `{{ [1] | slice(10**12) | list }}`,
	"zeros":                   `{{ "1".zfill(10**12) }}`,
	"cycles through a filter": `{% for i in range(99999) %}{{ range(99999) | sum }}{% endfor %}`,
	"lists of lists":          `{% for i in range(99999) %}{% set x = range(99999) | list %}{% endfor %}`,
	"sorts": `{% set l = range(99999) | list %}{% for i in range(9999) %}{% set x = l | sort(reverse=true) %}` +
		`{% endfor %}`,
	"searches": `{% set s = "a" * 999999 %}{% for i in range(99999) %}{{ s.find("b") }}{% endfor %}`,
	"maps of maps": `{% set ns = namespace(l=range(99) | list) %}{% for i in range(9999) %}` +
		`{% set ns.l = ns.l | map("string") %}{% endfor %}{{ ns.l | list | length }}`,
}

func TestBombsAreLimited(t *testing.T) {
	reference.Slow(t)
	for name, src := range bombs {
		t.Run(name, func(t *testing.T) {
			template, err := Parse(src, Options{MaxSteps: 500_000, MaxOutputBytes: 4 << 20, MaxMemoryBytes: 64 << 20})
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = template.Render(Input{Messages: Messages(Message{"user", "hi"})})
			runtime.ReadMemStats(&after)
			var e *Error
			if !errors.As(err, &e) || e.Reason != Limit {
				t.Fatalf("got error %v, want a limit", err)
			}
			if e.Line != 1 {
				t.Errorf("line %d, want 1: %v", e.Line, e)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<30 {
				t.Errorf("allocated %d MiB", grown>>20)
			}
		})
	}
}

// TestSplittingPaysFirst: the parts of a text are paid for as they are found,
// not when all of them have been noted.
func TestSplittingPaysFirst(t *testing.T) {
	reference.Slow(t)
	for _, split := range []string{"s.split()", "s.rsplit()", "s.split(' ')", "s.rsplit(' ')", "s.splitlines()"} {
		template, err := Parse(`{% set s = "a \n" * 8000000 %}{{ `+split+` | length }}`, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = template.Render(Input{Messages: Messages(Message{"user", "hi"})})
		runtime.ReadMemStats(&after)
		var e *Error
		if !errors.As(err, &e) || e.Reason != Limit {
			t.Errorf("%s: got error %v, want a limit", split, err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 450<<20 {
			t.Errorf("%s: allocated %d MiB", split, grown>>20)
		}
	}
}

func TestDeepTemplatesAreRefused(t *testing.T) {
	for name, src := range map[string]string{
		"parentheses": "{{ " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000) + " }}",
		"lists":       "{{ " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + " }}",
		"not":         "{{ " + strings.Repeat("not ", 50000) + "1 }}",
		"signs":       "{{ " + strings.Repeat("- ", 50000) + "1 }}",
		"blocks":      strings.Repeat("{% if 1 %}", 5000) + strings.Repeat("{% endif %}", 5000),
		"targets":     "{% set " + strings.Repeat("(", 5000) + "a" + strings.Repeat(")", 5000) + " = 1 %}",
		"conditions":  "{{ " + strings.Repeat("1 if 1 else ", 50000) + "1 }}",
	} {
		if _, err := Parse(src, Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	// Long chains do not nest in the grammar; they are met when they run.
	for name, src := range map[string]string{
		"sums":       "{{ 1" + strings.Repeat("+1", 100000) + " }}",
		"attributes": "{{ messages" + strings.Repeat(".a", 100000) + " }}",
		"filters":    "{{ 1" + strings.Repeat("|abs", 100000) + " }}",
	} {
		template, err := Parse(src, Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := template.Render(Input{Messages: Messages()}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Parse(strings.Repeat("x", 2<<20), Options{}); err == nil {
		t.Error("long template: no error")
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	for _, c := range []struct {
		src    string
		reason Reason
		line   int
		words  string
	}{
		{"a\nb {{ 1 + }}", Syntax, 2, "unexpected"},
		{"a\n\n{% if x %}\n", Syntax, 3, "endif"},
		{"a\n{{ messages.x.y }}", Runtime, 2, "'list object' has no attribute 'x'"},
		{"{% macro m(x) %}\n{{ x.y.z }}\n{% endmacro %}\n{{ m(1) }}", Runtime, 2, "'int object' has no attribute 'y'"},
		{"\n\n{{ raise_exception('no: ' ~ 1) }}", Raised, 3, "no: 1"},
		{"\n{% for x in 5 %}{% endfor %}", Runtime, 2, "'int' object is not iterable"},
		{"{{ 'a' *\n 10**12 }}", Limit, 1, "bytes"},
		{"{% include 'x' %}", Syntax, 1, "not supported"},
		{"{{ 1 | random }}", Syntax, 1, "not supported"},
	} {
		template, err := Parse(c.src, Options{})
		if err == nil {
			_, err = template.Render(Input{Messages: Messages()})
		}
		var e *Error
		if !errors.As(err, &e) || e.Reason != c.reason || e.Line != c.line || !strings.Contains(e.Message, c.words) {
			t.Errorf("%q\n got %#v\nwant line %d, reason %d, %q", c.src, err, c.line, c.reason, c.words)
		}
	}
}
