package stored

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"weir/api"
	"weir/api/conversation"
	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/internal/inference"
)

// A chat completion whose request says store: true is a record of the store of responses: its messages are the record's input, the whole
// answer with its metadata is the object.

// ChatPrefix begins the ids of chat completions.
const ChatPrefix = "chatcmpl-"

// Chat is what a request of a chat that is to be kept says beside its answer.
type Chat struct {
	messages []byte // JSON
	metadata []byte // JSON
}

// WantsChat reads whether a chat is to be kept; nil: it is not, or not here.
func (c *Call) WantsChat(o *jsonbody.Object) (*Chat, *api.Error) {
	own, fault := o.Unread(), (*api.Error)(nil)
	if wanted := own.Flag("store", false, &fault); fault != nil || !wanted || !c.keepsResponses() {
		return nil, nil //nolint:nilnil,nilerr // a wrong type is told by the reader of the request
	}
	metadata := own.Metadata(&fault)
	raw, _ := own.Take("messages")
	return &Chat{slices.Clone(raw), metadata}, fault
}

// Keep has the answer of a job kept, once it is whole.
func (chat *Chat) Keep(s *Responses, j *job.Job) {
	writes := j.NewEncoder
	j.Name = j.ID // the answer's id is that under which it is kept
	j.NewEncoder = func(j *job.Job) answer.Encoder {
		return &chatKeeper{Encoder: writes(j), whole: writes(j), chat: chat, job: j, responses: s}
	}
}

// chatKeeper writes an answer as its encoder does, and keeps the whole of it.
type chatKeeper struct {
	answer.Encoder
	whole     answer.Encoder // writes what a stream said, once more
	chat      *Chat
	job       *job.Job
	responses *Responses
	choices   []answer.Delta // that a stream has said so far
}

// AppendWhole implements answer.Encoder.
func (k *chatKeeper) AppendWhole(dst []byte, choices []answer.Delta, u answer.Usage) []byte {
	from := len(dst)
	dst = k.Encoder.AppendWhole(dst, choices, u)
	k.keep(dst[from:])
	return dst
}

// AppendDelta implements answer.Encoder.
func (k *chatKeeper) AppendDelta(dst []byte, d *answer.Delta) []byte {
	for len(k.choices) <= d.Choice {
		k.choices = append(k.choices, answer.Delta{Choice: len(k.choices), First: true})
	}
	c := &k.choices[d.Choice]
	c.Content, c.Reasoning = append(c.Content, d.Content...), append(c.Reasoning, d.Reasoning...)
	for _, p := range d.Calls {
		if last := len(c.Calls) - 1; !p.Begins() && last >= 0 {
			c.Calls[last].Arguments = append(c.Calls[last].Arguments, p.Arguments...)
			continue
		}
		p.Arguments = slices.Clone(p.Arguments)
		c.Calls = append(c.Calls, p)
	}
	for _, t := range d.Tokens {
		t.Top = slices.Clone(t.Top)
		c.Tokens = append(c.Tokens, t)
	}
	if d.Finish != inference.FinishNone {
		c.Finish, c.Stopped, c.Called = d.Finish, d.Stopped, d.Called
	}
	return k.Encoder.AppendDelta(dst, d)
}

// AppendEnd implements answer.Encoder.
func (k *chatKeeper) AppendEnd(dst []byte, u answer.Usage) []byte {
	if len(k.choices) > 0 {
		k.keep(k.whole.AppendWhole(nil, k.choices, u))
	}
	return k.Encoder.AppendEnd(dst, u)
}

// keep stores an answer. One that the store does not take is told as responses are.
func (k *chatKeeper) keep(object []byte) {
	id := k.job.ID
	r := conversation.Response{Tenant: k.job.Tenant.Name, ID: id, Input: storedMessages(k.chat.messages, id)}
	if k.responses.Soon(r.Tenant, id, k.responses.NewKeeper(r)).Keep("completed", withMetadata(object, k.chat.metadata)) {
		return
	}
	k.job.Params.Notes.Add("the chat completion is not kept so far: the store of responses fails or is slow")
}

