package family

import (
	"bytes"
	"slices"
	"strings"
)

// messages is how a family writes an answer that is a list of messages, each behind a header that names a recipient, or a channel, too.
type messages struct {
	start   string // opens a message; "assistant" follows, and the rest of the header
	ends    []string
	leads   []string // what a header begins with, start first; a header may lack its beginning
	stops   []string // what ends a message's text
	thought string   // the header of a thought
	final   string   // the header of text for the reader
	end     string   // ends a thought
	next    string   // begins the message behind one
	aside   string   // the header of text in front of calls
	isolate bool     // what an address names is a call, or a thought: no channel says it

	// call reads a call from n on, where the message to a tool begins.
	call func(r *request, name string, rest []byte, n int, final bool) (head, int, status)
}

const (
	messageMark  = "<|message|>"
	headerCutoff = 512
)

// harmony is gpt-oss's: its messages have a channel and, where they are calls, a recipient.
var harmony = &markup{
	closers:  harmonyMessages.ends,
	control:  append([]string{"<|start|>", "<|channel|>", messageMark, "<|constrain|>"}, harmonyMessages.ends...),
	messages: harmonyMessages,
}

var harmonyMessages = &messages{
	start:   "<|start|>",
	ends:    []string{"<|end|>", "<|call|>", "<|return|>"},
	leads:   []string{"<|start|>", "<|channel|>", messageMark, "<|constrain|>", "assistant", "to=", "commentary to=", "analysis to="},
	stops:   []string{"<|start|>", "<|channel|>", "<|end|>", "<|call|>", "<|return|>"},
	thought: "<|channel|>analysis<|message|>",
	final:   "<|channel|>final<|message|>",
	end:     "<|end|>",
	next:    "<|start|>assistant",
	aside:   "<|channel|>commentary<|message|>",
	call: func(_ *request, name string, rest []byte, n int, final bool) (head, int, status) {
		return objectAt(head{name: name}, rest, n, final)
	},
}

// muse is Muse Glimmer's: its messages have a recipient: the user, the model itself, or a tool.
var muse = &markup{
	sections: []string{"<atem:function_calls>"}, openers: []string{"<atem:invoke"}, closers: []string{"</atem:function_calls>"},
	read: readTagged, body: tagBody,
	tags: &tags{
		nameEnd: ">", key: "<atem:parameter", keyEnd: ">", valueEnd: "</atem:parameter>", end: "</atem:invoke>", attributes: true,
	},
	control:  []string{"<|start|>", messageMark, "<|eom|>", "<|eot|>"},
	messages: museMessages,
}

var museMessages = &messages{
	start:   "<|start|>",
	ends:    []string{"<|eom|>", "<|eot|>", "</atem:function_calls>"},
	leads:   []string{"<|start|>", messageMark, "assistant", "to="},
	stops:   []string{"<|start|>", "<|eom|>", "<|eot|>"},
	thought: " to=self<|message|>",
	final:   " to=user<|message|>",
	end:     "<|eom|>",
	next:    "<|start|>assistant",
	aside:   " to=user<|message|>",
	isolate: true,
	call: func(r *request, _ string, rest []byte, n int, final bool) (head, int, status) {
		n += skipBlank(rest[n:])
		opener, s := beginsWith(rest[n:], append(slices.Clone(r.calls.sections), r.calls.openers...), final)
		if s != done {
			return head{}, 0, s
		}
		h, used, s := r.headFrom(opener, rest[n:], final)
		return h, n + used, s
	},
}

func init() {
	for _, m := range []*markup{harmony, muse} {
		m.start = (*Parser).messageLead
		m.opening = m.messages.opening
	}
}

// opening reads the message that the prompt has begun.
func (m *messages) opening(tail string) Opening {
	at := strings.LastIndex(tail, m.start)
	if at < 0 {
		return Opening{}
	}
	header, _, open := strings.Cut(tail[at:], messageMark)
	return Opening{Thinking: open && m.isThought(header), Markup: tail[at:]}
}

// isThought reports whether a header is a thought's.
func (m *messages) isThought(header string) bool {
	if m.isolate {
		return address(header) == "self"
	}
	return channelOf(header) == "analysis"
}

