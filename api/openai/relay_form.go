package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"

	"weir/api"
	"weir/internal/inference"
)

// form is how an API writes its answers.
type form uint8

const (
	chatForm form = iota // chat completions, completions, and what has their usage
	responseForm
	messageForm
)

func formOf(path string) form {
	switch path {
	case responseEndpoint.upstream:
		return responseForm
	case messageEndpoint.upstream:
		return messageForm
	}
	return chatForm
}

// relayedAnswer is what is read of an answer or of a chunk.
type relayedAnswer struct {
	Usage   *relayedUsage
	Choices []struct {
		Index  int
		Reason string `json:"finish_reason"`
	}

	chunkHead

	Type   string // of an event; of a whole answer of Messages: message
	Status string // of a response

	Incomplete struct{ Reason string } `json:"incomplete_details"`

	Stop string `json:"stop_reason"` // of a message

	Response, Message *relayedAnswer // of an event
	Delta             *struct {
		Stop string `json:"stop_reason"`
	}
	Sequence int64 `json:"sequence_number"`
}

// chunkHead is what the events of a chat's stream have in common.
type chunkHead struct {
	ID, Object, Created json.RawMessage
}

// relayedUsage counts tokens in the words of each API.
type relayedUsage struct {
	Prompt  told  `json:"prompt_tokens"`
	Output  *told `json:"completion_tokens"`
	Total   told  `json:"total_tokens"`
	Details struct {
		Cached told `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	OutputDetails struct {
		Reasoning told `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`

	ResponseDetails struct {
		Reasoning told `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`

	Input        told `json:"input_tokens"`
	InputDetails struct {
		Cached told `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens told `json:"output_tokens"`
	CacheRead    told `json:"cache_read_input_tokens"` // of Messages, whose input_tokens leave them out, and those that follow
	CacheWritten told `json:"cache_creation_input_tokens"`
}

// read takes usage and finish reasons out of an answer or a chunk, and reports whether it is the end of
// a stream of typed events. What is not JSON passes unread.
func (p *passage) read(text []byte) (ends bool) {
	var a relayedAnswer
	if json.Unmarshal(text, &a) != nil {
		return false
	}
	switch p.form {
	case responseForm:
		return p.readResponse(cmp.Or(a.Response, &a))
	case messageForm:
		p.readMessage(&a)
		return a.Type == "message_stop"
	case chatForm:
		p.readChat(&a)
	}
	return false
}

// readChat reads a chat completion or a completion, whole or a chunk of one.
func (p *passage) readChat(a *relayedAnswer) {
	if u := a.Usage; u != nil {
		p.take(u.ofChat())
	}
	for _, c := range a.Choices {
		if c.Reason != "" {
			p.over(c.Index, finishOf(c.Reason))
			p.account.head = a.chunkHead
		}
	}
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
func (p *passage) readResponse(a *relayedAnswer) bool {
	if u := a.Usage; u != nil {
		p.take(counted{u.Input, u.InputDetails.Cached, u.OutputTokens, u.ResponseDetails.Reasoning, u.Total})
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
// the answer has.
func (p *passage) readMessage(a *relayedAnswer) {
	stop := a.Stop
	if a.Delta != nil {
		stop = cmp.Or(stop, a.Delta.Stop)
	}
	for _, part := range []*relayedAnswer{a, a.Message} {
		if part == nil || part.Usage == nil {
			continue
		}
		u := part.Usage
		prompt := u.Input + u.CacheRead + u.CacheWritten // 0: a later event tells of the answer alone
		if min(u.Input, u.CacheRead, u.CacheWritten) < 0 || !p.account.believes(counted{prompt: max(prompt, 1), output: u.OutputTokens}) {
			p.account.told = false
			continue
		}
		if prompt > 0 {
			p.result.PromptTokens, p.result.CachedTokens = int(prompt), int(u.CacheRead)
		}
		p.result.OutputTokens = max(p.result.OutputTokens, int(u.OutputTokens))
		p.account.told = part.Type != "message" || stop != "" // the first one counts what is yet to come
	}
	if stop != "" {
		p.over(0, finishOf(stop))
	}
}

// responseEvent reads an event of Responses.
func (r *relayStream) responseEvent(data []byte) {
	switch {
	case r.begun == nil && bytes.Contains(data, []byte(`"response.created"`)):
		r.begun = bytes.Clone(data)
	case bytes.Contains(data, []byte(`"response.completed"`)) || bytes.Contains(data, []byte(`"response.incomplete"`)) ||
		bytes.Contains(data, []byte(`"response.failed"`)) || bytes.Contains(data, []byte(`"response.cancelled"`)):
		r.done = r.p.read(data) || r.done
	}
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
func (r *relayStream) appendFault(dst []byte, fault *api.Error) []byte {
	switch r.p.form {
	case messageForm:
		dst = append(dst, "event: error\n"...)
	case responseForm:
		return r.appendFailed(dst, fault)
	case chatForm:
	}
	return append(r.p.route.appendFault(append(dst, "data: "...), fault), "\n\n"...)
}

// appendFailed ends a response with what its first event said of it.
func (r *relayStream) appendFailed(dst []byte, fault *api.Error) []byte {
	var first struct{ Response json.RawMessage }
	dst = append(dst, "event: "...)
	if json.Unmarshal(r.begun, &first) != nil || len(first.Response) == 0 || first.Response[0] != '{' {
		dst = append(dst, "error\ndata: {\"type\":\"error\",\"code\":"...)
		dst = api.AppendString(dst, fault.Code)
		dst = api.AppendString(append(dst, `,"message":`...), fault.Message)
		dst = append(dst, `,"param":null`...)
	} else {
		dst = append(dst, "response.failed\ndata: {\"type\":\"response.failed\",\"response\":"...)
		dst = append(dst, underName(withStatus(first.Response, "failed", appendResponseFault(nil, fault)), r.p.name)...)
	}
	dst = append(dst, `,"sequence_number":`...)
	return append(strconv.AppendInt(dst, r.sequence+1, 10), eventEnd...)
}
