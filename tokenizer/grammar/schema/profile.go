package schema

// profile is what is plain of a branch of a oneOf, to tell branches apart at a glance: by type, or by a property that each gives other values.
type profile struct {
	types    types
	facts    facts
	whole    bool // types, facts and choices say all
	choices  []choice
	required map[string]bool
	values   map[string]map[string]bool // by property: fingerprints of the values that it may have
}

// profiler tells what is plain of schemas.
type profiler struct {
	*reader
	gatherer *gatherer
	profiles map[*value]*profile
}

func (pr *profiler) profileOf(branch *value) (*profile, error) {
	if p := pr.profiles[branch]; p != nil {
		return p, nil
	}
	cl := newClosure(isAny)
	cl.alone = true
	if err := pr.gatherer.add(cl, branch, nil); err != nil {
		return nil, err
	}
	if cl.never {
		cl.types = 0
	}
	p, err := pr.profile(cl)
	pr.profiles[branch] = p
	return p, err
}

func (pr *profiler) profile(cl *closure) (*profile, error) {
	p := &profile{types: cl.types, facts: cl.facts, whole: pr.whole(cl), choices: cl.choices,
		required: map[string]bool{}, values: map[string]map[string]bool{}}
	for _, m := range cl.members {
		names, err := pr.names(m, "required")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			p.required[name] = true
		}
		properties, err := pr.members(m, "properties")
		if err != nil || properties == nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		for i, name := range properties.keys {
			if set := pr.fingerprints(properties.items[i]); set != nil {
				p.values[name] = set
			}
		}
	}
	return p, nil
}

// fingerprints of the values of a const or enum, nil where there is none.
func (pr *profiler) fingerprints(s *value) map[string]bool {
	list := []*value{pr.doc.keyword(s, "const")}
	if list[0] == nil {
		enum := pr.doc.keyword(s, "enum")
		if enum == nil {
			return nil
		}
		list = enum.items
	}
	set := make(map[string]bool, len(list))
	for _, v := range list {
		set[string(fingerprint(nil, v))] = true
	}
	return set
}

// apart reports whether two branches under one roof exclude each other at a glance.
func apart(roof, a, b *profile) bool {
	switch roof.types & a.types & b.types {
	case 0:
		return true
	case isObject:
	default:
		return false
	}
	for name, values := range a.values {
		others := b.values[name]
		there := roof.required[name] || a.required[name] || b.required[name]
		if others == nil || !there {
			continue
		}
		shared := false
		for v := range values {
			shared = shared || others[v]
		}
		if !shared {
			return true
		}
	}
	return false
}

// kinds are the types that a schema lets through, or more.
func (pr *profiler) kinds(s *value) types {
	if s.kind == boolean {
		if s.truth {
			return isAny
		}
		return 0
	}
	p, err := pr.profileOf(s)
	if err != nil {
		return isAny
	}
	return p.types
}

// whole reports whether facts, types and choices say all that a closure says.
func (pr *profiler) whole(cl *closure) bool {
	if cl.never || cl.listed || len(cl.facts.sealed) > 0 {
		return false
	}
	for m := range cl.has {
		if pr.made.odd(m) {
			return false
		}
		for _, key := range m.keys {
			if assertions[key] && !plainKeywords[key] { // what applies in place is in the closure
				return false
			}
		}
	}
	return true
}

// plainKeywords are those of which facts and types say all.
var plainKeywords = map[string]bool{"type": true, "properties": true, "required": true}
