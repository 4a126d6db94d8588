package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/api/tenant"
)

// memory is a Store in memory, for one process after another: owner is whose turn it is.
type memory struct {
	mu      sync.Mutex
	owner   int
	files   map[string]File
	batches map[string]Batch
	owners  map[string]int
	fails   error // what every method answers, where it is set
}

func newMemory() *memory {
	return &memory{owner: 1, files: map[string]File{}, batches: map[string]Batch{}, owners: map[string]int{}}
}

func (m *memory) lock() func() { m.mu.Lock(); return m.mu.Unlock }

func (m *memory) AddFile(_ context.Context, f File, most int64) error {
	defer m.lock()()
	if m.fails != nil {
		return m.fails
	}
	if most > 0 && m.held(f.Tenant)+max(f.Bytes, LeastBytes) > most {
		return ErrQuota
	}
	m.files[f.ID] = f
	return nil
}

func (m *memory) held(tenant string) (n int64) {
	for _, f := range m.files {
		if f.Tenant == tenant {
			n += max(f.Bytes, LeastBytes)
		}
	}
	return n
}

func (m *memory) FileBytes(_ context.Context, tenant string) (int64, error) {
	defer m.lock()()
	return m.held(tenant), m.fails
}

func (m *memory) FindFile(_ context.Context, tenant, id string, now time.Time) (File, error) {
	defer m.lock()()
	f, ok := m.files[id]
	if !ok || f.Tenant != tenant || !f.Expires.IsZero() && !f.Expires.After(now) {
		return File{}, cmp.Or(m.fails, ErrUnknown)
	}
	return f, m.fails
}

func (m *memory) Files(_ context.Context, tenant string, p Page, _ time.Time) (list []File, more bool, err error) {
	defer m.lock()()
	for _, f := range m.files {
		if f.Tenant == tenant && (p.Purpose == "" || p.Purpose == f.Purpose) {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b File) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID)) })
	return list[:min(len(list), p.Limit)], len(list) > p.Limit, m.fails
}

func (m *memory) inUse(id string) bool {
	for _, b := range m.batches {
		if b.Input == id && !b.Status.Over() {
			return true
		}
	}
	return false
}

func (m *memory) RemoveFile(_ context.Context, tenant, id string) error {
	defer m.lock()()
	switch f, ok := m.files[id]; {
	case !ok || f.Tenant != tenant:
		return ErrUnknown
	case m.inUse(id):
		return ErrInUse
	}
	delete(m.files, id)
	return nil
}

func (m *memory) ExpireFiles(_ context.Context, place string, now time.Time, _ int) (gone []File, err error) {
	defer m.lock()()
	for id, f := range m.files {
		if f.Place == place && !f.Expires.IsZero() && !f.Expires.After(now) && !m.inUse(id) {
			gone = append(gone, f)
			delete(m.files, id)
		}
	}
	return gone, m.fails
}

func (m *memory) AnyFile(_ context.Context, id string) (File, error) {
	defer m.lock()()
	f, ok := m.files[id]
	if !ok && m.fails == nil {
		return f, ErrUnknown
	}
	return f, m.fails
}

func (m *memory) HasBatch(_ context.Context, id string) (bool, error) {
	defer m.lock()()
	b, ok := m.batches[id]
	return ok && !b.Status.Over(), m.fails
}

func (m *memory) AddBatch(_ context.Context, b Batch, most int) error {
	defer m.lock()()
	n := 0
	for _, other := range m.batches {
		if other.Tenant == b.Tenant && !other.Status.Over() {
			n++
		}
	}
	if n >= most {
		return ErrQuota
	}
	m.batches[b.ID] = b
	return m.fails
}

func (m *memory) FindBatch(_ context.Context, tenant, id string) (Batch, error) {
	defer m.lock()()
	b, ok := m.batches[id]
	if !ok || b.Tenant != tenant {
		return Batch{}, cmp.Or(m.fails, ErrUnknown)
	}
	return b, m.fails
}

func (m *memory) Batches(_ context.Context, tenant string, p Page) (list []Batch, more bool, err error) {
	defer m.lock()()
	for _, b := range m.batches {
		if b.Tenant == tenant && strings.HasPrefix(b.ID, p.Prefix) {
			list = append(list, b)
		}
	}
	return list[:min(len(list), p.Limit)], len(list) > p.Limit, m.fails
}

