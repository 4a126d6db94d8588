package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/api/openai/answer"
	"weir/api/openai/completion"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/internal/inference"
)

// The chat encoder writes what official SDKs accumulate. The deltas here are made by
// hand; tests of calls and thoughts that a model writes are those of calls_test.go.

func encoderJob(t *testing.T, stream bool, names params.Reasoning) *job.Job {
	t.Helper()
	return &job.Job{Name: "chatcmpl-1", Created: 1, Route: routeChat, NewEncoder: completion.NewChatEncoder,
		Model:  &models.Model{ID: "m", Tokenizer: mustTokenizer(t)},
		Params: &params.Params{N: 1, Stream: stream, IncludeUsage: stream, Reasoning: names}}
}

// chunkChoices are the first choices of a stream's chunks, as JSON.
func chunkChoices(t *testing.T, stream string) (list []string) {
	t.Helper()
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk struct{ Choices []json.RawMessage }
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		for _, c := range chunk.Choices {
			list = append(list, string(c))
		}
	}
	return list
}

func TestChatChunksOfThoughtsAndCalls(t *testing.T) {
	e := completion.NewChatEncoder(encoderJob(t, true, params.ReasoningBoth))
	var out []byte
	for _, d := range []answer.Delta{
		{First: true, Reasoning: []byte("Hm")},
		{Content: []byte("Let me see.")},
		{Calls: []answer.CallPart{{ID: "call_1", Name: "f"}, {Arguments: []byte(`{"a":`)}, {Arguments: []byte(`1}`)}}},
		{Calls: []answer.CallPart{{Index: 1, ID: "call_2", Name: "g", Arguments: []byte("{}")}}},
		{Finish: inference.FinishStop, Called: true},
	} {
		out = e.AppendDelta(out, &d)
	}
	const rest = `,"logprobs":null,"finish_reason":null}`
	want := []string{
		`{"index":0,"delta":{"role":"assistant","content":""}` + rest,
		`{"index":0,"delta":{"reasoning_content":"Hm","reasoning":"Hm"}` + rest,
		`{"index":0,"delta":{"content":"Let me see."}` + rest,
		`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]}` + rest,
		`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}` + rest,
		`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}` + rest,
		`{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"g","arguments":""}}]}` + rest,
		`{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}` + rest,
		`{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls","stop_reason":null}`,
	}
	got := chunkChoices(t, string(out))
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("chunk %d of\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// Ids of tokens are told once, in the first chunk of their delta.
func TestTokenIDsOfACallAreToldOnce(t *testing.T) {
	j := encoderJob(t, true, params.ReasoningBoth)
	j.Params.ReturnTokenIDs = true
	j.Prompts = []job.Prompt{{IDs: []inference.TokenID{1}}}
	e := completion.NewChatEncoder(j)
	out := e.AppendDelta(nil, &answer.Delta{IDs: []inference.TokenID{7, 8},
		Calls: []answer.CallPart{{ID: "call_1", Name: "f", Arguments: []byte("{}")}}})
	if n := strings.Count(string(out), "[7,8]"); n != 1 || len(chunkChoices(t, string(out))) != 2 {
		t.Errorf("the ids come %d times in %s", n, out)
	}
}

func TestWholeChatMessages(t *testing.T) {
	for _, c := range []struct {
		names params.Reasoning
		d     answer.Delta
		want  string
	}{
		{params.ReasoningBoth, answer.Delta{Reasoning: []byte("Hm"), Content: []byte("Hi"), Finish: inference.FinishStop},
			`{"role":"assistant","content":"Hi","reasoning_content":"Hm","reasoning":"Hm","refusal":null}`},
		{params.ReasoningContent, answer.Delta{Reasoning: []byte("Hm"), Finish: inference.FinishLength},
			`{"role":"assistant","content":"","reasoning_content":"Hm","refusal":null}`},
		{params.ReasoningOnly, answer.Delta{Reasoning: []byte("Hm"), Content: []byte("Hi"), Finish: inference.FinishStop},
			`{"role":"assistant","content":"Hi","reasoning":"Hm","refusal":null}`},
		{params.ReasoningBoth, answer.Delta{Calls: []answer.CallPart{{ID: "c1", Name: "f", Arguments: []byte(`{"a":"\n"}`)}, {Index: 1, ID: "c2", Name: "f", Arguments: []byte("{}")}},
			Finish: inference.FinishStop, Called: true},
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":\"\\n\"}"}},` +
				`{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}],"refusal":null}`},
	} {
		e := completion.NewChatEncoder(encoderJob(t, false, c.names))
		var out struct {
			Choices []struct {
				Message json.RawMessage
				Reason  string `json:"finish_reason"`
			}
			Usage struct {
				Details struct {
					Reasoning int `json:"reasoning_tokens"`
				} `json:"completion_tokens_details"`
			}
		}
		body := e.AppendWhole(nil, []answer.Delta{c.d}, answer.Usage{Prompt: 1, Output: 5, Reasoning: 3, Thinks: true})
		if err := json.Unmarshal(body, &out); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		reason := c.d.Finish.String()
		if c.d.Called {
			reason = "tool_calls"
		}
		if got := string(out.Choices[0].Message); got != c.want || out.Choices[0].Reason != reason || out.Usage.Details.Reasoning != 3 {
			t.Errorf("got  %s\nwant %s", body, c.want)
		}
	}
}
