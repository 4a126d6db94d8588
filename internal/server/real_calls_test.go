package server_test

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"weir/internal/server/servertest"
)

// realTools are what Qwen2.5-Coder 0.5B may call, and realToolQuestions what it is asked: the tool that each question is for.
var (
	realTools         = []string{"get_weather city", "add a b", "send_email to subject body", "search_web query", "read_file path"}
	realToolQuestions = [][2]string{
		{"get_weather", "What is the weather in Paris?"}, {"add", "What is 17 plus 25? Use the tool."},
		{"send_email", "Send an email to ann@example.org with the subject Hello and the text See you soon."},
		{"search_web", "Search the web for the tallest mountain in Europe."}, {"read_file", "Read the file src/main.go."},
		{"get_weather", "How is the weather in Tokyo and in Rome?"}, {"add", "Add 3.5 and 4.5."}, {"search_web", "Find out on the web who wrote Dune."},
		{"read_file", "Show me what is in README.md."}, {"get_weather", "Is it raining in Berlin?"},
	}
)

func realToolList() []any {
	var list []any
	for _, text := range realTools {
		words := strings.Fields(text)
		properties := map[string]any{}
		for _, name := range words[1:] {
			kind := "string"
			if len(name) == 1 {
				kind = "number"
			}
			properties[name] = map[string]string{"type": kind}
		}
		list = append(list, map[string]any{"type": "function", "function": map[string]any{
			"name": words[0], "description": strings.ReplaceAll(words[0], "_", " "),
			"parameters": map[string]any{"type": "object", "properties": properties, "required": words[1:]},
		}})
	}
	return list
}

// A real model that writes its calls as bare or fenced JSON, without the markers of its template, is asked with tool_choice auto: they come as
// calls, whole and as a stream.
func testRealModelCalls(t *testing.T, m realModel, s *servertest.Server) {
	if m.calls == 0 {
		t.Skip("it calls no tools")
	}
	request := func(question string, stream bool) map[string]any {
		return map[string]any{
			"messages": []map[string]string{{"role": "user", "content": question}}, "tools": realToolList(), "temperature": 0, "max_tokens": 80, "stream": stream,
		}
	}
	// All at once, since a step for ten costs little more than one for one. The first comes before them, so that they share its prefix.
	names, arguments := make([]string, len(realToolQuestions)), make([]string, len(realToolQuestions))
	ask := func(i int) { names[i], arguments[i] = askTools(s, request(realToolQuestions[i][1], false)) }
	ask(0)
	var all sync.WaitGroup
	for i := range realToolQuestions[1:] {
		all.Go(func() { ask(i + 1) })
	}
	if name, got := streamTools(s, request(realToolQuestions[0][1], true)); name != names[0] || got != arguments[0] { // one is enough
		t.Errorf("%s: stream %s %s, whole %s %s", realToolQuestions[0][1], name, got, names[0], arguments[0])
	}
	all.Wait()
	called := 0
	for i, q := range realToolQuestions {
		if names[i] == q[0] {
			called++
		} else {
			t.Logf("%s: call %q, want %s", q[1], names[i], q[0])
		}
	}
	t.Logf("%d of %d questions are answered by a call", called, len(realToolQuestions))
	if called < m.calls {
		t.Errorf("%d of %d questions are answered by a call, want at least %d", called, len(realToolQuestions), m.calls)
	}
}

// toolCalls are those of a message or of a delta.
type toolCalls []struct {
	Function struct{ Name, Arguments string }
}

// askTools gives the first call of an answer.
func askTools(s *servertest.Server, request any) (name, arguments string) {
	s.T.Helper()
	body, err := io.ReadAll(s.Post("/v1/chat/completions", jsonText(request)).Body)
	var answer struct {
		Choices []struct {
			Message struct {
				Calls toolCalls `json:"tool_calls"`
			}
		}
	}
	if err != nil || json.Unmarshal(body, &answer) != nil || len(answer.Choices) != 1 {
		s.T.Errorf("%v %s", err, body)
		return "", ""
	}
	if calls := answer.Choices[0].Message.Calls; len(calls) > 0 {
		return calls[0].Function.Name, calls[0].Function.Arguments
	}
	return "", ""
}

// streamTools gives the first call of a stream.
func streamTools(s *servertest.Server, request any) (name, arguments string) {
	s.T.Helper()
	lines := bufio.NewScanner(s.Post("/v1/chat/completions", jsonText(request)).Body)
	for lines.Scan() {
		var event struct {
			Choices []struct {
				Delta struct {
					Calls toolCalls `json:"tool_calls"`
				}
			}
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: {")
		if !ok || json.Unmarshal([]byte("{"+data), &event) != nil || len(event.Choices) != 1 {
			continue
		}
		for _, call := range event.Choices[0].Delta.Calls {
			name += call.Function.Name
			arguments += call.Function.Arguments
		}
	}
	return name, arguments
}
