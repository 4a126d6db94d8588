package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// attempt is a request that was sent once, however it ended.
type attempt struct {
	at   time.Duration // its end
	ok   bool
	held bool // it has an idempotency key of a request that a process which is gone had begun: the answer is 409 until its lease ends
}

// ack is a write that a region has acknowledged.
type ack struct {
	at             time.Duration
	region         string
	response       string // its id, with body and key
	body           []byte
	idempotencyKey string
	input, output  int64
	file, batch    string
	apiKey         string
}

// is reports whether an ack is one of a kind of DrillRow.
func (a *ack) is(what string) bool {
	switch what {
	case "files":
		return a.file != ""
	case "batches":
		return a.batch != ""
	case "API keys":
		return a.apiKey != ""
	}
	return a.response != ""
}

// drillLoad are clients that follow the region which is said to be up.
type drillLoad struct {
	d      *drill
	target atomic.Pointer[drillRegion]

	insisting atomic.Int64

	mu       sync.Mutex
	attempts []attempt
	acks     []ack
	answers  int // acknowledged responses
	made     int // rounds of operate

	held      int           // requests whose key was held, and that were answered
	heldUntil time.Duration // when the last of them was
}

func newDrillLoad(d *drill) *drillLoad {
	l := &drillLoad{d: d}
	l.to(d.a)
	return l
}

func (l *drillLoad) to(r *drillRegion) { l.target.Store(r) }

func (l *drillLoad) acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers
}

// operated reports whether an operator has written, too.
func (l *drillLoad) operated() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made > 0
}

// waits reports whether a request is left whose idempotency key is held.
func (l *drillLoad) waits() bool { return l.insisting.Load() > 0 }

// await returns when the load has come so far.
func (l *drillLoad) await(ctx context.Context, far func(*drillLoad) bool) error {
	for !far(l) {
		if !sleep(ctx, 5*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// heldPause is how soon a request is sent again whose idempotency key is held.
const heldPause = 250 * time.Millisecond

// client sends one request after the other, each until it is acknowledged, with one idempotency key. One whose key is held waits beside
// the others.
func (l *drillLoad) client(ctx context.Context, i int) {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for n := 0; ctx.Err() == nil; n++ {
		a := ack{idempotencyKey: fmt.Sprintf("%s-%d-%d", filepath.Base(l.d.folder), i, n)}
		a.body = fmt.Appendf(nil, `{"model":%q,"input":"Drill, client %d, request %d","max_output_tokens":%d,"temperature":0}`, clusterModel, i, n, l.d.o.OutputTokens)
		for {
			ok, held := l.send(ctx, &a)
			if held {
				l.insisting.Add(1)
				waiting.Go(func() { l.insist(ctx, &a) })
			}
			if ok || held {
				break
			}
			if !sleep(ctx, 20*time.Millisecond) {
				return
			}
		}
	}
}

// insist sends a request whose key is held until it is acknowledged.
func (l *drillLoad) insist(ctx context.Context, a *ack) {
	defer l.insisting.Add(-1)
	for sleep(ctx, heldPause) {
		if ok, _ := l.send(ctx, a); ok {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.held, l.heldUntil = l.held+1, max(l.heldUntil, a.at)
			return
		}
	}
}

// send tries a request once.
func (l *drillLoad) send(ctx context.Context, a *ack) (ok, held bool) {
	r := l.target.Load()
	status, _, answer := r.ask(ctx, http.MethodPost, "/v1/responses", r.key, "application/json", a.body, "Idempotency-Key", a.idempotencyKey)
	var said struct {
		ID    string
		Usage struct {
			Input  int64 `json:"input_tokens"`
			Output int64 `json:"output_tokens"`
		}
	}
	ok = status == http.StatusOK && json.Unmarshal(answer, &said) == nil && said.ID != ""
	held = status == http.StatusConflict
	if ctx.Err() != nil {
		return ok, false // the drill is over
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.d.since()
	l.attempts = append(l.attempts, attempt{now, ok, held})
	if ok {
		a.at, a.region, a.response, a.input, a.output = now, r.name, said.ID, said.Usage.Input, said.Usage.Output
		l.acks = append(l.acks, *a)
		l.answers++
	}
	return ok, held
}

// note adds what an operator's request has made.
func (l *drillLoad) note(a *ack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.at, a.region = l.d.since(), "a"
	l.acks = append(l.acks, *a)
}

// operate uploads files, makes batches of them and API keys in region a, until ctx ends.
func (l *drillLoad) operate(ctx context.Context) {
	a := l.d.a
	for n := 0; ctx.Err() == nil; n++ {
		var made struct{ ID, Key string }
		read := func(status int, _ http.Header, answer []byte) bool {
			made.ID, made.Key = "", ""
			return status/100 == 2 && json.Unmarshal(answer, &made) == nil
		}
		label := fmt.Sprintf("%s-%d", filepath.Base(l.d.folder), n)
		if read(a.ask(ctx, http.MethodPost, "/admin/keys", a.operator, "application/json", fmt.Appendf(nil, `{"tenant":%q,"label":%q,"expires":"1d"}`, drillTenant, label))) {
			l.note(&ack{apiKey: made.Key})
		}
		contentType, form := upload(fmt.Appendf(nil, `{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":%q,"max_tokens":2,"messages":[{"role":"user","content":"Hello"}]}}`+"\n", clusterModel))
		if read(a.ask(ctx, http.MethodPost, "/v1/files", a.batching, contentType, form)) {
			file := made.ID
			l.note(&ack{file: file})
			if read(a.ask(ctx, http.MethodPost, "/v1/batches", a.batching, "application/json", fmt.Appendf(nil, `{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h"}`, file))) {
				l.note(&ack{batch: made.ID})
			}
		}
		l.mu.Lock()
		l.made++
		l.mu.Unlock()
		sleep(ctx, 100*time.Millisecond)
	}
}

// upload is the form of a file for a batch.
func upload(lines []byte) (contentType string, form []byte) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.WriteField("purpose", "batch") // into memory, as all below
	if part, err := w.CreateFormFile("file", "drill.jsonl"); err == nil {
		_, _ = part.Write(lines)
	}
	_ = w.Close()
	return w.FormDataContentType(), b.Bytes()
}
