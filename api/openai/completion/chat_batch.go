package completion

import (
	"encoding/json"
	"strings"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/tokenizer"
)

// ReadChats reads a request of vLLM's /v1/chat/completions/batch: a chat whose messages are an array of conversations. Each is answered as if
// it had been asked alone, and is a choice of the answer, in their order.
func (r Reader) ReadChats(o *job.Body, m *models.Model) (*job.Job, *api.Error) {
	raw, ok := o.Take("messages")
	if !ok {
		return nil, jsonbody.Missing("messages", "an array of conversations, each an array of messages")
	}
	list, fault := jsonbody.Array("messages", raw, r.Rules.MaxChoices)
	if fault != nil {
		return nil, fault
	}
	if len(list) == 0 {
		return nil, api.RefuseParam("invalid_value", "messages", "messages is empty; it needs at least one conversation")
	}
	for i, item := range list {
		if !strings.HasPrefix(strings.TrimSpace(string(item)), "[") {
			return nil, api.RefuseParam("invalid_type", jsonbody.At("messages", i),
				"messages[%d] is no array of messages; this path takes several conversations, and /v1/chat/completions takes one", i)
		}
	}
	if m.Policy != nil {
		return nil, api.RefuseParam("unsupported_parameter", "messages", "the model %s has a policy, which reads one chat at a time: ask /v1/chat/completions", m.ID)
	}
	if fault := refuseInChats(o.Object); fault != nil {
		return nil, fault
	}
	o.Object = o.Without("messages")
	o.Add("messages", list[0])
	return r.readChat(o, m, list[1:])
}

// refuseInChats refuses what an answer to several chats has no place for.
func refuseInChats(o *jsonbody.Object) *api.Error {
	own, fault := o.Unread(), (*api.Error)(nil)
	n, _ := own.Integer("n", 1, 1<<31-1, &fault)
	asked := map[string]bool{"stream": own.Flag("stream", false, &fault), "store": own.Flag("store", false, &fault), "tools": own.Has("tools"),
		"functions": own.Has("functions"), "prompt_logprobs": own.Has("prompt_logprobs"), "n": n > 1}
	if fault != nil {
		return fault
	}
	for _, name := range []string{"stream", "store", "tools", "functions", "prompt_logprobs", "n"} {
		if asked[name] {
			return jsonbody.Unsupported(name, "several chats are answered together; ask /v1/chat/completions for each")
		}
	}
	return nil
}

// addChats adds the prompts of more chats to a job, whose first one p is of.
func (r Reader) addChats(j *job.Job, o *job.Body, p *ChatPrompt, more []json.RawMessage, options tokenizer.EncodeOptions) (fault *api.Error) {
	for i, raw := range more {
		next := *p
		if next.input.Messages, fault = parseMessages(o.Object, raw, j.Model, r.MaxMessages, &next.tools); fault != nil {
			return inChat(fault, i+1)
		}
		spans, fault := next.Render(j.Model)
		if fault != nil {
			return inChat(fault, i+1)
		}
		ids, fault := o.Permit.Encode(j.Model, "messages", spans, options)
		if fault != nil {
			return inChat(fault, i+1)
		}
		if len(ids) == 0 {
			return api.RefuseParam("invalid_value", jsonbody.At("messages", i+1), "messages[%d] renders to an empty prompt", i+1)
		}
		j.Prompts = append(j.Prompts, job.Prompt{IDs: ids})
	}
	return nil
}

// inChat says in which conversation a fault is.
func inChat(fault *api.Error, i int) *api.Error {
	own := *fault
	own.Message = "of conversation " + jsonbody.At("messages", i) + ": " + own.Message
	return &own
}
