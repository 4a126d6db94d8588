package pages

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// What settings say is in the request, under the names of the API.
func TestSettingsReachTheRequest(t *testing.T) {
	bodies := make(chan string, 1)
	p := open(t, front(t, serve(t), map[string]http.HandlerFunc{chats: func(w http.ResponseWriter, r *http.Request) {
		text := new(strings.Builder)
		if _, err := io.Copy(text, r.Body); err != nil {
			t.Error(err)
		}
		bodies <- text.String()
		s := newStream(w)
		s.text("fine")
		s.end("stop")
	}}), "/playground/")
	for label, value := range map[string]string{"System prompt": "Be brief.", "Temperature": "0", "Top P": "0.9", "Seed": "7"} {
		p.wait("document.querySelector('#settings')")
		p.script(`{ const f = [...document.querySelectorAll("#settings label")].find((l) => l.innerText === "` + label + `").control;
			Object.getOwnPropertyDescriptor(Object.getPrototypeOf(f), "value").set.call(f, "` + value + `"); f.dispatchEvent(new Event("input", { bubbles: true })); }`)
	}
	p.click("Form of the answer")
	p.script(`{ const f = [...document.querySelectorAll("#settings label")].find((l) => l.innerText === "Form").control; f.value = "json_schema"; f.dispatchEvent(new Event("change", { bubbles: true })); }`)
	p.wait(`[...document.querySelectorAll("#settings label")].some((l) => l.innerText === "JSON Schema")`)
	p.ask("Where?")
	p.answered()
	body := <-bodies
	for _, want := range []string{`{"role":"system","content":"Be brief."}`, `"temperature":0`, `"top_p":0.9`, `"seed":7`, `"response_format":{"type":"json_schema"`, `"include_progress":true`, `"stream":true`} {
		if !strings.Contains(body, want) {
			t.Errorf("the request lacks %s: %s", want, body)
		}
	}
	if strings.Contains(body, "min_p") {
		t.Errorf("the request has what was not set: %s", body)
	}
}

// Conversations go into a file and come back from it; delete all leaves none.
func TestHistory(t *testing.T) {
	p := open(t, front(t, serve(t), map[string]http.HandlerFunc{chats: func(w http.ResponseWriter, _ *http.Request) {
		s := newStream(w)
		s.text("an answer to keep")
		s.end("stop")
	}}), "/playground/")
	p.ask("a question to keep")
	p.sees("an answer to keep")
	p.answered()
	file := filepath.Join(t.TempDir(), "conversations.json")
	exported := p.awaited(module("playground/history.js") + `.then(async (h) => h.exported(await h.list()))`)
	if !strings.Contains(exported, "an answer to keep") {
		t.Fatalf("the export is %s", exported)
	}
	if err := os.WriteFile(file, []byte(exported), 0o600); err != nil {
		t.Fatal(err)
	}
	p.click("Export, import or delete conversations")
	p.sees("One conversation is kept in this browser")
	p.click("Delete all")
	p.wait("document.querySelectorAll('dialog[open]').length === 2")
	p.click("Delete all")
	p.wait("document.querySelectorAll('.conversations li').length === 0")
	p.do(chromedp.Reload())
	p.sees("What you ask is kept in this browser only.")
	p.click("Export, import or delete conversations")
	p.chooses("input[type=file]", file)
	p.sees("One conversation was read")
	p.wait("document.querySelectorAll('.conversations li').length === 1")
	p.script("document.querySelector('.conversations li a').click()")
	p.sees("an answer to keep")
}

// chooses gives a file to an input.
func (p *tab) chooses(selector, file string) {
	p.t.Helper()
	p.wait("document.querySelector('" + selector + "')")
	p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		found, err := cdp.Call(ctx, t, runtime.Evaluate, runtime.EvaluateParams{Expression: "document.querySelector('" + selector + "')"})
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, t, dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: []string{file}, ObjectID: found.Result.ObjectID})
		return err
	}))
}

// A page that is loaded again before the browser has written a conversation down loses nothing of it.
func TestAReloadAmidAWriteLosesNothing(t *testing.T) {
	p := open(t, serve(t), "/playground/")
	p.sees("Ask weir-default something")
	p.script(`IDBDatabase.prototype.transaction = () => ({ objectStore: () => ({ get: () => ({}) }) })`) // which never completes
	p.ask("Is this kept?")
	p.answered()
	p.do(chromedp.Reload())
	p.wait(`document.querySelector(".turns")?.innerText.includes("Is this kept?")`)
	p.wait(`document.querySelector(".conversations")?.innerText.includes("Is this kept?")`)
}

