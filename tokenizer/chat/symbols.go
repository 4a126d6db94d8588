package chat

// symbolTable numbers the names of a template, and knows which of them it mentions before it assigns to them.
type symbolTable struct {
	symbols    map[string]int
	names      []string
	conditions int // enclosing conditions: inside, an unknown filter is an error only when a render reaches it
	macros     []*macroBody
	frames     int          // enclosing blocks that have a scope of their own
	seen       map[int]bool // symbols mentioned outside of frames so far
	hidden     []symbol     // of seen: assigned before they were read
}

// symbol numbers a variable's name, and notes the implicit parameters of the
// macros around.
func (s *symbolTable) symbol(name string) symbol {
	id, ok := s.symbols[name]
	if !ok {
		id = len(s.names)
		s.symbols[name] = id
		s.names = append(s.names, name)
	}
	return symbol{name, id}
}

func (s *symbolTable) use(name string) symbol {
	for _, m := range s.macros {
		m.useCaller = m.useCaller || name == "caller"
		m.useVarargs = m.useVarargs || name == "varargs"
		m.useKwargs = m.useKwargs || name == "kwargs"
	}
	sym := s.symbol(name)
	s.mention(sym, false)
	return sym
}

// mention notes a variable of the template's outermost block. Where the first
// mention assigns it, and not only under a condition, Jinja takes the name for
// a local one from the beginning: inner blocks that run before the assignment
// do not see an input of that name.
func (s *symbolTable) mention(sym symbol, assigned bool) {
	if s.frames > 0 || s.seen[sym.id] {
		return
	}
	s.seen[sym.id] = true
	if assigned && s.conditions == 0 {
		s.hidden = append(s.hidden, sym)
	}
}

// mentionTarget notes the names that an assignment sets.
func (s *symbolTable) mentionTarget(t target) {
	if t.tuple == nil {
		s.mention(t.symbol, t.attribute == "")
	}
	for _, part := range t.tuple {
		s.mentionTarget(part)
	}
}
