package grammar

import "weir/internal/work"

// What parts of a grammar take, in bytes: their own fields, the entry of the map that finds them, and what lists cost beside their elements.
const (
	grammarSize = 4096 // with the automaton's maps
	symbolSize  = 64   // of the code and its rules
	placeSize   = 224
	partSize    = 16
	rowSize     = 448
	itemSize    = 48 // in a row's items, its key, and what follows it
	stateSize   = 256
	lexPartSize = 24
	setSize     = 160
	stepSize    = 8
)

// Bytes is about how much memory the grammar takes: what was compiled, and what its matchers have worked out so far and still use. Masks and
// splits are the vocabulary's and not counted here.
func (g *Grammar) Bytes() int64 {
	return g.account.Bytes()
}

// measure counts what was compiled.
func (g *Grammar) measure() {
	symbols := len(g.code) + len(g.tokens) + len(g.joins)
	for i := range g.rules {
		symbols += 1 + len(g.rules[i].starts)
	}
	g.own.Keep(int64(grammarSize+symbolSize*symbols) + g.first.Bytes())
}

// memory is the account of what an engine has worked out. It is told once a call, since others share it.
type memory struct {
	account *work.Account
	empty   int64 // bytes before any answer
	added   int64 // bytes that the account does not know of yet
}

// grown counts a part that was added.
func (m *memory) grown(bytes int) { m.added += int64(bytes) }

// tell tells the account what was added.
func (m *memory) tell() {
	m.account.Keep(m.added)
	m.added = 0
}

// kept is what the answers so far have added.
func (m *memory) kept() int { return int(m.account.Bytes() - m.empty) }

// bytes is what a row takes.
func (r *row) bytes() int {
	items := 2 * len(r.items)
	for _, after := range r.after {
		items += 1 + len(after)
	}
	for _, after := range r.rules {
		items += 2 + len(after)
	}
	return rowSize + itemSize*items
}
