package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"weir/router"
	"weir/router/chunk"
)

// streamChecker reads the events of a stream that has content before they pass. What is no event of the stream's API does not pass,
// and [DONE] only behind the finish reasons of all choices.
type streamChecker struct {
	dialect dialect
	hide    func(said []byte) []byte // takes this server's credential out of an error; nil: there is none
	events  chunk.Reader
	ending  endDetector // of a stream of typed events

	seen, finished chunk.Set // choices
	said           error     // a fault that an event of a typed stream has told of, and that passes
	done           bool      // [DONE] has passed
	blank          bool      // the last line that passed was empty
	drops          bool      // the last line does not pass
	overran        int       // bytes of lines behind the end of their choice, or of a message's stop reason, which did not pass
	stopped        bool      // the stop reason of a message has passed
	late           bool      // the field event names words behind that
	unread         bool      // a line was too long to be read

	line []byte // of the stream, not complete yet
	long int    // bytes that have passed of a line that is too long to be read
	out  []byte // lines that pass, where a piece holds the end of one that began before
}

// maxLineBytes bounds a line that is read; a longer one passes unread, up to maxAnswerBytes: the last event of Responses
// repeats the whole answer.
const maxLineBytes = 1 << 20

// add gives what passes once a piece has come: its whole lines, up to one that is wrong. It counts until the next call. Add
// allocates nothing for most pieces.
func (g *streamChecker) add(piece []byte) (pass []byte, err error) {
	g.out = g.out[:0]
	at := 0 // pieces up to here have passed
	for {
		i := bytes.IndexByte(piece[at:], '\n')
		if i < 0 {
			break
		}
		line := piece[at : at+i+1]
		begun := len(g.line) > 0
		if begun {
			g.line = append(g.line, line...)
			line = g.line
		}
		if g.long > 0 {
			if err = g.tooLong(len(line)); err != nil {
				break
			}
			g.long = 0
		} else if err = g.look(line); err != nil {
			break
		}
		safe, changed := g.safe(line)
		if begun || changed {
			g.out = append(append(g.out, piece[:at]...), safe...) // at is 0 where the line began before
			g.line = g.line[:0]
			piece, at = piece[at+i+1:], 0
			continue
		}
		at += i + 1
	}
	if rest := piece[at:]; err == nil && len(rest) > 0 {
		g.line = append(g.line, rest...)
		if g.long > 0 || len(g.line) > maxLineBytes {
			return g.overlong(piece[:at])
		}
	}
	if len(g.out) == 0 {
		return piece[:at], err
	}
	g.out = append(g.out, piece[:at]...)
	return g.out, err
}

// overlong lets what there is of a line that is too long pass behind the lines before it.
func (g *streamChecker) overlong(lines []byte) ([]byte, error) {
	g.out = append(g.out, lines...)
	if g.drops = false; g.over() && g.long == 0 {
		return g.out, g.overrun("has a line above %d bytes behind its last event", maxLineBytes)
	}
	if err := g.tooLong(len(g.line)); err != nil {
		return g.out, err
	}
	if g.long == 0 && g.dialect != "" {
		g.ending.look(g.line)
	}
	g.long, g.unread, g.blank = g.long+len(g.line), true, false
	g.out = append(g.out, g.line...)
	g.line = g.line[:0]
	return g.out, nil
}

// tooLong judges so many more bytes of a line that passes unread.
func (g *streamChecker) tooLong(more int) error {
	if g.long+more <= maxAnswerBytes {
		return nil
	}
	return BadAnswer.because("a line of the stream is above %d bytes", maxAnswerBytes)
}

// look judges a line.
func (g *streamChecker) look(line []byte) error {
	data, ok := dataOf(line)
	blank := len(bytes.TrimRight(line, "\r\n")) == 0
	if g.drops = false; g.over() {
		return g.behind(data, ok, blank)
	}
	g.blank = blank
	switch {
	case g.dialect != "":
		return g.typed(line, data, ok)
	case !ok || len(data) == 0:
		return nil
	case bytes.Equal(data, doneLine):
		if !g.complete() {
			return BrokenStream.because("the stream ended with [DONE] and without the finish reason of a choice")
		}
		g.done = true
		return nil
	}
	c := g.events.Read(data)
	switch {
	case c == nil:
		return BadAnswer.because("an event is no JSON: %.200q", data)
	case !c.Error.IsEmpty():
		return &eventError{text: string(c.Error.Of(data))}
	case c.Wrong != "":
		return BadAnswer.because("%s of an event has a wrong type: %.200q", c.Wrong, data)
	}
	if g.overruns(c) {
		g.drops, g.blank = true, true // what ends its event passes
		if g.overran += len(line); g.overran > maxOverrunBytes {
			return g.overrun("says more than %d bytes behind its finish reason", maxOverrunBytes)
		}
		return nil
	}
	g.seen |= c.Seen
	g.finished |= c.Finished
	return nil
}

// over reports whether the event has passed that ends the stream.
func (g *streamChecker) over() bool {
	if g.dialect != "" {
		return g.ending.whole
	}
	return g.done
}

