package openai

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/internal/inference"
)

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs:\n%s\nwant\n%s", path, got, want)
	}
}

// encoderOf makes the encoder of an endpoint for a job that a request gives.
func encoderOf(t *testing.T, e *endpoint, body string) answer.Encoder {
	t.Helper()
	b := &fakeBackend{}
	s := newServer(t, DefaultConfig(), b)
	o, fault := job.ReadBody([]byte(body), false)
	if fault != nil {
		t.Fatal(fault)
	}
	j, fault := e.read(s.config.reader(), o, testModel(t, b))
	if fault != nil {
		t.Fatal(fault)
	}
	j.Route, j.NewEncoder, j.ID, j.Created = e.route, e.encode, e.prefix+"1a2b", 1700000000
	j.Name = j.ID
	return e.encode(j)
}

// thoughtsAndCalls is an answer of every kind of delta.
var thoughtsAndCalls = []answer.Delta{
	{First: true, Reasoning: []byte("Is it")},
	{Reasoning: []byte(" warm?")},
	{Content: []byte("Let me ")},
	{Content: []byte("see \"it\".\n")},
	{Calls: []answer.CallPart{{Index: 0, ID: "call_1", Name: "get_weather"}}},
	{Calls: []answer.CallPart{{Index: 0, Arguments: []byte(`{"city":`)}, {Index: 0, Arguments: []byte(`"Rome"}`)}}},
	{Calls: []answer.CallPart{{Index: 1, ID: "call_2", Name: "now", Arguments: []byte(`{}`)}}},
	{Finish: inference.FinishStop, Called: true},
}

func streamed(e answer.Encoder, deltas []answer.Delta) string {
	var dst []byte
	for i := range deltas {
		dst = e.AppendDelta(dst, &deltas[i])
	}
	return string(e.AppendEnd(dst, answer.Usage{Prompt: 9, Output: 12, Cached: 4, Reasoning: 3, Thinks: true}))
}

// whole is the same answer as one delta.
func whole(deltas []answer.Delta) answer.Delta {
	var d answer.Delta
	for i := range deltas {
		p := &deltas[i]
		d.Reasoning = append(d.Reasoning, p.Reasoning...)
		d.Content = append(d.Content, p.Content...)
		for _, c := range p.Calls {
			if !c.Begins() {
				last := &d.Calls[len(d.Calls)-1]
				last.Arguments = append(last.Arguments, c.Arguments...)
				continue
			}
			c.Arguments = append([]byte(nil), c.Arguments...)
			d.Calls = append(d.Calls, c)
		}
		d.Finish, d.Called = p.Finish, p.Called
	}
	return d
}

type eventOf struct {
	Type     string          `json:"type"`
	Sequence int             `json:"sequence_number"`
	Index    int             `json:"output_index"`
	ItemID   string          `json:"item_id"`
	Item     json.RawMessage `json:"item"`
	Response *struct {
		Status string            `json:"status"`
		Output []json.RawMessage `json:"output"`
	} `json:"response"`
}

// parseEvents reads server-sent events and checks that names and numbers are in order.
func parseEvents(t *testing.T, text string) (events []eventOf) {
	t.Helper()
	for block := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimPrefix(block, "event: "), "\ndata: ")
		var e eventOf
		if err := json.Unmarshal([]byte(data), &e); !ok || err != nil || e.Type != name || e.Sequence != len(events) {
			t.Fatalf("event %d is %q: %v", len(events), block, err)
		}
		events = append(events, e)
	}
	return events
}

const weatherTools = `"tools":[{"type":"function","name":"get_weather","description":"the weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}},"strict":true},{"type":"function","name":"now"}]`

func TestResponseEvents(t *testing.T) {
	for name, body := range map[string]string{
		"response_events.txt":  `{"input":"hi","instructions":"Be kind.","metadata":{"a":"b"},"user":"u","temperature":0.7,"max_output_tokens":50}`,
		"response_summary.txt": `{"input":"hi","reasoning":{"effort":"low","summary":"auto"}}`,
	} {
		text := streamed(encoderOf(t, &responseEndpoint, body), thoughtsAndCalls)
		golden(t, name, text)
		events := parseEvents(t, text)
		last := events[len(events)-1]
		var done []json.RawMessage
		for _, e := range events {
			if e.Type == "response.output_item.done" {
				done = append(done, e.Item)
			}
		}
		if last.Type != "response.completed" || len(last.Response.Output) != 4 || len(done) != 4 {
			t.Fatalf("%s: %d items in %s, %d were done", name, len(last.Response.Output), last.Type, len(done))
		}
		for i := range done {
			if string(done[i]) != string(last.Response.Output[i]) {
				t.Errorf("%s: item %d was %s and is %s", name, i, done[i], last.Response.Output[i])
			}
		}
		d := whole(thoughtsAndCalls)
		object := encoderOf(t, &responseEndpoint, body).AppendWhole(nil, []answer.Delta{d}, answer.Usage{Prompt: 9, Output: 12, Cached: 4, Reasoning: 3, Thinks: true})
		_, streamedObject, _ := strings.Cut(text[strings.LastIndex(text, "event: "):], `"response":`)
		if string(object)+"}\n\n" != streamedObject {
			t.Errorf("%s: the whole answer is %s and the stream's %s", name, object, streamedObject)
		}
	}
}

