package llm

import (
	"slices"

	"weir/engine/kernel/attend"
	"weir/kvcache"
)

// Layers that see a window need the rows of the window only, so they have block tables of their own, whose blocks go back when
// the window has passed. All tables take blocks from one pool, and a block has one size: a page has room for a few layers, the same
// number of bytes whichever table names it. So layers are dealt to tables: layers of a table have the same heads and the same window, and each has
// a place in the table's pages (docs/rfcs/20261127-kv-groups.md).

// tablePlan is a block table that sequences have.
type tablePlan struct {
	window          int // positions that its layers see; 0 is all
	kvHeads, places int
	headDim         int
}

// rowValues is how many values a row of a layer has, in keys and again in values.
func (t *tablePlan) rowValues() int { return t.kvHeads * t.headDim }

// deal gives every layer with keys of its own a table and a place, and the others those of the layer that they read. length is the longest
// sequence: a window that it does not leave is none.
func (p *plan) deal(length int) {
	var kinds []tablePlan // of layers, places being how many there are
	kindOf := make([]int, len(p.layers))
	for i := range p.layers {
		a := &p.layers[i].attention
		if !a.storesKeys() {
			continue
		}
		kind := tablePlan{kvHeads: a.kvHeads, headDim: a.headDim}
		if a.reach > 0 && a.reach+1 < length {
			kind.window = a.reach + 1
		}
		k := slices.IndexFunc(kinds, func(o tablePlan) bool { o.places = 0; return o == kind })
		if k < 0 {
			k, kinds = len(kinds), append(kinds, kind)
		}
		kinds[k].places++
		kindOf[i] = k
	}
	p.seat(kinds, kindOf)
}

// everything is the length to deal for where rows stay although a window has passed.
const everything = 0

