package openai

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/api/edge"
	"weir/router/fleet"
)

// A usage that cannot be is neither counted nor passed on: in its place stands what the text has.
func TestImpossibleUsageIsCountedHere(t *testing.T) {
	const said = "one two three four"
	for usage, possible := range map[string]bool{
		`{"prompt_tokens":5,"completion_tokens":4,"total_tokens":9}`:                                                          true,
		`{"prompt_tokens":5,"completion_tokens":900,"total_tokens":905,"completion_tokens_details":{"reasoning_tokens":896}}`: true,
		`{"prompt_tokens":-5,"completion_tokens":4,"total_tokens":-1}`:                                                        false,
		`{"prompt_tokens":5,"completion_tokens":-4}`:                                                                          false,
		`{"prompt_tokens":5,"completion_tokens":4.5}`:                                                                         false,
		`{"prompt_tokens":5,"completion_tokens":"4"}`:                                                                         false,
		`{"prompt_tokens":5,"completion_tokens":99999999999}`:                                                                 false,
		`{"prompt_tokens":5,"completion_tokens":1e300}`:                                                                       false,
		`{"prompt_tokens":0,"completion_tokens":4}`:                                                                           false,
		`{"prompt_tokens":5,"completion_tokens":2017}`:                                                                        false, // of 2,000 that were asked for
		`{"prompt_tokens":5,"completion_tokens":200000}`:                                                                      false,
		`{"prompt_tokens":99999999999,"completion_tokens":4}`:                                                                 false,
		`{"prompt_tokens":200000000,"completion_tokens":4,"total_tokens":200000004}`:                                          false, // of a request of 100 bytes
		`{"prompt_tokens":5,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":-1000000}}`:                        false,
		`{"prompt_tokens":5,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":6}}`:                               false,
		`{"prompt_tokens":5,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":5}}`:                               true,
		`{"prompt_tokens":5,"completion_tokens":4,"completion_tokens_details":{"reasoning_tokens":1000000000}}`:               false,
		`{"prompt_tokens":5,"completion_tokens":4,"completion_tokens_details":{"reasoning_tokens":-1}}`:                       false,
		`{"prompt_tokens":5,"completion_tokens":4,"total_tokens":9,"completion_tokens_details":{"reasoning_tokens":5}}`:       false,
		`{"prompt_tokens":5,"completion_tokens":4,"total_tokens":309,"completion_tokens_details":{"reasoning_tokens":300}}`:   true, // xAI's do not count thoughts as completion
		`{"prompt_tokens":5,"completion_tokens":4,"total_tokens":-1}`:                                                         false,
		`null`: false,
		`{}`:   false,
	} {
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if !strings.Contains(string(body), `"stream":true`) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"model":"m","usage":%s,"choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, usage, said)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for _, word := range strings.SplitAfter(said, " ") {
				fmt.Fprintf(w, "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", word)
			}
			fmt.Fprintf(w, "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"model\":\"m\",\"choices\":[],\"usage\":%s}\n\ndata: [DONE]\n\n", usage)
		}))
		for _, ask := range []struct{ path, body string }{
			{routeChat, `{"max_tokens":2000,"messages":[{"role":"user","content":"Hello"}]}`},
			{routeChat, `{"max_tokens":2000,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hello"}]}`},
			{routeChat, `{"max_tokens":2000,"stream":true,"messages":[{"role":"user","content":"Hello"}]}`},
			{routeMessages, `{"max_tokens":2000,"stream":true,"messages":[{"role":"user","content":"Hello"}]}`},
			{routeResponses, `{"max_output_tokens":2000,"store":false,"input":"Hello"}`},
		} {
			c := DefaultConfig()
			finished := make(chan edge.RequestFinish, 1)
			c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
			r := relayRigOf(t, c, fleet.Source{URL: upstream.URL + "/v1", Kind: fleet.VLLM})
			status, text := r.post(ask.path, ask.body)
			f := <-finished
			if status != http.StatusOK || !strings.Contains(text, "four") {
				t.Errorf("%s %s: %d %s", usage, ask.body, status, text)
			}
			if f.Estimated == possible || !possible && (f.OutputTokens < 3 || f.OutputTokens > 8 || f.PromptTokens < 1 || f.PromptTokens > 100) {
				t.Errorf("%s %s: estimated %v, %d and %d tokens", usage, ask.body, f.Estimated, f.PromptTokens, f.OutputTokens)
			}
			if possible && (f.PromptTokens != 5 || f.OutputTokens < 4) {
				t.Errorf("%s %s: %d and %d tokens", usage, ask.body, f.PromptTokens, f.OutputTokens)
			}
			told := strings.Contains(ask.body, "include_usage") || !strings.Contains(ask.body, `"stream":true`) || ask.path == routeMessages
			want := fmt.Sprintf(`"prompt_tokens":%d,"completion_tokens":%d,`, f.PromptTokens, f.OutputTokens)
			if ask.path != routeChat {
				want = fmt.Sprintf(`"output_tokens":%d`, f.OutputTokens)
			}
			if strings.Contains(text, want) != told || !possible && usage != "{}" && usage != "null" && strings.Contains(text, usage) {
				t.Errorf("%s %s: the client is told %s", usage, ask.body, text)
			}
			r.close()
		}
		upstream.Close()
	}
}