// withMetadata gives an object its metadata.
func withMetadata(object, metadata []byte) []byte {
	o, fault := jsonbody.ParseObject("", object, jsonbody.MaxFields)
	if fault != nil {
		return object
	}
	o = o.Without("metadata")
	o.Add("metadata", metadata)
	return o.AppendJSON(nil)
}

// storedMessages are the messages of a chat as they are listed: each with an id, and with its parts apart.
func storedMessages(list []byte, id string) []byte {
	messages, fault := jsonbody.Array("messages", list, jsonbody.MaxFields)
	if fault != nil {
		return []byte("[]")
	}
	dst := []byte{'['}
	for i, raw := range messages {
		o, fault := jsonbody.ParseObject("", raw, jsonbody.MaxFields)
		if fault != nil {
			continue // the request was read, so there is none
		}
		content, _ := o.Take("content")
		parts := jsonbody.Null
		if len(content) > 0 && content[0] == '[' {
			parts, content = content, textsOf(content)
		}
		out := o.Without("content", "id", "content_parts", "name")
		out.Add("id", api.AppendString(nil, id+"-"+strconv.Itoa(i)))
		if len(content) == 0 {
			content = jsonbody.Null
		}
		out.Add("content", content)
		name, ok := o.Take("name")
		if !ok {
			name = jsonbody.Null
		}
		out.Add("name", name)
		out.Add("content_parts", parts)
		dst = out.AppendJSON(api.AppendComma(dst, i))
	}
	return append(dst, ']')
}

// textsOf are the texts of parts, as one.
func textsOf(parts []byte) json.RawMessage {
	var list []struct{ Text string }
	if json.Unmarshal(parts, &list) != nil {
		return jsonbody.Null
	}
	var texts []string
	for _, p := range list {
		texts = append(texts, p.Text)
	}
	return api.AppendString(nil, strings.Join(texts, "\n"))
}

// findChat finds the chat completion that the path names.
func (c *Call) findChat() (*conversation.Response, *api.Error) {
	if !c.Responses.keeps() || !strings.HasPrefix(c.ID, ChatPrefix) {
		return nil, c.noChat()
	}
	c.Responses.settle(c.Tenant.Name, c.ID)
	ctx, cancel := askContext()
	defer cancel()
	r, err := c.Responses.config.Store.FindResponse(ctx, c.Tenant.Name, c.ID)
	switch {
	case errors.Is(err, conversation.ErrUnknown):
		return nil, c.noChat()
	case err != nil:
		c.Responses.config.failed(err)
		return nil, Unavailable()
	}
	return r, nil
}

// noChat is the fault of a chat completion that is not kept.
func (c *Call) noChat() *api.Error {
	return api.RefuseParam("response_not_found", "completion_id",
		"no chat completion %s is kept: its request did not say store: true, or it was deleted, or was not used for too long", jsonbody.HeaderQuote(c.ID))
}

// ServeChat answers for one chat completion: GET, POST with metadata, DELETE.
func (c *Call) ServeChat(body func() (*jsonbody.Object, *api.Error)) *api.Error {
	switch string(c.Ctx.Method()) {
	case http.MethodDelete:
		return c.deleteChat()
	case http.MethodPost:
		o, fault := body()
		if fault != nil {
			return fault
		}
		metadata := o.Metadata(&fault)
		if o.Finish(&fault); fault != nil {
			return fault
		}
		return c.describeChat(metadata)
	}
	r, fault := c.findChat()
	if fault == nil {
		c.answer(r.Object)
	}
	return fault
}

