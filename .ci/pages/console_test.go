package pages

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const events = "/admin/events"

// streamMany keeps so many streams of a server open until the test ends.
func streamMany(t *testing.T, n int, base string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				askAlone(ctx, base)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
}

// consoleViews are all views with what each shows of a server that serves its own models.
var consoleViews = [][2]string{
	{"now", "Sequences running"}, {"requests", "Find a request"}, {"models", "sequences at once"}, {"rollouts", "No version is being tried"},
	{"tenants", "Tenants"}, {"replicas", "This server routes to no other"}, {"classical", "No classical model is watched"}, {"audit", "Audit log"}, {"nowhere", "There is no such view"},
}

// Every view answers while fifty streams run, one request is shown from its arrival to its end with what it waited for, and no text of a
// prompt is anywhere.
func TestConsoleUnderLoad(t *testing.T) {
	weir, admin := serveBoth(t)
	streamMany(t, 50, weir)
	p := open(t, admin, "/console/", "404")
	p.sees("live")
	p.wait(`Number(document.querySelector("#running .badge").innerText) >= 20`)
	p.wait(`document.querySelectorAll(".cell.t0").length > 0`)
	p.wait(`document.querySelectorAll("#queue + .table tbody tr").length > 0`) // 50 are more than run at once
	p.sees("Expected wait")
	for _, view := range consoleViews {
		p.script(fmt.Sprintf("location.hash = %q", "/"+view[0]))
		p.sees(view[1])
		if text := p.body(); strings.Contains(text, "What is a weir?") || strings.Contains(text, "hit a fault of its own") {
			t.Errorf("%s shows %.500s", view[0], text)
		}
	}
	p.script(`location.hash = "/requests"`)
	p.wait(`[...document.querySelectorAll("tbody tr")].some((r) => r.innerText.includes("200"))`)
	p.script(`[...document.querySelectorAll("tbody tr")].findLast((r) => r.innerText.includes("200")).querySelector("a").click()`)
	p.sees("From arrival to its end")
	p.sees("Prompt made into tokens")
	p.sees("Waited in the queue")
	p.sees("Answer generated")
	whole := evaluate[float64](p, `[...document.querySelectorAll(".life tbody tr")].reduce((n, r) => n + parseFloat(r.cells[3].innerText), 0)`)
	if whole < 90 || whole > 110 {
		t.Errorf("the stages of the request make up %v %% of its time", whole)
	}
	p.fits("request")
}

// serveBoth starts weir with its own model, a store of its own and both listeners.
func serveBoth(t *testing.T, flags ...string) (api, admin string) {
	t.Helper()
	return serveFrom(t, "sqlite:"+t.TempDir()+"/weir.db", flags...)
}

// serveFrom is serveBoth with a store that may have keys.
func serveFrom(t *testing.T, store string, flags ...string) (api, admin string) {
	t.Helper()
	found := start(t, 2, append([]string{"--admin-address", "127.0.0.1:0", "--store", store}, flags...)...)
	return found[0], found[1]
}

// createKey makes a key of a new store.
func createKey(t *testing.T, store, scope string) string {
	t.Helper()
	out, err := exec.Command(os.Getenv("WEIR_BINARY"), "keys", "create", "acme", "--label", scope, "--scope", scope, "--store", store).Output()
	if err != nil {
		t.Fatal(err)
	}
	key, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(key)
}

// The page of a server that went away says so, and goes on by itself once it is back.
func TestConsoleReconnects(t *testing.T) {
	t.Parallel()
	_, admin := serveBoth(t)
	var mu sync.Mutex
	down, streams := false, 0
	cut := make(chan struct{})
	at := front(t, admin, nil)
	base := front(t, admin, map[string]http.HandlerFunc{events: func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		gone := down
		streams++
		first := streams == 1
		mu.Unlock()
		if gone {
			panic(http.ErrAbortHandler)
		}
		passOn(w, r, at, first, cut)
	}})
	p := open(t, base, "/console/", "net::ERR")
	p.sees("live")
	mu.Lock()
	down = true
	mu.Unlock()
	close(cut)
	p.sees("connection lost, trying again")
	p.sees("Now") // what was there stays
	mu.Lock()
	down = false
	mu.Unlock()
	p.wait(`document.querySelector(".top .badge").innerText === "live"`)
}