// An upstream that is overloaded in Anthropic's words reaches clients of chats as 503, whether by its status or by an event, and those
// of Messages as overloaded_error.
func TestOverloadedUpstreamsReachAllClientsAlike(t *testing.T) {
	for _, how := range []string{"status", "event"} {
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			const overloaded = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
			if how == "status" {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(529)
				_, _ = io.WriteString(w, overloaded)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			if r.URL.Path == "/v1/chat/completions" {
				_, _ = io.WriteString(w, "data: {\"error\":{\"message\":\"Overloaded\",\"type\":\"overloaded_error\",\"code\":529}}\n\n")
				return
			}
			_, _ = io.WriteString(w, "event: error\ndata: "+overloaded+"\n\n")
		}))
		for _, kind := range []fleet.Kind{fleet.Weir, fleet.VLLM} {
			for path, body := range map[string]string{
				routeChat: `{"stream":true,"messages":[{"role":"user","content":"x"}]}`, routeResponses: `{"stream":true,"store":false,"input":"x"}`,
				routeMessages: `{"stream":true,"max_tokens":9,"messages":[{"role":"user","content":"x"}]}`,
			} {
				r := relayRigOf(t, DefaultConfig(), fleet.Source{URL: upstream.URL + "/v1", Kind: kind})
				res, text := r.do("POST", path, "", body)
				want := http.StatusServiceUnavailable
				if path == routeMessages {
					want = 529
				}
				if res.StatusCode != want || res.Header.Get("Retry-After") == "" || path == routeMessages && !strings.Contains(text, `"type":"overloaded_error"`) {
					t.Errorf("%s %s %s: %d %v %s", how, kind, path, res.StatusCode, res.Header, text)
				}
				r.close()
			}
		}
		upstream.Close()
	}
}

// A client that wants the usage gets the one that is charged, also where the upstream tells none.
func TestClientsAreToldTheUsageThatIsCharged(t *testing.T) {
	for _, usage := range []string{"", `,"usage":null`} {
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if !strings.Contains(string(body), `"stream":true`) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, "{\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"one two\"},\"finish_reason\":\"stop\"}]%s}\n", usage)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			const head = `data: {"id":"c-1","object":"chat.completion.chunk","created":17,"model":"m"`
			fmt.Fprintf(w, "%s,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one two\"}}]%s}\n\n", head, usage)
			fmt.Fprintf(w, "%s,\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]%s}\n\ndata: [DONE]\n\n", head, usage)
		}))
		for body, told := range map[string]bool{
			`{"messages":[{"role":"user","content":"Hello"}]}`:                                                        true,
			`{"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hello"}]}`:  true,
			`{"stream":true,"messages":[{"role":"user","content":"Hello"}]}`:                                          false,
			`{"stream":true,"stream_options":{"include_usage":false},"messages":[{"role":"user","content":"Hello"}]}`: false,
		} {
			c := DefaultConfig()
			finished := make(chan edge.RequestFinish, 1)
			c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
			r := relayRigOf(t, c, fleet.Source{URL: upstream.URL + "/v1", Kind: fleet.VLLM})
			res, text := r.do("POST", routeChat, "", body)
			status := res.StatusCode
			f := <-finished
			if whole := !strings.Contains(body, "stream"); strings.Contains(res.Header.Get(warningsHeader), "usage was counted") != whole {
				t.Errorf("%s: %v", body, res.Header)
			}
			want := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, f.PromptTokens, f.OutputTokens, f.PromptTokens+f.OutputTokens)
			if strings.Contains(body, "stream") {
				want = `data: {"id":"c-1","object":"chat.completion.chunk","created":17,"model":"front","choices":[],` + want + "\n\ndata: [DONE]\n\n"
			}
			if status != http.StatusOK || !f.Estimated || f.OutputTokens < 1 || strings.Contains(text, want) != told || strings.Count(text, "prompt_tokens") > 1 {
				t.Errorf("%q %s: %d %s, want %s: %v", usage, body, status, text, want, told)
			}
			r.close()
		}
		upstream.Close()
	}
}
