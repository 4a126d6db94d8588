// Package choice turns the tokens of one answer into text that is certain to be part of it, thoughts and calls: stop strings, policies, what families mark.
package choice

import (
	"slices"
	"time"

	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/api/openai/stop"
	"weir/internal/inference"
	"weir/tokenizer"
)

// Choice is one answer that is being generated: it turns token events into text
// that is certain to be part of the output, which a stop string might still cut.
type Choice struct {
	index  int // in the response: prompt*n + number
	prompt int // index of the prompt that is answered
	Number int // of its prompt, as the backend counts

	job     *job.Job
	stream  *Source // the prompt's
	decoder *tokenizer.Decoder
	out     output
	reader  *reader // nil: all text is content
	guard   *guard  // the policy's filters; nil: nothing is filtered

	// end is a token that ends the choice if the next event says so: its text
	// is hidden then, and shown otherwise.
	end    inference.Event
	hasEnd bool

	IDs    []inference.TokenID // ids not taken yet
	kept   []byte              // all text that was taken, of a tenant with LogPrompts
	piece  []byte              // scratch
	Tokens int                 // sampled, the end token included

	Finish  inference.FinishReason
	Stopped answer.StopReason
	began   bool      // a delta was taken
	ended   bool      // the delta with finish was taken
	Last    time.Time // of the token before
}

// Source is what the choices of one prompt have in common.
type Source struct {
	*inference.Stream
	Prompt []answer.TokenRecord // log-probabilities of the prompt so far
}

// New begins an answer to one of the job's prompts; index counts the answers of all of them.
func New(j *job.Job, st *Source, index int) *Choice {
	return &Choice{
		index: index, prompt: index / j.Params.N, Number: index % j.Params.N, job: j, stream: st,
		decoder: j.Model.Tokenizer.NewDecoder(j.Params.Special), out: output{stop: stop.NewMatcher(j.Params.Stops)}, reader: newReader(j.Reading, j.Constraint != nil),
		guard: newGuard(j),
	}
}

// Token takes in a sampled token. It reports whether the choice is complete
// because of a stop string.
func (c *Choice) Token(e inference.Event) (complete bool) {
	if c.hasEnd && c.showEnd() {
		return true
	}
	c.Tokens++
	if c.job.Params.ReturnTokenIDs {
		c.IDs = append(c.IDs, e.Token)
	}
	if c.mayEnd(e.Token) {
		c.end, c.hasEnd = e, true
		return false
	}
	return c.show(e)
}

// mayEnd reports whether a token can end the choice.
func (c *Choice) mayEnd(id inference.TokenID) bool {
	return slices.Contains(c.job.Params.StopTokens, id) || c.isEOG(id)
}

// isEOG reports whether a token is one of the model's own end tokens and the
// request does not ignore them.
func (c *Choice) isEOG(id inference.TokenID) bool {
	return !c.job.Params.IgnoreEOS && c.job.Model.Tokenizer.IsEOG(id)
}

// showEnd adds the text of an end token that did not end the choice.
func (c *Choice) showEnd() (complete bool) {
	c.hasEnd = false
	return c.show(c.end)
}

// show decodes a token and moves what is certain into text.
func (c *Choice) show(e inference.Event) (complete bool) {
	if c.reader != nil {
		return c.read(e)
	}
	c.piece = c.decoder.Append(c.piece[:0], e.Token)
	start := c.out.receive(c.piece)
	if c.job.Params.Logprobs {
		c.out.record(e, start)
	}
	if c.guard != nil {
		return c.screen(false)
	}
	return c.match()
}

// match passes c.piece through the stop strings. They count from the first
// token that min_tokens does not protect.
func (c *Choice) match() (complete bool) {
	n, match := c.out.append(c.piece, c.Tokens > c.job.Params.MinTokens)
	c.certain(n)
	if match == nil {
		return false
	}
	c.Finish, c.Stopped = inference.FinishStop, answer.StopReason{Text: match.Text}
	c.out.cut()
	return true
}

// certain notes that so many bytes of text have become certain.
func (c *Choice) certain(n int) {
	if c.reader != nil {
		c.reader.add(pieceContent, n)
	}
}