// passOn passes a stream of events on, the first one until it is cut.
func passOn(w http.ResponseWriter, r *http.Request, to string, first bool, cut chan struct{}) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if first {
		go func() { <-cut; cancel() }()
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, to+events, nil)
	if err != nil {
		panic(err)
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = res.Body.Close() }()
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(line)
		w.(http.Flusher).Flush()
	}
}

// instead types keys in place of what a field has.
func (p *tab) instead(selector, keys string) {
	p.t.Helper()
	p.wait(fmt.Sprintf("document.querySelector(%q)?.select() === undefined && document.querySelector(%q)", selector, selector))
	p.types(selector, keys)
}

// The console asks for an admin key, tells which keys may not, and forgets the key.
func TestConsoleAsksForAKey(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + t.TempDir() + "/weir.db"
	right, user := createKey(t, store, "admin"), createKey(t, store, "inference")
	_, admin := serveFrom(t, store)
	p := open(t, admin, "/console/", "401", "403")
	p.sees("This server asks who calls")
	if evaluate[bool](p, `document.body.innerText.includes("Sequences")`) {
		t.Error("the console shows its server to everybody")
	}
	p.types("input[name=key]", "sk-0123456789-wrong\r")
	p.sees("The server does not know this key")
	p.instead("input[name=key]", user+"\r")
	p.sees("This key may not do that")
	p.instead("input[name=key]", right+"\r")
	p.sees("Sequences running")
	if kept := evaluate[string](p, "JSON.stringify(localStorage) + document.cookie + location.href"); strings.Contains(kept, right) {
		t.Errorf("the key stays in the browser: %s", kept)
	}
	p.click("Sign out: forget the key")
	p.sees("This server asks who calls")
}

// No view is wider than a phone, and each of its controls can be reached.
func TestConsoleOnAPhone(t *testing.T) {
	t.Parallel()
	weir, admin := serveBoth(t)
	streamMany(t, 4, weir)
	p := open(t, admin, "/console/", "404")
	p.do(chromedp.EmulateViewport(390, 844))
	p.sees("live")
	for _, view := range consoleViews {
		p.script(fmt.Sprintf("location.hash = %q", "/"+view[0]))
		p.sees(view[1])
		p.fits(view[0])
	}
}

// fits checks that a page is no wider than its window, that its controls do not cover each other, and that no text is cut off.
func (p *tab) fits(where string) {
	p.t.Helper()
	if faults := evaluate[string](p, layout+"()"); faults != "" {
		p.t.Errorf("%s: %s", where, faults)
	}
}

// Names, ids, metadata, findings, reasons and entries of the audit log are texts, whatever they hold.
func TestConsoleHostileTexts(t *testing.T) {
	t.Parallel()
	_, admin := serveBoth(t)
	base := front(t, admin, hostileServer(t, hostile()))
	p := open(t, base, "/console/", "net::ERR")
	p.sees("window.pwned=1<")
	for _, view := range []string{"now", "requests", "models", "rollouts", "tenants", "replicas", "classical", "audit", "request/x", "tenants/x"} {
		p.script(fmt.Sprintf("location.hash = %q", "/"+view))
		p.sees("window.pwned=")
		p.script(`document.querySelectorAll("details").forEach((d) => { d.open = true; }); document.querySelectorAll(".more button").forEach((b) => b.click())`)
		p.harmless(view)
	}
	p.script(`location.hash = "/models"`)
	p.click("Load")
	p.wait("document.querySelector('dialog[open]')")
	p.harmless("the question before a load")
}

