package schema

import (
	"hash/fnv"
	"maps"
	"slices"
)

// facts are what is plain of the objects of a closure: enough to see, before branches are combined, that two of them leave no object.
type facts struct {
	required map[string]bool
	schemas  map[string][]*value // by property
	sealed   []*value            // members that allow no property but those that they list
}

func newFacts() facts { return facts{required: map[string]bool{}, schemas: map[string][]*value{}} }

func (f facts) clone() facts {
	return facts{maps.Clone(f.required), maps.Clone(f.schemas), slices.Clip(f.sealed)}
}

// learn adds what a member says. What is wrong with it is told where forms are made of it.
func (g *gatherer) learn(f *facts, s *value) {
	names, _ := g.names(s, "required")
	for _, name := range names {
		f.required[name] = true
	}
	if properties, err := g.members(s, "properties"); err == nil && properties != nil {
		for i, name := range properties.keys {
			f.schemas[name] = append(slices.Clip(f.schemas[name]), properties.items[i])
		}
	}
	rest := g.doc.keyword(s, "additionalProperties")
	if rest != nil && isNever(rest) && g.doc.keyword(s, "patternProperties") == nil {
		f.sealed = append(slices.Clip(f.sealed), s)
	}
}

// prover tells what plainly follows from schemas: that they have no value in common, or that one holds wherever others do.
type prover struct {
	*reader
	profiler *profiler
	enums    *enums
	digests  map[*value]uint64
}

// clash reports whether no object has what all of some facts ask for, as far as that is plain. The last of them are those of a branch.
func (pv *prover) clash(all ...*facts) bool {
	branch := all[len(all)-1]
	there := func(name string) bool {
		return slices.ContainsFunc(all, func(f *facts) bool { return f.required[name] })
	}
	for name := range branch.schemas {
		if there(name) && pv.noValue(all, name) {
			return true
		}
	}
	for name := range branch.required {
		if branch.schemas[name] == nil && pv.noValue(all, name) {
			return true
		}
		for _, f := range all {
			if !allList(f.sealed, name) {
				return true
			}
		}
	}
	for _, f := range all {
		for name := range f.required {
			if len(branch.sealed) > 0 && !allList(branch.sealed, name) {
				return true
			}
		}
	}
	return false
}

// allList reports whether all of some members list a property.
func allList(members []*value, name string) bool {
	for _, m := range members {
		if m.get("properties").lookup(name) == nil {
			return false
		}
	}
	return true
}

// noValue reports whether a property plainly has no value: none of the few that one of its schemas lists is left by the others.
func (pv *prover) noValue(all []*facts, name string) bool {
	if pv.contradict(all, name) {
		return true
	}
	var list []*value
	listed := false
	for _, f := range all {
		for _, s := range f.schemas[name] {
			if values, few := pv.few(s, 0); few && (!listed || len(values) < len(list)) {
				list, listed = values, true
			}
		}
	}
	return listed && !slices.ContainsFunc(list, func(v *value) bool {
		for _, f := range all {
			if slices.ContainsFunc(f.schemas[name], func(s *value) bool { return pv.rulesOut(s, v, 0) }) {
				return false
			}
		}
		return true
	})
}

// contradict reports whether the schemas of a property plainly exclude each other: they leave no type, or the last facts have the contrary of what
// the others say.
func (pv *prover) contradict(all []*facts, name string) bool {
	t := isAny
	var known []*value
	for _, f := range all[:len(all)-1] {
		known = append(known, f.schemas[name]...)
	}
	branch := all[len(all)-1].schemas[name]
	for _, s := range append(slices.Clip(known), branch...) {
		if t &= pv.profiler.kinds(s); t == 0 {
			return true
		}
	}
	return slices.ContainsFunc(branch, func(s *value) bool {
		return slices.ContainsFunc(pv.made.against[s], func(other *value) bool { return pv.entails(known, other) })
	})
}

// maxFactDepth bounds the schemas in each other that facts are looked for in.
const maxFactDepth = 8

