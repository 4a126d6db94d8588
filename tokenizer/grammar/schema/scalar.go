package schema

import (
	"slices"

	"weir/tokenizer/grammar/regex"
)

// scalarForms makes the forms of lists of constants, and the regular expressions of numbers, strings and booleans.
type scalarForms struct {
	*reader
	enums *enums
}

// listed gives the form of an enum or const: the values of the shortest list that all members hold for.
func (sf *scalarForms) listed(members []*value) ([]form, error) {
	var list []*value
	var from *value
	for _, m := range members {
		if v := sf.doc.keyword(m, "const"); v != nil {
			list, from = []*value{v}, m
			break
		}
		if v := sf.doc.keyword(m, "enum"); v != nil {
			if v.kind != array {
				return nil, wrong(m, "enum", "needs a list of values")
			}
			if list == nil || len(v.items) < len(list) {
				list, from = v.items, m
			}
		}
	}
	if err := sf.spend(len(list)); err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(members), func(m *value) bool { return m == from && plainList(m) })
	seen := map[string]bool{}
	f := &constants{}
	for _, v := range list {
		key := string(fingerprint(nil, v))
		if seen[key] {
			continue
		}
		seen[key] = true
		ok, err := sf.holdsAll(others, v)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		f.values = append(f.values, v)
	}
	if len(f.values) == 0 {
		return nil, nil
	}
	return []form{f}, nil
}

// plainList reports whether a schema asserts nothing but one list of values.
func plainList(s *value) bool {
	asserted := 0
	for _, key := range s.keys {
		if assertions[key] || inPlace[key] {
			asserted++
		}
	}
	return asserted == 1
}

// booleans matches true and false, except for those that members exclude; nil where none is left.
func (sf *scalarForms) booleans(members []*value) *regex.Regex {
	var left []string
	for truth, word := range map[bool]string{false: "false", true: "true"} {
		if !sf.excludes(members, func(v *value) bool { return v.kind == boolean && v.truth == truth }) {
			left = append(left, word)
		}
	}
	if left == nil {
		return nil
	}
	return regex.Words(left...)
}

// excludes reports whether a member was made to exclude a constant.
func (sf *scalarForms) excludes(members []*value, is func(*value) bool) bool {
	return slices.ContainsFunc(members, func(m *value) bool { return slices.ContainsFunc(sf.made.excluded[m], is) })
}

// holdsAll reports whether a constant satisfies all members.
func (sf *scalarForms) holdsAll(members []*value, v *value) (bool, error) {
	k := checker{reader: sf.reader, enums: sf.enums}
	for _, m := range members {
		if ok, err := k.holds(m, v); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}
