package kvcache

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
)

// band is the groups of layers that see as far as each other. The tables of its groups have the same rows at any time, so the
// pool moves them together: a block of a band is one page of each of its groups, and the first page's id names it.
//
// The blocks of the first band are the chain of the prefix cache: each has a parent and children, and is found by its hash. It
// is the band without a window, or, where all groups have one, that with the longest. Blocks of the other bands have
// neither: a published one hangs on the block of the chain that has the same prefix, and leaves the cache with it.
type band struct {
	window int   // positions that its layers see; 0 is all
	groups []int // in Config.Windows
	pages  int   // len(groups)
	width  int   // blocks that the row after a whole block sees, beside its own; 0 is all where there is no window
}

// Shape says which pages a sequence takes. It never changes.
type Shape struct {
	blockTokens int
	stepRows    int     // Config.StepRows
	bands       []band  // the chain's first
	places      []place // of groups
	wide        bool    // there is more than one group
	windowed    bool    // one has a window
	simple      bool    // there is one group, without a window
	stateful    bool    // sequences have states
	firstRank   int32   // of blocks that may be cached
}

// layout is the shape of most sequences, and says which blocks hang on which of the chain.
type layout struct {
	Shape
	fine Shape // of those of fine domains

	marks []mark    // [Blocks] where there are several groups
	mates []BlockID // [Blocks] next page of the same block; 0 is none
	hung  []BlockID // [Blocks][len(bands)-1] blocks that hang on those of the chain
	runs  []int     // [len(bands)] scratch of countRuns
}

// Stateful reports whether sequences have states beside their blocks.
func (y *Shape) Stateful() bool { return y.stateful }

// shape says how pages are used by sequences whose blocks have so many rows.
func (c Config) shape(blockTokens int) Shape {
	y := Shape{blockTokens: blockTokens, stepRows: c.StepRows, stateful: c.States > 0}
	y.bands, y.places = bandsOf(c.Windows, y.blockTokens)
	y.wide = len(y.places) > 1
	y.windowed = y.bands[len(y.bands)-1].window > 0
	if y.simple = !y.wide && !y.windowed; y.simple {
		y.firstRank = numAside
	}
	return y
}

func newLayout(c Config) layout {
	y := layout{Shape: c.shape(c.blockTokens()), fine: c.shape(c.fineTokens())}
	if y.wide {
		y.marks, y.mates, y.hung = make([]mark, c.Blocks), make([]BlockID, c.Blocks), make([]BlockID, c.Blocks*(len(y.bands)-1))
		y.runs = make([]int, len(y.bands))
	}
	return y
}

// place says where the pages of a group are in a table.
type place struct{ band, page int }

// maxGroups bounds the groups of a pool: mark.band has eight bits.
const maxGroups = 255

// bandsOf sorts the groups of a configuration into bands, the chain first and the others by window, longest first.
func bandsOf(windows []int, blockTokens int) (bands []band, places []place) {
	if len(windows) == 0 {
		windows = []int{0}
	}
	for g, w := range windows {
		at := slices.IndexFunc(bands, func(b band) bool { return b.window == w })
		if at < 0 {
			at = len(bands)
			bands = append(bands, band{window: w, width: (w - 1 + blockTokens - 1) / blockTokens})
		}
		bands[at].groups = append(bands[at].groups, g)
		bands[at].pages++
	}
	slices.SortFunc(bands, func(a, b band) int { return cmp.Compare(b.reach(), a.reach()) })
	bands[0].width = max(bands[0].width, 1) // the next block of the chain needs its parent
	places = make([]place, len(windows))
	for i := range bands {
		for j, g := range bands[i].groups {
			places[g] = place{i, j}
		}
	}
	return bands, places
}

// reach is how many positions the layers of a band see.
func (b *band) reach() int {
	if b.window == 0 {
		return math.MaxInt
	}
	return b.window
}

// firstSeen is the first of n whole blocks that the row after them sees.
func (b *band) firstSeen(n int) int {
	if b.window == 0 {
		return 0
	}
	return max(0, n-b.width)
}

// passed is how many leading blocks no row from rows on sees.
func (b *band) passed(rows, blockTokens int) int {
	if b.window == 0 {
		return 0
	}
	return max(0, rows-b.window+1) / blockTokens
}