// A model of the catalog is pulled from the page: how far it is is shown, a fault is told, and once it is served the list has it.
func TestPull(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	var served atomic.Bool
	weir := serve(t)
	p := open(t, front(t, weir, map[string]http.HandlerFunc{
		"/playground/catalog": func(w http.ResponseWriter, _ *http.Request) {
			answer(w, map[string]any{"memory_bytes": 1 << 33, "pulls": true, "models": []any{map[string]any{"name": "qwen3:0.6b", "title": "Qwen3 0.6B", "about": "Thinks.", "bytes": 523e6, "needs_bytes": 1e9, "fits": true, "command": "weir pull"}}})
		},
		"/v1/models": func(w http.ResponseWriter, _ *http.Request) {
			list := []any{map[string]any{"id": "weir-default", "kind": "generate"}}
			if served.Load() {
				list = append(list, map[string]any{"id": "qwen3:0.6b", "kind": "generate"})
			}
			answer(w, map[string]any{"data": list})
		},
		"/api/pull": func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			for _, line := range []string{`{"status":"pulling manifest"}`, `{"status":"pulling weights","total":523000000,"completed":130750000}`, `{"error":"the hub hangs up"}`, `{"status":"pulling weights","total":523000000,"completed":523000000}`} {
				if served.Load() && strings.Contains(line, "hub") {
					continue
				}
				_, _ = io.WriteString(w, line+"\n")
				w.(http.Flusher).Flush()
				<-next
			}
			if served.Load() {
				_, _ = io.WriteString(w, `{"status":"success"}`+"\n")
			}
			if string(text) != `{"model":"qwen3:0.6b"}` {
				t.Errorf("it was asked for %s", text)
			}
		},
	}), "/playground/#/start")
	p.click("Pull Qwen3 0.6B")
	p.sees("pulling manifest")
	next <- struct{}{}
	p.sees("125 MiB of 499 MiB, 25 %")
	next <- struct{}{}
	p.sees("the hub hangs up")
	next <- struct{}{}
	next <- struct{}{}
	served.Store(true)
	p.click("Try again")
	for range 3 {
		next <- struct{}{}
	}
	p.wait(`document.querySelector("table").innerText.includes("qwen3:0.6b")`)
}

// Two tabs go on with one conversation: neither loses what the other has added.
func TestTwoTabsOfAConversation(t *testing.T) {
	t.Parallel()
	one := open(t, serve(t), "/playground/")
	one.ask("The beginning")
	one.answered()
	two := one.beside("/playground/" + evaluate[string](one, "location.hash"))
	two.sees("The beginning")
	two.ask("Said in tab two")
	two.answered()
	one.ask("Said in tab one")
	one.answered()
	kept := module("playground/history.js") + `.then((h) => h.list()).then(([c]) => Object.values(c.nodes).map((n) => n.state + n.content).join())`
	for _, p := range []*tab{one, two} {
		if all := p.awaited(kept); !strings.Contains(all, "Said in tab one") || !strings.Contains(all, "Said in tab two") || strings.Contains(all, "running") {
			t.Errorf("what is kept: %s", all)
		}
	}
	two.do(chromedp.Reload())
	two.wait(`document.querySelector(".turns")?.innerText.includes("Said in tab one")`)
}

// A browser may close the database of a page: what is asked then is kept all the same.
func TestADatabaseThatIsClosed(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), "/playground/")
	p.ask("Before")
	p.answered()
	p.script(`{ const begin = IDBDatabase.prototype.transaction; let closed = false;
		IDBDatabase.prototype.transaction = function (...a) { if (!closed) { closed = true; this.close(); } return begin.apply(this, a); }; }`)
	p.ask("And after?")
	p.answered()
	p.wait("!Object.keys(sessionStorage).length")
	p.do(chromedp.Reload())
	p.wait(`document.querySelector(".turns")?.innerText.includes("And after?")`)
}

// Where the browser keeps nothing the page says so.
func TestABrowserThatKeepsNothing(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), "/playground/")
	p.script(`IDBDatabase.prototype.transaction = () => { throw new DOMException("no", "InvalidStateError") }`)
	p.ask("Is this kept?")
	p.sees("What you ask is kept until this tab is closed.")
	p.answered()
}

// A key that was copied with a sign that no header takes is refused at the form, where another one can be typed.
func TestAKeyThatNoHeaderTakes(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, "--api-key", "weir-right"), "/playground/", "401")
	for _, key := range []string{"weir-righ…", "weir-right"} {
		p.types("input", key+"\r")
		if key != "weir-right" {
			p.sees("copy it again")
			p.script(`document.querySelector("input").value = ""`)
		}
	}
	p.sees("Ask weir-default something")
}

// A file whose turns follow each other in a circle, and whose fields are not what they should be, is read and shown.
func TestAFileOfNonsense(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), "/playground/")
	read := module("playground/history.js") + `.then(async (h) => { for (const c of h.imported(JSON.stringify({ weir_playground: 1, conversations: [{ id: "c", leaf: "b", nodes: {
		a: { id: "a", parent: "b", role: "user", content: "round", stats: 7, fault: { message: {} } }, b: { id: "b", parent: "a", role: "assistant", content: "and round", tokens: 1, gaps: {}, stats: [], refusal: {} } } }] }))) await h.save(c); return "" })`
	p.awaited(read)
	p.do(chromedp.Navigate(p.url+"/playground/#/chat/c"), chromedp.Reload())
	p.sees("and round")
	p.click("Remove this turn and what follows")
	p.wait(`!document.querySelector(".turns").innerText.includes("and round")`)
}
