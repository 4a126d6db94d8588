// Package relay passes requests on to the servers behind a model and their answers back, byte for byte except for the model's name, or in the form of another API; and counts what was used.
package relay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"

	"weir/api"
	"weir/api/openai/messages"
	"weir/api/openai/params"
	"weir/api/openai/responses"
	"weir/internal/inference"
	"weir/router"
	"weir/router/chunk"
	"weir/tokenizer"
)

// Account counts what a relayed answer uses: by what its servers tell, and where they do not, because they never do or
// because the stream was cut, by what was delivered.
type Account struct {
	asked   bool             // the client wants the usage of its stream
	asks    bool             // the request has something to read: a prompt of no tokens is not believed
	writes  bool             // the answer has a text
	answers int              // that were asked for
	fits    func(n int) bool // whether the prompt can have n tokens; nil: there is no bound
	most    int              // output tokens that the answer may have; 0: there is no bound
	beside  bool             // it says what is not in words: sounds, pictures
	Own     bool             // the client got what was counted here
	head    chunkHead        // of the event in which a choice ended
	told    bool             // usage has come, and nothing that was said after it
	wrong   bool             // the last event, or the answer, has one that cannot be
	counted bool             // here: all that has come
	events  chunk.Reader
	ended   chunk.Set // choices whose end was counted

	pieces int      // events with text of a choice
	size   int      // bytes of the texts, as JSON
	texts  [][]byte // by choice, as JSON; only where count can count them
	count  func(text string) int
	prompt func() int       // tokens of the prompt, counted or guessed
	learn  func(tokens int) // takes in how many the servers have told

	guessed int // tokens of the prompt that were
}

// maxCountedBytes of an answer are tokenised where its servers do not tell its tokens.
const maxCountedBytes = 1 << 20

// Chunk reads an event of a stream, or a whole answer, of any API, and counts the texts that it delivers.
func (a *Account) Chunk(data []byte) *chunk.Chunk {
	a.wrong = false
	c := a.events.Read(data)
	if c == nil {
		return nil
	}
	a.beside = a.beside || c.SaysBeside()
	last := -1 // choice that this event has text of
	for _, t := range c.Texts {
		if t.IsEmpty() {
			continue
		}
		a.told, a.Own, a.counted = false, false, false
		if t.Choice != last { // the name and the arguments of a call are one
			a.pieces, last = a.pieces+1, t.Choice
		}
		if a.size += t.To - t.From; a.count == nil || a.size > maxCountedBytes || t.Choice < 0 || t.Choice >= maxKeptAnswers {
			continue
		}
		for len(a.texts) <= t.Choice {
			a.texts = append(a.texts, nil)
		}
		a.texts[t.Choice] = append(a.texts[t.Choice], t.Of(data)...)
	}
	return c
}

// ends reports whether this is the first time that a choice ends.
func (a *Account) ends(index int) bool {
	var one chunk.Set
	one.Add(index)
	first := !a.ended.Has(one)
	a.ended |= one
	return first
}

// bytesPerPiece is the longest text that a token has on average. Events with longer ones have several.
const bytesPerPiece = 12

// output is how many tokens were delivered: as the model's vocabulary has them, or else as many as the events of other answers
// of the model have had, or else one for each event, where their texts are short, and one for four bytes of longer ones.
func (a *Account) output(known func(events int) (tokens int, ok bool)) int {
	if tokens, ok := known(a.pieces); ok {
		return tokens
	}
	if a.count != nil && a.size <= maxCountedBytes {
		sum := 0
		for _, raw := range a.texts {
			var text string
			if json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &text) == nil { // a pair of surrogates may be cut
				sum += a.count(text)
			}
		}
		return sum
	}
	if a.size <= a.pieces*bytesPerPiece {
		return a.pieces
	}
	return a.size / BytesPerToken
}

