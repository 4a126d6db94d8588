package openai

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/api/openai/models"
	"weir/router"
	"weir/tokenizer"
)

// fakeEmbedder gives what vector says, or vectors whose numbers tell which tokens
// they were made of.
type fakeEmbedder struct {
	refuse func(ctx context.Context, e *router.Embedding) error
	vector func(e *router.Embedding, text int) []float32

	notReady bool
	running  int // texts that it says are read

	mu    sync.Mutex
	calls []*router.Embedding
}

func (f *fakeEmbedder) Embed(ctx context.Context, e *router.Embedding) error {
	f.mu.Lock()
	f.calls = append(f.calls, e)
	f.mu.Unlock()
	if f.refuse != nil {
		if err := f.refuse(ctx, e); err != nil {
			return err
		}
	}
	e.Waited, e.Computed = 20*time.Millisecond, 30*time.Millisecond
	e.Vectors = make([][]float32, len(e.Texts))
	for i := range e.Texts {
		e.Vectors[i] = f.vector(e, i)
	}
	return nil
}

func (f *fakeEmbedder) Load() router.Load { return router.Load{Ready: !f.notReady, Running: f.running} }

// last is what was asked last.
func (f *fakeEmbedder) last() *router.Embedding {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.calls) == 0 {
		return nil
	}
	return f.calls[len(f.calls)-1]
}

// ofTokens is a vector of 4 numbers that differ for different texts.
func ofTokens(e *router.Embedding, i int) []float32 {
	ids := e.Texts[i]
	sum := float32(0)
	for k, id := range ids {
		sum += float32(id) / float32(k+1)
	}
	return []float32{sum, float32(len(ids)), -float32(ids[len(ids)-1]), 0.5}
}

// ofCount is the logit of a pair: how many tokens its document has.
func ofCount(e *router.Embedding, i int) []float32 {
	n := 0
	for _, t := range e.Types[i] {
		n += int(t)
	}
	return []float32{float32(n) / 8}
}

// wordPieces is a vocabulary of letters, each a word: a is 5, b is 6. [CLS] is 2, [SEP]
// is 3.
var wordPieces = sync.OnceValues(func() (*tokenizer.Tokenizer, error) {
	tokens := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
	types := []int32{3, 3, 3, 3, 3}
	for letter := 'a'; letter <= 'z'; letter++ {
		tokens, types = append(tokens, "▁"+string(letter)), append(types, 1)
	}
	fields := map[string]any{
		"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types,
		"tokenizer.ggml.unknown_token_id": uint32(1), "tokenizer.ggml.cls_token_id": uint32(2), "tokenizer.ggml.seperator_token_id": uint32(3),
	}
	return tokenizer.New(func(key string) (any, bool) { v, ok := fields[key]; return v, ok })
})

// testPooler is a model of 4 dimensions and 16 tokens, or with a rank head.
func testPooler(t testing.TB, f *fakeEmbedder, rank bool) *models.Model {
	t.Helper()
	tok, err := wordPieces()
	if err != nil {
		t.Fatal(err)
	}
	m := &models.Model{ID: "test-embedding", Aliases: []string{"vectors"}, Created: 1700000000, Tokenizer: tok, MaxModelLen: 16,
		Pooler: &models.Pooler{Embedder: f, Dimensions: 4}}
	if rank {
		m.ID, m.Aliases, m.Pooler.Labels, m.Pooler.Dimensions, m.Pooler.PairTypes = "test-reranker", []string{"ranks"}, 1, 0, true
	}
	return m
}

// poolingRig serves a model that chats, one that embeds and one that ranks.
func poolingRig(t testing.TB, c Config) (r *rig, vectors, ranks *fakeEmbedder) {
	t.Helper()
	b := &fakeBackend{}
	vectors, ranks = &fakeEmbedder{vector: ofTokens}, &fakeEmbedder{vector: ofCount}
	r = newRig(t, c, b)
	if err := r.openai.SetModels(testModel(t, b), testPooler(t, vectors, false), testPooler(t, ranks, true)); err != nil {
		t.Fatal(err)
	}
	return r, vectors, ranks
}

func TestPoolersAreChecked(t *testing.T) {
	s, err := New(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeEmbedder{}
	for name, change := range map[string]func(*models.Model){
		"no embedder":           func(m *models.Model) { m.Pooler.Embedder = nil },
		"no dimensions":         func(m *models.Model) { m.Pooler.Dimensions = 0 },
		"dimensions and rank":   func(m *models.Model) { m.Pooler.Labels = 1 },
		"three labels":          func(m *models.Model) { m.Pooler.Labels, m.Pooler.Dimensions = 3, 0 },
		"a backend too":         func(m *models.Model) { m.Backend = &fakeBackend{} },
		"no tokenizer":          func(m *models.Model) { m.Tokenizer = nil },
		"pairs without a head":  func(m *models.Model) { m.Pooler.PairTypes = true },
		"a template without it": func(m *models.Model) { m.Pooler.PairTemplate = "{query} {document}" },
		"no separator":          func(m *models.Model) { *m = *testPooler(t, f, true); m.Tokenizer = mustTokenizer(t) },
		"no document":           func(m *models.Model) { *m = *testPooler(t, f, true); m.Pooler.PairTemplate = "{query}{query}" },
	} {
		m := testPooler(t, f, false)
		change(m)
		if err := s.SetModels(m); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if err := s.SetModels(testPooler(t, f, false), testPooler(t, f, true)); err != nil {
		t.Error(err)
	}
	if ready, why := s.Ready(); !ready || s.busy() {
		t.Errorf("busy or not ready: %s", why)
	}
	f.notReady, f.running = true, 1
	if ready, _ := s.Ready(); ready || !s.busy() {
		t.Error("an embedder that is busy and not ready is said to be ready or idle")
	}
}

func TestModelsTellTheirKind(t *testing.T) {
	r, _, _ := poolingRig(t, DefaultConfig())
	defer r.close()
	_, list := r.do("GET", routeModels, "", "")
	for _, want := range []string{
		`"max_model_len":16,"kind":"embedding","dimensions":4}`, `"max_model_len":256,"kind":"generate"}`, `"max_model_len":16,"kind":"rerank"}`,
	} {
		if !strings.Contains(list, want) {
			t.Errorf("%s is not in %s", want, list)
		}
	}
	for _, model := range []string{"test-embedding", "test-reranker"} {
		for route, fields := range map[string]string{routeChat: hi, routeCompletions: `"prompt":"hi"`} {
			status, body := r.post(route, `{"model":"`+model+`",`+fields+`}`)
			if param, code, text := parseError(t, body); status != 400 || param != "model" || code != "wrong_model_kind" || !strings.Contains(text, model) {
				t.Errorf("%s of %s: %d %s", route, model, status, body)
			}
		}
	}
	if status, body := r.post(routeTokenize, `{"model":"test-embedding","prompt":"a b"}`); status != 200 || !strings.Contains(body, `"tokens":[2,5,6,3]`) {
		t.Errorf("tokenize: %d %s", status, body)
	}
}