// behind judges a line behind the end; empty ones pass. Some servers write [DONE] behind the last event of any API.
func (g *streamChecker) behind(data []byte, isData, blank bool) error {
	g.drops, g.blank = !blank, g.blank || blank
	if !isData || len(data) == 0 || bytes.Equal(data, doneLine) {
		return nil
	}
	return g.overrun("says %.100q behind its last event", data)
}

// isOverrun reports whether what is wrong stands behind a whole answer.
func isOverrun(err error) bool {
	e, ok := errors.AsType[*faultError](err)
	return ok && e.fault == Overrun
}

func (g *streamChecker) overrun(format string, args ...any) error {
	err := Overrun.because("the stream "+format, args...)
	if g.said == nil {
		g.said = err
	}
	return err
}

// overruns reports whether a choice has words after its finish reason. The last one of a set stands for several.
func (g *streamChecker) overruns(c *chunk.Chunk) bool {
	if g.finished == 0 {
		return false
	}
	for _, t := range c.Texts {
		var one chunk.Set
		if one.Add(t.Choice); !t.IsEmpty() && t.Choice < chunk.LastOfSet && g.finished.Has(one) {
			_ = g.overrun("says more behind the finish reason of choice %d", t.Choice)
			return true
		}
	}
	return false
}

// maxOverrunBytes of a stream are read behind the finish reason of a choice: usage may follow.
const maxOverrunBytes = 64 << 10

// typed judges a line of a stream of typed events. An event that tells of a fault is the end that its API has for one.
func (g *streamChecker) typed(line, data []byte, ok bool) error {
	g.ending.look(line[:min(len(line), maxTypeBytes)])
	if g.dialect == dialect(router.Messages) && g.isLate(line, data, ok) {
		g.drops, g.blank = true, true // what ends its event passes
		if g.overran += len(line); g.overran > maxOverrunBytes {
			return g.overrun("says more than %d bytes behind its stop reason", maxOverrunBytes)
		}
		return nil
	}
	if !ok || len(data) == 0 {
		return nil
	}
	if !chunk.IsJSON(data) {
		return BadAnswer.because("an event is no JSON: %.200q", data)
	}
	if g.ending.fails {
		_, g.said = g.dialect.judge(line)
	}
	return nil
}

// isLate reports whether a line is of an event that adds words to a message whose stop reason has passed.
func (g *streamChecker) isLate(line, data []byte, isData bool) bool {
	if name, ok := bytes.CutPrefix(line, []byte("event:")); ok {
		g.late = g.stopped && addsWords(bytes.TrimSpace(name))
		return g.late
	}
	if !isData {
		return false
	}
	late, kind := g.late, typeOf(data)
	if g.late = false; late || g.stopped && addsWords(kind) {
		_ = g.overrun("says more behind its stop reason: %.100q", data)
		return true
	}
	if !g.stopped && bytes.Contains(data, []byte(`"stop_reason"`)) && string(kind) != "message_start" {
		var e struct {
			Delta struct {
				Reason string `json:"stop_reason"`
			}
		}
		g.stopped = json.Unmarshal(data, &e) == nil && e.Delta.Reason != ""
	}
	return false
}

func addsWords(kind []byte) bool {
	return string(kind) == "content_block_start" || string(kind) == "content_block_delta"
}

// safe is a line as it may pass: nothing of one behind the end, and what an event of a typed stream tells of a fault goes without this server's credential.
func (g *streamChecker) safe(line []byte) (safe []byte, changed bool) {
	if g.drops {
		return nil, true
	}
	if !g.ending.fails || g.hide == nil {
		return line, false
	}
	said, ok := errors.AsType[*eventError](g.said)
	if !ok {
		safe = g.hide(line)
		return safe, !bytes.Equal(safe, line)
	}
	text := []byte(said.text)
	hidden := g.hide(text)
	if changed = !bytes.Equal(hidden, text); changed {
		line = bytes.ReplaceAll(line, text, hidden)
		said.text = string(hidden)
	}
	return line, changed
}

// complete reports whether the answer has all that it must have.
func (g *streamChecker) complete() bool {
	if g.dialect != "" {
		return g.ending.whole
	}
	return g.unread || g.seen != 0 && g.finished.Has(g.seen)
}

// end gives what passes at the end of the stream, which err tells, and whether the answer is whole. Where its server has left out [DONE] it is
// added; what broke off behind a whole answer is left out.
func (g *streamChecker) end(err error) (rest []byte, whole bool) {
	if errors.Is(err, io.EOF) && len(g.line) > 0 { // the last line, without its end
		if err := g.look(g.line); err != nil && !isOverrun(err) {
			return nil, false
		}
		if !g.drops {
			last, _ := g.safe(g.line)
			rest = append(append(rest, last...), '\n')
			g.blank = false
		}
		g.line = g.line[:0]
	}
	if !g.complete() {
		return rest, false
	}
	if !g.blank {
		rest = append(rest, '\n')
	}
	if g.dialect == "" && !g.done {
		rest = append(rest, "data: [DONE]\n\n"...)
	}
	return rest, true
}