// Estimate counts what the servers have not told, or what cannot be, of an answer that was delivered, whole or in part.
func (p *Exchange) Estimate() {
	r, a := &p.Result, &p.Account
	delivered := !r.FirstToken.IsZero() || p.Answer != nil && p.Answer.Events == nil && r.Status == http.StatusOK
	if a.told || !delivered {
		if a.told && r.Status == http.StatusOK && r.PromptTokens > 0 && a.learn != nil {
			a.learn(r.PromptTokens)
			a.learn = nil
		}
		if a.told && r.Stream && r.Status == http.StatusOK && len(r.Reasons) > 0 && r.OutputTokens <= a.size { // more were not in the events
			p.Relay.Estimates.LearnEvents(r.Model, a.pieces, r.OutputTokens)
		}
		return
	}
	if a.counted { // which the client may have been told
		return
	}
	a.counted = true
	if !r.Estimated && r.PromptTokens == 0 && a.prompt != nil {
		r.PromptTokens = a.prompt()
		a.guessed = r.PromptTokens
	}
	r.Estimated = true
	r.OutputTokens = a.output(func(events int) (int, bool) {
		if !r.Stream {
			return 0, false
		}
		return p.Relay.Estimates.TokensOf(r.Model, events)
	})
}

// NewAccount is the account of a request. It holds nothing of the client's connection, which may end first.
func (s *Relay) NewAccount(r *Request, sent *router.Call) Account {
	model := r.Model.ID
	var ignored *api.Error
	answers := r.Sent.Count("n", 1, math.MaxInt32, 1, &ignored)
	if ignored != nil {
		answers = 1
	}
	a := Account{asked: r.wantsUsage, answers: answers, fits: promptBound(sent.Body, r.Writes, answers), asks: sent.PromptBytes() > emptyPromptBytes, writes: r.Writes, most: r.mostOutput(), prompt: func() int {
		if sent.Tokens != nil {
			return len(sent.Tokens)
		}
		return s.promptTokens(model, sent.Prompt)
	}}
	if sent.Tokens == nil && r.Writes {
		a.learn = func(tokens int) { s.learnPrompt(model, sent.Prompt, tokens) }
	}
	if !r.Writes {
		return a
	}
	switch m := r.Model; {
	case m.Tokenizer != nil:
		a.count = func(text string) int { return len(m.Tokenizer.AppendEncode(nil, text, tokenizer.EncodeOptions{})) }
	case s.Counter != nil:
		if encoding, ok := s.Counter.CountFor(m.ID); ok {
			a.count = func(text string) int {
				n, err := encoding.Count(text)
				if err != nil {
					return len(text) / BytesPerToken
				}
				return n
			}
		}
	}
	return a
}

// emptyPromptBytes of JSON may be a prompt without a text.
const emptyPromptBytes = len(`[""]`)

// slackTokens of each answer may be counted beyond the limit that was asked for: its end.
const slackTokens = 16

// mostOutput is how many output tokens the answers may have together; 0: there is no bound.
func (r *Request) mostOutput() int {
	var p params.Params
	var ignored *api.Error
	p.ReadMaxTokens(r.Sent, &ignored)
	n := r.Sent.Count("n", 1, math.MaxInt32, 1, &ignored)
	if p.MaxTokens <= 0 || ignored != nil || r.Path == PathCompletions { // of several completions the best one may be chosen
		return 0
	}
	return int(min(int64(n)*r.Prompts()*int64(p.MaxTokens+slackTokens), maxToldTokens))
}

// onlyUsage is what the servers get where the client has sent no options. It is not changed.
var onlyUsage = []byte(`{"include_usage":true}`)

// AskUsage has the servers tell the usage at the end of a stream, whether or not the client wants to know it.
func (r *Request) AskUsage(sent *router.Call) {
	if r.wantsUsage = true; !sent.Stream || r.Job != nil || r.Path != PathChat && r.Path != PathCompletions {
		return
	}
	const field = "stream_options"
	own := &sent.StreamOptions
	for _, f := range r.Sent.Fields {
		if f.Name == field {
			own.Asked = f.Raw
		}
	}
	own.Sent = own.Asked
	r.Sent = r.Sent.Without(field)
	if own.Asked == nil {
		r.wantsUsage, own.Sent = false, onlyUsage
		return
	}
	options := map[string]json.RawMessage{}
	if raw := bytes.TrimSpace(own.Asked); len(raw) > 0 && !bytes.Equal(raw, []byte("null")) && json.Unmarshal(raw, &options) != nil {
		return // what it is instead is the servers' to refuse
	}
	if bytes.Equal(bytes.TrimSpace(options["include_usage"]), []byte("true")) {
		return
	}
	r.wantsUsage = false
	options["include_usage"] = json.RawMessage("true")
	own.Sent, _ = json.Marshal(options) // raw values were read as JSON
}