func (m *memory) CancelBatch(_ context.Context, tenant, id string, at time.Time) (Batch, error) {
	defer m.lock()()
	b, ok := m.batches[id]
	if !ok || b.Tenant != tenant {
		return b, ErrUnknown
	}
	if !b.Status.Over() && b.Cancelling.IsZero() {
		b.Cancelling = at
		m.batches[id] = b
	}
	return b, nil
}

func (m *memory) Unfinished(_ context.Context, _ int) (list []Batch, err error) {
	defer m.lock()()
	for _, b := range m.batches {
		if !b.Status.Over() {
			list = append(list, b)
		}
	}
	return list, m.fails
}

func (m *memory) LeaseBatch(_ context.Context, place string, except, left []string) (Batch, bool, error) {
	defer m.lock()()
	for id, b := range m.batches {
		if !slices.Contains(except, b.Tenant) && !slices.Contains(left, id) && b.Place == place && !b.Status.Over() && m.owners[id] != m.owner {
			m.owners[id] = m.owner
			return b, true, m.fails
		}
	}
	return Batch{}, false, m.fails
}

func (m *memory) SaveBatch(_ context.Context, b *Batch) (time.Time, error) {
	defer m.lock()()
	have, ok := m.batches[b.ID]
	if !ok || m.owners[b.ID] != m.owner {
		return time.Time{}, ErrLost
	}
	saved := *b
	saved.Cancelling = have.Cancelling
	m.batches[b.ID] = saved
	return have.Cancelling, m.fails
}

func (m *memory) FinishBatch(ctx context.Context, b *Batch, files []File) error {
	if _, err := m.SaveBatch(ctx, b); err != nil {
		return err
	}
	defer m.lock()()
	for _, f := range files {
		m.files[f.ID] = f
	}
	return nil
}

func (m *memory) ReleaseBatch(_ context.Context, id string) error {
	defer m.lock()()
	delete(m.owners, id)
	return nil
}

func (m *memory) ForgetBatches(_ context.Context, tenant string) (gone []File, err error) {
	defer m.lock()()
	for id, b := range m.batches {
		if b.Tenant == tenant {
			delete(m.batches, id)
		}
	}
	for id, f := range m.files {
		if f.Tenant == tenant {
			gone = append(gone, f)
			delete(m.files, id)
		}
	}
	return gone, nil
}

func (m *memory) ExpireBatches(context.Context, time.Time) error { return nil }

// scripted is an edge that answers with a script.
type scripted struct {
	mu     sync.Mutex
	asked  map[string]int // how often, by the prompt of the body
	script func(prompt string, try int, gone <-chan struct{}, ctx *fasthttp.RequestCtx)
}

func (s *scripted) Serves(_, path string) bool { return path != "/v1/responses" }

func (s *scripted) HandleFor(ctx *fasthttp.RequestCtx, r *edge.InternalRequest) {
	var body struct{ Prompt string }
	_ = json.Unmarshal(ctx.PostBody(), &body)
	s.mu.Lock()
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	s.asked[body.Prompt]++
	try := s.asked[body.Prompt]
	s.mu.Unlock()
	ctx.Response.Header.Set("X-Request-Id", "r-"+body.Prompt)
	ctx.SetContentType("application/json")
	if s.script != nil {
		s.script(body.Prompt, try, r.Gone, ctx)
		return
	}
	echo(body.Prompt, try, r.Gone, ctx)
}

// echo answers with the prompt.
func echo(prompt string, _ int, _ <-chan struct{}, ctx *fasthttp.RequestCtx) {
	fmt.Fprintf(ctx, "{\"echo\":%q,\n\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":1}}}\n", prompt)
}

func refuse(ctx *fasthttp.RequestCtx, code string, after time.Duration) {
	e := api.Refuse(code, "refused")
	e.RetryAfter = after
	e.Write(ctx)
}

// world is a server with its store and edge. Its next process has another owner.
type world struct {
	t     *testing.T
	store *memory
	edge  *scripted
	dir   string
	limit Limits
	busy  func() int
	fails func(error)
	mux   *edge.Mux

	models []string // that the process has; nil: all
	*Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: newMemory(), edge: &scripted{}, dir: t.TempDir(), limit: DefaultLimits()}
	w.fails = func(err error) { t.Errorf("in the background: %v", err) }
	return w
}

