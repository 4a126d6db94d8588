package family

import (
	"bytes"
	"slices"
)

// markup is how a family writes calls.
type markup struct {
	sections []string // open a list of calls; an opener follows
	openers  []string // open a call
	closers  []string // may follow a call; dropped
	dropped  []string // stand around text and say nothing
	texts    []string // those of them that begin text, so that they end a thought, too
	crumbs   string   // bytes that models leave behind a call by mistake; dropped
	syntax   *syntax  // of arguments; nil is JSON
	listing  string   // stands in a prompt that lists tools, for templates that write no calls themselves
	shortIDs bool     // ids are 9 letters and digits
	noise    bool     // what stands between a section's marker and its first call says nothing
	echoes   bool     // models write a list of calls twice at times, each time with a closing marker behind it
	whole    bool     // calls are read to their end before they begin, and those that name an argument twice are none

	// read reads what follows an opener up to the arguments.
	read func(r *request, opener string, rest []byte, final bool) (head, int, status)
	// item reads one call of a list of JSON objects.
	item func(rest []byte, final bool) (head, int, status)
	// bare reads a call that has no opener, where the answer's text would begin.
	bare func(r *request, rest []byte, final bool) (head, int, status)
	// lines are the first bytes of such a call where it may stand behind text, with the newline that must be before it.
	lines []string
	// body makes the reader of arguments that are not one value.
	body func(r *request, h head, in *source, out *output) arguments
	// messages are those that an answer is a list of; nil: it is one text.
	messages *messages
	// start is the first state of an answer, nil for lead.
	start func(p *Parser, final bool) bool
	// opening reads the prompt's tail, nil for families whose only state is the thought.
	opening func(tail string) Opening

	tags *tags // of tagged arguments

	control                 []string // control tokens that belong to markers and are no marker themselves
	textMarkers, allMarkers []string // what may end content, without and with calls
	lineMarkers             []string // allMarkers, and the beginnings of lines that may be calls without markers
	fences                  []fence  // what such calls may stand in; none: the family's calls are not written without markers
	thoughtEnds             []string // what may end a thought: its closing marker, the beginnings of text, and of calls
	trailers                []string // what may follow a tagged value whose end is missing
	ends                    []string // what may end a broken call
	known                   []string // every text whose pieces may be control tokens
}

// head is what stands before a call's arguments.
type head struct {
	name, id string
	args     []byte // the whole arguments, where they stood before the name or are no object; nil: they follow
	nest     int    // objects that the arguments stand in
	array    bool   // the call is an item of a list
	plain    bool   // the arguments are one value, in a family where they mostly are not
	alone    bool   // a Python call stands alone, without a list around it
	odd      bool   // the object has fields that calls have not
	broken   bool   // of a head that is none: a call begins there whose arguments cannot be read
}

// knows reports whether a control token's text is a piece of one of the family's markers.
func (m *markup) knows(token []byte) bool {
	for _, k := range m.known {
		if bytes.Contains([]byte(k), token) {
			return true
		}
	}
	return false
}

// leftover reads what may follow a call and is no text: closing markers, and stray brackets.
func (m *markup) leftover(rest []byte, final bool) (int, status) {
	waits := false
	for _, c := range m.closers {
		switch prefix(rest, c, final) {
		case done:
			return len(c), done
		case more:
			waits = len(rest) > 0 || waits
		default:
		}
	}
	if waits {
		return 0, more
	}
	if len(rest) > 0 && bytes.IndexByte([]byte(m.crumbs), rest[0]) >= 0 {
		return 1, done
	}
	return 0, bad
}

// opener is the section or opener that rest begins with.
func (m *markup) opener(rest []byte) string {
	_, i := firstMarker(rest, m.allMarkers)
	return m.allMarkers[i]
}

// behindNoise finds the first opener within maxKey bytes, where no closing marker comes before it.
func (m *markup) behindNoise(rest []byte, final bool) (opener string, at int, s status) {
	short := rest[:min(len(rest), maxKey)]
	at, i := firstMarker(short, slices.Concat(m.openers, m.closers))
	switch {
	case i < 0:
		return "", 0, unfinished(short, final)
	case i >= len(m.openers):
		return "", 0, bad
	}
	return m.openers[i], at, done
}

// beginsWith finds the text, of several, that src begins with.
func beginsWith(src []byte, texts []string, final bool) (string, status) {
	s := bad
	for _, t := range texts {
		switch prefix(src, t, final) {
		case done:
			return t, done
		case more:
			s = more
		default:
		}
	}
	return "", s
}
