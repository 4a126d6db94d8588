package openai

import (
	"strconv"

	"weir/api"
)

// completionEncoder writes text_completion objects, which the legacy endpoint
// uses for whole answers and for chunks.
type completionEncoder struct{ envelope }

const completionObject = "text_completion"

func newCompletionEncoder(j *job) encoder {
	return &completionEncoder{newEnvelope(j, completionObject)}
}

func (e *completionEncoder) appendDelta(dst []byte, d *delta) []byte {
	return e.closeChunk(e.appendChoice(append(dst, e.head...), d), d)
}

func (e *completionEncoder) appendPulse(dst []byte) []byte {
	return e.closeChunk(append(dst, e.head...), nil)
}

// closeChunk ends a chunk behind its choices, which d is unless it is nil.
func (e *completionEncoder) closeChunk(dst []byte, d *delta) []byte {
	return append(e.appendTail(dst, d), "}\n\n"...)
}

func (e *completionEncoder) appendWhole(dst []byte, choices []delta, u usage) []byte {
	dst = e.appendHead(dst, completionObject)
	for i := range choices {
		dst = e.appendChoice(api.AppendComma(dst, i), &choices[i])
	}
	dst = append(dst, `],"usage":`...)
	return append(appendUsage(dst, u), '}')
}

func (e *completionEncoder) appendChoice(dst []byte, d *delta) []byte {
	dst = append(dst, `{"text":`...)
	dst = api.AppendString(dst, d.content)
	dst = append(dst, `,"index":`...)
	dst = strconv.AppendInt(dst, int64(d.choice), 10)
	dst = e.appendLogprobs(dst, d)
	dst = e.appendPromptLogprobs(dst, d)
	if d.first && e.job.params.ReturnTokenIDs {
		dst = append(dst, `,"prompt_token_ids":`...)
		dst = appendTokens(dst, e.job.prompts[d.prompt].ids)
	}
	return e.appendReason(dst, d)
}

// appendLogprobs appends {"tokens","token_logprobs","top_logprobs",
// "text_offset"}. Offsets count Unicode code points from the beginning of the
// choice's text.
func (e *completionEncoder) appendLogprobs(dst []byte, d *delta) []byte {
	dst = append(dst, `,"logprobs":`...)
	if !e.logprobs(d) {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"tokens":[`...)
	for i := range d.tokens {
		dst = e.names.appendName(api.AppendComma(dst, i), d.tokens[i].id)
	}
	dst = append(dst, `],"token_logprobs":[`...)
	for i := range d.tokens {
		dst = appendLogprob(api.AppendComma(dst, i), d.tokens[i].logprob)
	}
	dst = append(dst, `],"top_logprobs":[`...)
	for i := range d.tokens {
		dst = e.appendTop(api.AppendComma(dst, i), &d.tokens[i])
	}
	dst = append(dst, `],"text_offset":[`...)
	for i := range d.tokens {
		dst = strconv.AppendInt(api.AppendComma(dst, i), int64(d.tokens[i].start.runes), 10)
	}
	return append(dst, "]}"...)
}

// appendTop appends the object of one token, or null where the token has no
// logprob: nothing comes before the first one.
func (e *completionEncoder) appendTop(dst []byte, r *tokenRecord) []byte {
	if r.logprob != r.logprob {
		return append(dst, "null"...)
	}
	return e.names.appendTopOf(dst, r)
}
