package openai

import (
	"slices"
	"time"
	"unicode/utf8"

	"weir/internal/inference"
	"weir/tokenizer"
)

// choice is one answer in the making: it turns token events into text that is
// certain to be part of the output.
type choice struct {
	index  int // in the response: prompt*n + number
	number int // of its prompt, as the backend counts

	job     *job
	decoder *tokenizer.Decoder
	stop    stopMatcher

	// end is a token that ends the choice if the next event says so: its text
	// is hidden then, and shown otherwise.
	end    inference.Event
	hasEnd bool

	text     []byte              // certain, not taken yet
	records  []tokenRecord       // logprobs not taken yet
	ids      []inference.TokenID // ids not taken yet
	piece    []byte              // scratch
	received position            // end of the decoded text
	given    int                 // bytes of it that are certain; records up to here may be taken
	tokens   int                 // sampled, the end token included

	finish     inference.FinishReason
	holdReason bool      // a chunk with text is being written: finish has its own
	began      bool      // something was taken: no role is due any more
	last       time.Time // of the token before
}

// position counts text in bytes and in runes.
type position struct{ bytes, runes int }

// tokenRecord is a token with its logprobs and its place in the text.
type tokenRecord struct {
	id      inference.TokenID
	logprob float32
	top     []inference.TokenLogprob
	start   position
	end     int // bytes
}

func newChoice(j *job, index int) *choice {
	return &choice{
		index: index, number: index % j.params.n, job: j,
		decoder: j.model.Tokenizer.NewDecoder(j.params.special), stop: newStopMatcher(j.params.stops),
	}
}

// token takes in a sampled token. It reports whether the choice is complete
// because of a stop string.
func (c *choice) token(e inference.Event) (complete bool) {
	if c.hasEnd && c.showEnd() {
		return true
	}
	c.tokens++
	if c.job.params.returnTokenIDs {
		c.ids = append(c.ids, e.Token)
	}
	if c.mayEnd(e.Token) {
		c.end, c.hasEnd = e, true
		return false
	}
	return c.show(e)
}

// mayEnd tells tokens that can end a choice.
func (c *choice) mayEnd(id inference.TokenID) bool {
	p := c.job.params
	return slices.Contains(p.stopTokens, id) || !p.ignoreEOS && c.job.model.Tokenizer.IsEOG(id)
}

// showEnd gives out a token that did not end the choice after all.
func (c *choice) showEnd() (complete bool) {
	c.hasEnd = false
	return c.show(c.end)
}

// show decodes a token and moves what is certain into text.
func (c *choice) show(e inference.Event) (complete bool) {
	start := c.received
	c.piece = c.decoder.Append(c.piece[:0], e.Token)
	c.received.bytes += len(c.piece)
	c.received.runes += utf8.RuneCount(c.piece)
	if c.job.params.logprobs {
		c.records = append(c.records, tokenRecord{e.Token, e.Logprob, e.Top, start, c.received.bytes})
	}
	return c.match()
}

// match passes c.piece through the stop strings. They count from the first
// token that min_tokens does not protect.
func (c *choice) match() (complete bool) {
	before := len(c.text)
	if c.tokens <= c.job.params.minTokens {
		c.text = append(c.text, c.piece...)
	} else {
		c.text, complete = c.stop.append(c.text, c.piece)
	}
	c.given += len(c.text) - before
	if complete {
		c.finish = inference.FinishStop
		c.cut()
	}
	return complete
}

// cut drops the records of tokens that begin behind the output's end.
func (c *choice) cut() {
	for n := len(c.records); n > 0 && c.records[n-1].start.bytes >= c.given; n-- {
		c.records = c.records[:n-1]
	}
}

// finished takes in the end of the choice: what was held back is certain now.
func (c *choice) finished(reason inference.FinishReason) {
	if c.hasEnd && (reason != inference.FinishStop || c.job.params.stops.include) && c.showEnd() {
		return // a stop string that the end token completed
	}
	c.hasEnd = false
	c.piece = c.decoder.Flush(c.piece[:0])
	if c.match() {
		return
	}
	before := len(c.text)
	c.text = c.stop.flush(c.text)
	c.given += len(c.text) - before
	c.finish = reason
	c.given = max(c.given, c.received.bytes) // records of undecodable rests too
}

// ready returns how many records belong to the text that is certain.
func (c *choice) ready() int {
	n := 0
	for n < len(c.records) && (c.records[n].end <= c.given || c.finish != inference.FinishNone) {
		n++
	}
	return n
}

// taken forgets what ready and text have given.
func (c *choice) taken(records int) {
	c.began = true
	c.text = c.text[:0]
	c.records = c.records[:copy(c.records, c.records[records:])]
	c.ids = c.ids[:0]
}
