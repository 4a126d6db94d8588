package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
)

var who = Identity{ID: "r1", Model: "claude", Created: 7}

// collected is what a client of chats makes of an answer.
type collected struct {
	text, thought, reason, stop string
	calls                       []string // name(arguments) id
	blocks                      []thinkingBlock
	usage                       [4]int64 // prompt, cached, output, reasoning
	failed                      string
	pings                       int
	done                        bool
}

type clientPiece struct {
	Object, ID, Model string
	Error             *struct {
		Message, Type string
		Code          int
	}
	Choices []struct {
		Reason         string `json:"finish_reason"`
		Stop           string `json:"stop_reason"`
		Delta, Message struct {
			Content   string
			Reasoning string          `json:"reasoning_content"`
			Blocks    []thinkingBlock `json:"thinking_blocks"`
			Calls     []calledTool    `json:"tool_calls"`
		}
	}
	Usage *struct {
		Prompt  int64 `json:"prompt_tokens"`
		Output  int64 `json:"completion_tokens"`
		Total   int64 `json:"total_tokens"`
		Details struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		OutputDetails struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
}

func (c *collected) add(t *testing.T, data []byte) {
	t.Helper()
	var p clientPiece
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	if p.Error != nil {
		c.failed = fmt.Sprintf("%d %s: %s", p.Error.Code, p.Error.Type, p.Error.Message)
		return
	}
	if !strings.HasPrefix(p.ID, "chatcmpl-r1") || p.Model != "claude" {
		t.Errorf("%s", data)
	}
	if u := p.Usage; u != nil {
		c.usage = [4]int64{u.Prompt, u.Details.Cached, u.Output, u.OutputDetails.Reasoning}
		if u.Total != u.Prompt+u.Output {
			t.Errorf("a total of %d for %v", u.Total, c.usage)
		}
	}
	for i := range p.Choices {
		choice := &p.Choices[i]
		c.reason, c.stop = c.reason+choice.Reason, c.stop+choice.Stop
		d := choice.Delta
		if p.Object == "chat.completion" {
			d = choice.Message
		}
		c.text, c.thought, c.blocks = c.text+d.Content, c.thought+d.Reasoning, append(c.blocks, d.Blocks...)
		for _, call := range d.Calls {
			if call.Function.Name != "" {
				c.calls = append(c.calls, call.Function.Name+" "+call.ID+" ")
			}
			at := len(c.calls) - 1
			if call.Index != nil && *call.Index != at {
				t.Errorf("index %d of call %d", *call.Index, at)
			}
			c.calls[at] += call.Function.Arguments
		}
	}
}

// readStream reads a provider's stream as a client of chats.
func readStream(t *testing.T, api API, from io.Reader) (c collected, err error) {
	t.Helper()
	s := NewStream(api, io.NopCloser(from), who)
	all, err := io.ReadAll(s)
	for event := range bytes.SplitSeq(all, []byte("\n\n")) {
		data, ok := bytes.CutPrefix(event, []byte("data: "))
		switch {
		case string(event) == ": ping":
			c.pings++
		case len(event) == 0:
		case !ok || c.done:
			t.Errorf("event %q", event)
		case string(data) == "[DONE]":
			c.done = true
		default:
			c.add(t, data)
		}
	}
	return c, err
}

func readWhole(t *testing.T, api API, answer []byte) (c collected) {
	t.Helper()
	whole, err := Whole(api, answer, who)
	if err != nil {
		t.Fatal(err)
	}
	c.add(t, whole)
	return c
}

func recorded(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// recordings are answers that providers have given, and what they say.
var recordings = []struct {
	api          API
	name         string
	begins, ends string // of the text
	thought      string // its beginning
	calls        string
	reason       string
	usage        [4]int64
	blocks       int
}{
	{api: Anthropic, name: "anthropic/text", begins: "Hello! I'm doing well, thank you", ends: "I can help you with?", reason: "stop", usage: [4]int64{12, 0, 30}},
	{api: Anthropic, name: "anthropic/tool-no-args", begins: "I'll update the issue list for you.", calls: "updateIssueList toolu_01QE1WLsSVp5hy5Q3GmGTmjP {}", reason: "tool_calls", usage: [4]int64{565, 0, 48}},
	{api: Anthropic, name: "anthropic/json-other-tool", calls: `weather toolu_019Zvehfe1XQWweT1pm7okyt {"location": "San Francisco"}`, reason: "tool_calls", usage: [4]int64{843, 0, 28}},
	{api: Anthropic, name: "anthropic/refusal", reason: "content_filter", usage: [4]int64{18, 0, 5}},
	{api: Anthropic, name: "anthropic/message-delta-input-tokens", begins: "pong", reason: "stop", usage: [4]int64{61, 0, 2}},
	{api: Anthropic, name: "anthropic/thinking", ends: "crossing streets.", thought: "This is a straightforward question", reason: "stop", usage: [4]int64{43, 0, 282}, blocks: 1},
	{api: Anthropic, name: "anthropic/redacted", ends: "legitimate task or question?", reason: "stop", usage: [4]int64{92, 0, 189}, blocks: 2},
	{api: Gemini, name: "gemini/text-2.0", begins: "The capital of France is Paris.", reason: "stop", usage: [4]int64{13, 0, 8}},
	{api: Gemini, name: "gemini/text", begins: "There are **3** ", ends: "st**r**awbe**rr**y", reason: "stop", usage: [4]int64{9, 0, 208, 185}},
	{api: Gemini, name: "gemini/tool-call", calls: `weather ID {"location":"San Francisco"}`, reason: "tool_calls", usage: [4]int64{29, 0, 60, 45}},
	{api: Gemini, name: "gemini/signed-call", calls: `get_country ID {}`, reason: "tool_calls", usage: [4]int64{29, 0, 212, 202}},
	{api: Gemini, name: "gemini/signed-text", begins: "The capital of Mexico is Mexico City.", reason: "stop", usage: [4]int64{257, 0, 8}},
	{api: Bedrock, name: "bedrock/text", begins: "The capital of France is Paris.", ends: `or "The City of Love."`, reason: "stop", usage: [4]int64{13, 0, 82}},
	{api: Bedrock, name: "bedrock/call", begins: "<thinking> To find", ends: "</thinking>\n", calls: `get_temperature tooluse_lAG_zP8QRHmSYOwZzzaCqA {"city":"Paris"}`, reason: "tool_calls", usage: [4]int64{471, 0, 91}},
	{api: Bedrock, name: "bedrock/thinking", begins: "Hello! It's nice", thought: "The user has greeted me", reason: "stop", usage: [4]int64{36, 0, 73}, blocks: 1},
	{api: Bedrock, name: "bedrock/redacted", ends: "talk about today?", reason: "stop", usage: [4]int64{92, 0, 253}, blocks: 2},
}

// TestRecordedStreams: what providers have streamed is a chat's stream, wherever the pieces are cut.
func TestRecordedStreams(t *testing.T) {
	for _, tc := range recordings {
		t.Run(tc.name, func(t *testing.T) {
			data := recorded(t, tc.name+extension(tc.api))
			for name, from := range map[string]io.Reader{"at once": bytes.NewReader(data), "by bytes": iotest.OneByteReader(bytes.NewReader(data)),
				"with the end": iotest.DataErrReader(bytes.NewReader(data))} {
				c, err := readStream(t, tc.api, from)
				if err != nil || !c.done || c.failed != "" {
					t.Errorf("%s: %v, %+v", name, err, c)
				}
				if !strings.HasPrefix(c.text, tc.begins) || !strings.HasSuffix(c.text, tc.ends) || !strings.HasPrefix(c.thought, tc.thought) || tc.thought == "" && c.thought != "" {
					t.Errorf("%s: text %q, thought %q", name, c.text, c.thought)
				}
				if got := ownID.ReplaceAllString(strings.Join(c.calls, "; "), "ID"); got != tc.calls || c.reason != tc.reason || c.usage != tc.usage || len(c.blocks) != tc.blocks {
					t.Errorf("%s: calls %q, reason %q, usage %v, %d blocks", name, got, c.reason, c.usage, len(c.blocks))
				}
			}
		})
	}
}

// ownID is an id that calls get here where their provider gives none.
var ownID = regexp.MustCompile(`call_[0-9A-Z]{26}`)

func extension(api API) string {
	if api == Bedrock {
		return ".eventstream"
	}
	return ".sse"
}

// TestStreamsThatAreCut: of a stream that breaks off nothing looks like an end, wherever that is.
func TestStreamsThatAreCut(t *testing.T) {
	for _, tc := range recordings {
		data := recorded(t, tc.name+extension(tc.api))
		whole, _ := readStream(t, tc.api, bytes.NewReader(data))
		for n := 0; n < len(data); n += 1 + len(data)/97 {
			c, err := readStream(t, tc.api, bytes.NewReader(data[:n]))
			if c.done && (c.text != whole.text || c.reason != whole.reason || len(c.calls) != len(whole.calls)) {
				t.Errorf("%s cut at %d: %v %+v", tc.name, n, err, c)
			}
			if !c.done && !errors.Is(err, ErrUnreadable) && err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s cut at %d: %v", tc.name, n, err)
			}
		}
	}
}

func TestRecordedAnswers(t *testing.T) {
	for _, tc := range []struct {
		api                       API
		name, begins, calls, says string
		usage                     [4]int64
	}{
		{Anthropic, "anthropic/text.json", "Hello! I'm doing well, thanks", "", "stop", [4]int64{12, 0, 29}},
		{Anthropic, "anthropic/refusal.json", "", "", "content_filter", [4]int64{18, 0, 5}},
		{Anthropic, "anthropic/tool-no-args.json", "", `updateIssueList`, "tool_calls", [4]int64{602, 0, 93}},
		{Gemini, "gemini/text.json", "There are **3** r's in strawberry.", "", "stop", [4]int64{9, 0, 272, 244}},
		{Gemini, "gemini/tool-call.json", "", "weather call_", "tool_calls", [4]int64{29, 0, 908, 893}},
		{Bedrock, "bedrock/text.json", "Let me count the", "", "stop", [4]int64{22, 0, 57}},
		{Bedrock, "bedrock/tool-call.json", "", "bash tool-use-id ", "tool_calls", [4]int64{10, 0, 20}},
	} {
		c := readWhole(t, tc.api, recorded(t, tc.name))
		if !strings.HasPrefix(c.text, tc.begins) || !strings.HasPrefix(strings.Join(c.calls, ";"), tc.calls) || c.reason != tc.says {
			t.Errorf("%s: %+v", tc.name, c)
		}
		if tc.usage != [4]int64{} && c.usage != tc.usage {
			t.Errorf("%s: usage %v", tc.name, c.usage)
		}
	}
}

// FuzzStream: whatever a provider sends, what comes out is events of a chat, in bounded memory, and [DONE] only behind a reason.
func FuzzStream(f *testing.F) {
	for _, tc := range recordings {
		data, err := os.ReadFile(filepath.Join("testdata", tc.name+extension(tc.api)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(apiIndex(tc.api)), data)
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		api := apis[int(which)%len(apis)]
		out, err := io.ReadAll(NewStream(api, io.NopCloser(bytes.NewReader(data)), who))
		if err != nil && !errors.Is(err, ErrUnreadable) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%v", err)
		}
		reason := false
		for event := range bytes.SplitSeq(out, []byte("\n\n")) {
			switch string(event) {
			case "", ": ping":
			case "data: [DONE]":
				if !reason {
					t.Fatalf("[DONE] without a reason: %s", out)
				}
			default:
				var p clientPiece
				if json.Unmarshal(event[len("data: "):], &p) != nil {
					t.Fatalf("event %q", event)
				}
				reason = reason || len(p.Choices) > 0 && p.Choices[0].Reason != ""
			}
		}
		_, _ = Whole(api, data, who)
		Error(api, http.StatusBadRequest, make(http.Header), data)
	})
}

