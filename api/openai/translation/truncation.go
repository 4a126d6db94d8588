package translation

import (
	"sort"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
)

// Truncation drops the oldest messages of a conversation that does not fit the context, where the
// request says truncation: auto. What a system says before anybody else stays, and the rest
// begins with a message of the user: templates want that, and no result is left without its
// call.

// AnswerShare of the context is left for the answer at least when messages are dropped, or
// max_output_tokens where that is less.
const AnswerShare = 8

// truncated reads the chat like read, with as many of the oldest messages left out as must be.
func (w *Translation) truncated(readChat ReadChat, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
	w.Finish(o.Object)
	whole := w.Chat
	j, fault := readChat(whole.Under(w.Chat.Notes), m)
	if fault == nil || fault.Code != "context_length_exceeded" {
		return w.done(j, fault)
	}
	starts := w.Messages.starts()
	first := sort.Search(len(starts), func(i int) bool {
		if goneWrong := o.Permit.Fault(); goneWrong != nil {
			return true
		}
		kept, err := readChat(w.without(&whole, starts[i]).Under(&jsonbody.Notes{Strict: o.Notes.Strict}), m)
		return err != nil && err.Code != "context_length_exceeded" || err == nil && leavesRoom(kept)
	})
	if first == len(starts) {
		if first == 0 {
			return w.done(nil, fault)
		}
		first-- // the last message of the user alone, however little it leaves
	}
	if j, fault = readChat(w.without(&whole, starts[first]).Under(whole.Notes), m); fault == nil {
		o.Notes.Add("truncation left out %d of %d messages", starts[first]-w.Messages.leading(), len(w.Messages.roles))
	}
	return w.done(j, fault)
}

// leavesRoom reports whether the prompt leaves a fair part of the context for an answer.
func leavesRoom(j *job.Job) bool {
	wanted := j.Model.MaxModelLen / AnswerShare
	if most := j.Params.MaxTokens; most > 0 {
		wanted = min(wanted, most)
	}
	return j.Room(0) >= min(wanted, j.MaxTokens) && j.Model.MaxModelLen-len(j.Prompts[0].IDs) >= wanted
}

// without is the chat without the messages before one, except for those of the system that lead.
func (w *Translation) without(whole *job.Body, before int) *job.Body {
	t := &w.Messages
	messages := []byte{'['}
	for i, m := range t.messages() {
		if i < t.leading() || i >= before {
			messages = append(api.AppendComma(messages, len(messages)-1), m...)
		}
	}
	chat := *whole
	chat.Object = whole.Without("messages")
	chat.Add("messages", append(messages, ']'))
	return &chat
}

// leading is how many messages of the system stand before all others.
func (t *Messages) leading() int {
	n := 0
	for n < len(t.roles) && t.roles[n] == "system" {
		n++
	}
	return n
}

// starts are the messages of the user with which the rest of a conversation may begin, except for
// the first, in order.
func (t *Messages) starts() (list []int) {
	for i := t.leading() + 1; i < len(t.roles); i++ {
		if t.roles[i] == "user" {
			list = append(list, i)
		}
	}
	return list
}

// messages are the messages that were written, as JSON.
func (t *Messages) messages() (list [][]byte) {
	for i, from := range t.begins {
		to := len(t.list)
		if i+1 < len(t.begins) {
			to = t.begins[i+1] - 1 // its comma
		}
		list = append(list, t.list[from:to])
	}
	return list
}
