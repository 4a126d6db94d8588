package choice

import (
	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/internal/inference"
	"weir/tokenizer/family"
)

// reader is the state of a choice that is taken apart. What it has read and what was not taken
// stands in pieces, in the order of the answer; the text itself is the choice's.
type reader struct {
	*job.Reading
	parser *family.Parser
	parts  []family.Part // scratch

	pieces    []piece
	thought   []byte
	calls     []heldCall
	arguments []byte       // of calls
	input     *customInput // of the call that came last; nil: it has arguments

	repeats *repeats // nil: calls are told as they come

	reasoned int // tokens of thoughts

	doubts doubts
}

// piece is a run of one kind that was not taken yet.
type piece struct {
	kind pieceKind
	size int // bytes of a text, or entries of calls
}

type pieceKind uint8

const (
	pieceContent pieceKind = iota
	pieceThought
	pieceCalls
)

// heldCall is a callPart whose arguments are reader.arguments[from:to].
type heldCall struct {
	index    int
	id, name string
	custom   bool
	from, to int
}

// newReader begins to read an answer; bound says that a grammar binds it.
func newReader(r *job.Reading, bound bool) *reader {
	if r == nil {
		return nil
	}
	o := r.Options
	o.Bound = bound
	return &reader{Reading: r, parser: r.Family.NewParser(o), repeats: newRepeats(r)}
}

// add notes that a kind of text, or of calls, has grown.
func (r *reader) add(k pieceKind, n int) {
	switch last := len(r.pieces) - 1; {
	case n == 0:
	case last >= 0 && r.pieces[last].kind == k:
		r.pieces[last].size += n
	default:
		r.pieces = append(r.pieces, piece{k, n})
	}
}

// read takes in a token. A control token's text belongs to markers or to nothing.
func (c *Choice) read(e inference.Event) (complete bool) {
	r := c.reader
	thinking := r.parser.Thinking()
	r.parts = r.parts[:0]
	tok := c.job.Model.Tokenizer
	if control := tok.IsControl(e.Token); control {
		c.piece = c.decoder.Flush(c.piece[:0])
		if complete = c.parse(false); complete {
			return true
		}
		c.piece = tok.AppendPiece(c.piece[:0], e.Token, true)
		c.doubt(e)
		complete = c.parse(true)
	} else {
		c.piece = c.decoder.Append(c.piece[:0], e.Token)
		c.doubt(e)
		complete = c.parse(false)
	}
	if thinking || r.parser.Thinking() {
		r.reasoned++
	}
	return complete
}

// doubt notes the log-probability of a token that the parser is about to read.
func (c *Choice) doubt(e inference.Event) {
	if c.job.Params.Logprobs {
		c.reader.doubts.add(e, c.piece)
	}
}

// parse hands c.piece to the parser and takes in its parts.
func (c *Choice) parse(control bool) (complete bool) {
	if len(c.piece) == 0 {
		return false
	}
	r := c.reader
	r.parts = r.parser.Append(r.parts[:0], c.piece, control)
	return c.takeIn(false)
}

// takeIn adds the parser's parts to what was read, as far as the policy lets them through.
func (c *Choice) takeIn(cut bool) (complete bool) {
	if c.guard == nil {
		return c.takeParts(c.reader.parts, cut)
	}
	parts, blocked := c.guard.screen(c.reader.parts, c.reader.Hidden)
	return c.takeParts(parts, cut) || blocked && c.block()
}

// takeParts adds parts to what was read. cut says that the answer ended for its length: what
// the parser made up to complete a call is left out then, so that no client takes half a call
// for a whole one.
func (c *Choice) takeParts(parts []family.Part, cut bool) (complete bool) {
	r := c.reader
	for i := range parts {
		switch p := &parts[i]; {
		case p.Kind == family.Content && cut && (p.Begun || r.Options.Choice.Mode == family.Required):
			// The beginning of a call: an answer that has to call has no text.
		case p.Kind == family.Reasoning && cut && p.Begun:
		case p.Kind == family.Content:
			if c.readContent(p.Bytes) {
				return true
			}
		case p.Kind == family.Reasoning:
			c.settleText(p.Bytes)
			if !r.Hidden {
				r.thought = append(r.thought, p.Bytes...)
				r.add(pieceThought, len(p.Bytes))
			}
		case p.Repaired && cut: // what was held back of a call, and what completes it
		default:
			c.settleText(nil)
			if over := r.tell(p); over && !cut {
				c.Finish = inference.FinishStop
				return true
			}
		}
	}
	return false
}

// readContent takes in text of the answer, which stop strings may end.
func (c *Choice) readContent(text []byte) (complete bool) {
	c.out.records = c.reader.doubts.believe(c.out.records, text, c.out.receive(text))
	c.piece = append(c.piece[:0], text...)
	return c.match()
}

