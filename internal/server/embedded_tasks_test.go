package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	"weir/internal/defaultmodel"
	"weir/internal/server/servertest"
)

// taskAnswer is the first choice of a chat.
type taskAnswer struct {
	Message struct {
		Content   string
		ToolCalls []struct {
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	FinishReason string `json:"finish_reason"`
}

// askTasks sends the tasks of the topics to the embedded model, many at a time, greedily, and checks every answer.
func askTasks(t *testing.T, check func(t *testing.T, task defaultmodel.Task, got taskAnswer), topics ...string) {
	t.Helper()
	s := servertest.Start(t, nil)
	var wg sync.WaitGroup
	room := make(chan struct{}, 16)
	for i, task := range defaultmodel.Tasks() {
		if !strings.Contains(strings.Join(topics, ","), task.Topic) || testing.Short() && i%8 != 0 {
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			check(t, task, askTask(t, s, task))
		})
	}
	wg.Wait()
}

func askTask(t *testing.T, s *servertest.Server, task defaultmodel.Task) taskAnswer {
	var request map[string]json.RawMessage // the fields of schemas keep their order
	if err := json.Unmarshal(task.Request, &request); err != nil {
		t.Error(err)
	}
	request["temperature"] = json.RawMessage("0")
	r, err := http.Post(s.API+"/v1/chat/completions", "application/json", strings.NewReader(jsonText(request)))
	if err != nil {
		t.Error(err)
		return taskAnswer{}
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	var answer struct{ Choices []taskAnswer }
	if err != nil || json.Unmarshal(body, &answer) != nil || len(answer.Choices) != 1 {
		t.Errorf("%s: %v %s", task.Request, err, body)
		return taskAnswer{}
	}
	return answer.Choices[0]
}

// sameJSON reports whether two texts are JSON of one value.
func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// Given tools and tool_choice auto, the embedded model calls the one that answers the question.
func TestEmbeddedModelCallsTools(t *testing.T) {
	askTasks(t, func(t *testing.T, task defaultmodel.Task, got taskAnswer) {
		calls := got.Message.ToolCalls
		if got.FinishReason != "tool_calls" || len(calls) != 1 || got.Message.Content != "" || calls[0].Function.Name != task.Calls[0].Name ||
			!sameJSON(calls[0].Function.Arguments, string(task.Calls[0].Arguments)) {
			t.Errorf("%s:\n%+v, want the call %s %s", task.Request, got, task.Calls[0].Name, task.Calls[0].Arguments)
		}
	}, "tools call")
}

// It tells the results of tools, and answers other questions as it does without tools.
func TestEmbeddedModelAnswersBesideTools(t *testing.T) {
	askTasks(t, func(t *testing.T, task defaultmodel.Task, got taskAnswer) {
		if got.FinishReason != "stop" || len(got.Message.ToolCalls) != 0 || got.Message.Content != task.Content {
			t.Errorf("%s:\n%+v, want %q", task.Request, got, task.Content)
		}
	}, "tools result", "tools unused")
}

// Asked for JSON, or held to a schema, it answers with the values that were asked for.
func TestEmbeddedModelAnswersInJSON(t *testing.T) {
	askTasks(t, func(t *testing.T, task defaultmodel.Task, got taskAnswer) {
		if got.FinishReason != "stop" || !sameJSON(got.Message.Content, task.Content) {
			t.Errorf("%s:\n%q, want %s", task.Request, got.Message.Content, task.Content)
		}
	}, "json object", "json schema")
}
