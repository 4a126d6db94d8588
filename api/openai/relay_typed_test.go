package openai

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/api/edge"
	"weir/router/fleet"
)

// Three texts in the events of each API, the longest one at the end.
var threeTexts = map[string]struct{ ask, begin, text, end string }{
	routeMessages: {
		`{"model":"front","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"Hello"}]}`,
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"type\":\"message\",\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n",
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":%q}}\n\n",
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":-7}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
	},
	routeResponses: {
		`{"model":"front","stream":true,"store":false,"input":"Hello"}`,
		"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"status\":\"in_progress\"},\"sequence_number\":0}\n\n",
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_0123456789abcdef0123456789abcdef\",\"delta\":%q,\"sequence_number\":4}\n\n",
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"object\":\"response\",\"status\":\"completed\"," +
			"\"output\":[{\"content\":[{\"text\":\"hello stream\"}]}],\"usage\":{\"input_tokens\":3,\"output_tokens\":-7}}}\n\n",
	},
	routeCompletions: {
		`{"model":"front","stream":true,"prompt":"Hello"}`, "", "data: {\"choices\":[{\"index\":0,\"text\":%q}]}\n\n",
		"data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":-7}}\n\ndata: [DONE]\n\n",
	},
}

// A stream whose server has not told its output is charged for the texts that were delivered, in every API alike.
func TestUsageOfTypedStreamsThatIsNotTold(t *testing.T) {
	for path, api := range threeTexts {
		for _, kind := range []string{"hung up", "dies", "negative"} {
			t.Run(path+" "+kind, func(t *testing.T) {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, api.begin)
					for _, text := range []string{"hel", "lo ", "stream"} {
						fmt.Fprintf(w, api.text, text)
					}
					if kind == "negative" {
						_, _ = io.WriteString(w, api.end)
						return
					}
					w.(http.Flusher).Flush() //nolint:forcetypeassert // it always is one
					if kind == "dies" {
						panic(http.ErrAbortHandler)
					}
					<-r.Context().Done()
				}))
				defer server.Close()
				c := DefaultConfig()
				finished := make(chan edge.RequestFinish, 1)
				c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
				r := relayRigOf(t, c, fleet.Source{URL: server.URL + "/v1", Kind: fleet.OpenAI, APIs: fleet.APIs()})
				defer r.close()
				conn, err := r.ln.Dial()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, rawRequest("POST", path, "", api.ask))
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				in := bufio.NewReader(res.Body)
				for line := ""; !strings.Contains(line, `"stream"`); {
					if line, err = in.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
				if kind == "hung up" {
					_ = conn.Close()
				} else {
					_, _ = io.Copy(io.Discard, in)
				}
				if f := <-finished; f.OutputTokens != 3 || f.PromptTokens == 0 || !f.Estimated {
					t.Errorf("%d and %d tokens, estimated %v, status %d; want 3 of output", f.PromptTokens, f.OutputTokens, f.Estimated, f.Status)
				}
			})
		}
	}
}

// So is a whole answer.
func TestUsageOfTypedAnswersThatIsNotTold(t *testing.T) {
	for path, answer := range map[string]string{
		routeMessages:  `{"type":"message","role":"assistant","content":[{"type":"text","text":"hello stream"}],"stop_reason":"end_turn"}`,
		routeResponses: `{"id":"r","object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"hello stream"}]}]}`,
	} {
		c := DefaultConfig()
		finished := make(chan edge.RequestFinish, 1)
		c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
		r := relayRigOf(t, c, fleet.Source{URL: canned(t, "application/json", answer), Kind: fleet.OpenAI, APIs: fleet.APIs()})
		status, text := r.post(path, strings.Replace(threeTexts[path].ask, `"stream":true,`, "", 1))
		if f := <-finished; status != http.StatusOK || f.OutputTokens != 1 || !f.Estimated { // one text of 12 bytes
			t.Errorf("%s: %d %s: %d tokens, estimated %v", path, status, text, f.OutputTokens, f.Estimated)
		}
		r.close()
	}
}