// appendChunk appends a line of a chat's stream with the model's name that the client knows, without usage where it did not ask
// for it, and with what was counted here in place of a usage that cannot be. It is false where nothing of the event is left.
func (p *Exchange) appendChunk(dst, line []byte, c *chunk.Chunk) ([]byte, bool) {
	const at = len("data:")
	var usage chunk.Span
	var own []byte // in its place
	switch {
	case p.Account.asked && c.HasUsage() && !p.Account.told:
		usage, own = c.Usage, p.ownUsage()
	case p.Account.asked:
	case !c.Usage.IsEmpty() && c.Error.IsEmpty() && (c.Choices == 0 || c.Choices < 0 && c.HasUsage()):
		return dst, false // it says nothing else
	default:
		usage = c.UsageField
	}
	name, from := c.Model, 0
	data := line[at:]
	dst = append(dst, line[:at]...)
	for range 2 {
		if !usage.IsEmpty() && (name.IsEmpty() || usage.From < name.From) {
			dst, from = append(append(dst, data[from:usage.From]...), own...), usage.To
			usage = chunk.Span{}
		} else if !name.IsEmpty() {
			dst, from = append(append(dst, data[from:name.From]...), p.Name...), name.To
			name = chunk.Span{}
		}
	}
	return append(dst, data[from:]...), true
}

// ownUsage is the usage by what was counted here, in the words of the answer's API.
func (p *Exchange) ownUsage() []byte {
	p.Account.Own = true
	u := p.Used()
	switch p.Form {
	case ResponseForm:
		return responses.AppendUsage(nil, &u)
	case MessageForm:
		return messages.AppendUsage(nil, u)
	case ChatForm:
	}
	return fmt.Appendf(nil, `{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, u.Prompt, u.Output, u.Prompt+u.Output)
}

// correction is what was counted here in place of a usage that cannot be and, where the answer is over, of one that is not told, of an
// answer or of an event that is no chat's. c is what it says. own is nil where nothing is to be corrected.
func (p *Exchange) correction(data []byte, c *chunk.Chunk, over bool) (at chunk.Span, own []byte) {
	part := p.part(data, c)
	switch {
	case p.Account.told || part.Object.IsEmpty() || !over && !p.Account.wrong:
		return at, nil
	case !part.Usage.IsEmpty():
		return part.Usage, p.ownUsage()
	}
	end := part.Object.To - 1
	own = append([]byte(`,"usage":`), p.ownUsage()...)
	if len(bytes.TrimSpace(data[part.Object.From+1:end])) == 0 {
		own = own[1:]
	}
	return chunk.Span{From: end, To: end}, own
}

// appendOwnUsage appends what was counted here as the event behind which a chat's stream ends, for a client that asked for the usage and
// got none.
func (p *Exchange) appendOwnUsage(dst []byte) []byte {
	if !p.Account.asked || p.Account.told || p.Account.Own {
		return dst
	}
	h := &p.Account.head
	dst = append(dst, "data: {"...)
	for _, f := range []struct {
		name string
		raw  []byte
	}{{"id", h.id}, {"object", h.object}, {"created", h.created}} {
		if len(f.raw) > 0 {
			dst = append(append(append(api.AppendString(dst, f.name), ':'), f.raw...), ',')
		}
	}
	dst = append(append(append(dst, `"model":`...), p.Name...), `,"choices":[],"usage":`...)
	return append(append(dst, p.ownUsage()...), "}\n\n"...)
}

// over notes the end of a choice.
func (p *Exchange) over(index int, reason inference.FinishReason) {
	if p.Account.ends(index) {
		p.Result.Reasons = append(p.Result.Reasons, reason)
	}
}
