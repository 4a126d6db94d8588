package family

import "slices"

// request is what the heads of calls are read by: how the family writes them, and the tools that may be called.
type request struct {
	calls *markup // nil where the answer may not call tools
	tools map[string]*Tool
	names []string // the tools that may be called; empty is all of them
	bound bool     // a grammar of the family binds the answer
}

func newRequest(m *markup, o *Options) request {
	if o.Choice.Mode == None || len(o.Tools) == 0 {
		return request{}
	}
	r := request{calls: m, tools: make(map[string]*Tool, len(o.Tools)), names: o.Choice.Names, bound: o.Bound}
	for i := range o.Tools {
		r.tools[o.Tools[i].Name] = &o.Tools[i]
	}
	return r
}

// properties are those of a tool's arguments; none where the request has no such tool.
func (r *request) properties(tool string) []property {
	if t := r.tools[tool]; t != nil {
		return properties(t.Parameters)
	}
	return nil
}

// headFrom reads section, opener and head.
func (r *request) headFrom(opener string, rest []byte, final bool) (head, int, status) {
	if slices.Contains(r.calls.lines, opener) {
		at := skipBlank([]byte(opener))
		h, n, s := r.calls.bare(r, rest[at:], final)
		return h, n + at, s
	}
	n := len(opener)
	for _, section := range r.calls.sections {
		if section != opener {
			continue
		}
		n += skipBlank(rest[n:])
		next, s := beginsWith(rest[n:], r.calls.openers, final)
		if s == bad && r.calls.noise {
			var used int
			next, used, s = r.calls.behindNoise(rest[n:], final)
			n += used
		}
		if s == bad && r.calls.item != nil { // models trained on tags fall back to JSON at times
			h, used, s := readObject(r, section, rest[n:], final)
			return h, n + used, s
		}
		if s != done {
			return head{}, 0, s
		}
		opener = next
		n += len(opener)
		break
	}
	h, used, s := r.calls.read(r, opener, rest[n:], final)
	return h, n + used, s
}

// ahead reads the arguments of a call that has not begun. It is done, too, where they are too long to read ahead.
func (r *request) ahead(h head, rest []byte, final bool) status {
	s := r.calls.body(r, h, &source{buf: rest}, &output{}).read(final)
	if s == more && !final && len(rest) >= headLimit-2*maxKey {
		return done
	}
	return s
}
