package choice

import (
	"unicode/utf8"

	"weir/api/openai/answer"
	"weir/api/openai/stop"
	"weir/internal/inference"
)

// output is the text of an answer as far as it is certain, with the records of its tokens, and what stop strings hold back of it.
type output struct {
	stop     stop.Matcher
	text     []byte               // certain, not taken yet
	records  []answer.TokenRecord // logprobs not taken yet
	received answer.Position      // end of the text that was decoded
	given    int                  // bytes of it that are certain; records up to here may be taken
}

// receive notes that text was decoded, and says where it begins.
func (o *output) receive(text []byte) (start answer.Position) {
	start = o.received
	o.received.Bytes += len(text)
	o.received.Runes += utf8.RuneCount(text)
	return start
}

// append passes text through the stop strings, where they count. It gives how many bytes are certain now, and the stop string that ends the text.
func (o *output) append(text []byte, stops bool) (certain int, match *stop.Pattern) {
	before := len(o.text)
	if stops {
		o.text, match = o.stop.Append(o.text, text)
	} else {
		o.text = append(o.text, text...)
	}
	certain = len(o.text) - before
	o.given += certain
	return certain, match
}

// flush gives what stop strings held back, which is certain now.
func (o *output) flush() (certain int) {
	before := len(o.text)
	o.text = o.stop.Flush(o.text)
	certain = len(o.text) - before
	o.given += certain
	return certain
}

// record notes the log-probabilities of a token whose text begins at start and ends where the text that was decoded does.
func (o *output) record(e inference.Event, start answer.Position) {
	o.records = append(o.records, answer.TokenRecord{ID: e.Token, Logprob: e.Logprob, Top: e.Top, Start: start, End: o.received.Bytes})
}

// cut drops the records of tokens that begin behind the text's end.
func (o *output) cut() {
	for n := len(o.records); n > 0 && o.records[n-1].Start.Bytes >= o.given; n-- {
		o.records = o.records[:n-1]
	}
}

// takeRecords moves the records of text that is certain to dst; all where the text is over.
func (o *output) takeRecords(dst []answer.TokenRecord, over bool) []answer.TokenRecord {
	n := 0
	for n < len(o.records) && (o.records[n].End <= o.given || over) {
		n++
	}
	dst = append(dst, o.records[:n]...)
	o.records = o.records[:copy(o.records, o.records[n:])]
	return dst
}

// prepend puts a prompt and the records of its tokens before the text.
func (o *output) prepend(prompt string, records []answer.TokenRecord) {
	o.text = append([]byte(prompt), o.text...)
	runes := utf8.RuneCountInString(prompt)
	for k := range o.records {
		o.records[k].Start.Runes += runes
	}
	o.received.Runes += runes
	if len(records) > 0 {
		o.records = append(records, o.records...)
	}
}
