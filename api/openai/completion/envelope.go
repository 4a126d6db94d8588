package completion

import (
	"strconv"

	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/api/openai/logprob"
	"weir/internal/inference"
)

// envelope is what the objects of both generation endpoints have in common.
type envelope struct {
	job   *job.Job
	names logprob.Names
	head  []byte // of every chunk, up to and with choices' bracket
}

func newEnvelope(j *job.Job, chunk string) envelope {
	e := envelope{job: j, names: logprob.Names{Tokenizer: j.Model.Tokenizer, AsIDs: j.Params.TokensAsIDs}}
	e.head = e.appendHead([]byte("data: "), chunk)
	return e
}

// appendHead appends the fields that every object of a response begins with,
// up to and with choices' bracket.
func (e *envelope) appendHead(dst []byte, object string) []byte {
	j := e.job
	dst = append(dst, `{"id":`...)
	dst = api.AppendString(dst, j.Name)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, j.Created, 10)
	dst = append(dst, `,"model":`...)
	dst = api.AppendString(dst, j.Model.ID)
	dst = append(dst, `,"system_fingerprint":`...)
	if j.Model.Fingerprint == "" {
		dst = append(dst, "null"...)
	} else {
		dst = api.AppendString(dst, j.Model.Fingerprint)
	}
	if j.Terms.Tier != "" {
		dst = append(append(append(dst, `,"service_tier":"`...), j.Terms.Tier...), '"')
	}
	return append(dst, `,"choices":[`...)
}

// appendTail closes choices' bracket. Where a stream ends with its usage, the
// chunks before say that theirs is null, or with continuous_usage_stats what
// d's choice has used. d is nil in a chunk without choices.
func (e *envelope) appendTail(dst []byte, d *answer.Delta) []byte {
	dst = append(dst, ']')
	switch p := e.job.Params; {
	case !p.IncludeUsage:
		return dst
	case p.ContinuousUsage && d != nil:
		return appendUsage(append(dst, `,"usage":`...), d.Usage)
	}
	return append(dst, `,"usage":null`...)
}

// AppendEnd appends the usage chunk where asked for, and the end.
func (e *envelope) AppendEnd(dst []byte, u answer.Usage) []byte {
	if e.job.Params.IncludeUsage {
		dst = append(dst, e.head...)
		dst = append(dst, `],"usage":`...)
		dst = appendUsage(dst, u)
		dst = append(dst, "}\n\n"...)
	}
	return append(dst, answer.Done...)
}

// AppendFault implements answer.Encoder.
func (e *envelope) AppendFault(dst []byte, fault *api.Error) []byte {
	return append(fault.AppendJSON(append(dst, "data: "...)), "\n\n"...)
}

// appendReason appends the last fields of a choice: token_ids where asked for,
// finish_reason, and with it vLLM's stop_reason, which names the tenant's limit where that
// ended the choice.
func (e *envelope) appendReason(dst []byte, d *answer.Delta) []byte {
	if e.job.Params.ReturnTokenIDs {
		dst = append(dst, `,"token_ids":`...)
		dst = appendTokens(dst, d.IDs)
	}
	dst = append(dst, `,"finish_reason":`...)
	if d.Finish == inference.FinishNone {
		return append(dst, "null}"...)
	}
	dst = append(append(append(dst, '"'), e.finishReason(d)...), '"')
	dst = append(dst, `,"stop_reason":`...)
	switch s := &d.Stopped; {
	case s.IsToken:
		dst = strconv.AppendInt(dst, int64(s.Token), 10)
	case s.Text != "":
		dst = api.AppendString(dst, s.Text)
	case s.Limit != "":
		dst = api.AppendString(dst, s.Limit)
	default:
		dst = append(dst, "null"...)
	}
	if !e.job.Params.ReturnTokenIDs {
		dst = e.appendNull(dst, `,"token_ids":null`)
	}
	return append(dst, '}')
}

// finishReason is the OpenAI API's word for a choice's end. An answer that had to call the
// function that the request named ends with stop there.
func (e *envelope) finishReason(d *answer.Delta) string {
	switch t := e.job.Tools(); {
	case !d.Called || t.Named:
		return d.Finish.String()
	case t.Legacy:
		return "function_call"
	}
	return "tool_calls"
}

// appendPromptLogprobs appends what vLLM gives for prompt_logprobs, where
// asked for; a whole answer without them has null, as vLLM's.
func (e *envelope) appendPromptLogprobs(dst []byte, d *answer.Delta) []byte {
	if d.PromptTokens == nil {
		return e.appendNull(dst, `,"prompt_logprobs":null`)
	}
	dst = append(dst, `,"prompt_logprobs":[`...)
	for i := range d.PromptTokens {
		r := &d.PromptTokens[i]
		if dst = api.AppendComma(dst, i); r.Logprob != r.Logprob {
			dst = append(dst, "null"...)
			continue
		}
		dst = e.names.AppendRanked(dst, r)
	}
	return append(dst, ']')
}

// appendNull appends a field that a whole answer has without a value.
func (e *envelope) appendNull(dst []byte, field string) []byte {
	if e.job.Params.Stream {
		return dst
	}
	return append(dst, field...)
}

// logprobs tells whether a delta's log-probabilities are written. Chunks
// without tokens have none.
func (e *envelope) logprobs(d *answer.Delta) bool {
	p := e.job.Params
	return p.Logprobs && (len(d.Tokens) > 0 || !p.Stream)
}

func appendUsage(dst []byte, u answer.Usage) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Prompt), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Output), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Prompt+u.Output), 10)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Cached), 10)
	if u.Thinks {
		dst = append(dst, `},"completion_tokens_details":{"reasoning_tokens":`...)
		dst = strconv.AppendInt(dst, int64(u.Reasoning), 10)
	}
	return append(dst, "}}"...)
}

func appendTokens(dst []byte, ids []inference.TokenID) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		dst = strconv.AppendInt(api.AppendComma(dst, i), int64(id), 10)
	}
	return append(dst, ']')
}
