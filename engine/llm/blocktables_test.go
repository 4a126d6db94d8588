package llm

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"weir/engine/kernel/attend"
)

// family is the layers of a model whose windows are known.
type family struct {
	name   string
	layers int
	period int // every period-th layer sees all
	window int
	local  [2]int // key-value heads, and their size
	global [2]int
	shared int // the last layers, which read another's
	state  int // values of recurrent layers, which are not counted in layers

	tables string  // what the deal is to be: tables x places, those without a window first
	empty  int     // places
	short  float64 // bytes of a sequence within its window, beside what is needed
	long   float64 // of one of 32k
}

var windowedFamilies = []family{
	{name: "Gemma 2 2B", layers: 26, period: 2, window: 4096, local: [2]int{4, 256}, tables: "1x13 + 1x13", short: 1, long: 1},
	{name: "Gemma 2 27B", layers: 46, period: 2, window: 4096, local: [2]int{16, 128}, tables: "1x23 + 1x23", short: 1, long: 1},
	{name: "Gemma 3 270M", layers: 18, period: 6, window: 512, local: [2]int{1, 256}, tables: "1x3 + 5x3", short: 1, long: 1},
	{name: "Gemma 3 1B", layers: 26, period: 6, window: 512, local: [2]int{1, 256}, tables: "1x4 + 6x4", empty: 2, short: 1.08, long: 1.01},
	{name: "Gemma 3 4B", layers: 34, period: 6, window: 1024, local: [2]int{4, 256}, tables: "1x5 + 6x5", empty: 1, short: 1.03, long: 1.01},
	{name: "Gemma 3 12B", layers: 48, period: 6, window: 1024, local: [2]int{8, 256}, tables: "1x8 + 5x8", short: 1, long: 1},
	{name: "Gemma 3 27B", layers: 62, period: 6, window: 1024, local: [2]int{16, 128}, tables: "1x10 + 6x9", empty: 8, short: 1.13, long: 1.03},
	{name: "gpt-oss 20B", layers: 24, period: 2, window: 128, local: [2]int{8, 64}, tables: "1x12 + 1x12", short: 1, long: 1},
	{name: "OLMo 3 7B", layers: 32, period: 4, window: 4096, local: [2]int{32, 128}, tables: "1x8 + 3x8", short: 1, long: 1},
	{name: "EXAONE 4 32B", layers: 64, period: 4, window: 4096, local: [2]int{8, 128}, tables: "1x16 + 3x16", short: 1, long: 1},
	{name: "Command R7B", layers: 32, period: 4, window: 4096, local: [2]int{8, 128}, tables: "1x8 + 3x8", short: 1, long: 1},
	{name: "Gemma 4 E2B", layers: 35, period: 5, window: 512, local: [2]int{1, 256}, global: [2]int{1, 512}, shared: 20, tables: "1x3 + 2x6", short: 1, long: 1},
	{name: "Gemma 4 E4B", layers: 42, period: 6, window: 512, local: [2]int{2, 256}, global: [2]int{2, 512}, shared: 18, tables: "2x2 + 5x4", short: 1, long: 1},
	{name: "Gemma 4 26B", layers: 30, period: 6, window: 1024, local: [2]int{8, 256}, global: [2]int{2, 512}, tables: "1x5 + 9x3", empty: 3, short: 1.1, long: 1.18},
	{name: "Gemma 4 31B", layers: 60, period: 6, window: 1024, local: [2]int{16, 256}, global: [2]int{4, 512}, tables: "1x10 + 10x5", short: 1, long: 1},
}

// plan is the family's, with nothing but what the deal reads.
func (f *family) plan() *plan {
	p := &plan{layers: make([]layerPlan, f.layers)}
	for i := range p.layers {
		a := &p.layers[i].attention
		heads, reach := f.local, f.window-1
		if f.sees(i) {
			reach = 0
			if f.global[0] > 0 {
				heads = f.global
			}
		}
		*a = attentionPlan{readsFrom: ownKeys, kvHeads: heads[0], headDim: heads[1], reach: reach}
		if own := f.layers - f.shared; i >= own {
			if a.readsFrom = own - 2; reach == 0 {
				a.readsFrom = own - 1
			}
		}
	}
	return p
}

