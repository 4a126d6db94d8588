package openai

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/api/edge"
	"weir/api/tenant"
)

// consenting is a configuration in which prompts and answers of all tenants are kept, or of
// none, and the texts of the requests that ended.
func consenting(t *testing.T, keeps bool) (c Config, ended func() *edge.Texts) {
	t.Helper()
	c = DefaultConfig()
	all := tenant.New(tenant.Rest)
	all.LogPrompts = keeps
	directory, err := tenant.NewDirectory([]tenant.Tenant{all})
	if err != nil {
		t.Fatal(err)
	}
	if c.Callers, err = tenant.NewAuthenticator(context.Background(), tenant.Config{Directory: directory}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var last *edge.Texts
	ends := make(chan struct{}, 64)
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) {
		mu.Lock()
		last = f.Texts
		mu.Unlock()
		ends <- struct{}{}
	}
	return c, func() *edge.Texts {
		waitFor(t, ends, "the end of a request")
		mu.Lock()
		defer mu.Unlock()
		return last
	}
}

// canned is an upstream that answers everything alike.
func canned(t *testing.T, contentType, answer string) (baseURL string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// Prompts and answers of relayed requests of a tenant that agreed are kept, decoded so
// that scrubbing finds what is in them, whole or streamed; of others nothing is.
func TestTextsOfRelayedRequests(t *testing.T) {
	const chat = `{"choices":[{"index":1,"message":{"role":"assistant","content":"two"}},` +
		`{"index":0,"message":{"content":null,"reasoning_content":"hm","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]}}],` +
		`"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	const stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n" +
		": ping\n\ndata: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"B\"}}]}\n\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"jo\\u0040\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a.org\"}}]}\n\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	for _, tc := range []struct {
		name, path, body    string
		contentType, answer string
		prompts, answers    []string
	}{
		{"chat", routeChat, `{"model":"front","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[` +
			`{"type":"text","text":"I am jo\u0040a.org"},{"type":"image_url","image_url":{"url":"data:x"}}]}]}`, "application/json", chat,
			[]string{"system: Be brief.\nuser: I am jo@a.org[image_url]\n"}, []string{`hmf {"a":1}`, "two"}},
		{"stream", routeChat, `{"model":"front","messages":[{"role":"user","content":"hi"}],"stream":true}`, "text/event-stream", stream,
			[]string{"user: hi\n"}, []string{"jo@a.org", "B"}},
		{"completions", routeCompletions, `{"model":"front","prompt":["a","b"]}`, "application/json",
			`{"choices":[{"index":0,"text":"x"},{"index":1,"text":"y"}],"usage":{"prompt_tokens":2,"completion_tokens":2}}`, []string{"a", "b"}, []string{"x", "y"}},
		{"token ids", routeCompletions, `{"model":"front","prompt":[1,2]}`, "application/json", `{"choices":[{"index":0,"text":"x"}],"usage":{"prompt_tokens":2,"completion_tokens":1}}`,
			nil, []string{"x"}},
		{"embeddings", routeEmbeddings, `{"model":"front","input":"a"}`, "application/json", `{"data":[{"embedding":[1]}]}`, []string{"a"}, nil},
		{"rerank", routeRerank, `{"model":"front","query":"q","documents":["a",{"text":"b"}]}`, "application/json", `{"results":[]}`,
			[]string{"q", "a", "b"}, nil},
		{"refused", routeChat, `{"model":"front","messages":[{"role":"user","content":"hi"}]}`, "", "", []string{"user: hi\n"}, nil},
	} {
		for _, keeps := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, consent %v", tc.name, keeps), func(t *testing.T) {
				c, ended := consenting(t, keeps)
				base := "http://127.0.0.1:1/v1"
				if tc.answer != "" {
					base = canned(t, tc.contentType, tc.answer)
				}
				r := relayRig(t, c, base)
				defer r.close()
				if status, text := r.post(tc.path, tc.body); tc.answer != "" && (status != 200 || tc.name != "stream" && text != tc.answer) {
					t.Errorf("%d %s", status, text)
				}
				texts := ended()
				if !keeps {
					if texts != nil {
						t.Errorf("without consent %+v is kept", texts)
					}
					return
				}
				if texts == nil || !slices.Equal(texts.Prompts(), tc.prompts) || !slices.Equal(texts.Answers, tc.answers) {
					t.Fatalf("%+v is kept; want %q and %q", texts, tc.prompts, tc.answers)
				}
				if texts.Bytes() < len(strings.Join(tc.prompts, ""))+len(strings.Join(tc.answers, "")) {
					t.Errorf("%d bytes are counted", texts.Bytes())
				}
			})
		}
	}
}