// Need is Pool.Need of a pool of this configuration.
func (c Config) Need(rows int) int {
	y := c.shape(c.blockTokens())
	return y.Need(rows)
}

// MostRows is the longest sequence that a pool of this configuration holds.
func (c Config) MostRows() int {
	y := c.shape(c.blockTokens())
	return y.MostRows(c.Blocks - 1)
}

// checkWindows refuses windows that no pool can have.
func (c Config) checkWindows() error {
	if len(c.Windows) > maxGroups {
		return fmt.Errorf("kvcache: %d windows, want at most %d", len(c.Windows), maxGroups)
	}
	for g, w := range c.Windows {
		if w < 0 {
			return fmt.Errorf("kvcache: the window of group %d is %d, want 0 (all positions) or more", g, w)
		}
	}
	if c.StepRows < 0 {
		return fmt.Errorf("kvcache: step rows is %d, want 0 (no bound) or more", c.StepRows)
	}
	return nil
}

// cover is how many rows the tables of a band are grown to where the sequence has so many final rows and will have rows of
// them: with a window only as far as the next step goes.
func (y *Shape) cover(b *band, rows, tokens int) int {
	if b.window == 0 || y.stepRows == 0 {
		return rows
	}
	return min(rows, tokens+y.stepRows)
}

// ShapeOf says how the sequences of a domain lie in blocks. It may be called from any goroutine.
func (y *layout) ShapeOf(d Domain) *Shape {
	if d.fine {
		return &y.fine
	}
	return &y.Shape
}

// MostOfWindows is that of all shapes.
func (y *layout) MostOfWindows() int { return max(y.Shape.MostOfWindows(), y.fine.MostOfWindows()) }

// BlockTokens is the number of rows in a block.
func (y *Shape) BlockTokens() int { return y.blockTokens }

// blocksFor is the number of blocks of a band that cover rows.
func (y *Shape) blocksFor(rows int) int { return (rows + y.blockTokens - 1) / y.blockTokens }

// bandOf is the band of a block.
func (y *layout) bandOf(b BlockID) int {
	if !y.wide {
		return 0
	}
	return int(y.marks[b].band)
}

// pagesOf is how many pages a block has.
func (y *layout) pagesOf(b BlockID) int {
	if !y.wide {
		return 1
	}
	return y.bands[y.marks[b].band].pages
}

// Groups is the number of block tables of a sequence: one per entry of Config.Windows.
func (y *Shape) Groups() int { return len(y.places) }

// Windowed reports whether a group has a window.
func (y *Shape) Windowed() bool { return y.windowed }

// StepRows is the most rows of a sequence that may be computed between two Commits: Config.StepRows, where a group has a window.
func (y *Shape) StepRows() int {
	if y.windowed && y.stepRows > 0 {
		return y.stepRows
	}
	return math.MaxInt32
}

// Need is the most blocks that a sequence of so many rows takes, in all groups: all of its rows in those without a window, and
// in the others what a step sees and writes.
func (y *Shape) Need(rows int) int { return y.need(rows, y.StepRows()) }

// DecodeNeed is Need from the end of the prompt on, when steps are of one row.
func (y *Shape) DecodeNeed(rows int) int { return y.need(rows, min(1, y.StepRows())) }

// need is Need with so many rows in a step.
func (y *Shape) need(rows, step int) (pages int) {
	for i := range y.bands {
		b := &y.bands[i]
		blocks := y.blocksFor(rows)
		if b.window > 0 && y.stepRows > 0 {
			blocks = min(blocks, b.width+y.blocksFor(step-1)+1)
		}
		pages += blocks * b.pages
	}
	return pages
}

// OfWindows is what a sequence of so many rows has at most in groups with a window while it computes a row at a time.
func (y *Shape) OfWindows(rows int) int {
	return y.DecodeNeed(rows) - y.blocksFor(rows)*y.EndlessPages()
}

// MostOfWindows is OfWindows of the longest sequence.
func (y *Shape) MostOfWindows() int { return y.OfWindows(math.MaxInt32) }

// EndlessPages is how many pages every BlockTokens rows more take, however many there are: those of groups without a window.
func (y *Shape) EndlessPages() int {
	if y.bands[0].window > 0 && y.stepRows > 0 {
		return 0
	}
	if y.stepRows > 0 {
		return y.bands[0].pages
	}
	return len(y.places)
}

