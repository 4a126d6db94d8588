package relay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/internal/inference"
)

// ChatPiece is a chat completion, or a chunk of one.
type ChatPiece struct {
	Choices []struct {
		Index          int
		Message, Delta *chatSaid
		Reason         string          `json:"finish_reason"`
		Stopped        json.RawMessage `json:"stop_reason"` // vLLM's: the text or the token that ended the answer
	}
}

// chatSaid is what the assistant says.
type chatSaid struct {
	Content   string
	Reasoning string `json:"reasoning_content"`
	Thought   string `json:"reasoning"` // the same, of servers that call it so
	Refusal   string
	Calls     []chatCall `json:"tool_calls"`
}

type chatCall struct {
	Index    int
	ID       string
	Function struct{ Name, Arguments string }
	Custom   *struct{ Name, Input string } // instead of Function
}

// ChatReader turns the chunks of a chat completion into deltas.
type ChatReader struct {
	delta  answer.Delta // what the last chunk says; its buffers are used again
	calls  int          // that began
	index  int          // of the last one, as the server counts
	id     string
	custom bool // the last one is of a custom tool
	over   bool // the finish reason has come
}

// Read reads a chunk, or a whole answer. The error says what a server must not write.
func (r *ChatReader) Read(data []byte) (*answer.Delta, error) {
	var piece ChatPiece
	if err := json.Unmarshal(data, &piece); err != nil {
		return nil, fmt.Errorf("a chunk of a chat cannot be read: %w: %.200q", err, data)
	}
	d := &r.delta
	d.Reasoning, d.Content, d.Calls, d.Finish, d.Stopped = d.Reasoning[:0], d.Content[:0], d.Calls[:0], inference.FinishNone, answer.StopReason{}
	if len(piece.Choices) == 0 {
		return d, nil
	}
	choice := &piece.Choices[0]
	if choice.Index != 0 || len(piece.Choices) > 1 {
		return nil, errors.New("a chat that was asked for one choice has several")
	}
	if said := cmp.Or(choice.Delta, choice.Message); said != nil {
		d.Reasoning = append(append(d.Reasoning, said.Reasoning...), said.Thought...)
		if said.Thought == said.Reasoning { // some servers write both
			d.Reasoning = d.Reasoning[:len(said.Reasoning)]
		}
		d.Content = append(append(d.Content, said.Content...), said.Refusal...)
		for i := range said.Calls {
			if err := r.call(&said.Calls[i]); err != nil {
				return nil, err
			}
		}
	}
	if choice.Reason != "" {
		r.finish(choice.Reason, choice.Stopped)
	}
	return d, nil
}

// call adds a part of a call. One with a name and another id begins a call, also where a server leaves
// the index out.
func (r *ChatReader) call(c *chatCall) error {
	if c.Custom != nil {
		c.Function.Name, c.Function.Arguments = c.Custom.Name, c.Custom.Input
	}
	part := answer.CallPart{Arguments: []byte(c.Function.Arguments)}
	begins := r.calls == 0 || c.Index != r.index || c.Function.Name != "" && c.ID != "" && c.ID != r.id
	switch {
	case begins && c.Function.Name == "":
		return fmt.Errorf("a chat's call %d has no name, or goes on after another one began", c.Index)
	case begins:
		r.index, r.id, r.custom = c.Index, c.ID, c.Custom != nil
		r.calls++
		part.Name, part.ID = c.Function.Name, c.ID
		if part.ID == "" {
			part.ID = "call_" + job.RandomLetters(16)
		}
	}
	part.Index, part.Custom = r.calls-1, r.custom
	r.delta.Calls = append(r.delta.Calls, part)
	return nil
}

// finish notes why the choice ended.
func (r *ChatReader) finish(reason string, stopped json.RawMessage) {
	d := &r.delta
	r.over = true
	d.Finish = finishOf(reason)
	d.Called = r.calls > 0 && d.Finish == inference.FinishStop
	if len(stopped) > 0 && stopped[0] == '"' {
		_ = json.Unmarshal(stopped, &d.Stopped.Text) // it is a string of JSON
	}
}

// close is the end of a chat whose server has told none: [DONE] came without a finish reason.
func (r *ChatReader) close() *answer.Delta {
	r.delta = answer.Delta{}
	r.finish("", nil)
	return &r.delta
}