// sees reports whether a layer sees all.
func (f *family) sees(layer int) bool { return (layer+1)%f.period == 0 }

// Layers are dealt to tables so that pages of one size waste little of what the windows need.
func TestLayersAreDealtToTables(t *testing.T) {
	for _, f := range windowedFamilies {
		p := f.plan()
		const length, step = 1 << 17, 16
		p.deal(length)
		checkDeal(t, f.name, p)
		shape := p.cacheShape().sized(attend.KVF16, 16, 2)
		need := func(rows int) float64 {
			bytes := 0.0
			for i := range p.layers {
				if a := &p.layers[i].attention; a.readsFrom == ownKeys {
					seen := rows
					if a.reach > 0 {
						seen = min(rows, a.reach+1)
					}
					bytes += 2 * 2 * float64(a.kvHeads*a.headDim*seen)
				}
			}
			return bytes
		}
		waste := func(rows int) float64 { return float64(shape.sequenceBytes(rows, step)) / need(rows) }
		places, empty := 0, 0
		for _, table := range p.tables {
			places += shape.PageBytes() / (16 * 4 * table.rowValues())
		}
		for i := range p.layers {
			if p.layers[i].attention.readsFrom == ownKeys {
				empty--
			}
		}
		empty += places
		dealt := dealtAs(p)
		t.Logf("%-12s %-12s %2d of %3d places are empty; 1k tokens take %.3f, 8k %.3f, 32k %.3f of what is needed", f.name, dealt,
			empty, places, waste(1<<10), waste(1<<13), waste(1<<15))
		if dealt != f.tables || empty != f.empty {
			t.Errorf("%s: dealt as %s, %d places empty, want %s and %d", f.name, dealt, empty, f.tables, f.empty)
		}
		for rows, most := range map[int]float64{128: f.short, 1 << 15: f.long} {
			if got := waste(rows); got > most*1.02 || got < most*0.97 {
				t.Errorf("%s: a sequence of %d takes %.3f of what it needs, want %.2f", f.name, rows, got, most)
			}
		}
	}
}

// A sequence of 32k tokens of Gemma 3 takes little more than its windows need, whatever steps add to them.
func TestLongSequencesTakeTheirWindows(t *testing.T) {
	const length, step, most = 1 << 15, 512, 1.1
	for _, f := range windowedFamilies[2:6] {
		p := f.plan()
		p.deal(length)
		s := p.cacheShape().sized(attend.KVQ8, 16, 2)
		all, needed := 0, 0
		for i := range p.layers {
			own := s.Tables[p.layers[i].attention.table]
			row := own.TokenBytes() / own.Layers
			if all += row * length; p.layers[i].attention.reach > 0 {
				needed += row * f.window
			} else {
				needed += row * length
			}
		}
		takes := s.sequenceBytes(length, step)
		t.Logf("%s: %d MiB, %.3f of what the windows need, %.2f of what all rows take", f.name, takes>>20, float64(takes)/float64(needed), float64(takes)/float64(all))
		if float64(takes) > most*float64(needed) {
			t.Errorf("%s: %d bytes, and its windows need %d", f.name, takes, needed)
		}
	}
}

// dealtAs is tables x places, those of a kind together.
func dealtAs(p *plan) string {
	var kinds []string
	for i := 0; i < len(p.tables); {
		n := 1
		for i+n < len(p.tables) && p.tables[i+n] == p.tables[i] {
			n++
		}
		kinds, i = append(kinds, fmt.Sprintf("%dx%d", n, p.tables[i].places)), i+n
	}
	return strings.Join(kinds, " + ")
}

