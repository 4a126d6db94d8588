package schema

// listings are the choices that are enums in disguise.
type listings struct {
	*reader
	known map[*value]*value // by list of an anyOf or oneOf: one enum of its constants, nil where it has others
}

// of is an anyOf or oneOf whose branches are all constants as one enum, nil where it is none.
func (l *listings) of(s *value, keyword string, branches []*value) *value {
	if len(branches) < 2 {
		return nil
	}
	list := l.doc.keyword(s, keyword)
	if one, known := l.known[list]; known {
		return one
	}
	l.known[list] = l.make(s, keyword, branches)
	return l.known[list]
}

func (l *listings) make(s *value, keyword string, branches []*value) *value {
	var all []*value
	held := map[string]int{} // by fingerprint: how many branches have the value
	for _, branch := range branches {
		values := l.scalarsOf(branch)
		if values == nil {
			return nil
		}
		seen := map[string]bool{}
		for _, v := range values {
			key := string(fingerprint(nil, v))
			if seen[key] {
				continue
			}
			seen[key] = true
			if held[key]++; held[key] == 1 {
				all = append(all, v)
			}
		}
	}
	one := &value{kind: array}
	for _, v := range all {
		if keyword != "oneOf" || held[string(fingerprint(nil, v))] == 1 {
			one.items = append(one.items, v)
		}
	}
	return l.made.object(s, "enum", one)
}

// scalarsOf gives the values of a schema that says nothing but which ones, nil where it says more, or a value is an object or a list.
func (l *listings) scalarsOf(s *value) []*value {
	if s.kind != object || l.made.odd(s) {
		return nil
	}
	for _, key := range s.keys {
		if key != "const" && key != "enum" && (assertions[key] || inPlace[key]) {
			return nil
		}
	}
	values := []*value{l.doc.keyword(s, "const")}
	if list := l.doc.keyword(s, "enum"); list != nil {
		if values[0] != nil || list.kind != array {
			return nil
		}
		values = list.items
	}
	for _, v := range values {
		if v == nil || v.kind == array || v.kind == object {
			return nil
		}
	}
	return values
}
