package defaultmodel

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

//go:embed tasks.jsonl
var tasksFile string

// Task is a chat request with tools or a format, and what greedy decoding answers: calls, or a text.
type Task struct {
	Topic   string          `json:"topic"`   // "tools call", "tools result", "tools unused", "json object" or "json schema"
	Request json.RawMessage `json:"request"` // messages, tools, response_format, as clients send them
	Calls   []Call          `json:"calls"`
	Content string          `json:"content"` // of the JSON topics, up to white space between its parts
}

// Call is a call of a tool.
type Call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

var tasks = sync.OnceValue(func() []Task {
	list, err := readTasks(strings.NewReader(tasksFile))
	if err != nil {
		panic("defaultmodel: embedded tasks.jsonl: " + err.Error()) // unreachable: a test reads the same bytes
	}
	return list
})

// Tasks returns the requests with tools and formats that the model was trained
// to answer. The slice is shared; do not change it.
func Tasks() []Task { return tasks() }

func readTasks(r io.Reader) ([]Task, error) {
	var out []Task
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	for n := 1; ; n++ {
		var t Task
		err := dec.Decode(&t)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read task %d: %w", n, err)
		}
		if len(t.Request) == 0 || (t.Content == "") == (len(t.Calls) == 0) {
			return nil, fmt.Errorf("read task %d: topic %q needs a request, and either calls or a content", n, t.Topic)
		}
		out = append(out, t)
	}
}