// checkDeal checks that no two layers have the same place, and that tables hold what they say.
func checkDeal(t *testing.T, name string, p *plan) {
	t.Helper()
	taken := map[[2]int]int{}
	for i := range p.layers {
		a := &p.layers[i].attention
		if a.readsFrom != ownKeys {
			if from := &p.layers[a.readsFrom].attention; a.table != from.table || a.slot != from.slot || a.readsFrom >= i {
				t.Errorf("%s: layer %d reads layer %d, and has another place", name, i, a.readsFrom)
			}
			continue
		}
		if other, ok := taken[[2]int{a.table, a.slot}]; ok {
			t.Errorf("%s: layers %d and %d have the same place", name, other, i)
		}
		taken[[2]int{a.table, a.slot}] = i
		table := p.tables[a.table]
		if a.slot >= table.places || a.kvHeads != table.kvHeads || a.headDim != table.headDim || table.window > 0 && table.window != a.reach+1 {
			t.Errorf("%s: layer %d is in table %d, %+v, at place %d", name, i, a.table, table, a.slot)
		}
	}
	if !slices.IsSortedFunc(p.tables, func(a, b tablePlan) int { return min(a.window, 1) - min(b.window, 1) }) {
		t.Errorf("%s: tables with windows stand before others: %+v", name, p.tables)
	}
}

// Where all layers are alike, and where no sequence leaves a window, there is one table, whose places are the layers in order.
func TestLayersWithoutWindowsHaveOneTable(t *testing.T) {
	f := family{layers: 6, period: 2, window: 512, local: [2]int{2, 64}}
	for _, length := range []int{everything, 100, 512} {
		p := f.plan()
		p.deal(length)
		checkDeal(t, "within the window", p)
		for i := range p.layers {
			if a := &p.layers[i].attention; a.table != 0 || a.slot != i {
				t.Errorf("up to %d tokens: layer %d is at place %d of table %d", length, i, a.slot, a.table)
			}
		}
	}
	p := f.plan()
	if p.deal(513); len(p.tables) != 2 {
		t.Errorf("a sequence that leaves the window has %d tables", len(p.tables))
	}
}

// need counts every block that a window may touch, and fit is its inverse.
func TestBlocksOfASequence(t *testing.T) {
	s := cacheShape{attend.Tables{{Layers: 1, KVHeads: 1, HeadDim: 32}, {Layers: 1, KVHeads: 1, HeadDim: 32}}, []int{0, 40}}.sized(attend.KVF16, 16, 1)
	const step = 20
	for rows := range 400 {
		most := 0
		for from := range rows { // a step of rows [from, to)
			to := min(from+step, rows)
			most = max(most, (to+15)/16+(to-1)/16-max(0, from-39)/16+1)
		}
		if got := s.need(rows, step); got < most || got > most+1 {
			t.Errorf("%d rows: %d blocks, want %d", rows, got, most)
		}
	}
	for blocks := range 40 {
		sized := s.sized(attend.KVF16, 16, blocks+1)
		fit := sized.fit(math.MaxInt16, step)
		if fit > 0 && sized.need(fit, step) > blocks || sized.need(fit+1, step) <= blocks {
			t.Errorf("%d blocks: %d rows fit", blocks, fit)
		}
	}
}

// What rows cost counts windows by the layers that have them.
func TestAttentionCostsItsWindows(t *testing.T) {
	m := load(t, tiny{arch: "gemma3", layers: 7, tied: true, norms: true, post: true, edit: windowOf("gemma3", 21)}.file(t))
	if got := m.attention().Attended(1000, 1); got < (6*21+1001)/7 || got > (6*21+1001)/7+1 {
		t.Errorf("a row after 1000 attends to %d positions", got)
	}
	if load(t, tiny{arch: "llama"}.file(t)).attention() != nil {
		t.Error("a model without windows has some")
	}
}