// A stream that breaks, one that reaches its limit, and one that has nothing to say.
func TestResponseEnds(t *testing.T) {
	const body = `{"input":"hi"}`
	e := encoderOf(t, &responseEndpoint, body)
	text := string(e.AppendFault(e.AppendDelta(nil, &answer.Delta{First: true, Content: []byte("He")}), internalError("a bug")))
	events := parseEvents(t, text)
	if last := events[len(events)-1]; last.Type != "response.failed" || len(last.Response.Output) != 1 ||
		!strings.Contains(text, `"error":{"code":"internal_error","message":"a bug"}`) {
		t.Errorf("a stream that broke: %s", text)
	}
	fresh := string(encoderOf(t, &responseEndpoint, body).AppendFault(nil, api.Refuse("server_shutting_down", "x")))
	if events := parseEvents(t, fresh); events[0].Type != "response.created" || events[2].Type != "response.failed" {
		t.Errorf("a stream that broke at once: %s", fresh)
	}
	cut := streamed(encoderOf(t, &responseEndpoint, body), []answer.Delta{{First: true, Content: []byte("He")}, {Finish: inference.FinishLength}})
	events = parseEvents(t, cut)
	if last := events[len(events)-1]; last.Type != "response.incomplete" || last.Response.Status != "incomplete" ||
		!strings.Contains(cut, `"incomplete_details":{"reason":"max_output_tokens"}`) ||
		!strings.Contains(string(last.Response.Output[0]), `"status":"incomplete"`) {
		t.Errorf("an answer that was cut: %s", cut)
	}
	empty := streamed(encoderOf(t, &responseEndpoint, body), []answer.Delta{{First: true, Finish: inference.FinishStop}})
	events = parseEvents(t, empty)
	if last := events[len(events)-1]; last.Type != "response.completed" || len(last.Response.Output) != 1 {
		t.Errorf("an empty answer: %s", empty)
	}
}

func TestResponseOverHTTP(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	body := `{"model":"test-model","instructions":"Be kind.","input":[{"role":"developer","content":"In English."},` +
		`{"role":"user","content":[{"type":"input_text","text":"hi"}]},` +
		`{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"yes?","annotations":[],"logprobs":[]}]},` +
		`{"type":"message","role":"user","content":"go on"}],"store":false,"max_output_tokens":20,"include":["reasoning.encrypted_content"],` +
		`"truncation":"disabled","service_tier":"flex","prompt_cache_key":"k","stream":STREAM}`
	status, whole := r.post(routeResponses, strings.Replace(body, "STREAM", "false", 1))
	var got struct {
		Status, Object string
		Tier           string `json:"service_tier"`
		Output         []struct {
			ID, Type, Status, Role string
			Content                []struct{ Type, Text string }
		}
		Usage struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
			Total  int `json:"total_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(whole), &got); err != nil || status != 200 || got.Status != "completed" || got.Object != "response" ||
		len(got.Output) != 1 || got.Output[0].Content[0].Text != "Hello world" || got.Output[0].Role != "assistant" || got.Tier != "flex" ||
		got.Usage.Total != got.Usage.Input+got.Usage.Output || got.Usage.Output != 3 {
		t.Errorf("%d %s: %v", status, whole, err)
	}
	want := "<|im_start|>system\nBe kind.\n\nIn English.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes?<|im_end|>\n" +
		"<|im_start|>user\ngo on<|im_end|>\n<|im_start|>assistant\n"
	if prompt := r.backend.tok.Decode(r.backend.run(t, 0).req.Prompt, true); prompt != want {
		t.Errorf("the prompt is %q, want %q", prompt, want)
	}
	res, stream := r.do("POST", routeResponses, "", strings.Replace(body, "STREAM", "true", 1))
	events := parseEvents(t, stream)
	if last := events[len(events)-1]; res.StatusCode != 200 || last.Type != "response.completed" || events[0].Type != "response.created" {
		t.Errorf("the stream is %s", stream)
	}
	if warnings := res.Header.Get("X-Weir-Warnings"); warnings != "" {
		t.Errorf("warnings: %s", warnings)
	}
	status, cut := r.post(routeResponses, `{"input":"hi","max_output_tokens":1}`)
	if status != 200 || !strings.Contains(cut, `"status":"incomplete"`) {
		t.Errorf("an answer of one token: %d %s", status, cut)
	}
	for _, asked := range []string{`"include":["message.output_text.logprobs"],"top_logprobs":1`, `"top_logprobs":1`} {
		status, scored := r.post(routeResponses, `{"input":"hi",`+asked+`}`)
		if status != 200 || !strings.Contains(scored, `"logprobs":[{"token":"Hello","logprob":-0.25,"bytes":[72,101,108,108,111],"top_logprobs":[{`) {
			t.Errorf("log-probabilities of %s: %d %s", asked, status, scored)
		}
	}
	if status, plain := r.post(routeResponses, `{"input":"hi","top_logprobs":0}`); status != 200 || !strings.Contains(plain, `"logprobs":[]`) {
		t.Errorf("without log-probabilities: %d %s", status, plain)
	}
}