// few are the values that a schema lists, if it lists any.
func (pv *prover) few(s *value, depth int) (values []*value, few bool) {
	switch {
	case s.kind == boolean:
		return nil, !s.truth
	case s.kind != object || depth > maxFactDepth:
		return nil, false
	}
	if v := pv.doc.keyword(s, "const"); v != nil {
		return []*value{v}, true
	}
	if v := pv.doc.keyword(s, "enum"); v != nil && v.kind == array {
		return v.items, true
	}
	for _, part := range pv.parts(s) {
		if values, few = pv.few(part, depth+1); few {
			return values, true
		}
	}
	return nil, false
}

// rulesOut reports whether a schema plainly does not hold for a value.
func (pv *prover) rulesOut(s, v *value, depth int) bool {
	switch {
	case s.kind == boolean:
		return !s.truth
	case s.kind != object || depth > maxFactDepth || pv.meter.Spend(stepWork/4) != nil:
		return false
	}
	if t, err := pv.typesOf(s); err == nil && t&typeOf(v) == 0 {
		return true
	}
	if want := pv.doc.keyword(s, "const"); want != nil && !same(want, v) {
		return true
	}
	if list := pv.doc.keyword(s, "enum"); list != nil && list.kind == array {
		if among, err := pv.enums.among(list, v); err == nil && !among {
			return true
		}
	}
	if slices.ContainsFunc(pv.made.excluded[s], func(out *value) bool { return same(out, v) }) {
		return true
	}
	if slices.ContainsFunc(pv.parts(s), func(part *value) bool { return pv.rulesOut(part, v, depth+1) }) {
		return true
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		list := pv.doc.keyword(s, keyword)
		if list != nil && list.kind == array && len(list.items) > 0 &&
			!slices.ContainsFunc(list.items, func(branch *value) bool { return !pv.rulesOut(branch, v, depth+1) }) {
			return true
		}
	}
	return false
}

// possible gives the branches of a choice that the closure does not plainly rule out.
func (pv *prover) possible(cl *closure, branches []*value) ([]*value, error) {
	left := make([]*value, 0, len(branches))
	for _, branch := range branches {
		if err := pv.spend(1); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(pv.made.against[branch], func(s *value) bool { return cl.has[s] }) {
			continue
		}
		p, err := pv.profiler.profileOf(branch)
		if err == nil { // else it is told once the branch is taken in
			types := cl.types & p.types
			if types == 0 || types == isObject && pv.clash(&cl.facts, &p.facts) {
				continue
			}
		}
		left = append(left, branch)
	}
	return left, nil
}

// idle reports whether a choice says nothing that the closure does not know: a property is absent, or it is there and the rest holds anyway.
// Dependencies are such choices once what they ask for is known.
func (pv *prover) idle(cl *closure, branches []*value) bool {
	if len(branches) != 2 || len(cl.under) > 0 {
		return false
	}
	var p [2]*profile
	for i, branch := range branches {
		var err error
		if p[i], err = pv.profiler.profileOf(branch); err != nil || !p[i].whole || len(p[i].choices) > 0 {
			return false
		}
	}
	for i := range p {
		out, in := &p[i].facts, p[1-i]
		if p[i].types != isAny || len(out.required) > 0 || len(out.schemas) != 1 {
			continue
		}
		for name, schemas := range out.schemas {
			if cl.facts.schemas[name] != nil && slices.ContainsFunc(schemas, isNever) && in.facts.required[name] && pv.addsNothing(cl, in, name) {
				return true
			}
		}
	}
	return false
}

// addsNothing reports whether a branch says of objects that have a property only what the closure says, too.
func (pv *prover) addsNothing(cl *closure, p *profile, there string) bool {
	if p.types&isObject == 0 {
		return false
	}
	for name := range p.facts.required {
		if name != there && !cl.facts.required[name] {
			return false
		}
	}
	for name, schemas := range p.facts.schemas {
		known := cl.facts.schemas[name]
		if known == nil || !slices.ContainsFunc(known, isNever) && slices.ContainsFunc(schemas, func(s *value) bool { return !pv.entails(known, s) }) {
			return false
		}
	}
	return true
}