// hostileServer answers what the console asks with texts that become HTML where a page is careless.
func hostileServer(t *testing.T, texts []string) map[string]http.HandlerFunc {
	t.Helper()
	n := 0
	next := func() string { n++; return texts[n%len(texts)] }
	var requests, ended, engines, queue, tenants, models, entries, holders, replicas, arms, columns, stages []any
	for range texts {
		requests = append(requests, map[string]any{"id": next(), "state": "running", "model": next(), "tenant": next(), "arrived": time.Now(), "seconds": 1.5, "engine": []any{map[string]any{
			"id": next(), "phase": next(), "waits_for": next(), "class": next(), "prompt_tokens": 3, "prefill_tokens": 1, "output_tokens": 0, "kv_blocks": 1, "gave_way_to": next()}}})
		ended = append(ended, map[string]any{"id": next(), "state": "ended", "model": next(), "tenant": next(), "status": 400, "code": next(), "arrived": time.Now(), "seconds": 1.5})
		queue = append(queue, map[string]any{"model": next(), "class": next(), "tenant": next(), "waits_for": next(), "waiting": 2, "requests_ahead": 0, "requests_ahead_of_last": 3, "expected_wait_seconds": 1, "expected_wait_seconds_of_last": 2, "oldest_seconds": 1, "prompt_tokens": 3, "fairness_debt_seconds": 0})
		tenants = append(tenants, map[string]any{"name": next(), "origin": next(), "error": next()})
		models = append(models, map[string]any{"name": next(), "version": next(), "state": next(), "error": next(), "bytes": 5, "requests": 1, "forecast": map[string]any{"fits": next(), "kv_cache_dtype": next(), "weight_bytes": 1, "kv_cache_bytes": 1, "max_model_len": 4096, "memory_budget_bytes": 5, "memory_taken_bytes": 1}})
		entries = append(entries, map[string]any{"sequence": n, "time": time.Now(), "actor": next(), "action": next(), "object": next(), "details": next()})
		replicas = append(replicas, map[string]any{"replica": next(), "kind": next(), "state": next(), "why": next(), "breaker": next(), "zone": next(), "faults": map[string]any{next(): 1}})
		columns = append(columns, map[string]any{"name": next(), "kind": next(), "state": "drifting", "distance": map[string]any{"psi": 1, "js": 1, "ks": 1}, "missing": map[string]any{"now": 0, "reference": 0}, "bins": []any{map[string]any{"label": next(), "now": 1, "reference": 1}}, "psi_history": []any{1, 2}})
		stages = append(stages, map[string]any{"stage": next(), "from_seconds": n, "seconds": 1, "waits_for": next(), "gave_way_to": next(), "replica": next(), "reason": next(), "failed": next()})
	}
	for i := range 4 {
		holders = append(holders, map[string]any{"tenant": next(), "kv_blocks": 3 + i})
		arms = append(arms, map[string]any{"arm": next(), "version": next(), "requests": 3, "ttft_p95_seconds": 0.1})
		engines = append(engines, map[string]any{"model": next(), "version": next(), "kind": "llm", "running": 1, "max_num_seqs": 4, "kv_blocks": 100, "block_tokens": 16, "kv_blocks_referenced": 40, "kv_blocks_cached": 1, "kv_blocks_free": 59, "kv_holders": holders, "steps": []any{map[string]any{"at": 1, "prefill": 1, "decode": 1, "seconds": 0.1}}})
	}
	one := map[string]any{"id": next(), "state": "ended", "status": 400, "code": next(), "tenant": next(), "model": next(), "version": next(), "arm": next(), "route": next(), "limit": next(), "arrived": time.Now(), "seconds": 100,
		"life": []any{map[string]any{"stages": stages}}, "moderation": []any{map[string]any{"policy": next(), "rule": next(), "side": next(), "action": next(), "matches": next()}},
		"tried": []any{map[string]any{"replica": next(), "reason": next(), "failed": next(), "seconds": 1, "considered": []any{map[string]any{"replica": next(), "cost": 1, "excluded": next()}}}}}
	snapshot, err := json.Marshal(map[string]any{"time": time.Now(), "version": next(), "ready": false, "why": texts[0], "engines": engines, "tenants": []any{}, "queue": queue, "running": len(requests), "requests": requests, "ended": ended, "engine_error": next()})
	if err != nil {
		t.Fatal(err)
	}
	keys := []any{map[string]any{"id": next(), "label": next(), "scope": next(), "state": next(), "created": time.Now()}}
	own := map[string]http.HandlerFunc{events: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "event: now\ndata: %s\n\n", snapshot)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}}
	for path, v := range map[string]any{
		"/admin/models": map[string]any{"models": models}, "/admin/tenants": map[string]any{"tenants": tenants}, "/admin/audit": map[string]any{"entries": entries},
		"/admin/tenants/x": map[string]any{"name": next(), "origin": next(), "error": next(), "limits": []any{map[string]any{"limit": next(), "model": next(), "used": next(), "value": next(), "left": next()}}},
		"/admin/keys":      map[string]any{"keys": keys}, "/admin/usage": map[string]any{"rows": []any{map[string]any{"tenant": next(), "model": next(), "requests": 1, "cost": next()}}},
		"/admin/replicas": map[string]any{"models": []any{map[string]any{"model": next(), "version": next(), "policy": next(), "replicas": replicas}}},
		"/admin/drift":    map[string]any{"models": []any{map[string]any{"model": next(), "version": next(), "judged": time.Now(), "rows": 5, "drifting": 1, "columns": columns}}},
		"/v1/rollouts": map[string]any{"rollouts": []any{map[string]any{"plan": map[string]any{"id": "1", "model": next(), "stable": next(), "candidate": next(), "gates": map[string]any{"ttft_ratio": 2}}, "state": next(), "reason": next(), "step": 1, "arms": arms,
			"began": time.Now(), "since": time.Now(), "changes": []any{map[string]any{"at": time.Now(), "from": next(), "to": next(), "by": next()}}}}},
		"/admin/explain": one,
	} {
		own[path] = func(w http.ResponseWriter, _ *http.Request) { answer(w, v) }
	}
	return own
}

