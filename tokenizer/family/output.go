package family

import "strconv"

// source is what has come of an answer and was not read.
type source struct {
	buf []byte
	at  int // buf[at:] is to be read
}

func (in *source) rest() []byte { return in.buf[in.at:] }

// skip drops the next n bytes.
func (in *source) skip(n int) { in.at += n }

func (in *source) skipBlank() { in.at += skipBlank(in.rest()) }

// next reads n bytes.
func (in *source) next(n int) []byte {
	in.at += n
	return in.buf[in.at-n : in.at : in.at]
}

// compact moves what was not read to the front.
func (in *source) compact() {
	in.buf = in.buf[:copy(in.buf, in.rest())]
	in.at = 0
}

// output is the parts that an answer is taken apart into, and the count of its calls.
type output struct {
	parts []Part
	json  []byte // what the parts since begin refer to
	calls int    // that were started
	open  bool   // the last of them is not ended
	said  bool   // text was given
	begun bool   // the answer has ended inside the head of a call: text is a piece of it

	shortIDs bool // of the family
	ids      func(n int) string
}

// begin appends the parts that follow to dst.
func (out *output) begin(dst []Part) { out.parts, out.json = dst, out.json[:0] }

// given takes the parts since begin.
func (out *output) given() []Part {
	dst := out.parts
	out.parts = nil
	return dst
}

func (out *output) text(k Kind, text []byte) {
	if len(text) > 0 {
		out.said = out.said || k == Content
		out.parts = append(out.parts, Part{Kind: k, Bytes: text, Begun: out.begun})
	}
}

// start gives the first part of a call.
func (out *output) start(name, id string) {
	if id == "" {
		id = out.newID()
	}
	out.parts = append(out.parts, Part{Kind: CallStart, Call: out.calls, ID: id, Name: name})
	out.calls++
	out.open = true
}

func (out *output) newID() string {
	n, front := 24, "call_"
	if out.shortIDs {
		n, front = 9, ""
	}
	if out.ids != nil {
		return front + out.ids(n)
	}
	digits := strconv.Itoa(out.calls)
	id := append(make([]byte, 0, len(front)+n), front...)
	for range n - len(digits) {
		id = append(id, '0')
	}
	return string(append(id, digits...))
}

// arguments gives what was written to out.json since a length.
func (out *output) arguments(from int) {
	if from < len(out.json) {
		out.parts = append(out.parts, Part{Kind: CallArguments, Call: out.calls - 1, Bytes: out.json[from:len(out.json):len(out.json)]})
	}
}

// raw gives a piece of JSON as arguments.
func (out *output) raw(json string) {
	from := len(out.json)
	out.json = append(out.json, json...)
	out.arguments(from)
}

// value reads on in a value, and gives its JSON as arguments.
func (out *output) value(v *value, in *source, final bool) status {
	from := len(out.json)
	json, n, s := v.read(out.json, in.rest(), final)
	out.json = json
	in.skip(n)
	out.arguments(from)
	return s
}

// end gives the last part of the open call.
func (out *output) end() {
	out.parts = append(out.parts, Part{Kind: CallEnd, Call: out.calls - 1})
	out.open = false
}

// patience spares a text that is not whole yet from being read at every byte that comes.
type patience struct{ least int }

// early reports whether too few bytes are there to read again.
func (p *patience) early(have int, final bool) bool { return have < p.least && !final }

// wait sets when to read again: at every byte while the text is short, as heads are, and less often when it grows.
func (p *patience) wait(have int) {
	p.least = have + 1
	if have > 1024 {
		p.least = have + have/4
	}
}

func (p *patience) reset() { p.least = 0 }
