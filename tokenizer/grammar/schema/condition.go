package schema

import "slices"

// addLogic takes the conditions of a member into a closure as choices: what holds, or the contrary of its condition.
func (g *gatherer) addLogic(cl *closure, s *value, t *trail) error {
	if g.loose {
		return nil
	}
	if no := g.doc.keyword(s, "not"); no != nil {
		n, err := g.negator.negate(no)
		if err != nil {
			return err
		}
		if !n.known {
			return g.refuse(s, "not", "the contrary of this schema is not known; say what values are, not what they are not")
		}
		hidden := make([]*value, len(n.alternatives))
		for i, a := range n.alternatives {
			if hidden[i] = a; !isNever(a) {
				hidden[i] = g.made.hide(s, a)
			}
		}
		if err := g.choose(cl, s, "not", t, hidden...); err != nil {
			return err
		}
	}
	if known, ok := g.made.foreign[s]; ok {
		if err := g.addForeign(cl, s, t, known); err != nil {
			return err
		}
	}
	if err := g.addCondition(cl, s, t); err != nil {
		return err
	}
	for _, keyword := range []string{"dependentRequired", "dependentSchemas", "dependencies"} {
		needs, err := g.members(s, keyword)
		if err != nil {
			return err
		}
		if needs == nil {
			continue
		}
		for i, name := range needs.keys {
			var need *value
			switch {
			case needs.items[i].kind != array:
				need = g.made.both(s, g.made.with(s, name), needs.items[i])
			case len(needs.items[i].items) == 0:
				continue
			default:
				need = g.made.object(s, "type", word("object"), "required", g.made.list(append([]*value{word(name)}, needs.items[i].items...)...))
			}
			if err := g.choose(cl, s, keyword, t, g.made.without(s, name), need); err != nil {
				return err
			}
		}
	}
	return nil
}

// addForeign is the contrary of a closed object: a property is there that it does not know. It is one of those that the closure names so far,
// the first of them that is there, so that no object fits two branches; names that no schema lists are left out.
func (g *gatherer) addForeign(cl *closure, s *value, t *trail, known []string) error {
	if cl.alone {
		return nil
	}
	var branches []*value
	var earlier []*value
	for _, m := range cl.members {
		properties, err := g.members(m, "properties")
		if err != nil {
			return err
		}
		if properties == nil {
			continue
		}
		for i, name := range properties.keys {
			if isNever(properties.items[i]) || slices.Contains(known, name) {
				continue
			}
			if err := g.spend(1 + len(earlier)); err != nil {
				return err
			}
			known = append(slices.Clip(known), name)
			branches = append(branches, g.made.both(s, append([]*value{g.made.with(s, name)}, earlier...)...))
			earlier = append(earlier, g.made.without(s, name))
		}
	}
	return g.choose(cl, s, "additionalProperties", t, branches...)
}

// addCondition is if, then and else.
func (g *gatherer) addCondition(cl *closure, s *value, t *trail) error {
	cond, yes, no := g.doc.keyword(s, "if"), g.doc.keyword(s, "then"), g.doc.keyword(s, "else")
	if cond == nil || yes == nil && no == nil {
		return nil
	}
	if yes == nil {
		yes = always
	}
	if no == nil {
		no = always
	}
	other, ok, err := g.negator.contrary(cond)
	if err != nil {
		return err
	}
	if !ok {
		return g.refuse(s, "if", "the contrary of this schema is not known; use anyOf with one schema for each case")
	}
	return g.choose(cl, s, "if", t, g.made.both(s, g.made.condition(s, cond), yes), g.made.both(s, g.made.hide(s, other), no))
}

// choose adds a choice; one branch alone is added at once.
func (g *gatherer) choose(cl *closure, s *value, keyword string, t *trail, branches ...*value) error {
	branches = slices.DeleteFunc(slices.Clone(branches), isNever)
	switch len(branches) {
	case 0:
		cl.never = true
		return nil
	case 1:
		return g.add(cl, branches[0], t)
	}
	veiled := g.veiled(t) || !slices.ContainsFunc(branches, func(b *value) bool { return !g.made.hidden[b] })
	cl.choices = append(cl.choices, choice{at: s, keyword: keyword, branches: branches, veiled: veiled, trail: t})
	return nil
}
