package schema

// listing is an anyOf or oneOf whose branches are all constants as one enum, nil where it is none.
func (c *compiler) listing(s *value, keyword string, branches []*value) *value {
	if len(branches) < 2 {
		return nil
	}
	list := c.doc.keyword(s, keyword)
	if one, known := c.listings[list]; known {
		return one
	}
	c.listings[list] = c.makeListing(s, keyword, branches)
	return c.listings[list]
}

func (c *compiler) makeListing(s *value, keyword string, branches []*value) *value {
	var all []*value
	held := map[string]int{} // by fingerprint: how many branches have the value
	for _, branch := range branches {
		values := c.scalarsOf(branch)
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
	return c.made.object(s, "enum", one)
}

// scalarsOf gives the values of a schema that says nothing but which ones, nil where it says more, or a value is an object or a list.
func (c *compiler) scalarsOf(s *value) []*value {
	if s.kind != object || c.made.odd(s) {
		return nil
	}
	for _, key := range s.keys {
		if key != "const" && key != "enum" && (assertions[key] || inPlace[key]) {
			return nil
		}
	}
	values := []*value{c.doc.keyword(s, "const")}
	if list := c.doc.keyword(s, "enum"); list != nil {
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
