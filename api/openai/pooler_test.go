package openai

import (
	"context"
	"strings"
	"testing"

	"weir/router"
)

// fakeEmbedder gives what vectors says, or a vector whose numbers tell which tokens
// it was made of.
type fakeEmbedder struct {
	refuse func(ctx context.Context, e *router.Embedding) error
	vector func(e *router.Embedding, text int) []float32
	calls  []*router.Embedding
}

func (f *fakeEmbedder) Embed(ctx context.Context, e *router.Embedding) error {
	f.calls = append(f.calls, e)
	if f.refuse != nil {
		if err := f.refuse(ctx, e); err != nil {
			return err
		}
	}
	e.Vectors = make([][]float32, len(e.Texts))
	for i := range e.Texts {
		e.Vectors[i] = f.vector(e, i)
	}
	return nil
}

// testPooler is a model of 4 dimensions, or with rank head.
func testPooler(t testing.TB, f *fakeEmbedder, rank bool) *Model {
	t.Helper()
	m := &Model{ID: "test-embedding", Created: 1700000000, Tokenizer: mustTokenizer(t), MaxModelLen: 32,
		Pooler: &Pooler{Embedder: f, Dimensions: 4}}
	if rank {
		m.ID, m.Pooler.Rank, m.Pooler.Dimensions = "test-reranker", true, 0
	}
	return m
}

func TestPoolersAreChecked(t *testing.T) {
	s, err := New(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeEmbedder{}
	for name, change := range map[string]func(*Model){
		"no embedder":           func(m *Model) { m.Pooler.Embedder = nil },
		"no dimensions":         func(m *Model) { m.Pooler.Dimensions = 0 },
		"dimensions and rank":   func(m *Model) { m.Pooler.Rank = true },
		"a backend too":         func(m *Model) { m.Backend = &fakeBackend{} },
		"no tokenizer":          func(m *Model) { m.Tokenizer = nil },
		"pairs without a head":  func(m *Model) { m.Pooler.PairTypes = true },
		"a template without it": func(m *Model) { m.Pooler.PairTemplate = "{query} {document}" },
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
	if ready, why := s.Ready(); !ready {
		t.Errorf("not ready: %s", why)
	}
}

func TestModelsTellTheirKind(t *testing.T) {
	b, f := &fakeBackend{}, &fakeEmbedder{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	if err := r.openai.SetModels(testModel(t, b), testPooler(t, f, false), testPooler(t, f, true)); err != nil {
		t.Fatal(err)
	}
	_, list := r.do("GET", routeModels, "", "")
	for _, want := range []string{
		`"max_model_len":32,"kind":"embedding","dimensions":4}`, `"max_model_len":256,"kind":"generate"}`, `"max_model_len":32,"kind":"rerank"}`,
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
	if status, body := r.post(routeTokenize, `{"model":"test-embedding","prompt":"Hello world"}`); status != 200 || !strings.Contains(body, `"count":2`) {
		t.Errorf("tokenize: %d %s", status, body)
	}
}
