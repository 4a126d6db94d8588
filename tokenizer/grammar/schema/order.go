package schema

import "weir/tokenizer/grammar"

// emitAnyOrder is objects whose properties come in any order, others between them.
func (f *objectForm) emitAnyOrder(e *emitter) (grammar.Symbol, error) {
	var members []grammar.Member
	required := false
	for _, p := range f.properties {
		if !p.value.alive {
			continue
		}
		value, err := e.value(p.value)
		if err != nil {
			return 0, err
		}
		required = required || p.required
		members = append(members, grammar.Member{Symbols: []grammar.Symbol{e.key(p.name), value}, Required: p.required})
	}
	more, err := e.extra(f.extras)
	if err != nil {
		return 0, err
	}
	if more != nil {
		members = append(members, grammar.Member{Symbols: more, Repeats: true})
	}
	var alternatives [][]grammar.Symbol
	if !required && f.least == 0 {
		alternatives = append(alternatives, []grammar.Symbol{e.openObject, e.endObject})
	}
	if len(members) > 0 && f.most != 0 {
		alternatives = append(alternatives, []grammar.Symbol{e.openObject, e.builder.AnyOrder(members, e.comma, f.least, f.most), e.closeObject})
	}
	return e.builder.Define("object", alternatives...), nil
}
