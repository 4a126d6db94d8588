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
	p.script(`IDBDatabase.prototype.transaction = () => ({ objectStore: () => ({ put: () => ({}) }) })`) // which never completes
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