// describeChat gives a chat completion other metadata.
func (c *Call) describeChat(metadata []byte) *api.Error {
	ctx, cancel := historyContext()
	defer cancel()
	for range mostTries {
		r, fault := c.findChat()
		if fault != nil {
			return fault
		}
		r.Object, r.Replaces, r.Status = withMetadata(r.Object, metadata), r.Status, rand.Text()
		err := c.Responses.config.Store.KeepResponse(ctx, r, c.Responses.config.TTL)
		switch {
		case err == nil:
			c.answer(r.Object)
			return nil
		case errors.Is(err, conversation.ErrUnknown):
			return c.noChat()
		case !errors.Is(err, conversation.ErrChanged):
			c.Responses.config.failed(err)
			return Unavailable()
		}
	}
	return Unavailable()
}

func (c *Call) deleteChat() *api.Error {
	if _, fault := c.findChat(); fault != nil {
		return fault
	}
	ctx, cancel := historyContext()
	defer cancel()
	err := c.Responses.config.Store.DeleteResponse(ctx, c.Tenant.Name, c.ID)
	switch {
	case errors.Is(err, conversation.ErrUnknown):
		return c.noChat()
	case err != nil:
		c.Responses.config.failed(err)
		return Unavailable()
	}
	api.WriteJSON(c.Ctx, http.StatusOK, map[string]any{"id": c.ID, "object": "chat.completion.deleted", "deleted": true})
	return nil
}

// ServeChatMessages lists the messages of a chat completion, the first first unless order says desc.
func (c *Call) ServeChatMessages() *api.Error {
	r, fault := c.findChat()
	if fault != nil {
		return fault
	}
	return c.listItems(r.Input, "asc")
}

// mostChats are read at once to find those that a list wants.
const mostChats = 100

// ListChats answers with a page of kept chat completions: limit, order, after, model, metadata[NAME].
func (c *Call) ListChats() *api.Error {
	p, fault := c.readPage("asc")
	if fault != nil {
		return fault
	}
	var found []json.RawMessage
	if c.keepsResponses() {
		if found, fault = c.chatsOf(p); fault != nil {
			return fault
		}
	}
	more := len(found) > p.limit
	api.WriteJSON(c.Ctx, http.StatusOK, pageOf(found[:min(p.limit, len(found))], more))
	return nil
}

// chatsOf are the chat completions of a page and one more, where there is one.
func (c *Call) chatsOf(p listing) (found []json.RawMessage, fault *api.Error) {
	ctx, cancel := context.WithTimeout(context.Background(), historyTimeout)
	defer cancel()
	wanted := c.chatFilter()
	q := conversation.Listing{Prefix: ChatPrefix, After: p.after, Limit: mostChats, Newest: p.newest}
	for {
		list, err := c.Responses.config.Store.ListResponses(ctx, c.Tenant.Name, q)
		if err != nil {
			c.Responses.config.failed(err)
			return nil, Unavailable()
		}
		for _, r := range list {
			if q.After = r.ID; wanted(r.Object) {
				found = append(found, r.Object)
			}
			if len(found) > p.limit {
				return found, nil
			}
		}
		if len(list) < q.Limit {
			return found, nil
		}
	}
}

// chatFilter reports which chat completions the query wants.
func (c *Call) chatFilter() func(object []byte) bool {
	args := c.Ctx.QueryArgs()
	model, pairs := string(args.Peek("model")), map[string]string{}
	for name, value := range args.All() {
		if key, ok := strings.CutPrefix(string(name), "metadata["); ok {
			pairs[strings.TrimSuffix(key, "]")] = string(value)
		}
	}
	return func(object []byte) bool {
		if model == "" && len(pairs) == 0 {
			return true
		}
		var o struct {
			Model    string
			Metadata map[string]string
		}
		if json.Unmarshal(object, &o) != nil || model != "" && o.Model != model {
			return false
		}
		for name, value := range pairs {
			if got, ok := o.Metadata[name]; !ok || got != value {
				return false
			}
		}
		return true
	}
}
