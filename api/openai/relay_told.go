package openai

import (
	"math"
	"strconv"
)

// told is a number of tokens in a server's usage; notTold is what cannot be one.
type told int

const notTold told = -1

// maxToldTokens bounds what a request can have of one kind of tokens: no context and no batch of inputs comes near.
const maxToldTokens = 1 << 28

// UnmarshalJSON never fails: what else the answer says counts whatever stands here.
func (n *told) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	*n = notTold
	if f, err := strconv.ParseFloat(string(raw), 64); err == nil && f >= 0 && f <= maxToldTokens && f == math.Trunc(f) {
		*n = told(f)
	}
	return nil
}

// counted is what a server says that an answer used.
type counted struct{ prompt, cached, output, reasoning, total told }

// ofChat is the usage of a chat or a completion, and of what has no output: embeddings and rankings. A server that leaves the
// output out tells it by the total.
func (u *relayedUsage) ofChat() counted {
	c := counted{prompt: u.Prompt, cached: u.Details.Cached, reasoning: u.OutputDetails.Reasoning, total: u.Total}
	switch {
	case u.Output != nil:
		c.output = *u.Output
	case u.Prompt >= 0 && u.Total >= u.Prompt:
		c.output = u.Total - u.Prompt
	default:
		c.output = notTold
	}
	if u.Prompt == 0 && (u.Output == nil || *u.Output == 0) { // rerankers count one number
		c.prompt, c.output = u.Total, 0
	}
	return c
}

// hiddenTokens of an answer may be neither in its texts nor among the thoughts that the server tells of: Anthropic's API bills thoughts
// of which it sends a summary, and models think within 128k tokens.
const hiddenTokens = 1 << 17

// tokensPerByte bounds the tokens that a text has: what a model writes has no more, whatever characters it writes.
const tokensPerByte = 8

// mostThoughts of one answer are believed.
const mostThoughts = 1 << 20

// believesPrompt reports whether the prompt can have so many tokens.
func (a *account) believesPrompt(n told) bool {
	return n >= 0 && (n > 0 || !a.asks) && (a.fits == nil || a.fits(int(n)))
}

// hasParts reports whether the parts of what was told fit the whole: cached tokens are some of the prompt's, and thoughts some of the
// output's, or beside them where the total has them too (xAI's servers count so).
func (c *counted) hasParts(answers int) bool {
	return c.total >= 0 && c.cached >= 0 && c.cached <= c.prompt && c.reasoning >= 0 && int(c.reasoning) <= max(answers, 1)*mostThoughts &&
		c.reasoning <= max(c.output, c.total-c.prompt-c.output)
}

// believes reports whether an answer can have used what its server tells, by what was asked and what has come.
func (a *account) believes(c counted) bool {
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
func (p *passage) take(c counted) {
	r := &p.result
	if p.account.believesPrompt(c.prompt) {
		r.PromptTokens, r.CachedTokens = int(c.prompt), 0
		if c.cached > 0 && c.cached <= c.prompt {
			r.CachedTokens = int(c.cached)
		}
	}
	if p.account.told = p.account.believes(c); !p.account.told {
		return
	}
	r.OutputTokens = int(c.output)
	p.reasoned = int(min(c.reasoning, c.output))
}
