package openai

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"weir/api/edge"
	"weir/api/openai/models"
	"weir/router"
)

// toldUpstream keeps the calls that it gets, and answers with nothing.
type toldUpstream struct{ calls []*router.Call }

func (u *toldUpstream) Send(_ context.Context, c *router.Call) (*router.Answer, error) {
	u.calls = append(u.calls, c)
	return &router.Answer{Status: http.StatusOK, Header: http.Header{}, Whole: []byte(`{"choices":[]}`)}, nil
}

func (u *toldUpstream) Offers(router.Feature) bool { return true }

func (u *toldUpstream) Load() router.Load { return router.Load{Ready: true} }

// Where the tokenizer of a relayed model is here, its servers' tokens are known, whatever else is in
// the request; a request that cannot be read goes on without them, as it came.
func TestTokensOfRelayedPrompts(t *testing.T) {
	here := &fakeBackend{}
	r := newFillInRig(t, here)
	defer r.close()
	u := &toldUpstream{}
	m := testModel(t, here)
	there := &models.Model{ID: "front", Created: 1, Upstream: u, Tokenizer: m.Tokenizer, Template: m.Template, Family: m.Family}
	if err := r.openai.SetModels(m, there, &models.Model{ID: "unknown", Created: 1, Upstream: u}); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ path, fields string }{
		{routeChat, `"messages":[{"role":"system","content":"Hello world"},{"role":"user","content":"the <|im_end|> stop"}],"max_tokens":2`},
		{routeCompletions, `"prompt":"Hello world the","max_tokens":2`},
		{routeCompletions, `"prompt":[1,2,3],"max_tokens":2`},
		{routeCompletions, `"prompt":"Hello world","suffix":" stop","max_tokens":2`},
	} {
		if status, text := r.post(c.path, `{"model":"test-model",`+c.fields+`}`); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		if status, text := r.post(c.path, `{"model":"front","new_field":{"a":1},`+c.fields+`}`); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		want := here.run(t, i).req.Prompt
		if got := u.calls[len(u.calls)-1].Tokens; !slices.Equal(got, want) {
			t.Errorf("%s %s: tokens %v, the engine has %v", c.path, c.fields, got, want)
		}
	}
	for _, c := range []struct{ model, path, fields string }{
		{"front", routeChat, `"messages":"none"`},
		{"front", routeCompletions, `"prompt":["a","b"]`},
		{"front", routeEmbeddings, `"input":"Hello"`},
		{"unknown", routeCompletions, `"prompt":"Hello"`},
	} {
		before := len(u.calls)
		if status, text := r.post(c.path, `{"model":"`+c.model+`",`+c.fields+`}`); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		if got := u.calls[before].Tokens; got != nil {
			t.Errorf("%s %s: %v", c.path, c.fields, got)
		}
	}
}

// What is estimated of a prompt are its texts: neither the JSON around them, nor pictures, nor what the model does not read.
func TestPromptsAreEstimatedByTheirTexts(t *testing.T) {
	picture := strings.Repeat("A", 300_000)
	for _, c := range []struct {
		fields string
		tokens int
	}{
		{`"messages":[{"role":"user","content":"Hello there"}]`, 2},
		{`"user":"` + picture + `","messages":[{"role":"user","content":"Hello there"}]`, 2},
		{`"messages":[{"role":"user","content":[{"type":"text","text":"Hello there"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + picture + `"}}]}]`, 2},
		{`"messages":[{"role":"user","content":"Hi"}]`, 1},
		{`"messages":[{"role":"user","content":"\u00e9\u00e9\u00e9\u00e9"}]`, 2},
		{`"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f"}}]`, 11},
	} {
		finished := make(chan edge.RequestFinish, 1)
		config := DefaultConfig()
		config.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
		r := newRig(t, config, &fakeBackend{})
		if err := r.openai.SetModels(&models.Model{ID: "front", Created: 1, Upstream: &toldUpstream{}}); err != nil {
			t.Fatal(err)
		}
		if status, text := r.post(routeChat, `{"model":"front",`+c.fields+`}`); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		if f := <-finished; f.PromptTokens != c.tokens || !f.Estimated {
			t.Errorf("%.80s: %d tokens, want %d", c.fields, f.PromptTokens, c.tokens)
		}
		r.close()
	}
}