var apis = []API{Anthropic, Gemini, Bedrock}

func apiIndex(api API) int {
	for i := range apis {
		if apis[i] == api {
			return i
		}
	}
	return 0
}

// FuzzRequest: whatever a client asks for is a request in the provider's words, or refused by field.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(conversation))
	f.Fuzz(func(t *testing.T, chat []byte) {
		for _, api := range apis {
			r, err := api.Request(chat, "m", Options{Stream: true})
			if _, refused := errors.AsType[*Refusal](err); err != nil && !refused {
				t.Fatalf("%v", err)
			}
			if err == nil && !json.Valid(r.Body) {
				t.Fatalf("%s", r.Body)
			}
		}
	})
}

// conversation is a chat with all that has a place at every provider.
const conversation = `{"messages":[{"role":"system","content":"Be brief."},{"role":"developer","content":[{"type":"text","text":"Be kind."}]},
	{"role":"user","content":[{"type":"text","text":"What is this, and how warm is it in Rome and in Oslo?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]},
	{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Rome\"}"}},
		{"id":"call_2","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Oslo\"}"}}]},
	{"role":"tool","tool_call_id":"call_1","content":"25"},{"role":"tool","tool_call_id":"call_2","content":"-3"},{"role":"user","content":"Go on."}],
	"tools":[{"type":"function","function":{"name":"weather","description":"The weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}},{"type":"function","function":{"name":"now"}}],
	"tool_choice":"required","parallel_tool_calls":false,"max_completion_tokens":300,"temperature":1.5,"top_p":0.9,"stop":["END","FIN"],"user":"u1","stream":true,"n":1,"logprobs":false}`

