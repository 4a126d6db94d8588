package openai

import (
	"strconv"

	"weir/api"
)

// chatEncoder writes chat.completion objects and their chunks.
type chatEncoder struct {
	envelope
	promptIDs bool // prompt_token_ids are still due
}

func newChatEncoder(j *job) encoder {
	return &chatEncoder{envelope: newEnvelope(j, "chat.completion.chunk"), promptIDs: j.params.returnTokenIDs}
}

func (e *chatEncoder) appendDelta(dst []byte, d *delta) []byte {
	dst = append(dst, e.head...)
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(d.choice), 10)
	dst = append(dst, `,"delta":{`...)
	if d.first {
		dst = append(dst, `"role":"assistant",`...)
	}
	if d.first || len(d.content) > 0 {
		dst = append(dst, `"content":`...)
		dst = api.AppendString(dst, d.content)
	}
	dst = append(dst, '}')
	dst = e.appendLogprobs(dst, d)
	dst = e.appendReason(dst, d)
	return e.closeChunk(dst, d)
}

func (e *chatEncoder) appendPulse(dst []byte) []byte {
	return e.closeChunk(append(dst, e.head...), nil)
}

// closeChunk ends a chunk behind its choices, which d is unless it is nil.
func (e *chatEncoder) closeChunk(dst []byte, d *delta) []byte {
	dst = e.appendTail(dst, d)
	dst = e.appendPromptIDs(dst)
	return append(dst, "}\n\n"...)
}

func (e *chatEncoder) appendWhole(dst []byte, choices []delta, u usage) []byte {
	dst = e.appendHead(dst, "chat.completion")
	for i := range choices {
		dst = e.appendMessage(comma(dst, i), &choices[i])
	}
	dst = append(dst, `],"usage":`...)
	dst = appendUsage(dst, u)
	dst = e.appendPromptLogprobs(dst, &choices[0])
	dst = e.appendPromptIDs(dst)
	return append(dst, '}')
}

func (e *chatEncoder) appendMessage(dst []byte, d *delta) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(d.choice), 10)
	dst = append(dst, `,"message":{"role":"assistant","content":`...)
	dst = api.AppendString(dst, d.content)
	dst = append(dst, `,"refusal":null}`...)
	dst = e.appendLogprobs(dst, d)
	return e.appendReason(dst, d)
}

// appendPromptIDs appends the ids of the prompt to the object that comes
// first, where asked for.
func (e *chatEncoder) appendPromptIDs(dst []byte) []byte {
	if !e.promptIDs {
		return dst
	}
	e.promptIDs = false
	dst = append(dst, `,"prompt_token_ids":`...)
	return appendTokens(dst, e.job.prompts[0].ids)
}

// appendLogprobs appends {"content":[…],"refusal":null}.
func (e *chatEncoder) appendLogprobs(dst []byte, d *delta) []byte {
	dst = append(dst, `,"logprobs":`...)
	if !e.logprobs(d) {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"content":[`...)
	for i := range d.tokens {
		r := &d.tokens[i]
		dst = append(comma(dst, i), '{')
		dst = e.names.appendTokenLogprob(dst, r.id, r.logprob)
		dst = append(dst, `,"top_logprobs":[`...)
		for k, alt := range r.top {
			dst = append(e.names.appendTokenLogprob(append(comma(dst, k), '{'), alt.ID, alt.Logprob), '}')
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, `],"refusal":null}`...)
}
