package schema

import (
	"slices"

	"weir/tokenizer/grammar/regex"
)

// maxClasses bounds the classes that patternProperties cut the names into.
const maxClasses = 32

// objectPart is what one member of a closure says of properties.
type objectPart struct {
	at         *value
	properties *value
	patterns   []namePattern
	rest       *value // additionalProperties
	unlooked   *value // unevaluatedProperties
	under      []int  // the parts that count as having looked, for unevaluatedProperties
	every      bool   // one of them has looked at all names
}

type namePattern struct {
	*pattern
	value *value
}

func (rd *reader) objectParts(members []*value) ([]objectPart, error) {
	parts := make([]objectPart, 0, len(members))
	for _, m := range members {
		part := objectPart{at: m, rest: rd.doc.keyword(m, "additionalProperties")}
		var err error
		if part.properties, err = rd.members(m, "properties"); err != nil {
			return nil, err
		}
		patterns, err := rd.members(m, "patternProperties")
		if err != nil {
			return nil, err
		}
		if patterns != nil {
			for i, key := range patterns.keys {
				p, err := rd.pattern(m, "patternProperties", key)
				if err != nil {
					return nil, err
				}
				part.patterns = append(part.patterns, namePattern{p, patterns.items[i]})
			}
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// objectForms makes the forms of objects.
type objectForms struct {
	*reader
	shapes   *shapeTable
	gatherer *gatherer // of the schemas of names
	expander *expander
	scalars  *scalarForms
}

// object makes the form of the objects that all members hold for; nil where there can be none. Closed ones have no names but those that a
// member lists, requires or has a pattern of.
func (o *objectForms) object(members []*value, under map[*value][]*value, closed bool) (form, error) {
	f := &objectForm{}
	var err error
	if f.least, f.most, err = o.counts(members, "minProperties", "maxProperties"); err != nil {
		return nil, err
	}
	parts, err := o.objectParts(members)
	if err != nil {
		return nil, err
	}
	o.lookUnder(parts, under)
	names, required, err := o.propertyNames(parts)
	if err != nil {
		return nil, err
	}
	const lookups = 8 // of a name in parts, that take about a step
	if err := o.spend(len(names) * (1 + len(parts)/lookups)); err != nil {
		return nil, err
	}
	allowed, err := o.nameRule(members)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		set, err := o.propertySet(parts, name)
		if err != nil {
			return nil, err
		}
		ok, err := allowed.holds(o.reader, name)
		if err != nil {
			return nil, err
		}
		if !ok {
			set = append(set, never)
		}
		if slices.ContainsFunc(set, isNever) {
			if required[name] {
				return nil, nil
			}
		}
		s, err := o.shapes.of(set)
		if err != nil {
			return nil, err
		}
		f.properties = append(f.properties, property{name, required[name], s})
	}
	if f.extras, err = o.extras(members, parts, names, allowed, closed); err != nil {
		return nil, err
	}
	return f, o.limitProperties(members, f)
}

// lookUnder says of each part with unevaluatedProperties which parts have looked at properties before it.
func (o *objectForms) lookUnder(parts []objectPart, under map[*value][]*value) {
	for i := range parts {
		p := &parts[i]
		if p.unlooked = o.doc.keyword(p.at, "unevaluatedProperties"); p.unlooked == nil || o.loose {
			p.unlooked = nil
			continue
		}
		for j, other := range parts {
			if !slices.Contains(under[p.at], other.at) {
				continue
			}
			p.under = append(p.under, j)
			p.every = p.every || other.rest != nil || j != i && o.doc.keyword(other.at, "unevaluatedProperties") != nil
		}
	}
}

// unlooked is the schemas of unevaluatedProperties that hold for a name which the parts have looked at or not.
func unlooked(parts []objectPart, looked []bool) []*value {
	var set []*value
	for _, p := range parts {
		if p.unlooked != nil && !p.every && !slices.ContainsFunc(p.under, func(i int) bool { return looked[i] }) {
			set = append(set, p.unlooked)
		}
	}
	return set
}

// never is the schema of nothing.
var never = &value{kind: boolean, id: -1}

func isNever(s *value) bool { return s.kind == boolean && !s.truth }

// propertyNames lists the names in their order: those of properties, then those that are only required.
func (o *objectForms) propertyNames(parts []objectPart) ([]string, map[string]bool, error) {
	var names []string
	seen, required := map[string]bool{}, map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, part := range parts {
		if part.properties != nil {
			for _, name := range part.properties.keys {
				add(name)
			}
		}
	}
	for _, part := range parts {
		list, err := o.names(part.at, "required")
		if err != nil {
			return nil, nil, err
		}
		for _, name := range list {
			add(name)
			required[name] = true
		}
	}
	return names, required, nil
}

// propertySet is the schemas that hold for one property.
func (rd *reader) propertySet(parts []objectPart, name string) ([]*value, error) {
	var set []*value
	looked := make([]bool, len(parts))
	for i, part := range parts {
		known := false
		if v := part.properties.lookup(name); v != nil {
			set, known = append(set, v), true
		}
		for _, p := range part.patterns {
			ok, err := rd.matches(p.plain, name)
			if rd.meter.Err() != nil {
				return nil, err
			}
			if err != nil {
				return nil, wrong(part.at, "patternProperties", "%v", err)
			}
			if ok {
				set, known = append(set, p.value), true
			}
		}
		if !known && part.rest != nil {
			set = append(set, part.rest)
		}
		looked[i] = known
	}
	return append(set, unlooked(parts, looked)...), nil
}

// lookup is get, of nothing where there is no object.
func (v *value) lookup(key string) *value {
	if v == nil {
		return nil
	}
	return v.get(key)
}

// nameRule is what propertyNames says of names; nil where it says nothing.
type nameRule struct {
	regex *regex.Regex // with quotes, in one spelling
}

func (n *nameRule) holds(rd *reader, name string) (bool, error) {
	if n == nil {
		return true, nil
	}
	return rd.matches(n.regex, string(quote(nil, name)))
}

// nameRule reads propertyNames: schemas of strings, whose forms are regular expressions.
func (o *objectForms) nameRule(members []*value) (*nameRule, error) {
	var set []*value
	for _, m := range members {
		if v := o.doc.keyword(m, "propertyNames"); v != nil {
			set = append(set, v)
		}
	}
	if set == nil {
		return nil, nil
	}
	cl := newClosure(isText)
	for _, m := range set {
		if err := o.gatherer.add(cl, m, nil); err != nil {
			return nil, err
		}
	}
	var parts []*regex.Regex
	err := o.expander.expand(cl, func(leaf *closure) error {
		if leaf.listed {
			forms, err := o.scalars.listed(leaf.members)
			for _, f := range forms {
				for _, v := range f.(*constants).values {
					if v.kind == text {
						parts = append(parts, regex.Literal(string(quote(nil, v.text))))
					}
				}
			}
			return err
		}
		t, err := o.textOf(leaf.members)
		if err == nil && !leaf.never {
			parts = append(parts, regex.Concat(quotation, t.inside(), quotation))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &nameRule{regex.Or(parts...)}, nil
}

// nameClass is a set of names that the same schemas hold for.
type nameClass struct {
	inside  []*regex.Regex // all of these match, inside quotes
	values  []*value
	matched []bool // by part: one of its patterns matches
}

// extras cuts the names that are not listed into classes by the patterns that match them; a closed object leaves out those that none matches.
func (o *objectForms) extras(members []*value, parts []objectPart, names []string, allowed *nameRule, closed bool) ([]extra, error) {
	classes := []nameClass{{matched: make([]bool, len(parts))}}
	for i, part := range parts {
		for _, p := range part.patterns {
			var next []nameClass
			for _, class := range classes {
				in := nameClass{append(slices.Clone(class.inside), p.spelled), append(slices.Clone(class.values), p.value), slices.Clone(class.matched)}
				in.matched[i] = true
				out := nameClass{append(slices.Clone(class.inside), regex.Not(p.spelled)), class.values, class.matched}
				for _, half := range []nameClass{in, out} {
					some, err := o.unlessNothing(members, regex.And(append(half.inside, anySpelling)...))
					if err != nil {
						return nil, err
					}
					if some != nil {
						next = append(next, half)
					}
				}
			}
			classes = next
			if len(classes) > maxClasses {
				return nil, wrong(part.at, "patternProperties", "the patterns cut names into more than %d classes; use fewer", maxClasses)
			}
		}
	}
	taken := make([]string, len(names))
	for i, name := range names {
		quoted := quote(nil, name)
		taken[i] = string(quoted[1 : len(quoted)-1])
	}
	var extras []extra
	for _, class := range classes {
		for i, part := range parts {
			if !class.matched[i] && part.rest != nil {
				class.values = append(slices.Clone(class.values), part.rest)
			}
		}
		class.values = append(slices.Clip(class.values), unlooked(parts, class.matched)...)
		if slices.ContainsFunc(class.values, isNever) || closed && !slices.Contains(class.matched, true) {
			continue
		}
		x, err := o.extra(members, class, taken, allowed)
		if err != nil {
			return nil, err
		}
		if x != nil {
			extras = append(extras, *x)
		}
	}
	return extras, nil
}

// extra is a class of names as a terminal; nil where it is empty.
func (o *objectForms) extra(members []*value, class nameClass, taken []string, allowed *nameRule) (*extra, error) {
	parts := append([]*regex.Regex{anySpelling}, class.inside...)
	if len(taken) > 0 {
		parts = append(parts, regex.Not(regex.Words(taken...)))
	}
	key := regex.Concat(quotation, regex.And(parts...), quotation)
	if allowed != nil {
		key = regex.And(key, allowed.regex)
	}
	if len(class.inside) > 0 || allowed != nil { // else names are left, whatever is taken
		some, err := o.unlessNothing(members, key)
		if some == nil || err != nil {
			return nil, err
		}
	}
	s, err := o.shapes.of(class.values)
	if err != nil {
		return nil, err
	}
	return &extra{key, s}, nil
}

// maxCounted bounds the rules that optional properties take, one for each and, where they are counted, for each count. A rule takes three of
// the places that a parser may have at one point of an answer, and all of an object's rules are in progress at its beginning.
const maxCounted = 6_000

// limitProperties refuses counts that a grammar cannot keep. Names that the schema does not list could be repeated, so that at most one of
// them counts as there.
func (o *objectForms) limitProperties(members []*value, f *objectForm) error {
	required := 0
	for _, p := range f.properties {
		if p.required {
			required++
		}
	}
	if optional := len(f.properties) - required; optional > maxCounted {
		at := members[slices.IndexFunc(members, func(m *value) bool { return o.doc.keyword(m, "properties") != nil })]
		return wrong(at, "properties", "%d properties may be left out, %d are allowed; require more of them, or ask for an array of names and values",
			optional, maxCounted)
	}
	if f.least <= required && (f.most < 0 || f.most >= len(f.properties) && len(f.extras) == 0) {
		f.least, f.most = 0, -1
		return nil
	}
	keyword := "minProperties"
	if f.most >= 0 {
		keyword = "maxProperties"
	}
	at := members[slices.IndexFunc(members, func(m *value) bool { return o.doc.keyword(m, keyword) != nil })]
	bound := max(f.least, f.most)
	if f.most > len(f.properties) || f.most < 0 {
		bound = max(f.least, 1)
	}
	if o.loose || !o.options.AnyOrder && len(f.properties)*min(bound, len(f.properties)) > maxCounted {
		err := o.refuse(at, keyword, "counting %d properties up to %d takes too many rules; list fewer properties", len(f.properties), bound)
		f.least, f.most = 0, -1
		return err
	}
	if f.least > len(f.properties)+1 && len(f.extras) > 0 {
		err := o.refuse(at, keyword, "at least %d properties cannot be kept: %d are listed, and names that are not could be repeated; "+
			"list the properties, or ask for an array", f.least, len(f.properties))
		f.least = len(f.properties) + 1
		return err
	}
	return nil
}