// begin starts a process.
func (w *world) begin() {
	w.t.Helper()
	callers, err := tenant.NewAuthenticator(context.Background(), tenant.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	c := Config{Callers: callers, Edge: w.edge, Limits: w.limit, Store: w.store, Dir: w.dir, Busy: w.busy, Failed: func(err error) { w.fails(err) }}
	if models := w.models; models != nil {
		c.Models = func() []string { return models }
	}
	w.Server, err = New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mux = edge.NewMux(edge.MuxConfig{Callers: callers}, w.Server)
	w.Start()
}

// end stops the process in order; the next begin is another one.
func (w *world) end() {
	w.t.Helper()
	if err := w.Drain(context.Background()); err != nil {
		w.t.Error(err)
	}
	w.store.mu.Lock()
	w.store.owner++
	w.store.mu.Unlock()
}

// ask sends a request without a body, or with JSON.
func (w *world) ask(method, path, body string) (int, map[string]any) {
	w.t.Helper()
	ctx := newInternalRequest(method, path, []byte(body))
	w.mux.Handle(ctx)
	var answer map[string]any
	if err := json.Unmarshal(ctx.Response.Body(), &answer); err != nil {
		w.t.Fatalf("%s %s: %v in %s", method, path, err, ctx.Response.Body())
	}
	return ctx.Response.StatusCode(), answer
}

func lineOf(id string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/completions","body":{"model":"m","prompt":%q}}`, id, id)
}

// linesOf are lines with the ids 0, 1 …
func linesOf(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(lineOf(fmt.Sprint(i)) + "\n")
	}
	return b.String()
}

// input puts a file in place.
func (w *world) input(text string) (id string) {
	w.t.Helper()
	f := File{ID: newID("file-"), Place: w.folder.place, Purpose: PurposeBatch, Name: "in.jsonl", Bytes: int64(len(text)), Created: time.Now()}
	if err := errors.Join(os.WriteFile(w.folder.file(f.ID), []byte(text), 0o600), w.store.AddFile(context.Background(), f, 0)); err != nil {
		w.t.Fatal(err)
	}
	return f.ID
}

// create makes a batch of lines.
func (w *world) create(text string) (id string) {
	w.t.Helper()
	status, b := w.ask("POST", "/v1/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/completions","completion_window":"24h"}`, w.input(text)))
	if status != 200 || b["status"] != "validating" || b["errors"] != nil || b["output_file_id"] != nil || b["object"] != "batch" {
		w.t.Fatalf("%d %v", status, b)
	}
	return b["id"].(string)
}

// until waits for a status of a batch, in a bubble of virtual time.
func (w *world) until(id string, want Status) map[string]any {
	w.t.Helper()
	var b map[string]any
	for i := range 5_000 {
		synctest.Wait()
		if _, b = w.ask("GET", "/v1/batches/"+id, ""); b["status"] == string(want) {
			return b
		}
		if i < 60 {
			time.Sleep(time.Second)
		} else {
			time.Sleep(time.Minute)
		}
	}
	w.t.Fatalf("the batch is never %s: %v", want, b)
	return nil
}

// content reads the lines of a file by their custom_id; nil for no file.
func (w *world) content(id any) map[string]outputLine {
	w.t.Helper()
	if id == nil {
		return nil
	}
	text, err := os.ReadFile(w.folder.file(id.(string)))
	if err != nil {
		w.t.Fatal(err)
	}
	found := map[string]outputLine{}
	for text := range strings.Lines(string(text)) {
		var l outputLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			w.t.Fatalf("%v in %s", err, text)
		}
		if l.CustomID == nil {
			w.t.Fatalf("%s has no custom_id", text)
		}
		if _, twice := found[*l.CustomID]; twice {
			w.t.Errorf("%s has two lines", *l.CustomID)
		}
		found[*l.CustomID] = l
	}
	return found
}

// text is a file as it is.
func (w *world) text(id any) string {
	w.t.Helper()
	text, err := os.ReadFile(w.folder.file(id.(string)))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}
