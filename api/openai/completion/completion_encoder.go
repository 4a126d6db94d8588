package completion

import (
	"strconv"

	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/api/openai/logprob"
)

// completionEncoder writes text_completion objects, which the legacy endpoint
// uses for whole answers and for chunks.
type completionEncoder struct{ envelope }

const completionObject = "text_completion"

// NewCompletionEncoder writes the answer of a completion.
func NewCompletionEncoder(j *job.Job) answer.Encoder {
	return &completionEncoder{newEnvelope(j, completionObject)}
}

// AppendDelta implements answer.Encoder.
func (e *completionEncoder) AppendDelta(dst []byte, d *answer.Delta) []byte {
	return e.closeChunk(e.appendChoice(append(dst, e.head...), d), d)
}

// AppendPulse implements answer.Encoder.
func (e *completionEncoder) AppendPulse(dst []byte) []byte {
	return e.closeChunk(append(dst, e.head...), nil)
}

// closeChunk ends a chunk behind its choices, which d is unless it is nil.
func (e *completionEncoder) closeChunk(dst []byte, d *answer.Delta) []byte {
	return append(e.appendTail(dst, d), "}\n\n"...)
}

// AppendWhole implements answer.Encoder.
func (e *completionEncoder) AppendWhole(dst []byte, choices []answer.Delta, u answer.Usage) []byte {
	dst = e.appendHead(dst, completionObject)
	for i := range choices {
		dst = e.appendChoice(api.AppendComma(dst, i), &choices[i])
	}
	dst = append(dst, `],"usage":`...)
	return append(appendUsage(dst, u), '}')
}

func (e *completionEncoder) appendChoice(dst []byte, d *answer.Delta) []byte {
	dst = append(dst, `{"text":`...)
	dst = api.AppendString(dst, d.Content)
	dst = append(dst, `,"index":`...)
	dst = strconv.AppendInt(dst, int64(d.Choice), 10)
	dst = e.appendLogprobs(dst, d)
	dst = e.appendPromptLogprobs(dst, d)
	if d.First && e.job.Params.ReturnTokenIDs {
		dst = append(dst, `,"prompt_token_ids":`...)
		dst = appendTokens(dst, e.job.Prompts[d.Prompt].IDs)
	} else {
		dst = e.appendNull(dst, `,"prompt_token_ids":null`)
	}
	return e.appendReason(dst, d)
}

// appendLogprobs appends {"tokens","token_logprobs","top_logprobs",
// "text_offset"}. Offsets count Unicode code points from the beginning of the
// choice's text.
func (e *completionEncoder) appendLogprobs(dst []byte, d *answer.Delta) []byte {
	dst = append(dst, `,"logprobs":`...)
	if !e.logprobs(d) {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"tokens":[`...)
	for i := range d.Tokens {
		dst = e.names.AppendName(api.AppendComma(dst, i), d.Tokens[i].ID)
	}
	dst = append(dst, `],"token_logprobs":[`...)
	for i := range d.Tokens {
		dst = logprob.AppendLogprob(api.AppendComma(dst, i), d.Tokens[i].Logprob)
	}
	dst = append(dst, `],"top_logprobs":[`...)
	for i := range d.Tokens {
		dst = e.appendTop(api.AppendComma(dst, i), &d.Tokens[i])
	}
	dst = append(dst, `],"text_offset":[`...)
	for i := range d.Tokens {
		dst = strconv.AppendInt(api.AppendComma(dst, i), int64(d.Tokens[i].Start.Runes), 10)
	}
	return append(dst, "]}"...)
}

// appendTop appends the object of one token, or null where the token has no
// logprob: nothing comes before the first one.
func (e *completionEncoder) appendTop(dst []byte, r *answer.TokenRecord) []byte {
	if r.Logprob != r.Logprob {
		return append(dst, "null"...)
	}
	return e.names.AppendTopOf(dst, r)
}