// messageLead stands before a header. Text without any header is content.
func (p *Parser) messageLead(final bool) bool {
	m := p.family.calls.messages
	p.inThought = false
	p.in.skipBlank()
	rest := p.in.rest()
	if len(rest) == 0 {
		return false
	}
	end, s := beginsWith(rest, m.ends, final)
	if s == done {
		p.in.skip(len(end))
		return true
	}
	if p.calls != nil && p.out.calls > 0 {
		if _, opener := beginsWith(rest, p.calls.openers, final); opener == done {
			p.callBehind(0)
			return true
		} else if opener == more {
			return false
		}
	}
	_, header := beginsWith(rest, m.leads, final)
	if header == done {
		p.state = (*Parser).messageHeader
		return true
	}
	if s == more || header == more {
		return false
	}
	if final {
		_, s = beginsWith(rest, slices.Concat(m.ends, m.leads), false)
		p.out.begun = p.out.begun || s == more
	}
	p.state = (*Parser).messageText
	return true
}

// messageHeader reads up to the message, and its first bytes where a call may begin.
func (p *Parser) messageHeader(final bool) bool {
	m := p.family.calls.messages
	rest := p.in.rest()
	short := rest[:min(len(rest), headerCutoff)]
	at := bytes.Index(short, []byte(messageMark))
	if at < 0 {
		if !final && len(short) < headerCutoff {
			return false
		}
		p.out.begun = final && len(short) < headerCutoff
		p.state = (*Parser).messageText
		if skip, s := beginsWith(rest, slices.Concat(m.stops, []string{messageMark, "<|constrain|>"}), true); s == done {
			p.in.skip(len(skip)) // so that the marker does not end the text at once
			if skip == m.start && prefix(p.in.rest(), "assistant", true) == done {
				p.in.skip(len("assistant"))
			}
		}
		return true
	}
	header := string(short[:at])
	n := at + len(messageMark)
	name := recipient(header)
	if p.calls == nil || name == "" {
		return p.messageBody(header, n)
	}
	h, used, s := m.call(&p.request, name, rest, n, final)
	if s == more && (final || len(rest) >= headLimit) {
		s = bad
	}
	switch s {
	case more:
		return false
	case bad:
		if final {
			_, _, open := m.call(&p.request, name, rest, n, false)
			p.out.begun = p.out.begun || open == more
		}
		p.unreadable++
		return p.messageBody(header, n)
	default:
	}
	p.in.skip(used)
	p.begun(h)
	return true
}

func (p *Parser) messageBody(header string, n int) bool {
	p.in.skip(n)
	p.inThought = p.family.calls.messages.isThought(header)
	p.state = (*Parser).messageText
	return true
}

// messageText gives a message up to its end.
func (p *Parser) messageText(final bool) bool {
	kind := Content
	if p.inThought {
		kind = Reasoning
	}
	m, _ := p.scan(kind, p.family.calls.messages.stops, true, final)
	if m < 0 {
		return false
	}
	p.state = (*Parser).messageLead
	return true
}

// address is whom a header names as the recipient; empty where it names none.
func address(header string) string {
	_, to, ok := strings.Cut(header, "to=")
	if !ok {
		return ""
	}
	if end := strings.IndexAny(to, " <\n\t"); end >= 0 {
		to = to[:end]
	}
	return strings.TrimPrefix(to, "functions.")
}

// recipient is the tool that a header addresses; empty where it addresses the reader or the model itself.
func recipient(header string) string {
	switch to := address(header); to {
	case "assistant", "user", "all", "self":
		return ""
	default:
		if !validName(to) {
			return ""
		}
		return to
	}
}

// channelOf is a header's channel: the last one that it names.
func channelOf(header string) string {
	at := strings.LastIndex(header, "<|channel|>")
	if at < 0 { // a header whose markers the model forgot
		for _, c := range []string{"analysis", "commentary", "final"} {
			if strings.Contains(header, c) {
				return c
			}
		}
		return ""
	}
	name := strings.TrimSpace(header[at+len("<|channel|>"):])
	if end := strings.IndexAny(name, " <\n\t"); end >= 0 {
		name = name[:end]
	}
	return name
}
