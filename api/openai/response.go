package openai

import (
	"strconv"

	"weir/api"
)

// Responses are appended by hand: their bytes are the contract, and a stream
// writes them once per token.

// appendHead appends the fields that every object of a response begins with,
// up to and with choices' bracket.
func (g *generation) appendHead(dst []byte, object string) []byte {
	j := g.job
	dst = append(dst, `{"id":"`...)
	dst = append(dst, j.id...)
	dst = append(dst, `","object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, j.created, 10)
	dst = append(dst, `,"model":`...)
	dst = api.AppendString(dst, j.model.ID)
	dst = append(dst, `,"system_fingerprint":`...)
	if j.model.Fingerprint == "" {
		dst = append(dst, "null"...)
	} else {
		dst = api.AppendString(dst, j.model.Fingerprint)
	}
	return append(dst, `,"choices":[`...)
}

// appendUsage appends the usage object.
func (g *generation) appendUsage(dst []byte) []byte {
	prompt, output := g.result.PromptTokens, g.outputTokens()
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(prompt), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(output), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(prompt+output), 10)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, int64(g.cachedTokens()), 10)
	return append(dst, "}}"...)
}

// appendResponse appends the whole answer, after run.
func (g *generation) appendResponse(dst []byte) []byte {
	object := "text_completion"
	if g.job.chat {
		object = "chat.completion"
	}
	dst = g.appendHead(dst, object)
	for i, c := range g.choices {
		if g.job.echo {
			g.echoed(c)
		}
		dst = comma(dst, i)
		if g.job.chat {
			dst = g.appendMessageChoice(dst, c)
		} else {
			dst = g.appendTextChoice(dst, c, len(c.records), true)
		}
	}
	dst = append(dst, `],"usage":`...)
	dst = g.appendUsage(dst)
	if g.job.chat && g.job.params.returnTokenIDs {
		dst = append(dst, `,"prompt_token_ids":`...)
		dst = appendTokens(dst, g.job.prompts[0].ids)
	}
	return append(dst, '}')
}

// appendMessageChoice appends a whole choice of a chat.
func (g *generation) appendMessageChoice(dst []byte, c *choice) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(c.index), 10)
	dst = append(dst, `,"message":{"role":"assistant","content":`...)
	dst = api.AppendString(dst, c.text)
	dst = append(dst, `,"refusal":null},"logprobs":`...)
	dst = g.appendLogprobs(dst, c, len(c.records))
	return g.appendEnd(dst, c)
}

// appendTextChoice appends a choice of a legacy completion, whole or as a
// chunk: the text that is there and its first n records.
func (g *generation) appendTextChoice(dst []byte, c *choice, n int, first bool) []byte {
	dst = append(dst, `{"text":`...)
	dst = api.AppendString(dst, c.text)
	dst = append(dst, `,"index":`...)
	dst = strconv.AppendInt(dst, int64(c.index), 10)
	dst = append(dst, `,"logprobs":`...)
	dst = g.appendLogprobs(dst, c, n)
	if first && g.job.params.returnTokenIDs {
		dst = append(dst, `,"prompt_token_ids":`...)
		dst = appendTokens(dst, g.job.prompts[c.index/g.job.params.n].ids)
	}
	return g.appendEnd(dst, c)
}

// appendLogprobs appends the first n records, or null where none were asked
// for and in chunks that have none.
func (g *generation) appendLogprobs(dst []byte, c *choice, n int) []byte {
	p := g.job.params
	switch {
	case !p.logprobs || n == 0 && p.stream:
		return append(dst, "null"...)
	case g.job.chat:
		return g.appendChatLogprobs(dst, c.records[:n])
	}
	return g.appendTextLogprobs(dst, c.records[:n])
}

// appendEnd appends token_ids where asked for, and finish_reason. A chunk
// that carries text never carries the reason too; a whole choice does.
func (g *generation) appendEnd(dst []byte, c *choice) []byte {
	if g.job.params.returnTokenIDs {
		dst = append(dst, `,"token_ids":`...)
		dst = appendTokens(dst, c.ids)
	}
	dst = append(dst, `,"finish_reason":`...)
	if r := c.finish.String(); r != "" && !c.holdReason {
		dst = append(append(append(dst, '"'), r...), '"')
	} else {
		dst = append(dst, "null"...)
	}
	return append(dst, '}')
}