// requestOf is a request as a provider gets it.
func requestOf(t *testing.T, api API, model, chat string) map[string]any {
	t.Helper()
	r, err := api.Request([]byte(chat), model, Options{Stream: true})
	if err != nil {
		t.Fatalf("%s: %v", chat, err)
	}
	var body map[string]any
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Fatal(err)
	}
	return body
}

// sameJSON compares what was sent with what should have been.
func sameJSON(t *testing.T, got any, want string) {
	t.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(w)
	if !bytes.Equal(a, b) {
		t.Errorf("sent\n%s\nwant\n%s", a, b)
	}
}

// TestRefusedFields: what a provider cannot do is refused by the field's name, and what has no place there is told.
func TestRefusedFields(t *testing.T) {
	const user = `"messages":[{"role":"user","content":"Hi"}]`
	for _, api := range apis {
		for _, tc := range []struct{ fields, param string }{
			{`"n":2`, "n"}, {`"logprobs":true`, "logprobs"}, {`"top_logprobs":3`, "top_logprobs"}, {`"logit_bias":{"5":1}`, "logit_bias"},
			{`"modalities":["text","audio"]`, "modalities"}, {`"functions":[{"name":"f"}]`, "functions"}, {`"continue_final_message":true`, "continue_final_message"},
			{`"guided_regex":"a*"`, "guided_regex"}, {`"response_format":{"type":"grammar"}`, "response_format.type"},
			{`"response_format":{"type":"json_schema","json_schema":{"name":"a"}}`, "response_format.json_schema.schema"},
			{`"tools":[{"type":"custom","custom":{"name":"x"}}]`, "tools[0].type"}, {`"tool_choice":{"type":"allowed_tools"}`, "tool_choice"},
			{`"max_tokens":0`, "max_tokens"}, {`"temperature":"hot"`, "temperature"}, {`"stop":[1]`, "stop"}, {`"reasoning_effort":"much"`, "reasoning_effort"},
		} {
			_, err := api.Request([]byte(`{`+user+`,`+tc.fields+`}`), "m", Options{})
			r, ok := errors.AsType[*Refusal](err)
			if !ok || r.Param != tc.param || !strings.Contains(r.Error(), tc.param) || !json.Valid(r.Body()) {
				t.Errorf("%T %s: %v", api, tc.fields, err)
			}
		}
		for _, tc := range []struct{ messages, param string }{
			{`[]`, "messages"}, {`[{"role":"system","content":"x"}]`, "messages"}, {`[{"role":"robot","content":"x"}]`, "messages[0].role"},
			{`[{"role":"user","content":[{"type":"video_url"}]}]`, "messages[0].content[0].type"},
			{`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"pic.png"}}]}]`, "messages[0].content[0].image_url.url"},
			{`[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AA","format":"amr"}}]}]`, "messages[0].content[0]"},
			{`[{"role":"tool","tool_call_id":"c","content":"x"}]`, "messages[0].tool_call_id"},
			{`[{"role":"user","content":5}]`, "messages[0].content"},
		} {
			_, err := api.Request([]byte(`{"messages":`+tc.messages+`}`), "m", Options{})
			if r, ok := errors.AsType[*Refusal](err); !ok || r.Param != tc.param {
				if api != Anthropic && strings.Contains(tc.messages, "amr") {
					continue
				}
				t.Errorf("%T %s: %v", api, tc.messages, err)
			}
		}
		r, err := api.Request([]byte(`{`+user+`,"presence_penalty":0.5,"frequency_penalty":0,"min_p":0.1,"service_tier":"flex","verbosity":"low","ignore_eos":false}`), "m", Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.Ignored, " "); !strings.Contains(got, "min_p") || !strings.Contains(got, "verbosity") || strings.Contains(got, "ignore_eos") || strings.Contains(got, "frequency") {
			t.Errorf("%T ignores %q", api, got)
		}
	}
}