// dealTexts is deal for texts that are computed at once: nothing passes a window before the end, and keys and values of a layer
// are kept only while it computes, so that all layers with the same heads use the same memory where none reads another's.
func (p *plan) dealTexts() {
	p.deal(everything)
	var kinds []tablePlan
	for i := range p.layers {
		a := &p.layers[i].attention
		if !a.storesKeys() {
			return
		}
		if kind := (tablePlan{kvHeads: a.kvHeads, headDim: a.headDim, places: 1}); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	p.tables = kinds
	for i := range p.layers {
		a := &p.layers[i].attention
		a.table, a.slot = slices.Index(kinds, tablePlan{kvHeads: a.kvHeads, headDim: a.headDim, places: 1}), 0
	}
}

// seat makes the tables of kinds of layers, those without a window first, and gives layers their places in order.
func (p *plan) seat(kinds []tablePlan, kindOf []int) {
	page := bestPage(kinds)
	p.tables = nil
	first := make([]int, len(kinds)) // table
	places := make([]int, len(kinds))
	for _, windowed := range []bool{false, true} {
		for k, kind := range kinds {
			if (kind.window > 0) != windowed {
				continue
			}
			n := tablesOf(&kind, page)
			first[k], places[k] = len(p.tables), (kind.places+n-1)/n
			for range n {
				p.tables = append(p.tables, tablePlan{window: kind.window, kvHeads: kind.kvHeads, headDim: kind.headDim, places: places[k]})
			}
		}
	}
	dealt := make([]int, len(kinds))
	for i := range p.layers {
		a := &p.layers[i].attention
		if !a.exists() {
			continue
		}
		if a.readsFrom != ownKeys {
			from := &p.layers[a.readsFrom].attention
			a.table, a.slot = from.table, from.slot
			continue
		}
		k := kindOf[i]
		a.table, a.slot = first[k]+dealt[k]/places[k], dealt[k]%places[k]
		dealt[k]++
	}
}

// tablesOf is how many tables the layers of a kind take, with pages of so many values a row.
func tablesOf(kind *tablePlan, page int) int {
	room := page / kind.rowValues()
	return (kind.places + room - 1) / room
}

// bestPage is the size of pages, in values of a row, with which kinds of layers take the least memory: the mean over short and long
// sequences, beside what is needed. A table costs as much as a part in a hundred, since a step goes over all of them.
func bestPage(kinds []tablePlan) int {
	best, least := 0, 0.0
	for _, k := range kinds {
		for n := 1; n <= k.places; n++ {
			page := n * k.rowValues()
			if slices.ContainsFunc(kinds, func(o tablePlan) bool { return o.rowValues() > page }) {
				continue
			}
			if c := pageCost(kinds, page); best == 0 || c < least {
				best, least = page, c
			}
		}
	}
	return best
}

// tableCost is what a table counts beside memory, as a part of what is needed.
const tableCost = 0.01

func pageCost(kinds []tablePlan, page int) (cost float64) {
	lengths := [...]int{1 << 10, 1 << 13, 1 << 15}
	for _, length := range lengths {
		taken, needed := 0, 0
		for i := range kinds {
			rows := length
			if w := kinds[i].window; w > 0 {
				rows = min(rows, w)
			}
			taken += tablesOf(&kinds[i], page) * page * rows
			needed += kinds[i].places * kinds[i].rowValues() * rows
		}
		cost += float64(taken) / float64(needed) / float64(len(lengths))
	}
	for i := range kinds {
		cost += tableCost * float64(tablesOf(&kinds[i], page))
	}
	return cost
}

// leastHeadDim is the size of the smallest heads whose keys are stored.
func (p *plan) leastHeadDim() int {
	least := p.tables[0].headDim
	for _, t := range p.tables {
		least = min(least, t.headDim)
	}
	return least
}

// cacheShape is the KV store that the plan's layers take, without its type and size.
func (p *plan) cacheShape() cacheShape {
	var s cacheShape
	for _, t := range p.tables {
		s.Tables = append(s.Tables, attend.KVShape{Layers: t.places, KVHeads: t.kvHeads, HeadDim: t.headDim})
		s.windows = append(s.windows, t.window)
	}
	return s
}

// cacheShape fixes the size of a KV store, and which of its tables have a window.
type cacheShape struct {
	attend.Tables
	windows []int // of Tables; 0 is none
}

// plain reports whether sequences have one block table, whose layers see all.
func (s cacheShape) plain() bool { return len(s.windows) == 1 && s.windows[0] == 0 }

// sized is the shape with a type and a size.
func (s cacheShape) sized(t attend.KVType, blockTokens, blocks int) cacheShape {
	return cacheShape{s.Sized(t, blockTokens, blocks), s.windows}
}

// config is what the pool of such a store is made of, where a step adds so many rows to a sequence, 0 being any number.
func (s cacheShape) config(step int) kvcache.Config {
	return kvcache.Config{Blocks: s.blocks(), BlockTokens: s.blockTokens(), Windows: s.windows, StepRows: step}
}

// need is the most blocks that a sequence of so many rows takes.
func (s cacheShape) need(rows, step int) int { return s.config(step).Need(rows) }

// fit is the longest sequence, of at most so many rows, for which the store has blocks.
func (s cacheShape) fit(rows, step int) int { return min(rows, max(s.config(step).MostRows(), 0)) }

// tokens is how many tokens the store holds of sequences of so many rows.
func (s cacheShape) tokens(rows, step int) int {
	blocks := s.blocks() - 1
	if s.plain() {
		return blocks * s.blockTokens()
	}
	return int(int64(blocks) * int64(rows) / int64(s.need(rows, step)))
}

// bytesBehind is the memory of a token that the windows have passed.
func (s cacheShape) bytesBehind() (bytes int) {
	for i, w := range s.windows {
		if w == 0 {
			bytes += s.Tables[i].TokenBytes()
		}
	}
	return bytes
}

// sequenceBytes is the memory of what a sequence of so many rows takes.
func (s cacheShape) sequenceBytes(rows, step int) int64 {
	return int64(s.need(rows, step)) * int64(s.PageBytes())
}

// whole is the shape of a store for one text, of which everything is kept.
func (s cacheShape) whole(t attend.KVType, blockTokens, tokens int) cacheShape {
	return s.sized(t, blockTokens, (tokens+blockTokens-1)/blockTokens*len(s.Tables)+1)
}

// wholeTables are the block tables of the text in such a store.
func (s cacheShape) wholeTables(tokens int) [][]kvcache.BlockID {
	tables, next := make([][]kvcache.BlockID, len(s.Tables)), kvcache.BlockID(1) // 0 is the null block
	for t := range tables {
		for range (tokens + s.blockTokens() - 1) / s.blockTokens() {
			tables[t], next = append(tables[t], next), next+1
		}
	}
	return tables
}

// blocks and blockTokens are those of all tables, the null block included.
func (s cacheShape) blocks() int      { return s.Tables[0].Blocks }
func (s cacheShape) blockTokens() int { return s.Tables[0].BlockTokens }