// settleText ends a run of content: a stop string goes over no call and no thought, so
// text that was held back for one is certain.
func (c *Choice) settleText(rest []byte) {
	c.certain(c.out.flush())
	c.reader.doubts.disbelieve(rest)
}

// tell takes in a part of a call, and reports whether the answer has ended with it: with its only call, or with one that it has made before.
func (r *reader) tell(p *family.Part) (over bool) {
	if r.repeats == nil {
		r.readCall(p)
		return p.Kind == family.CallEnd && !r.Options.Choice.Parallel
	}
	parts, again := r.repeats.pass(p)
	for i := range parts {
		r.readCall(&parts[i])
	}
	return again
}

// readCall takes in a part of a call.
func (r *reader) readCall(p *family.Part) {
	from := len(r.arguments)
	if p.Kind == family.CallStart {
		if r.input = nil; r.Tools.IsCustom(p.Name) {
			r.input = &customInput{}
		}
		r.calls = append(r.calls, heldCall{index: p.Call, id: p.ID, name: p.Name, custom: r.input != nil, from: from, to: from})
		r.add(pieceCalls, 1)
		return
	}
	switch {
	case r.input == nil:
		r.arguments = append(r.arguments, p.Bytes...)
	case p.Kind == family.CallEnd:
		r.arguments = r.input.close(r.arguments)
	default:
		r.arguments = r.input.append(r.arguments, p.Bytes)
	}
	if last := len(r.calls) - 1; last >= 0 && r.calls[last].index == p.Call {
		r.calls[last].to = len(r.arguments)
	} else if from < len(r.arguments) {
		r.calls = append(r.calls, heldCall{index: p.Call, custom: r.input != nil, from: from, to: len(r.arguments)})
		r.add(pieceCalls, 1)
	}
}

// closeReading takes in c.piece and what the parser held back. hidden says that an end
// token was not shown; a call may have ended with it.
func (c *Choice) closeReading(hidden bool, reason inference.FinishReason) (complete bool) {
	r := c.reader
	if c.parse(false) {
		return true
	}
	if tok := c.job.Model.Tokenizer; hidden && tok.IsControl(c.end.Token) {
		c.piece = tok.AppendPiece(c.piece[:0], c.end.Token, true)
		if c.parse(true) {
			return true
		}
	}
	cut := reason != inference.FinishStop
	r.parts = r.parser.Close(r.parts[:0])
	if c.takeIn(cut) || c.guard == nil {
		return c.Finish != inference.FinishNone
	}
	parts, blocked := c.guard.close()
	return c.takeParts(parts, cut) || blocked && c.block()
}

// called reports whether a choice that has ended has called tools.
func (c *Choice) called() bool {
	return c.reader != nil && c.Finish == inference.FinishStop && c.reader.parser.Calls() > 0
}

// Unreadable is how many calls could not be read to their end.
func (c *Choice) Unreadable() int {
	if c.reader == nil {
		return 0
	}
	return c.reader.parser.Unreadable()
}

// hasNews reports whether there is something to take but the end.
func (c *Choice) hasNews() bool {
	if c.reader != nil {
		return len(c.reader.pieces) > 0
	}
	return len(c.out.text) > 0
}

// takePiece moves the next piece of a stream into d.
func (c *Choice) takePiece(d *answer.Delta) {
	r := c.reader
	p := r.pieces[0]
	r.pieces = r.pieces[:copy(r.pieces, r.pieces[1:])]
	switch p.kind {
	case pieceContent:
		d.Content, c.out.text = moveFirst(d.Content, c.out.text, p.size)
	case pieceThought:
		d.Reasoning, r.thought = moveFirst(d.Reasoning, r.thought, p.size)
	case pieceCalls:
		r.takeCalls(d, p.size)
	}
}

// moveFirst moves the first n bytes of src to dst, which is empty; all of them by swapping
// the two.
func moveFirst(dst, src []byte, n int) (moved, rest []byte) {
	if n == len(src) {
		return src, dst
	}
	return append(dst, src[:n]...), src[:copy(src, src[n:])]
}

// takeCalls moves the first n parts of calls into d.
func (r *reader) takeCalls(d *answer.Delta, n int) {
	for _, h := range r.calls[:n] {
		d.Calls = append(d.Calls, answer.CallPart{Index: h.index, ID: h.id, Name: h.name, Custom: h.custom, Arguments: r.arguments[h.from:h.to:h.to]})
	}
	if r.calls = r.calls[:copy(r.calls, r.calls[n:])]; len(r.calls) == 0 {
		d.CallText, r.arguments = r.arguments, d.CallText[:0]
	}
}

// takeAll moves everything that was read into d.
func (r *reader) takeAll(d *answer.Delta) {
	r.pieces = r.pieces[:0]
	d.Reasoning, r.thought = r.thought, d.Reasoning
	r.takeCalls(d, len(r.calls))
}
