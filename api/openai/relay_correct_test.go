package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/api/edge"
	"weir/api/openai/relay"
	"weir/router/fleet"
)

// usageForms are answers of the native APIs with a usage in the words of each; %s is where it stands, with its name.
var usageForms = map[string]struct{ ask, whole, stream, prompt, output string }{
	routeMessages: {
		ask:   `{"model":"front",%s"max_tokens":50,"messages":[{"role":"user","content":"Hello"}]}`,
		whole: `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hello stream"}],"stop_reason":"end_turn"%s}`,
		stream: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello stream\"}}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}%s}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		prompt: "input_tokens", output: "output_tokens",
	},
	routeResponses: {
		ask:   `{"model":"front",%s"store":false,"max_output_tokens":50,"input":"Hello"}`,
		whole: `{"id":"r","object":"response","status":"completed","model":"m","output":[{"type":"message","content":[{"type":"output_text","text":"hello stream"}]}]%s}`,
		stream: "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"status\":\"in_progress\",\"usage\":null},\"sequence_number\":0}\n\n" +
			"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hello stream\",\"sequence_number\":1}\n\n" +
			"event: response.completed\ndata: {\"response\":{\"id\":\"r\",\"object\":\"response\",\"model\":\"m\",\"status\":\"completed\"%s,\"output\":[{\"content\":[{\"text\":\"hello stream\"}]}]},\"type\":\"response.completed\",\"sequence_number\":2}\n\n",
		prompt: "input_tokens", output: "output_tokens",
	},
	routeChat: {
		ask:   `{"model":"front",%s"max_tokens":50,"messages":[{"role":"user","content":"Hello"}]}`,
		whole: `{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello stream"},"finish_reason":"stop"}]%s}`,
		stream: "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello stream\"}}]}\n\n" +
			"data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]%s}\n\ndata: [DONE]\n\n",
		prompt: "prompt_tokens", output: "completion_tokens",
	},
}

// usagesIn are the usages that a client reads, in their order: at the top, and in a message or a response.
func usagesIn(t *testing.T, text string) (list []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		data := strings.TrimPrefix(strings.TrimSpace(line), "data:")
		if !strings.HasPrefix(strings.TrimSpace(data), "{") {
			continue
		}
		var e struct {
			Usage             map[string]any
			Message, Response struct{ Usage map[string]any }
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Errorf("%v: %s", err, data)
		}
		for _, u := range []map[string]any{e.Message.Usage, e.Response.Usage, e.Usage} {
			if u != nil {
				list = append(list, u)
			}
		}
	}
	return list
}

// What a client is told of its usage is what it is charged for, in whole answers and streams of every API.
func TestUsageThatIsToldIsCharged(t *testing.T) {
	for path, api := range usageForms {
		for usage, believed := range map[string]bool{
			`,"usage":{"%[1]s":3,"%[2]s":2}`:               true,
			`,"usage":{"%[1]s":3,"%[2]s":2000000}`:         false, // of 50 that were asked for
			`,"usage":{"%[1]s":3,"%[2]s":-7}`:              false,
			`,"usage":{"%[1]s":300000000,"%[2]s":2}`:       false,
			`,"usage":{"%[1]s":"3","%[2]s":2}`:             false,
			`,"usage" : {"%[2]s":1e99,"%[1]s":3,"x":[{}]}`: false,
			`,"usage":[1]`:  false,
			`,"usage":null`: false,
			``:              false,
		} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprint(path, " ", stream, " ", usage), func(t *testing.T) {
					if strings.Contains(usage, "%") {
						usage = fmt.Sprintf(usage, api.prompt, api.output)
					}
					server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.Copy(io.Discard, r.Body)
						kind, text := "application/json", api.whole
						if stream {
							kind, text = "text/event-stream", api.stream
						}
						w.Header().Set("Content-Type", kind)
						fmt.Fprintf(w, text, usage)
					}))
					defer server.Close()
					c := DefaultConfig()
					finished := make(chan edge.RequestFinish, 1)
					c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
					r := relayRigOf(t, c, fleet.Source{URL: server.URL + "/v1", Kind: fleet.OpenAI, APIs: fleet.APIs()})
					defer r.close()
					asks := ""
					if stream {
						asks = `"stream":true,`
						if path == routeChat {
							asks += `"stream_options":{"include_usage":true},`
						}
					}
					status, text := r.post(path, fmt.Sprintf(api.ask, asks))
					f := <-finished
					told := usagesIn(t, text)
					if status != http.StatusOK || len(told) == 0 || f.PromptTokens < 1 || f.OutputTokens < 1 || f.OutputTokens > 50 || f.Estimated == believed {
						t.Fatalf("%d and %d tokens, estimated %v, %d usages: %d %s", f.PromptTokens, f.OutputTokens, f.Estimated, len(told), status, text)
					}
					last := told[len(told)-1]
					for name, want := range map[string]int{api.prompt: f.PromptTokens, api.output: f.OutputTokens} {
						if got := last[name]; got != float64(want) && (got != nil || name == api.output) { // the prompt may have been told before
							t.Errorf("%s is %v, and %d are charged: %s", name, got, want, text)
						}
					}
					if strings.Contains(text, `"model":"m"`) {
						t.Errorf("the server's name for the model passes: %s", text)
					}
				})
			}
		}
	}
}

