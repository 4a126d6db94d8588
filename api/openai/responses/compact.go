package responses

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/translation"
)

// POST /v1/responses/compact has the model sum a conversation up. Its answer has what the user said, word for word, and one item of type
// compaction with the summary, which a client sends as the input of its next request, in place of the conversation.

const compactionOrder = "Sum up the conversation so far, for an assistant who will go on with it and has not read it: what the user wants, what was decided and why, " +
	"what was done and found out (names, paths, numbers and code that matter, exactly), and what is still to be done. Write the summary alone, in at most 500 words."

const (
	compactionIntro  = "Summary of the conversation so far:\n\n"
	compactionFormat = "weir1." // begins the content of an item; what follows is base64
	mostSummary      = 2048     // tokens
)

// compaction is what the answer needs of its request.
type compaction struct {
	request *Request
	earlier []json.RawMessage
}

// said is what the user said, each with an id of its own.
func (c *compaction) said(id string) (list []json.RawMessage) {
	items := c.earlier
	if c.request.input != nil {
		own, fault := jsonbody.Array("input", c.request.StoredInput(id), translation.MaxItems)
		if fault == nil {
			items = append(slices.Clone(items), own...)
		}
	}
	for _, item := range items {
		var said struct{ Type, Role string }
		if json.Unmarshal(item, &said) == nil && said.Type == "message" && said.Role == "user" {
			list = append(list, item)
		}
	}
	return list
}

// TranslateCompaction writes a request of POST /v1/responses/compact as a chat that ends with the order to sum it up.
func TranslateCompaction(o *job.Body) (*translation.Translation, *api.Error) {
	var fault *api.Error
	w := translation.New(o, "input", "call_id", responseNames...)
	if o.Flag("stream", false, &fault) {
		jsonbody.Keep(&fault, jsonbody.Unsupported("stream", "leave it out: a compaction comes whole"))
	}
	r := &Request{Previous: o.Previous}
	for _, name := range []string{"image", "prompt_cache_options", "prompt_cache_retention", "store", "conversation"} {
		o.Take(name) // they say nothing of the summary
	}
	if !o.Has("input") && len(o.Earlier) > 0 {
		for _, item := range o.Earlier {
			jsonbody.Keep(&fault, readItem(&w.Messages, o.Object, "previous_response_id", item))
		}
	} else {
		r.readInput(o, w, &fault)
	}
	w.Messages.Ask("input", compactionOrder)
	w.Own = &compaction{r, o.Earlier}
	return w, fault
}

// ReadCompaction reads a request of POST /v1/responses/compact into a job.
func ReadCompaction(readChat translation.ReadChat, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
	if m.Template == nil {
		return nil, m.NoTemplate()
	}
	w, fault := TranslateCompaction(o)
	if fault != nil {
		return nil, fault
	}
	j, fault := w.Read(readChat, o, m)
	if fault == nil {
		j.MaxTokens = min(j.MaxTokens, mostSummary)
	}
	return j, fault
}

// readCompaction adds the summary of an earlier part of the conversation.
func readCompaction(t *translation.Messages, item *jsonbody.Object, fault **api.Error) {
	text, ours := strings.CutPrefix(item.Need("encrypted_content", fault), compactionFormat)
	summary, err := base64.RawURLEncoding.DecodeString(text)
	if !ours || err != nil {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", jsonbody.Join(item.Path, "encrypted_content"),
			"%s is not of this server's POST /v1/responses/compact; send the conversation itself", jsonbody.Join(item.Path, "encrypted_content")))
		return
	}
	t.Reply(item.Path, api.AppendString(nil, append([]byte(compactionIntro), summary...)))
}

// compactionEncoder writes the objects of POST /v1/responses/compact, which are no streams.
type compactionEncoder struct{ job *job.Job }

// NewCompactionEncoder writes the answer of a compaction.
func NewCompactionEncoder(j *job.Job) answer.Encoder { return compactionEncoder{j} }

// AppendWhole implements answer.Encoder.
func (e compactionEncoder) AppendWhole(dst []byte, choices []answer.Delta, u answer.Usage) []byte {
	dst = api.AppendString(append(dst, `{"id":`...), e.job.ID)
	dst = strconv.AppendInt(append(dst, `,"object":"response.compaction","created_at":`...), e.job.Created, 10)
	dst = append(dst, `,"output":[`...)
	if c, ok := e.job.Own.(*compaction); ok {
		for _, item := range c.said(e.job.ID) {
			dst = append(append(dst, item...), ',')
		}
	}
	summary := choices[0].Content
	if len(summary) == 0 {
		summary = choices[0].Reasoning // a thought that came to no end says more than nothing
	}
	dst = api.AppendString(append(dst, `{"id":`...), "cmp_"+strings.TrimPrefix(e.job.ID, Prefix))
	dst = append(dst, `,"type":"compaction","encrypted_content":"`...)
	dst = base64.RawURLEncoding.AppendEncode(append(dst, compactionFormat...), summary)
	dst = append(dst, `"}],"usage":`...)
	return append(AppendUsage(dst, &u), '}')
}

// AppendDelta implements answer.Encoder.
func (compactionEncoder) AppendDelta(dst []byte, _ *answer.Delta) []byte { return dst }

// AppendPulse implements answer.Encoder.
func (compactionEncoder) AppendPulse(dst []byte) []byte { return dst }

// AppendEnd implements answer.Encoder.
func (compactionEncoder) AppendEnd(dst []byte, _ answer.Usage) []byte { return dst }

// AppendFault implements answer.Encoder.
func (compactionEncoder) AppendFault(dst []byte, fault *api.Error) []byte {
	return fault.AppendJSON(dst)
}
