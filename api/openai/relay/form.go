package relay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"

	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/jsonbody"
	"weir/api/openai/responses"
	"weir/api/openai/stored"
	"weir/internal/inference"
	"weir/router/chunk"
)

// Form is how an API writes its answers.
type Form uint8

// The forms.
const (
	ChatForm Form = iota // chat completions, completions, and what has their usage
	ResponseForm
	MessageForm
)

// FormOf is that of a path below an upstream's base URL.
func FormOf(path string) Form {
	switch path {
	case PathResponses:
		return ResponseForm
	case PathMessages:
		return MessageForm
	}
	return ChatForm
}

// relayedAnswer is what is read of a response or a message, whole or as an event, beside its usage.
type relayedAnswer struct {
	Type   string // of an event; of a whole answer of Messages: message
	Status string // of a response

	Incomplete struct{ Reason string } `json:"incomplete_details"`

	Stop string `json:"stop_reason"` // of a message

	Response *relayedAnswer // of an event
	Delta    *struct {
		Stop string `json:"stop_reason"`
	}
}

// chunkHead is what the events of a chat's stream have in common.
type chunkHead struct{ id, object, created []byte }

// Read takes usage and finish reasons out of an answer or of an event, of which c is what it says, and reports whether it ends the answer.
// What is not JSON passes unread.
func (p *Exchange) Read(data []byte, c *chunk.Chunk) (ends bool) {
	if c == nil {
		return false
	}
	if p.Form == ChatForm {
		p.readChat(data, c)
		return false
	}
	var usage []byte
	if p.Account.wrong = p.tells(data, c); p.Account.wrong { // unless it is believed
		usage = p.part(data, c).Usage.Of(data)
	}
	var a relayedAnswer
	if json.Unmarshal(data, &a) != nil {
		return false
	}
	if p.Form == ResponseForm {
		return p.readResponse(cmp.Or(a.Response, &a), usage)
	}
	return p.readMessage(&a, usage)
}

// part is the object of an event, or the whole answer, that has the usage in the words of its API.
func (p *Exchange) part(data []byte, c *chunk.Chunk) chunk.Part {
	switch kind := c.Type.Of(data); {
	case p.Form == ResponseForm && bytes.HasPrefix(kind, []byte(`"response.`)):
		return c.Response
	case p.Form == MessageForm && string(kind) == `"message_start"`:
		return c.Message
	}
	return c.Whole
}

// tells reports whether an event of another API than chats', or a whole answer, has a usage.
func (p *Exchange) tells(data []byte, c *chunk.Chunk) bool {
	usage := p.part(data, c).Usage.Of(data)
	return len(usage) > 0 && !jsonbody.IsNull(usage)
}

// readChat reads a chat completion or a completion, whole or a chunk of one.
func (p *Exchange) readChat(data []byte, c *chunk.Chunk) {
	if c.HasUsage() {
		u := readUsage(c.Usage.Of(data))
		p.take(u.ofChat())
	}
	for _, end := range c.Ends {
		p.over(end.Choice, finishOf(string(end.Of(data))))
	}
	if len(c.Ends) > 0 && p.Account.asked {
		p.Account.head = headOf(data)
	}
}

// headOf is the head of an event, which is kept longer than the event.
func headOf(data []byte) (h chunkHead) {
	for name, value := range chunk.Fields(data) {
		switch name {
		case "id":
			h.id = bytes.Clone(value)
		case "object":
			h.object = bytes.Clone(value)
		case "created":
			h.created = bytes.Clone(value)
		}
	}
	return h
}

// finishOf reads why an answer ended: the words of chats, those of Responses for what is incomplete, and
// those of Messages.
func finishOf(word string) inference.FinishReason {
	switch word {
	case inference.FinishLength.String(), "max_output_tokens", "max_tokens", "model_context_window_exceeded":
		return inference.FinishLength
	case inference.FinishFiltered.String(), "refusal":
		return inference.FinishFiltered
	}
	return inference.FinishStop
}

// readResponse reads a response object. It reports whether the response is over.
func (p *Exchange) readResponse(a *relayedAnswer, usage []byte) bool {
	if len(usage) > 0 {
		u := readUsage(usage)
		p.take(u.ofResponse())
	}
	switch a.Status {
	case "completed":
		p.over(0, inference.FinishStop)
		return true
	case "incomplete":
		p.over(0, finishOf(cmp.Or(a.Incomplete.Reason, "max_output_tokens")))
		return true
	case "failed", "cancelled":
		return true
	}
	return false
}

