package relay

import (
	"math"
	"strconv"

	"weir/api/openai/jsonbody"
	"weir/router/chunk"
)

// told is a number of tokens in a server's usage; notTold is what cannot be one.
type told int

const notTold told = -1

// maxToldTokens bounds what a request can have of one kind of tokens: no context and no batch of inputs comes near.
const maxToldTokens = 1 << 28

// toldOf is a number of tokens as JSON. null is none.
func toldOf(raw []byte) told {
	if string(raw) == "null" {
		return 0
	}
	if f, err := strconv.ParseFloat(string(raw), 64); err == nil && f >= 0 && f <= maxToldTokens && f == math.Trunc(f) {
		return told(f)
	}
	return notTold
}

// relayedUsage counts tokens in the words of each API.
type relayedUsage struct {
	prompt, output, total told // of chats
	tellsOutput           bool
	cached, reasoning     told

	input, outputTokens         told // of Responses and Messages
	inputCached, outputThoughts told // of Responses
	cacheRead, cacheWritten     told // of Messages, whose input_tokens leave them out
}

// readUsage reads a usage of any API. What is no object tells nothing that can be.
func readUsage(raw []byte) relayedUsage {
	if len(raw) == 0 || raw[0] != '{' {
		return relayedUsage{prompt: notTold, input: notTold}
	}
	var u relayedUsage
	for name, value := range chunk.Fields(raw) {
		switch name {
		case "prompt_tokens":
			u.prompt = toldOf(value)
		case "completion_tokens":
			u.output, u.tellsOutput = toldOf(value), !jsonbody.IsNull(value)
		case "total_tokens":
			u.total = toldOf(value)
		case "input_tokens":
			u.input = toldOf(value)
		case "output_tokens":
			u.outputTokens = toldOf(value)
		case "cache_read_input_tokens":
			u.cacheRead = toldOf(value)
		case "cache_creation_input_tokens":
			u.cacheWritten = toldOf(value)
		case "prompt_tokens_details":
			u.cached = detailOf(value, cachedTokens)
		case "completion_tokens_details":
			u.reasoning = detailOf(value, reasoningTokens)
		case "input_tokens_details":
			u.inputCached = detailOf(value, cachedTokens)
		case "output_tokens_details":
			u.outputThoughts = detailOf(value, reasoningTokens)
		}
	}
	return u
}

const cachedTokens, reasoningTokens = "cached_tokens", "reasoning_tokens"

// detailOf is a number of tokens in the details of another one.
func detailOf(raw []byte, name string) (n told) {
	for field, value := range chunk.Fields(raw) {
		if field == name {
			n = toldOf(value)
		}
	}
	return n
}

// counted is what a server says that an answer used.
type counted struct{ prompt, cached, output, reasoning, total told }

// ofChat is the usage of a chat or a completion, and of what has no output: embeddings, rankings and decisions, of which the last have the
// words of responses. A server that leaves the output out tells it by the total.
func (u *relayedUsage) ofChat() counted {
	if u.prompt == 0 && u.input > 0 {
		c := u.ofResponse()
		c.total = max(c.total, c.prompt+c.output)
		return c
	}
	c := counted{prompt: u.prompt, cached: u.cached, reasoning: u.reasoning, total: u.total}
	switch {
	case u.tellsOutput:
		c.output = u.output
	case u.prompt >= 0 && u.total >= u.prompt:
		c.output = u.total - u.prompt
	default:
		c.output = notTold
	}
	if u.prompt == 0 && u.output == 0 { // rerankers count one number
		c.prompt, c.output = u.total, 0
	}
	return c
}

// ofResponse is the usage of a response.
func (u *relayedUsage) ofResponse() counted {
	return counted{u.input, u.inputCached, u.outputTokens, u.outputThoughts, u.total}
}

// hiddenTokens of an answer may be neither in its texts nor among the thoughts that the server tells of: Anthropic's API bills thoughts
// of which it sends a summary, and models think within 128k tokens.
const hiddenTokens = 1 << 17

// tokensPerByte bounds the tokens that a text has: what a model writes has no more, whatever characters it writes.
const tokensPerByte = 8

// mostThoughts of one answer are believed.
const mostThoughts = 1 << 20

// believesPrompt reports whether the prompt can have so many tokens.
func (a *Account) believesPrompt(n told) bool {
	return n >= 0 && (n > 0 || !a.asks) && (a.fits == nil || a.fits(int(n)))
}

// hasParts reports whether the parts of what was told fit the whole: cached tokens are some of the prompt's, and thoughts some of the
// output's, or beside them where the total has them too (xAI's servers count so).
func (c *counted) hasParts(answers int) bool {
	return c.total >= 0 && c.cached >= 0 && c.cached <= c.prompt && c.reasoning >= 0 && int(c.reasoning) <= max(answers, 1)*mostThoughts &&
		c.reasoning <= max(c.output, c.total-c.prompt-c.output)
}

// believes reports whether an answer can have used what its server tells, by what was asked and what has come.
func (a *Account) believes(c counted) bool {
	said := int(c.output - min(max(c.reasoning, 0), c.output)) // some servers' limits do not count thoughts
	switch {
	case c.output < 0, !a.believesPrompt(c.prompt), !c.hasParts(a.answers), a.most > 0 && said > a.most:
		return false
	case !a.writes || a.beside:
		return true
	}
	return said <= hiddenTokens+tokensPerByte*a.size
}

// take counts what was told, unless a request cannot have used that: then its text counts.
func (p *Exchange) take(c counted) {
	r := &p.Result
	if p.Account.believesPrompt(c.prompt) {
		r.PromptTokens, r.CachedTokens = int(c.prompt), 0
		if c.cached > 0 && c.cached <= c.prompt {
			r.CachedTokens = int(c.cached)
		}
	}
	p.Account.told = p.Account.believes(c)
	if p.Account.wrong = !p.Account.told; p.Account.wrong {
		return
	}
	r.Estimated, p.Account.guessed = false, 0
	r.OutputTokens = int(c.output)
	p.reasoned = int(min(c.reasoning, c.output))
}