// entails reports whether a schema plainly holds for all values that others leave.
func (pv *prover) entails(known []*value, s *value) bool {
	if pv.surely(s, nil, 0) || pv.entailsAll(known, s, 0) {
		return true
	}
	var list []*value
	listed := false
	for _, k := range known {
		if values, few := pv.few(k, 0); few && (!listed || len(values) < len(list)) {
			list, listed = values, true
		}
	}
	return listed && !slices.ContainsFunc(list, func(v *value) bool {
		return !pv.surely(s, v, 0) && !slices.ContainsFunc(known, func(k *value) bool { return pv.rulesOut(k, v, 0) })
	})
}

// entailsAll reports whether others say all that a schema says: one of them is that schema, or it speaks of types and of single values alone.
func (pv *prover) entailsAll(known []*value, s *value, depth int) bool {
	if slices.ContainsFunc(known, func(k *value) bool { return pv.includes(k, s, 0) }) {
		return true
	}
	if s.kind != object || depth > maxFactDepth || pv.made.odd(s) && pv.made.excluded[s] == nil || pv.made.pattern[s] != nil || pv.made.indivisible[s] != nil {
		return false
	}
	for _, key := range s.keys {
		if key != "type" && key != "allOf" && key != "$ref" && (assertions[key] || inPlace[key]) {
			return false
		}
	}
	left := isAny
	for _, k := range known {
		left &= pv.profiler.kinds(k)
	}
	if t, err := pv.typesOf(s); err != nil || left&^t != 0 {
		return false
	}
	for _, v := range pv.made.excluded[s] {
		if left&typeOf(v) != 0 && !slices.ContainsFunc(known, func(k *value) bool { return pv.rulesOut(k, v, 0) }) {
			return false
		}
	}
	return !slices.ContainsFunc(pv.parts(s), func(part *value) bool { return !pv.entailsAll(known, part, depth+1) })
}

// includes reports whether a schema is another one, or one of its parts is.
func (pv *prover) includes(k, s *value, depth int) bool {
	if k == s || pv.alike(k, s) {
		return true
	}
	return k.kind == object && depth <= maxFactDepth && slices.ContainsFunc(pv.parts(k), func(part *value) bool { return pv.includes(part, s, depth+1) })
}

// alike reports whether two schemas of one resource are written alike.
func (pv *prover) alike(a, b *value) bool {
	if a.kind != object || b.kind != object || a.id >= firstMade || b.id >= firstMade || len(a.keys) != len(b.keys) {
		return false
	}
	return pv.digest(a) == pv.digest(b) && same(a, b) && pv.doc.base(a) == pv.doc.base(b)
}

// digest tells most schemas apart that are not written alike.
func (pv *prover) digest(s *value) uint64 {
	d, ok := pv.digests[s]
	if !ok {
		h := fnv.New64a()
		h.Write(canonical(nil, s))
		d = h.Sum64()
		pv.digests[s] = d
	}
	return d
}

// surely reports whether a schema plainly holds for a value; nil is any value.
func (pv *prover) surely(s, v *value, depth int) bool {
	switch {
	case s.kind == boolean:
		return s.truth
	case s.kind != object || depth > maxFactDepth || pv.made.odd(s):
		return false
	}
	for _, key := range s.keys {
		if !assertions[key] && !inPlace[key] {
			continue
		}
		switch key {
		case "allOf", "$ref":
		case "type", "const", "enum":
			if v == nil {
				return false
			}
		default:
			return false
		}
	}
	if slices.ContainsFunc(pv.parts(s), func(part *value) bool { return !pv.surely(part, v, depth+1) }) {
		return false
	}
	return v == nil || !pv.rulesOut(s, v, depth)
}