// readMessage reads a message, or an event of one: the first tells what the prompt has, a later one what
// the answer has. It reports whether that is the last one with a usage.
func (p *Exchange) readMessage(a *relayedAnswer, usage []byte) bool {
	stop := a.Stop
	if a.Delta != nil {
		stop = cmp.Or(stop, a.Delta.Stop)
	}
	if len(usage) > 0 {
		u := readUsage(usage)
		p.takeMessage(&u, a.Type == "message_start" || a.Type == "message" && stop == "")
	}
	if stop != "" {
		p.over(0, finishOf(stop))
	}
	return stop != ""
}

// takeMessage counts what was told of a message. first: the answer is yet to come.
func (p *Exchange) takeMessage(u *relayedUsage, first bool) {
	prompt := u.input + u.cacheRead + u.cacheWritten // 0: a later event tells of the answer alone
	if min(u.input, u.cacheRead, u.cacheWritten) < 0 || !p.Account.believes(counted{prompt: max(prompt, 1), output: u.outputTokens}) {
		p.Account.told, p.Account.wrong = false, true
		return
	}
	p.Account.wrong = false
	if prompt > 0 {
		p.Result.PromptTokens, p.Result.CachedTokens = int(prompt), int(u.cacheRead)
		p.Result.Estimated, p.Account.guessed = false, 0
	}
	p.Result.OutputTokens = max(p.Result.OutputTokens, int(u.outputTokens))
	p.Account.told = !first
}

// responseEvent reads an event of Responses. It reports whether the answer is over.
func (r *Stream) responseEvent(data []byte, c *chunk.Chunk) (over bool) {
	switch string(c.Type.Of(data)) {
	case `"response.completed"`, `"response.incomplete"`, `"response.failed"`, `"response.cancelled"`:
		over = r.exchange.Read(data, c)
		r.done = over || r.done
	default:
		if r.exchange.tells(data, c) {
			r.exchange.Read(data, c)
		}
	}
	r.countEvent(data)
	return over
}

// messageEvent reads an event of Messages. It reports whether the answer is over.
func (r *Stream) messageEvent(data []byte, c *chunk.Chunk) (over bool) {
	switch kind := string(c.Type.Of(data)); {
	case kind == `"message_stop"`:
		r.done = true
	case kind == `"message_delta"`, r.exchange.tells(data, c):
		return r.exchange.Read(data, c)
	}
	return false
}

// countEvent notes an event's number.
func (r *Stream) countEvent(data []byte) {
	if _, rest, ok := bytes.Cut(data, []byte(`"sequence_number":`)); ok {
		digits := 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		if n, err := strconv.ParseInt(string(rest[:digits]), 10, 64); err == nil {
			r.sequence = n
		}
	}
}

// appendFault appends the event with which a broken stream ends, as the API's clients read it.
func (r *Stream) appendFault(dst []byte, fault *api.Error) []byte {
	switch r.exchange.Form {
	case MessageForm:
		dst = append(dst, "event: error\n"...)
	case ResponseForm:
		return r.appendFailed(dst, fault)
	case ChatForm:
	}
	return append(r.exchange.Route.AppendFault(append(dst, "data: "...), fault), "\n\n"...)
}

// appendFailed ends a response with what its first event said of it.
func (r *Stream) appendFailed(dst []byte, fault *api.Error) []byte {
	var first struct{ Response json.RawMessage }
	dst = append(dst, "event: "...)
	if json.Unmarshal(r.begun, &first) != nil || len(first.Response) == 0 || first.Response[0] != '{' {
		dst = append(dst, "error\ndata: {\"type\":\"error\",\"code\":"...)
		dst = api.AppendString(dst, fault.Code)
		dst = api.AppendString(append(dst, `,"message":`...), fault.Message)
		dst = append(dst, `,"param":null`...)
	} else {
		dst = append(dst, "response.failed\ndata: {\"type\":\"response.failed\",\"response\":"...)
		dst = append(dst, underName(stored.WithStatus(first.Response, "failed", responses.AppendFault(nil, fault)), r.exchange.Name)...)
	}
	dst = append(dst, `,"sequence_number":`...)
	return append(strconv.AppendInt(dst, r.sequence+1, 10), answer.EventEnd...)
}