// A console that is open for long under load holds no more at the end than after a while: some seconds here, ten minutes where
// WEIR_TEST_LONG is set.
func TestConsoleMemoryStaysBounded(t *testing.T) {
	weir, admin := serveBoth(t)
	streamMany(t, 50, weir)
	looks := 8
	if os.Getenv("WEIR_TEST_LONG") != "" {
		looks = 600
	}
	p := openFor(t, time.Duration(looks)*2*time.Second+time.Minute, admin, "/console/", "404")
	p.sees("live")
	p.script(`window.looks = 0; window.before = ""; new MutationObserver(() => {
		const now = [...document.querySelectorAll(".stat dd")].map((d) => d.innerText).join(); if (now !== window.before) { window.before = now; window.looks++; } }).observe(document.body, { subtree: true, childList: true, characterData: true })`)
	p.wait("window.looks >= 3")
	early, _ := p.memory()
	began := time.Now()
	for at := 3; at < looks; at += 3 {
		p.wait(fmt.Sprintf("window.looks >= %d", at))
	}
	late, elements := p.memory()
	t.Logf("%v open, %d snapshots: %.1f MB, then %.1f MB, %d elements", time.Since(began).Round(time.Second), looks, early/1e6, late/1e6, elements)
	if late > early*1.5+5e6 || elements > 6000 {
		t.Errorf("the page grew from %.1f to %.1f MB and has %d elements", early/1e6, late/1e6, elements)
	}
}
