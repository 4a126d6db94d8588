package schema

import (
	"slices"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// blanks are what may stand between the parts of a value: nothing, one space, or up to two newlines with up to 20 blanks behind them.
var blanks = regex.Optional(regex.Or(regex.Literal(" "),
	regex.Concat(regex.Repeat(regex.Literal("\n"), 1, 2), regex.Repeat(regex.Or(regex.Literal(" "), regex.Literal("\t")), 0, 20))))

// emitter writes shapes as rules of a builder.
type emitter struct {
	builder *grammar.Builder
	gap     *regex.Regex
	symbols map[*shape]grammar.Symbol
	forms   map[form]grammar.Symbol
	names   map[string]grammar.Symbol

	anyOrder bool // of properties

	openObject, closeObject, endObject grammar.Symbol // end: of an empty object
	openArray, closeArray, endArray    grammar.Symbol
	comma                              grammar.Symbol
}

func newEmitter(b *grammar.Builder, o Options) (*emitter, error) {
	e := &emitter{builder: b, gap: blanks, symbols: map[*shape]grammar.Symbol{}, forms: map[form]grammar.Symbol{},
		names: map[string]grammar.Symbol{}, anyOrder: o.AnyOrder}
	switch {
	case o.Compact:
		e.gap = regex.Empty()
	case o.Whitespace != "":
		r, err := regex.Parse("^(?:"+o.Whitespace+")$", regex.JavaScript)
		if err != nil {
			return nil, &Error{Reason: "the whitespace pattern: " + err.Error()}
		}
		e.gap = r
	}
	behind := func(text string) grammar.Symbol { return e.terminal(regex.Concat(regex.Literal(text), e.gap)) }
	before := func(text string) grammar.Symbol { return e.terminal(regex.Concat(e.gap, regex.Literal(text))) }
	e.openObject, e.closeObject, e.endObject = behind("{"), before("}"), b.Literal("}")
	e.openArray, e.closeArray, e.endArray = behind("["), before("]"), b.Literal("]")
	e.comma = behind(",")
	return e, nil
}

func (e *emitter) terminal(r *regex.Regex) grammar.Symbol { return e.builder.Regex(r) }

// value is the symbol of a shape. The builder drops what has no value.
func (e *emitter) value(s *shape) (grammar.Symbol, error) {
	if symbol, ok := e.symbols[s]; ok {
		return symbol, nil
	}
	if len(s.forms) == 1 {
		if l, ok := s.forms[0].(*lexeme); ok {
			symbol := e.terminal(l.regex)
			e.symbols[s] = symbol
			return symbol, nil
		}
	}
	name := "value"
	if len(s.members) > 0 {
		name = s.members[0].pointer()
	}
	rule := e.builder.Rule(name)
	e.symbols[s] = rule
	for _, f := range s.forms {
		if !f.possible() {
			continue
		}
		symbol, ok := e.forms[f]
		if !ok {
			var err error
			if symbol, err = f.emit(e); err != nil {
				return 0, err
			}
			e.forms[f] = symbol
		}
		e.builder.Add(rule, []grammar.Symbol{symbol})
	}
	return rule, e.builder.Err()
}

// key is a name with its colon.
func (e *emitter) key(name string) grammar.Symbol {
	symbol, ok := e.names[name]
	if !ok {
		symbol = e.terminal(regex.Concat(regex.Literal(string(quote(nil, name))+":"), e.gap))
		e.names[name] = symbol
	}
	return symbol
}

func (f *constants) emit(e *emitter) (grammar.Symbol, error) {
	var alternatives [][]grammar.Symbol
	var scalars []string
	for _, v := range f.values {
		if v.kind == array || v.kind == object {
			alternatives = append(alternatives, []grammar.Symbol{e.constant(v)})
		} else {
			scalars = append(scalars, string(canonical(nil, v)))
		}
	}
	if len(scalars) > 0 {
		words := e.terminal(regex.Words(scalars...))
		if len(alternatives) == 0 {
			return words, nil
		}
		alternatives = append(alternatives, []grammar.Symbol{words})
	}
	return e.builder.Define("constant", alternatives...), nil
}

// constant is one value, with blanks between its parts as everywhere.
func (e *emitter) constant(v *value) grammar.Symbol {
	var parts []grammar.Symbol
	open, last, end := e.openArray, e.closeArray, e.endArray
	switch v.kind {
	case array:
	case object:
		open, last, end = e.openObject, e.closeObject, e.endObject
	default:
		return e.builder.Literal(string(canonical(nil, v)))
	}
	parts = append(parts, open)
	for i, item := range v.items {
		if i > 0 {
			parts = append(parts, e.comma)
		}
		if v.kind == object {
			parts = append(parts, e.key(v.keys[i]))
		}
		parts = append(parts, e.constant(item))
	}
	if len(v.items) == 0 {
		last = end
	}
	return e.builder.Define("constant", append(parts, last))
}

func (f *arrayForm) emit(e *emitter) (grammar.Symbol, error) {
	switch {
	case f.differ != nil:
		return f.emitDiffer(e), nil
	case f.unique != nil:
		return f.emitUnique(e, f.values()), nil
	}
	room := f.room()
	var list []grammar.Symbol // the items so far, with commas
	var alternatives [][]grammar.Symbol
	add := func(parts ...grammar.Symbol) {
		alternatives = append(alternatives, append(append([]grammar.Symbol{e.openArray}, parts...), e.closeArray))
	}
	if f.least == 0 {
		alternatives = append(alternatives, []grammar.Symbol{e.openArray, e.endArray})
	}
	places := len(f.items)
	if room >= 0 {
		places = min(places, room)
	}
	for i, item := range f.items[:places] {
		symbol, err := e.value(item)
		if err != nil {
			return 0, err
		}
		if i > 0 {
			list = append(list, e.comma)
		}
		list = append(list, symbol)
		if i+1 < max(f.least, 1) {
			continue
		}
		list = []grammar.Symbol{e.builder.Define("items", list)} // alternatives share their beginnings
		add(list...)
	}
	if room >= 0 && room <= places {
		return e.builder.Define("array", alternatives...), nil
	}
	rest, err := e.value(f.rest)
	if err != nil {
		return 0, err
	}
	least, most := max(f.least-places, 1), room
	if most >= 0 {
		most -= places
	}
	another := e.builder.Define("item", []grammar.Symbol{e.comma, rest})
	if places == 0 {
		add(rest, e.builder.Repeat(another, least-1, below(most)))
	} else {
		add(append(slices.Clone(list), e.builder.Repeat(another, least, most))...)
	}
	return e.builder.Define("array", alternatives...), nil
}

// below is one less than a bound; no bound stays none.
func below(most int) int {
	if most < 0 {
		return most
	}
	return most - 1
}

// lists are the lists of the first properties of an object, by how many are in them: each a sequence of symbols, nil where there is none. The
// last one holds lists of that many or more where most is no bound.
type lists struct {
	of    [][]grammar.Symbol
	empty bool // all properties so far may be missing
	open  bool // the last one has no upper count
}

func (f *objectForm) emit(e *emitter) (grammar.Symbol, error) {
	if e.anyOrder {
		return f.emitAnyOrder(e)
	}
	top := f.most
	if top < 0 {
		top = max(f.least, 1)
	}
	there := 0
	for _, p := range f.properties {
		if p.value.alive {
			there++
		}
	}
	l := &lists{of: make([][]grammar.Symbol, min(top, max(there, 1))+1), empty: true, open: f.most < 0}
	if f.most < 0 && top > there {
		l.open = false // all properties are fewer than that
	}
	for _, p := range f.properties {
		if !p.value.alive {
			continue
		}
		value, err := e.value(p.value)
		if err != nil {
			return 0, err
		}
		l.add(e, p, value)
	}
	more, err := e.extra(f.extras)
	if err != nil {
		return 0, err
	}
	return e.builder.Define("object", f.ends(e, l, more)...), nil
}

// add takes the next property in: every list may be followed by it, or stays as it is where the property may be missing.
func (l *lists) add(e *emitter, p property, value grammar.Symbol) {
	entry := []grammar.Symbol{e.key(p.name), value}
	next := make([][]grammar.Symbol, len(l.of))
	for n := len(l.of) - 1; n > 0; n-- {
		var alternatives [][]grammar.Symbol
		if !p.required && l.of[n] != nil {
			alternatives = append(alternatives, l.of[n])
		}
		if n == 1 && l.empty {
			alternatives = append(alternatives, entry)
		}
		for _, shorter := range [][]grammar.Symbol{l.of[n-1], l.last(n)} {
			if shorter != nil {
				alternatives = append(alternatives, append(append(slices.Clip(shorter), e.comma), entry...))
			}
		}
		switch len(alternatives) {
		case 0:
		case 1:
			next[n] = alternatives[0]
		default:
			next[n] = []grammar.Symbol{e.builder.Define("properties", alternatives...)}
		}
		if len(next[n]) > maxSequence {
			next[n] = []grammar.Symbol{e.builder.Define("properties", next[n])}
		}
	}
	l.of = next
	l.empty = l.empty && !p.required
}

// maxSequence bounds the symbols that lists are copied with.
const maxSequence = 64

// last is the list that a further property leaves in its place: that of the highest count, where it means as many or more.
func (l *lists) last(n int) []grammar.Symbol {
	if l.open && n == len(l.of)-1 {
		return l.of[n]
	}
	return nil
}

// extra is a further property with a name that the schema does not list; nil where there can be none.
func (e *emitter) extra(extras []extra) ([]grammar.Symbol, error) {
	var alternatives [][]grammar.Symbol
	for _, x := range extras {
		if !x.value.alive {
			continue
		}
		value, err := e.value(x.value)
		if err != nil {
			return nil, err
		}
		key := e.terminal(regex.Concat(x.key, regex.Literal(":"), e.gap))
		alternatives = append(alternatives, []grammar.Symbol{key, value})
	}
	if len(alternatives) == 0 {
		return nil, nil
	}
	return []grammar.Symbol{e.builder.Define("further", alternatives...)}, nil
}

// ends closes the lists whose counts are right, with further properties where there may be some.
func (f *objectForm) ends(e *emitter, l *lists, more []grammar.Symbol) [][]grammar.Symbol {
	var alternatives [][]grammar.Symbol
	add := func(parts ...grammar.Symbol) {
		alternatives = append(alternatives, append(append([]grammar.Symbol{e.openObject}, parts...), e.closeObject))
	}
	if l.empty && f.least == 0 {
		alternatives = append(alternatives, []grammar.Symbol{e.openObject, e.endObject})
	}
	var another grammar.Symbol
	if more != nil {
		another = e.builder.Define("further", append([]grammar.Symbol{e.comma}, more...))
	}
	room := func(n int) int {
		if f.most < 0 {
			return -1
		}
		return f.most - n
	}
	if more != nil && l.empty && f.least <= 1 && f.most != 0 {
		add(append(slices.Clone(more), e.builder.Repeat(another, 0, below(f.most)))...)
	}
	for n, list := range l.of {
		missing := max(f.least-n, 0)
		switch {
		case list == nil || missing > 1 || missing == 1 && (more == nil || room(n) == 0):
		case more == nil || room(n) == 0:
			add(list...)
		default:
			add(append(slices.Clone(list), e.builder.Repeat(another, missing, room(n)))...)
		}
	}
	return alternatives
}
