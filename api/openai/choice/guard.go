package choice

import (
	"weir/api/moderation"
	"weir/api/openai/job"
	"weir/internal/inference"
	"weir/tokenizer/family"
)

// guard passes what a choice says through its model's policy: text, thoughts that are told and
// the arguments of calls, each as a text of its own. A match does not go from one to the
// next. Stop strings are looked for in what comes out.
type guard struct {
	content, thought, arguments *moderation.Filter

	open  family.Kind // of the parts that came last
	begun bool        // parts came
	call  int         // whose arguments are read

	text  []byte // scratch: what came out
	parts []family.Part
}

// newGuard returns nil where the model's policy says nothing about answers.
func newGuard(j *job.Job) *guard {
	p := j.Model.Policy
	if !p.FiltersOutput() {
		return nil
	}
	whole := !j.Params.Stream
	return &guard{
		content:   p.NewFilter(moderation.Plain, whole, j.Moderated),
		thought:   p.NewFilter(moderation.Plain, whole, j.Moderated),
		arguments: p.NewFilter(moderation.JSON, whole, j.Moderated),
	}
}

// screen passes c.piece through the policy, of a choice whose text is content. last says that
// no more comes.
func (c *Choice) screen(last bool) (complete bool) {
	g := c.guard
	text, blocked := g.content.Append(g.text[:0], c.piece)
	if last && !blocked {
		text, blocked = g.content.Close(text)
	}
	c.piece, g.text = text, c.piece
	return c.match() || blocked && c.block()
}

// block ends a choice before what the policy does not allow.
func (c *Choice) block() (complete bool) {
	c.certain(c.out.flush())
	c.Finish = inference.FinishFiltered
	return true
}

// IsFiltered reports whether a policy ended the choice.
func (c *Choice) IsFiltered() bool { return c.Finish == inference.FinishFiltered }

// IsCutOff reports whether a policy or a limit of the tenant ended the choice.
func (c *Choice) IsCutOff() bool { return c.IsFiltered() || c.Stopped.Limit != "" }

// screen gives the parts that may be told. They are valid until the next call.
func (g *guard) screen(parts []family.Part, hidden bool) (told []family.Part, blocked bool) {
	g.text, g.parts = g.text[:0], g.parts[:0]
	for i := range parts {
		if blocked = g.take(&parts[i], hidden); blocked {
			break
		}
	}
	return g.parts, blocked
}

// close gives what the filters hold back.
func (g *guard) close() (told []family.Part, blocked bool) {
	g.text, g.parts = g.text[:0], g.parts[:0]
	blocked = g.end()
	return g.parts, blocked
}

func (g *guard) take(p *family.Part, hidden bool) (blocked bool) {
	f := g.filter(p.Kind)
	if g.begun && (g.filter(g.open) != f || p.Kind == family.CallStart || p.Kind == family.CallEnd || p.Repaired || p.Begun) {
		if g.end() {
			return true
		}
	}
	g.open, g.begun, g.call = p.Kind, true, p.Call
	if p.Repaired || len(p.Bytes) == 0 || hidden && p.Kind == family.Reasoning {
		g.parts = append(g.parts, *p)
		return false
	}
	from := len(g.text)
	g.text, blocked = f.Append(g.text, p.Bytes)
	if p.Begun && !blocked { // such a part may be left out, and nothing else with it
		g.text, blocked = f.Close(g.text)
	}
	g.tell(*p, from)
	return blocked
}

// end closes the text that is open, and tells what was held back of it.
func (g *guard) end() (blocked bool) {
	if !g.begun {
		return false
	}
	p := family.Part{Kind: g.open, Call: g.call}
	if p.Kind == family.CallStart || p.Kind == family.CallEnd {
		p.Kind = family.CallArguments
	}
	from := len(g.text)
	g.text, blocked = g.filter(g.open).Close(g.text)
	g.tell(p, from)
	return blocked
}

// tell adds a part with the text that came out since.
func (g *guard) tell(p family.Part, from int) {
	if p.Bytes = g.text[from:len(g.text):len(g.text)]; len(p.Bytes) > 0 || p.Kind == family.CallStart {
		g.parts = append(g.parts, p)
	}
}

func (g *guard) filter(k family.Kind) *moderation.Filter {
	switch k {
	case family.Reasoning:
		return g.thought
	case family.CallStart, family.CallArguments, family.CallEnd:
		return g.arguments
	case family.Content:
	}
	return g.content
}
