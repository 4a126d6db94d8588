package family

import (
	"bytes"
	"strings"
)

// harmony is gpt-oss's format: an answer is a list of messages, each with a header that names a channel and a recipient.
var harmony = &markup{
	closers: harmonyEnds,
	control: append([]string{"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"}, harmonyEnds...),
}

func init() {
	harmony.start = (*Parser).harmonyLead
	harmony.opening = harmonyOpening
}

// The markup of messages: the beginning of a thought and of the text, the end of either, and the beginning of the message behind it.
const (
	harmonyThought = "<|channel|>analysis<|message|>"
	harmonyFinal   = "<|channel|>final<|message|>"
	harmonyEnd     = "<|end|>"
	harmonyNext    = "<|start|>assistant"
)

var (
	harmonyEnds   = []string{"<|end|>", "<|call|>", "<|return|>"}
	harmonyLeads  = []string{"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "assistant", "to=", "commentary to=", "analysis to="}
	harmonyStops  = append([]string{"<|start|>", "<|channel|>"}, harmonyEnds...)
	harmonyCutoff = 512
)

// harmonyOpening reads the message that the prompt has begun.
func harmonyOpening(tail string) Opening {
	at := strings.LastIndex(tail, "<|start|>")
	if at < 0 {
		return Opening{}
	}
	header, _, open := strings.Cut(tail[at:], "<|message|>")
	return Opening{Thinking: open && channelOf(header) == "analysis", Markup: tail[at:]}
}

// harmonyLead stands before a header. Text without any header is content.
func (p *Parser) harmonyLead(final bool) bool {
	p.inThought = false
	p.at += skipBlank(p.rest())
	rest := p.rest()
	if len(rest) == 0 {
		return false
	}
	end, s := beginsWith(rest, harmonyEnds, final)
	if s == done {
		p.at += len(end)
		return true
	}
	_, header := beginsWith(rest, harmonyLeads, final)
	if header == done {
		p.state = (*Parser).harmonyHeader
		return true
	}
	if s == more || header == more {
		return false
	}
	p.state = (*Parser).harmonyText
	return true
}

// harmonyHeader reads up to the message, and its first byte where a call may begin.
func (p *Parser) harmonyHeader(final bool) bool {
	const message = "<|message|>"
	rest := p.rest()
	short := rest[:min(len(rest), harmonyCutoff)]
	at := bytes.Index(short, []byte(message))
	if at < 0 {
		if !final && len(short) < harmonyCutoff {
			return false
		}
		p.unread = final && len(short) < harmonyCutoff
		p.state = (*Parser).harmonyText
		if skip, s := beginsWith(rest, harmonyLeads[:4], true); s == done {
			p.at += len(skip) // so that the marker does not end the text at once
			if skip == "<|start|>" && prefix(p.rest(), "assistant", true) == done {
				p.at += len("assistant")
			}
		}
		return true
	}
	header := string(short[:at])
	n := at + len(message)
	name := recipient(header)
	if p.calls == nil || name == "" {
		return p.harmonyBody(header, n)
	}
	h, used, s := objectAt(head{name: name}, rest, n, final)
	switch s {
	case more:
		return false
	case bad:
		return p.harmonyBody(header, n)
	default:
	}
	p.at += used
	p.begun(h)
	return true
}

func (p *Parser) harmonyBody(header string, n int) bool {
	p.at += n
	p.inThought = channelOf(header) == "analysis"
	p.state = (*Parser).harmonyText
	return true
}

// harmonyText gives a message up to its end.
func (p *Parser) harmonyText(final bool) bool {
	kind := Content
	if p.inThought {
		kind = Reasoning
	}
	m, _ := p.scan(kind, harmonyStops, true, final)
	if m < 0 {
		return false
	}
	p.state = (*Parser).harmonyLead
	return true
}

// recipient is the tool that a header addresses; empty where it addresses the reader.
func recipient(header string) string {
	_, to, ok := strings.Cut(header, "to=")
	if !ok {
		return ""
	}
	if end := strings.IndexAny(to, " <\n\t"); end >= 0 {
		to = to[:end]
	}
	to = strings.TrimPrefix(to, "functions.")
	if to == "assistant" || to == "user" || to == "all" || !validName(to) {
		return ""
	}
	return to
}

// channelOf is a header's channel.
func channelOf(header string) string {
	_, name, ok := strings.Cut(header, "<|channel|>")
	if !ok { // a header whose markers the model forgot
		for _, c := range []string{"analysis", "commentary", "final"} {
			if strings.Contains(header, c) {
				return c
			}
		}
		return ""
	}
	name = strings.TrimSpace(name)
	if end := strings.IndexAny(name, " <\n\t"); end >= 0 {
		name = name[:end]
	}
	return name
}