// The first event of a message tells of the prompt; what cannot be is told as it is charged, and what can be passes.
func TestFirstUsageOfAMessage(t *testing.T) {
	api := usageForms[routeMessages]
	for usage, believed := range map[string]bool{
		`{"input_tokens":3,"output_tokens":1}`:         true,
		`{"input_tokens":300000000,"output_tokens":1}`: false,
		`{"input_tokens":-3,"output_tokens":1}`:        false,
	} {
		text := strings.Replace(api.stream, `{"input_tokens":3,"output_tokens":1}`, usage, 1)
		text = fmt.Sprintf(text, `,"usage":{"output_tokens":2}`)
		c := DefaultConfig()
		finished := make(chan edge.RequestFinish, 1)
		c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
		r := relayRigOf(t, c, fleet.Source{URL: canned(t, "text/event-stream", text), Kind: fleet.OpenAI, APIs: fleet.APIs()})
		status, got := r.post(routeMessages, fmt.Sprintf(api.ask, `"stream":true,`))
		f := <-finished
		told := usagesIn(t, got)
		if status != http.StatusOK || len(told) != 2 || told[0]["input_tokens"] != float64(f.PromptTokens) || told[1]["output_tokens"] != float64(2) || f.OutputTokens != 2 {
			t.Errorf("%s: %d and %d tokens: %d %s", usage, f.PromptTokens, f.OutputTokens, status, got)
		}
		if f.Estimated == believed || strings.Contains(got, usage) != believed {
			t.Errorf("%s: estimated %v: %s", usage, f.Estimated, got)
		}
		r.close()
	}
}

// What was told of a count is charged, whatever is learned of other answers meanwhile.
func TestCountIsMadeOnce(t *testing.T) {
	r := relayRigOf(t, DefaultConfig(), fleet.Source{URL: canned(t, "application/json", `{}`), Kind: fleet.OpenAI})
	defer r.close()
	p := &relay.Exchange{Relay: r.openai.relay}
	p.Result.Stream, p.Result.Model, p.Result.FirstToken = true, "front", p.Result.Arrived.Add(1)
	event := []byte(`{"choices":[{"index":0,"delta":{"content":"one two three"}}]}`)
	p.Account.Chunk(event)
	told := p.Used()
	for range 100 {
		r.openai.estimates.LearnEvents("front", 10, 90)
	}
	if p.Estimate(); p.Result.OutputTokens != told.Output {
		t.Errorf("%d tokens were told, and %d are charged", told.Output, p.Result.OutputTokens)
	}
	p.Account.Chunk(event)
	if p.Estimate(); p.Result.OutputTokens <= told.Output {
		t.Errorf("%d tokens with a second event, and %d with one", p.Result.OutputTokens, told.Output)
	}
}
