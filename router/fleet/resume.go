package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// A stream that breaks after content can go on at another replica, where the client has
// asked for that: the request is sent again with the text that was said so far at its end.
// The client sees one stream, with one id, and each word once.

// generated is what is read of one event of a stream that may have to go on elsewhere.
type generated struct {
	ID      json.RawMessage
	Choices []struct {
		Index  int
		Text   *string
		Delta  map[string]json.RawMessage // fields that weir does not know are content, too
		Finish string                     `json:"finish_reason"`
	}
}

// resume remembers what a stream has said.
type resume struct {
	fields map[string]json.RawMessage // of the request
	chat   bool
	prompt string // of a completion

	id       json.RawMessage // of the stream
	text     []byte          // said so far
	events   int             // with text: at least as many tokens
	repeated []byte          // white space at the end of text that the other replica was not told
	again    int             // how often the stream went on
	counted  int             // tokens that were said before it went on, the last time
	last     []byte          // the last event's data
	lost     bool            // it has said what cannot be gone on with
	finished bool            // it has a finish reason
}

// newResume returns nil for a request that cannot be gone on with: one with several choices,
// tools, a form that the answer must have, or log-probabilities, whose places in the text
// would be wrong.
func newResume(path string, body []byte) *resume {
	r := &resume{chat: strings.HasSuffix(path, "/chat/completions")}
	if !r.chat && !strings.HasSuffix(path, "/completions") || json.Unmarshal(body, &r.fields) != nil {
		return nil
	}
	for _, name := range []string{
		"tools", "functions", "response_format", "suffix", "best_of", "logprobs", "prompt_logprobs", "echo", "grammar", "json_schema",
		"guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "continue_final_message", "return_token_ids",
	} {
		if v := r.fields[name]; !isEmpty(v) && string(v) != "false" {
			return nil
		}
	}
	if n := r.fields["n"]; !isEmpty(n) && string(n) != "1" {
		return nil
	}
	if r.chat {
		var messages []json.RawMessage
		if json.Unmarshal(r.fields["messages"], &messages) != nil || len(messages) == 0 {
			return nil
		}
	} else if json.Unmarshal(r.fields["prompt"], &r.prompt) != nil {
		return nil
	}
	return r
}

// can reports whether another replica could go on.
func (r *resume) can() bool { return !r.lost && !r.finished }

// cut takes the whole events out of held, and returns what the client gets of them and what
// is left.
func (r *resume) cut(out, held []byte) (more, rest []byte) {
	for {
		i := bytes.Index(held, []byte("\n\n"))
		if i < 0 {
			return out, held
		}
		out = r.event(out, held[:i+2])
		held = held[i+2:]
	}
}

// event notes what an event says and appends it, or what stands for it in a stream that goes
// on.
func (r *resume) event(out, event []byte) []byte {
	data, ok := dataOf(bytes.TrimSpace(event))
	if !ok || bytes.Equal(data, doneLine) {
		return append(out, event...)
	}
	var c generated
	if json.Unmarshal(data, &c) != nil {
		r.lost = true
		return append(out, event...)
	}
	if r.id == nil {
		r.id = c.ID
	}
	r.last = append(r.last[:0], data...)
	said, ok := c.says()
	r.lost = r.lost || !ok
	finished := false
	for _, choice := range c.Choices {
		finished = finished || choice.Finish != ""
	}
	r.finished = r.finished || finished
	if r.again == 0 {
		r.note(said)
		return append(out, event...)
	}
	if said == "" && !finished && len(c.Choices) > 0 {
		return out // the role that began the answer again
	}
	told := r.unrepeated(said)
	r.note(told)
	return append(append(append(out, "data: "...), r.rewritten(data, said, told)...), "\n\n"...)
}

func (r *resume) note(said string) {
	if said != "" {
		r.text = append(r.text, said...)
		r.events++
	}
}

// says is the text of a chunk. It is false where the chunk says something else, too.
func (c *generated) says() (text string, ok bool) {
	if len(c.Choices) != 1 {
		return "", len(c.Choices) == 0
	}
	choice := &c.Choices[0]
	ok = choice.Index == 0
	if choice.Text != nil {
		text = *choice.Text
	}
	for name, value := range choice.Delta {
		switch {
		case name == "role" || isEmpty(value):
		case name == "content":
			var piece string
			ok = ok && json.Unmarshal(value, &piece) == nil
			text += piece
		default:
			ok = false
		}
	}
	return text, ok
}