// Ahead is how many blocks more than Grow gives an empty table behind a hit it will have at most while it is grown to rows.
func (y *Shape) Ahead(rows int, hit Hit) (blocks int) {
	for i := range y.bands {
		b := &y.bands[i]
		if b.window > 0 && y.stepRows > 0 {
			now := y.blocksFor(y.cover(b, rows, hit.Tokens)) - b.firstSeen(hit.Full)
			most := min(y.blocksFor(rows), b.width+y.blocksFor(y.stepRows-1)+1)
			blocks += max(0, most-now) * b.pages
		}
	}
	return blocks
}

// MostRows is the longest sequence that so many blocks hold.
func (y *Shape) MostRows(blocks int) int {
	if y.EndlessPages() == 0 && y.Need(math.MaxInt32) <= blocks {
		return math.MaxInt32
	}
	return sort.Search(blocks*y.blockTokens, func(rows int) bool { return y.Need(rows+1) > blocks })
}

// rank is the list of idle published blocks on which a block of a class waits.
func (y *layout) rank(b BlockID, c Class) int32 {
	if y.wide && y.marks[b].order != byClass {
		return int32(y.marks[b].order) - 1
	}
	return numAside + int32(c)
}

// side is the block of a band other than the chain's that hangs on a block of the chain; 0 is none.
func (y *layout) side(chain BlockID, band int) *BlockID {
	return &y.hung[int(chain)*(len(y.bands)-1)+band-1]
}

// hang enters a block into the cache, on the block of the chain that has the same prefix.
func (bs *blockStore) hang(b, chain BlockID) {
	m := &bs.blocks[b]
	m.parent, m.published = chain, true
	*bs.side(chain, bs.bandOf(b)) = b
	bs.published += bs.pagesOf(b)
	bs.raise(chain, m.class)
}

// unhang takes such a block out of the cache.
func (bs *blockStore) unhang(b BlockID) {
	m := &bs.blocks[b]
	idle := m.idle()
	if idle {
		bs.unpark(b)
		bs.counts.Evictions += uint64(bs.pagesOf(b))
	}
	*bs.side(m.parent, bs.bandOf(b)) = 0
	bs.published -= bs.pagesOf(b)
	m.published, m.parent = false, 0
	if idle {
		bs.park(b)
	}
}

// unhangAll takes all that hangs on a block of the chain out of the cache.
func (bs *blockStore) unhangAll(chain BlockID) {
	for i := 1; i < len(bs.bands); i++ {
		if b := *bs.side(chain, i); b != 0 {
			bs.unhang(b)
		}
	}
}

// countRuns counts block n of a chain to the runs of blocks that the other bands have cached, and reports whether all of
// them have what the row after it sees.
func (y *layout) countRuns(s *Shape, chain BlockID, n int) bool {
	all := true
	for i := 1; i < len(y.bands); i++ {
		if y.runs[i]++; *y.side(chain, i) == 0 {
			y.runs[i] = 0
		}
		all = all && y.runs[i] >= min(n, s.bands[i].width)
	}
	return all
}

// complete reports whether every band has a block that hangs on one of the chain.
func (y *layout) complete(chain BlockID) bool {
	for i := 1; i < len(y.bands); i++ {
		if *y.side(chain, i) == 0 {
			return false
		}
	}
	return true
}

// eachBand calls do for a block of the chain and what hangs on it, itself last.
func (y *layout) eachBand(chain BlockID, do func(band int, b BlockID)) {
	for i := len(y.bands) - 1; i > 0; i-- {
		do(i, *y.side(chain, i))
	}
	do(0, chain)
}

// eachSeen calls do for the whole blocks of a hit that the row after them sees, from the last one on: band by band, the chain
// last.
func (bs *blockStore) eachSeen(hit *Hit, do func(band, i int, b BlockID)) {
	bands := bs.bands
	if hit.last != 0 {
		bands = bs.ShapeOf(bs.domains[bs.blocks[hit.last].domain].key).bands
	}
	for band := len(bands) - 1; band >= 0; band-- {
		first := bands[band].firstSeen(hit.Full)
		for i, b := hit.Full-1, hit.last; i >= first; i, b = i-1, bs.blocks[b].parent {
			at := b
			if band > 0 {
				at = *bs.side(b, band)
			}
			do(band, i, at)
		}
	}
}
