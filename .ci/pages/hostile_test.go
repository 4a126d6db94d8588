package pages

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// hostile are texts that become HTML, code or requests where a page is careless: %d is their number.
func hostile() (list []string) {
	forms := []string{
		`<script>window.pwned=%d</script>`, `<img src=x onerror="window.pwned=%d">`, `<svg onload="window.pwned=%d">`, `<iframe srcdoc="<script>parent.pwned=%d</script>"></iframe>`,
		`"><img src=x onerror=window.pwned=%d>`, `'><svg/onload=window.pwned=%d>`, `<a href="javascript:window.pwned=%d">x</a>`, `[x](javascript:window.pwned=%d)`,
		`[x](data:text/html,<script>window.pwned=%d</script>)`, `![x](http://evil.example/%d.png)`, `![x](javascript:window.pwned=%d)`, "```html\n<script>window.pwned=%d</script>\n```",
		`<style>body{background:url(http://evil.example/%d)}</style>`, `<link rel=stylesheet href=http://evil.example/%d>`, `<base href=http://evil.example/%d>`,
		`<form action=http://evil.example/%d><input autofocus onfocus=window.pwned=1>`, `<details open ontoggle=window.pwned=%d>`, `<video><source onerror=window.pwned=%d>`, `<body onload=window.pwned=%d>`,
		`<object data=http://evil.example/%d></object>`, `<embed src=http://evil.example/%d>`, `<math href=javascript:window.pwned=%d>x</math>`, `${window.pwned=%d}`, `{{constructor.constructor('window.pwned=%d')()}}`,
		`</textarea><script>window.pwned=%d</script>`, `</title><script>window.pwned=%d</script>`, `--><script>window.pwned=%d</script>`, `]]><script>window.pwned=%d</script>`,
		`[a](http://evil.example/%d "onmouseover=window.pwned=1")`, `<http://evil.example/%d>`, `| <img src=x onerror=window.pwned=%d> | b |
|---|---|
| [x](javascript:window.pwned=1) | c |`, `- <script>window.pwned=%d</script>
- ![](http://evil.example/x)`, `> <img src=x onerror=window.pwned=%d>`, `# <img src=x onerror=window.pwned=%d>`, `**<img src=x onerror=window.pwned=%d>**`, "`<img src=x onerror=window.pwned=%d>`",
		`[<img src=x onerror=window.pwned=%d>](https://example.org)`, `[x](JaVaScRiPt:window.pwned=%d)`, `[x](java
script:window.pwned=%d)`, `[x]( javascript:window.pwned=%d)`, `[x](//evil.example/%d)`, `[x](vbscript:window.pwned=%d)`, `&lt;script&gt;window.pwned=%d&lt;/script&gt;`, `&#60;img src=x onerror=window.pwned=%d&#62;`,
		"\u202e<script>window.pwned=%d</script>", "\x00<script>window.pwned=%d</script>", "\u2028<script>window.pwned=%d</script>", `__proto__%d`, `constructor.prototype.polluted=%d`, `<img src="data:image/svg+xml,<svg onload=window.pwned=%d>">`,
		`<template><script>window.pwned=%d</script></template>`, `<noscript><img src=x onerror=window.pwned=%d></noscript>`, `<x-a style="animation-name:x" onanimationstart=window.pwned=%d>`, `<input type=image src=http://evil.example/%d>`,
		`<meta http-equiv=refresh content="0;url=http://evil.example/%d">`, `<marquee onstart=window.pwned=%d>`, `<button popovertarget=x onclick=window.pwned=%d>`, `<dialog open onclose=window.pwned=%d>`, `<a id=location href=http://evil.example/%d>`, `<img name=body src=x onerror=window.pwned=%d>`,
	}
	for i, f := range forms {
		list = append(list, fmt.Sprintf(f, i+1))
	}
	return list
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// harmless checks that no text became an element, an address or code.
func (p *tab) harmless(where string) {
	p.t.Helper()
	if got := evaluate[string](p, "String(window.pwned)"); got != "undefined" {
		p.t.Errorf("%s: the text %s ran", where, got)
	}
	if n := evaluate[int](p, `document.querySelectorAll("img, iframe, object, embed, video, marquee, style, base, math, template, #app script, #app link, #app form[action], meta[http-equiv]").length`); n != 0 {
		p.t.Errorf("%s: %d elements come from texts", where, n)
	}
	bad := evaluate[string](p, `[...document.querySelectorAll("#app *")].flatMap((e) => [...e.attributes].filter((a) => /^on/.test(a.name) || (a.name === "href" && !/^(#|\.\.\/docs$|https?:\/\/|mailto:)/.test(a.value))).map((a) => a.name + "=" + a.value)).join("; ")`)
	if bad != "" {
		p.t.Errorf("%s: attributes come from texts: %s", where, bad)
	}
	if evaluate[bool](p, `({}).polluted !== undefined`) {
		p.t.Errorf("%s: a prototype was changed", where)
	}
}

// Names of models, answers, thoughts, calls, errors, warnings and metadata are texts, whatever they hold.
func TestHostileTexts(t *testing.T) {
	texts := hostile()
	if len(texts) < 60 {
		t.Fatalf("%d texts", len(texts))
	}
	var models []map[string]any
	for _, text := range texts {
		models = append(models, map[string]any{"id": text, "object": "model", "kind": "generate", "state": text}, map[string]any{"id": "v" + text, "kind": "embedding"})
	}
	inputs := []map[string]any{}
	for _, text := range texts {
		inputs = append(inputs, map[string]any{"name": text, "datatype": text, "shape": []int{-1, 1}})
	}
	base := front(t, serve(t), map[string]http.HandlerFunc{
		"/v1/models": func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]any{"data": models}) },
		"/v2/models": func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]any{"models": []string{"m"}}) },
		"/v2/models/m": func(w http.ResponseWriter, _ *http.Request) {
			answer(w, map[string]any{"name": "m", "platform": texts[0], "versions": texts, "inputs": inputs})
		},
		"/v2/models/m/infer": func(w http.ResponseWriter, _ *http.Request) {
			answer(w, map[string]any{"outputs": []any{map[string]any{"name": texts[1], "datatype": texts[2], "shape": []int{1, len(texts)}, "data": texts}}})
		},
		"/playground/catalog": func(w http.ResponseWriter, _ *http.Request) {
			answer(w, map[string]any{"memory_bytes": 1, "models": []any{map[string]any{"name": texts[0], "title": texts[1], "about": texts[2], "command": texts[3]}}})
		},
		"/v1/decisions": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			answer(w, map[string]any{"error": map[string]any{"message": strings.Join(texts, " "), "code": texts[5]}})
		},
		chats: func(w http.ResponseWriter, r *http.Request) {
			a := read(t, r)
			w.Header().Set("X-Weir-Warnings", strings.NewReplacer("\n", " ", "\x00", "").Replace(texts[1]))
			s := newStream(w)
			s.send(map[string]any{"reasoning_content": strings.Join(texts, "\n\n")}, nil)
			for _, text := range texts {
				s.text(text + "\n\n")
			}
			s.send(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": texts[0], "function": map[string]any{"name": texts[1], "arguments": texts[2]}}}}, nil)
			s.text(a.Messages[0].Content)
			s.end(texts[3])
		},
	})
	p := open(t, base, "/playground/", "400 (Bad Request)")
	p.ask(strings.ReplaceAll(texts[1], "\n", " "))
	p.answered()
	p.click("Show the figures and tokens")
	p.sees("<script>window.pwned=1</script>")
	p.harmless("chat")
	p.click("Code")
	p.wait("document.querySelector('dialog[open]')")
	p.harmless("code")
	for view, sign := range map[string]string{"start": "window.pwned=2", "predict": "window.pwned=2", "embeddings": "Embeddings", "rerank": "Rerank", "decisions": "Decisions"} {
		p.script(fmt.Sprintf("location.hash = %q", "/"+view))
		p.sees(sign)
		if view == "predict" {
			p.click("Predict")
			p.sees("Answered in")
		}
		if view == "decisions" {
			p.click("Decide")
			p.sees("That did not work")
		}
		p.harmless(view)
	}
}