// unrepeated is what a continuation says, without the white space that was said before.
func (r *resume) unrepeated(said string) string {
	for len(said) > 0 && len(r.repeated) > 0 {
		if said[0] != r.repeated[0] {
			r.repeated = nil
			break
		}
		said, r.repeated = said[1:], r.repeated[1:]
	}
	return said
}

// rewritten is a chunk of a continuation as the client gets it: with the stream's id, the
// text as told, and a usage that counts the whole answer.
func (r *resume) rewritten(data []byte, said, told string) []byte {
	var c map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if d.Decode(&c) != nil {
		return data
	}
	if r.id != nil {
		c["id"] = r.id
	}
	if choices, ok := c["choices"].([]any); ok && said != told {
		for _, choice := range choices {
			retell(choice, told)
		}
	}
	if u, ok := c["usage"].(map[string]any); ok {
		r.recount(u)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(c) != nil {
		return data
	}
	return bytes.TrimSpace(out.Bytes())
}

func retell(choice any, told string) {
	fields, ok := choice.(map[string]any)
	if !ok {
		return
	}
	if _, ok := fields["text"]; ok {
		fields["text"] = told
	}
	if delta, ok := fields["delta"].(map[string]any); ok {
		delta["content"] = told
	}
}

// ending is the end of a stream that has had all the tokens that were asked for.
func (r *resume) ending() []byte {
	var c map[string]any
	if json.Unmarshal(r.last, &c) != nil {
		return nil
	}
	delete(c, "usage")
	choice := map[string]any{"index": 0, "finish_reason": "length"}
	if r.chat {
		choice["delta"] = map[string]any{}
	} else {
		choice["text"] = ""
	}
	c["choices"], c["id"] = []any{choice}, r.id
	data, err := json.Marshal(c)
	if err != nil {
		return nil
	}
	return append(append([]byte("data: "), data...), "\n\ndata: [DONE]\n\n"...)
}

// recount moves the tokens that were said before from the prompt to the answer.
func (r *resume) recount(usage map[string]any) {
	for name, by := range map[string]int64{"prompt_tokens": -int64(r.counted), "completion_tokens": int64(r.counted)} {
		if n, ok := usage[name].(json.Number); ok {
			if v, err := n.Int64(); err == nil {
				usage[name] = max(v+by, 0)
			}
		}
	}
}

// body is the request that goes on with what was said. tokens is how many that were. It is nil
// where nothing is left to be said.
func (r *resume) body(tokens int) []byte {
	next := make(map[string]json.RawMessage, len(r.fields)+2)
	maps.Copy(next, r.fields)
	for _, name := range []string{"max_tokens", "max_completion_tokens", "min_tokens"} {
		var n int
		if isEmpty(next[name]) || json.Unmarshal(next[name], &n) != nil {
			continue
		}
		if n -= tokens; n <= 0 {
			if name != "min_tokens" {
				return nil
			}
			n = 0
		}
		next[name], _ = json.Marshal(n) // a number always has a JSON form
	}
	text := r.text
	r.repeated = nil
	if r.chat { // templates cut white space off the ends of messages
		text = bytes.TrimRight(text, " \t\r\n")
		r.repeated = r.text[len(text):]
	}
	switch {
	case len(text) == 0:
	case r.chat:
		message, _ := json.Marshal(map[string]string{"role": "assistant", "content": string(text)}) // texts always have one, too
		messages := bytes.TrimSpace(next["messages"])
		next["messages"] = append(append(append(bytes.Clone(messages[:len(messages)-1]), ','), message...), ']')
		next["continue_final_message"], next["add_generation_prompt"] = json.RawMessage("true"), json.RawMessage("false")
	default:
		next["prompt"], _ = json.Marshal(r.prompt + string(text))
	}
	body, err := json.Marshal(next)
	if err != nil {
		return nil
	}
	return body
}

const countTimeout = 2 * time.Second

// count asks a replica how many tokens were said; where it cannot tell, each event has at
// least one.
func (r *resume) count(ctx context.Context, at *replica) int {
	if !kinds[at.target.Kind].counts {
		return r.events
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	question, err := json.Marshal(map[string]any{"model": at.model, "prompt": string(r.text), "add_special_tokens": false})
	if err != nil {
		return r.events
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.wire.root("/tokenize"), bytes.NewReader(question))
	if err != nil {
		return r.events
	}
	req.Header.Set("Content-Type", "application/json")
	at.wire.sign(req)
	res, err := at.wire.client.Do(req)
	if err != nil {
		return r.events
	}
	defer func() { _ = res.Body.Close() }() // only read
	var said struct{ Count int }
	if res.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(res.Body, maxAnswerBytes)).Decode(&said) != nil {
		return r.events
	}
	return max(said.Count, 1)
}
