package schema

import "slices"

// arrayPart is what one member of a closure says of items.
type arrayPart struct {
	items []*value
	rest  *value
}

// arrayPart reads items, prefixItems and, of older drafts, lists in items and additionalItems.
func (rd *reader) arrayPart(m *value) (arrayPart, error) {
	items, prefix := rd.doc.keyword(m, "items"), rd.doc.keyword(m, "prefixItems")
	if prefix != nil && prefix.kind != array {
		return arrayPart{}, wrong(m, "prefixItems", "needs a list of schemas")
	}
	if items != nil && items.kind == array {
		if rd.doc.draft == draft2020 || prefix != nil {
			return arrayPart{}, wrong(m, "items", "a list is of drafts before 2020-12; name it prefixItems")
		}
		return arrayPart{items.items, rd.doc.keyword(m, "additionalItems")}, nil
	}
	if prefix == nil {
		return arrayPart{nil, items}, nil
	}
	return arrayPart{prefix.items, items}, nil
}

// maxPlaces bounds the items that have a schema of their own.
const maxPlaces = 10_000

// arrayForms makes the forms of arrays.
type arrayForms struct {
	*reader
	shapes *shapeTable
}

// array makes the form of the arrays that all members hold for.
func (a *arrayForms) array(members []*value, under map[*value][]*value) (form, error) {
	f := &arrayForm{}
	var err error
	if f.least, f.most, err = a.counts(members, "minItems", "maxItems"); err != nil {
		return nil, err
	}
	parts := make([]arrayPart, len(members))
	places := 0
	for i, m := range members {
		if parts[i], err = a.arrayPart(m); err != nil {
			return nil, err
		}
		places = max(places, len(parts[i].items))
		if u := a.doc.keyword(m, "uniqueItems"); u != nil && u.truth && (f.most < 0 || f.most > 1) {
			f.unique = m
		}
		if err := a.refuseOfArrays(m); err != nil {
			return nil, err
		}
	}
	if err := a.spend(places * len(parts)); err != nil {
		return nil, err
	}
	if f.most >= 0 {
		places = min(places, f.most)
	}
	if places > maxPlaces {
		return nil, wrong(members[0], "", "more than %d items have schemas of their own; use items for what repeats", maxPlaces)
	}
	looks := a.looks(members, parts, under)
	for i := range places + 1 {
		var set []*value
		for _, part := range parts {
			switch {
			case i < len(part.items):
				set = append(set, part.items[i])
			case part.rest != nil:
				set = append(set, part.rest)
			}
		}
		for _, l := range looks {
			if i >= l.from {
				set = append(set, l.value)
			}
		}
		if i == places && slices.ContainsFunc(set, isNever) {
			break
		}
		s, err := a.shapes.of(set)
		if err != nil {
			return nil, err
		}
		if i < places {
			f.items = append(f.items, s)
		} else {
			f.rest = s
		}
	}
	return f, nil
}

// refuseOfArrays refuses what a grammar cannot say of arrays.
func (a *arrayForms) refuseOfArrays(m *value) error {
	if v := a.doc.keyword(m, "contains"); v != nil {
		least, err := a.count(m, "minContains", 1)
		if err != nil {
			return err
		}
		if least > 0 || a.doc.keyword(m, "maxContains") != nil {
			if err := a.refuse(m, "contains", "that some items fit a schema is not enforced; say it of all items, or of the first by prefixItems"); err != nil {
				return err
			}
		}
	}
	return nil
}

// look is an unevaluatedItems, which holds for the items from one place on.
type look struct {
	value *value
	from  int
}

// looks reads unevaluatedItems; where a schema has looked at all items before it, it says nothing.
func (a *arrayForms) looks(members []*value, parts []arrayPart, under map[*value][]*value) []look {
	var looks []look
	for i, m := range members {
		v := a.doc.keyword(m, "unevaluatedItems")
		if v == nil || a.loose {
			continue
		}
		l, every := look{value: v}, false
		for j, part := range parts {
			if !slices.Contains(under[m], members[j]) {
				continue
			}
			l.from = max(l.from, len(part.items))
			every = every || part.rest != nil || j != i && a.doc.keyword(members[j], "unevaluatedItems") != nil
		}
		if !every {
			looks = append(looks, l)
		}
	}
	return looks
}

// unevaluated refuses, for constants, keywords that depend on what other keywords have looked at.
func (rd *reader) unevaluated(members []*value, keyword string) error {
	for _, m := range members {
		if v := rd.doc.keyword(m, keyword); v != nil && (v.kind != boolean || !v.truth) && (v.kind != object || len(v.keys) > 0) {
			if err := rd.refuse(m, keyword, "what other keywords have not looked at is not known here; use additionalProperties or items"); err != nil {
				return err
			}
		}
	}
	return nil
}