// Spent ends the choice because a limit of its tenant does not pay for its next token.
func (c *Choice) Spent(limit string) {
	c.Finished(inference.FinishLength)
	if c.Finish == inference.FinishLength { // what was held back may have held a stop string
		c.Stopped.Limit = limit
	}
}

// Finished ends the choice: text that was held back is certain now.
func (c *Choice) Finished(reason inference.FinishReason) {
	ended := c.hasEnd && reason == inference.FinishStop
	if c.hasEnd && (!ended || c.job.Params.Stops.Include) && c.showEnd() {
		return // a stop string that the end token completed
	}
	if end := c.end.Token; ended && !c.isEOG(end) {
		c.Stopped = answer.StopReason{Token: end, IsToken: true}
	}
	if c.rest(ended && c.hasEnd, reason) {
		return
	}
	c.hasEnd = false
	c.certain(c.out.flush())
	c.Finish = reason
	if ended && c.job.Params.EndLogprob && !c.job.Params.Stops.Include { // shown, it has its record
		c.out.record(c.end, c.out.received)
	}
	c.out.given = max(c.out.given, c.out.received.Bytes) // records of undecodable rests too
}

// rest takes in what the decoder and the parser held back. hidden says that an end token
// has not been shown.
func (c *Choice) rest(hidden bool, reason inference.FinishReason) (complete bool) {
	c.piece = c.decoder.Flush(c.piece[:0])
	if c.reader != nil {
		return c.closeReading(hidden, reason)
	}
	if c.guard != nil {
		return c.screen(true)
	}
	return c.match()
}

// Next fills the next delta of a stream: first the certain text, then, in a delta
// of its own, the end. It returns false when there is neither.
func (c *Choice) Next(d *answer.Delta) bool {
	over := c.Finish != inference.FinishNone
	if c.ended || !c.hasNews() && !over {
		return false
	}
	c.begin(d)
	if c.reader == nil {
		d.Content, c.out.text = c.out.text, d.Content
	} else if c.hasNews() {
		c.takePiece(d)
	}
	if c.take(d); over && d.IsEmpty() {
		c.close(d)
	}
	return true
}

// Whole takes all of a choice that has ended.
func (c *Choice) Whole(d *answer.Delta) {
	c.begin(d)
	if c.reader != nil {
		c.reader.takeAll(d)
	}
	d.Content, c.out.text = c.out.text, d.Content
	c.take(d)
	c.close(d)
}

// close puts the choice's end into d.
func (c *Choice) close(d *answer.Delta) {
	d.Finish, d.Stopped, d.Called = c.Finish, c.Stopped, c.called()
	c.ended = true
}

// begin makes d ready for the next text. Choice and delta swap buffers, so that a
// stream allocates nothing per token.
func (c *Choice) begin(d *answer.Delta) {
	if c.job.Echo && !c.began {
		c.echo()
	}
	d.Choice, d.Prompt, d.First = c.index, c.prompt, !c.began
	d.Finish, d.Stopped, d.Called = inference.FinishNone, answer.StopReason{}, false
	d.Content, d.Reasoning, d.Calls = d.Content[:0], d.Reasoning[:0], d.Calls[:0]
}

// take adds to d's text the certain tokens.
func (c *Choice) take(d *answer.Delta) {
	c.keep(d)
	d.IDs, c.IDs = c.IDs, d.IDs[:0]
	d.Tokens = c.out.takeRecords(d.Tokens[:0], c.Finish != inference.FinishNone)
	p := c.job.Params
	if d.PromptTokens = nil; d.First && p.PromptLogprobs >= 0 {
		d.PromptTokens = c.stream.Prompt
	}
	if p.ContinuousUsage {
		d.Usage = c.Used(answer.Usage{Prompt: len(c.job.Prompts[c.prompt].IDs), Cached: c.stream.Progress().CachedTokens})
	}
	c.began = true
}

// Used adds to u what the choice has generated.
func (c *Choice) Used(u answer.Usage) answer.Usage {
	u.Output += c.Tokens
	if c.reader != nil {
		u.Reasoning += c.reader.reasoned
		u.Thinks = c.reader.Thinks
	}
	return u
}
