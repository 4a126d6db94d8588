package kvcache

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// naive is what the pool is meant to do, written without any of its
// structures: prefixes are strings, every search is a scan, eviction sorts by
// rank, last use, band and depth, windows are counted in rows. The same calls must lead to the same block ids
// (K14, K18), the same hits (K8) and the same refusals (K12).
type naive struct {
	blockTokens, bound, step int // blockTokens is of the domain whose turn it is
	coarse, fine             int
	finely                   bool
	bands                    []naiveBand // the chain's first
	blocks                   []naiveBlock
	stack                    []BlockID // unpublished idle pages, next one last
	now                      int       // twice the number of the call, for last use
	born                     int       // publications so far
}

// naiveBand is the groups of one window.
type naiveBand struct {
	window int
	groups []int
}

// naiveBlock is a block, under its first page.
type naiveBlock struct {
	pages  []BlockID // one per group of its band; nil while free
	mate   bool      // it is another one's page
	band   int
	domain string // owner; "" while free
	prefix string // domain and all token ids up to the end of the block; "" while unpublished
	depth  int    // blocks before this one
	born   int    // number of its publication
	used   int    // call that made it idle
	refs   int
	pins   int
	class  Class
	forked bool // several blocks of the chain have followed it
	rank   int  // 0: a window passed it; 1: and a sequence is expected there; 2: by class
}

type naiveTable struct {
	domain   string
	class    Class
	lists    [][]BlockID // by band
	slid     []int
	tokens   int
	expected int
}

type naiveHit struct {
	blocks  [][]BlockID // by band; 0 where a window has passed
	partial []BlockID   // by band; nil is none
	rows    int         // of partial
}

func (h *naiveHit) full() int {
	if len(h.blocks) == 0 {
		return 0
	}
	return len(h.blocks[0])
}

func newNaive(c Config) *naive {
	n := &naive{coarse: c.blockTokens(), fine: c.fineTokens(), bound: c.TenantBlocks, step: c.StepRows, blocks: make([]naiveBlock, c.Blocks)}
	for g, w := range append([]int(nil), c.Windows...) {
		at := slices.IndexFunc(n.bands, func(b naiveBand) bool { return b.window == w })
		if at < 0 {
			n.bands, at = append(n.bands, naiveBand{window: w}), len(n.bands)
		}
		n.bands[at].groups = append(n.bands[at].groups, g)
	}
	if len(n.bands) == 0 {
		n.bands = []naiveBand{{groups: []int{0}}}
	}
	farthest := func(b naiveBand) int {
		if b.window == 0 {
			return math.MaxInt
		}
		return b.window
	}
	slices.SortStableFunc(n.bands, func(a, b naiveBand) int { return cmp.Compare(farthest(b), farthest(a)) })
	for b := BlockID(c.Blocks - 1); b > 0; b-- {
		n.stack = append(n.stack, b)
	}
	return n
}

// turn makes it the turn of a domain.
func (n *naive) turn(domain string) {
	n.blockTokens, n.finely = n.coarse, domain == fineName
	if n.finely {
		n.blockTokens = n.fine
	}
}

// single is a pool as it was before there were groups.
func (n *naive) single() bool {
	return len(n.bands) == 1 && len(n.bands[0].groups) == 1 && n.bands[0].window == 0
}

func (n *naive) newTable(domain string) *naiveTable {
	return &naiveTable{domain: domain, class: Normal, lists: make([][]BlockID, len(n.bands)), slid: make([]int, len(n.bands))}
}

// seen is the first block that row `row` needs in a band.
func (n *naive) seen(band, row int) int {
	w := n.bands[band].window
	if w == 0 {
		return 0
	}
	return max(0, row-w+1) / n.blockTokens
}

func prefixKey(domain string, ids []int32) string {
	var s strings.Builder
	s.WriteString(domain)
	for _, id := range ids {
		s.WriteString("," + strconv.Itoa(int(id)))
	}
	return s.String()
}

func (n *naive) idle(b BlockID) bool {
	m := &n.blocks[b]
	return b != 0 && !m.mate && m.refs == 0 && m.pins == 0
}

// pages is how many pages a block has; a free page is one.
func (n *naive) pages(b BlockID) int { return max(1, len(n.blocks[b].pages)) }

func (n *naive) find(prefix string, band int) BlockID {
	for b := range n.blocks {
		if n.blocks[b].prefix == prefix && n.blocks[b].band == band {
			return BlockID(b)
		}
	}
	return 0
}

// children of a prefix in the chain, newest first; the children of a domain's root are
// those of depth 0.
func (n *naive) children(prefix string, depth int) []BlockID {
	var children []BlockID
	for b := range n.blocks {
		if m := &n.blocks[b]; m.prefix != "" && m.band == 0 && m.depth == depth && strings.HasPrefix(m.prefix, prefix+",") {
			children = append(children, BlockID(b))
		}
	}
	slices.SortFunc(children, func(a, b BlockID) int { return n.blocks[b].born - n.blocks[a].born })
	return children
}

// hitAt is the hit of so many whole blocks, if every band has what the next row sees. The chain must be there as a whole.
func (n *naive) hitAt(domain string, ids []int32, full int) (h naiveHit, ok bool) {
	n.turn(domain)
	ok = true
	for band := range n.bands {
		list := make([]BlockID, full)
		for i := range list {
			b := n.find(prefixKey(domain, ids[:(i+1)*n.blockTokens]), band)
			first := n.seen(band, full*n.blockTokens)
			if band == 0 {
				first = min(first, full-1)
			}
			if i >= first {
				list[i] = b
			}
			ok = ok && (b != 0 || i < first && band > 0)
		}
		h.blocks = append(h.blocks, list)
	}
	return h, ok
}

func (n *naive) match(domain string, ids []int32, limit int) naiveHit {
	n.turn(domain)
	limit = min(limit, len(ids))
	full := max(limit, 0) / n.blockTokens
	h, ok := n.hitAt(domain, ids, full)
	for !ok {
		full--
		h, ok = n.hitAt(domain, ids, full)
	}
	rows := full * n.blockTokens
	children := n.children(prefixKey(domain, ids[:rows]), full)
	for _, b := range children[:min(8, len(children))] {
		parts := []BlockID{}
		for band := range n.bands {
			parts = append(parts, n.find(n.blocks[b].prefix, band))
		}
		for k := min(n.blockTokens, max(limit-rows, 0)); k > h.rows && k >= max(4, n.blockTokens/4); k-- {
			if strings.HasPrefix(n.blocks[b].prefix+",", prefixKey(domain, ids[:rows+k])+",") && !slices.Contains(parts, 0) {
				h.partial, h.rows = parts, k
				break
			}
		}
	}
	return h
}

// park makes a block idle that neither a table nor a pin holds.
func (n *naive) park(b BlockID) {
	if !n.idle(b) {
		return
	}
	m := &n.blocks[b]
	m.used = n.now
	if m.prefix == "" {
		n.stack = append(n.stack, m.pages...)
		for _, page := range m.pages {
			class := n.blocks[page].class
			n.blocks[page] = naiveBlock{class: class}
		}
	}
}

func (n *naive) hold(b BlockID) {
	n.blocks[b].refs++
	n.blocks[b].rank = 2
}

func (n *naive) drop(b BlockID) {
	if b != 0 {
		n.blocks[b].refs--
		n.park(b)
	}
}

// unpublish forgets a block, and if it is the chain's what other bands have of its prefix and all prefixes that continue it.
func (n *naive) unpublish(b BlockID) {
	m := &n.blocks[b]
	if m.band == 0 {
		for _, kid := range n.children(m.prefix, m.depth+1) {
			n.unpublish(kid)
		}
		for band := 1; band < len(n.bands); band++ {
			if side := n.find(m.prefix, band); side != 0 {
				n.unpublish(side)
			}
		}
	}
	m.prefix, m.forked = "", false
	n.park(b)
}

// evict frees one cached block, of any domain or of one; false if there is
// none.
func (n *naive) evict(domain string) bool {
	cached := n.cached(domain)
	if len(cached) == 0 {
		return false
	}
	n.unpublish(slices.MinFunc(cached, n.compareUse))
	return true
}

// cached are the idle published blocks of a domain, or of all.
func (n *naive) cached(domain string) (cached []BlockID) {
	for b := range n.blocks {
		if m := &n.blocks[b]; n.idle(BlockID(b)) && m.prefix != "" && (domain == "" || m.domain == domain) {
			cached = append(cached, BlockID(b))
		}
	}
	return cached
}

// compareUse orders cached blocks by which is evicted first.
func (n *naive) compareUse(a, b BlockID) int {
	x, y := &n.blocks[a], &n.blocks[b]
	byClass := 0
	if x.rank == 2 {
		byClass = cmp.Compare(x.class, y.class)
	}
	return cmp.Or(x.rank-y.rank, byClass, x.used-y.used, y.band-x.band, y.depth-x.depth)
}

func (n *naive) resident(domain string) int {
	count := 0
	for b := range n.blocks {
		if n.blocks[b].domain == domain {
			count += len(n.blocks[b].pages)
		}
	}
	return count
}

func (n *naive) trim(domain string) {
	for n.bound > 0 && n.resident(domain) > n.bound && n.evict(domain) {
		continue
	}
}

func (n *naive) alloc(t *naiveTable, band int) BlockID {
	want := len(n.bands[band].groups)
	for n.bound > 0 && n.resident(t.domain)+want > n.bound && n.evict(t.domain) {
		continue
	}
	for len(n.stack) < want {
		n.evict("")
	}
	var pages []BlockID
	for range want {
		pages = append(pages, n.stack[len(n.stack)-1])
		n.stack = n.stack[:len(n.stack)-1]
	}
	for _, page := range pages {
		n.blocks[page] = naiveBlock{mate: true}
	}
	n.blocks[pages[0]] = naiveBlock{pages: pages, band: band, domain: t.domain, refs: 1, class: t.class, rank: 2}
	return pages[0]
}

func (n *naive) freeNow() int {
	count := 0
	for b := range n.blocks {
		if n.idle(BlockID(b)) {
			count += n.pages(BlockID(b))
		}
	}
	return count
}

func (n *naive) ceil(rows int) int { return (rows + n.blockTokens - 1) / n.blockTokens }

func (n *naive) raise(b BlockID, c Class) {
	for _, a := range n.path(b) {
		if m := &n.blocks[a]; m.class < c {
			m.class, m.used = c, n.now
		}
	}
}

// path is a block and the published blocks of the chain at and before it.
func (n *naive) path(b BlockID) []BlockID {
	path := []BlockID{b}
	prefix := n.blocks[b].prefix
	for a := range n.blocks {
		if m := &n.blocks[a]; BlockID(a) != b && m.prefix != "" && m.band == 0 && strings.HasPrefix(prefix+",", m.prefix+",") {
			path = append(path, BlockID(a))
		}
	}
	return path
}

// covered is how many rows the tables of a band are grown to.
func (n *naive) covered(band, rows, tokens int) int {
	if n.bands[band].window == 0 || n.step == 0 {
		return rows
	}
	return min(rows, tokens+n.step)
}

// fresh counts the pages that growth takes, with a hit or without.
func (n *naive) fresh(t *naiveTable, rows int, h naiveHit) (need int) {
	tokens := t.tokens + h.full()*n.blockTokens + h.rows
	for band := range n.bands {
		have := max(len(t.lists[band]), h.full())
		blocks := max(0, n.ceil(n.covered(band, max(rows, tokens), tokens))-have)
		if n.cow(t, band, rows) {
			blocks++
		}
		need += blocks * len(n.bands[band].groups)
	}
	return need
}

// cow reports whether the next row goes to a block of a band that must be replaced.
func (n *naive) cow(t *naiveTable, band, rows int) bool {
	tail := t.tokens / n.blockTokens
	return rows > t.tokens && tail < len(t.lists[band]) && !n.writable(t.lists[band][tail])
}

func (n *naive) grow(t *naiveTable, rows int, h naiveHit) (copies []Copy, ok bool) {
	n.turn(t.domain)
	if len(t.lists[0]) > 0 {
		h = naiveHit{}
	}
	room, sources := n.freeNow(), 0
	for _, list := range h.blocks {
		for _, b := range list {
			if n.idle(b) {
				room -= n.pages(b)
			}
		}
	}
	for _, b := range h.partial {
		if n.idle(b) && !n.single() {
			sources += n.pages(b)
		}
	}
	if sources > 0 && n.fresh(t, rows, h) > room-sources {
		sources, h.partial, h.rows = 0, nil, 0
	}
	if n.fresh(t, rows, h) > room-sources {
		return nil, false
	}
	copies = n.attach(t, h)
	trim := !n.single()
	for band := range slices.Backward(n.bands) {
		if n.cow(t, band, rows) {
			trim = true
			tail := t.tokens / n.blockTokens
			old := t.lists[band][tail]
			t.lists[band][tail] = n.alloc(t, band)
			copies = n.copied(copies, old, t.lists[band][tail], t.tokens%n.blockTokens)
			n.drop(old)
		}
		for len(t.lists[band]) < n.ceil(n.covered(band, max(rows, t.tokens), t.tokens)) {
			t.lists[band] = append(t.lists[band], n.alloc(t, band))
		}
	}
	if trim {
		n.trim(t.domain)
	}
	return copies, true
}

// attach takes the blocks of a hit, and copies of the first rows of its partial one.
func (n *naive) attach(t *naiveTable, h naiveHit) (copies []Copy) {
	for band, list := range h.blocks {
		for i, b := range list {
			if b == 0 {
				t.slid[band] = i + 1
			}
			if b == 0 && band == 0 { // the chain before the window is used again with it
				above := n.path(list[len(list)-1])
				for _, a := range above {
					if n.idle(a) {
						n.blocks[a].used = n.now
					}
				}
			}
		}
		t.lists[band] = append(t.lists[band], list...)
	}
	for _, list := range h.blocks {
		for _, b := range list {
			if b != 0 {
				n.hold(b)
			}
		}
	}
	for _, list := range h.blocks {
		for _, b := range list {
			if b != 0 {
				n.raise(b, t.class)
			}
		}
	}
	n.useForks(h)
	for _, b := range h.partial {
		if !n.single() {
			n.hold(b)
		} else if n.idle(b) {
			n.blocks[b].used = n.now
		}
	}
	for band, b := range slices.Backward(h.partial) {
		t.lists[band] = append(t.lists[band], n.alloc(t, band))
		copies = n.copied(copies, b, t.lists[band][len(t.lists[band])-1], h.rows)
	}
	for _, b := range h.partial {
		if !n.single() {
			n.drop(b)
		}
	}
	t.tokens += h.full()*n.blockTokens + h.rows
	return copies
}

// useForks is the use of what windows see before the forks of a hit, just before the call itself.
func (n *naive) useForks(h naiveHit) {
	if h.full() == 0 {
		return
	}
	last := n.blocks[h.blocks[0][h.full()-1]]
	for _, b := range n.path(h.blocks[0][h.full()-1]) {
		fork := n.blocks[b]
		if !fork.forked || fork.depth > last.depth {
			continue
		}
		for band := 1; band < len(n.bands); band++ {
			for _, a := range n.path(b) {
				side := n.find(n.blocks[a].prefix, band)
				if n.blocks[a].depth >= n.seen(band, (fork.depth+1)*n.blockTokens) && n.idle(side) {
					n.blocks[side].used = n.now - 1
				}
			}
		}
	}
}

func (n *naive) writable(b BlockID) bool {
	m := &n.blocks[b]
	return m.refs == 1 && m.pins == 0 && m.prefix == ""
}

func (n *naive) copied(copies []Copy, src, dst BlockID, rows int) []Copy {
	if src == dst || rows == 0 {
		return copies
	}
	from, to := n.blocks[src], n.blocks[dst]
	for i, g := range n.bands[to.band].groups {
		page := src // its source may have been evicted
		if i > 0 {
			page = from.pages[i]
		}
		copies = append(copies, Copy{Src: page, Dst: to.pages[i], Rows: rows, Group: g, Fine: n.finely})
	}
	return copies
}

func (n *naive) commit(t *naiveTable, ids []int32, verified int) {
	n.turn(t.domain)
	for i := t.tokens / n.blockTokens; i < verified/n.blockTokens; i++ {
		if i > 0 && (t.lists[0][i-1] == 0 || n.blocks[t.lists[0][i-1]].prefix == "") {
			continue
		}
		prefix := prefixKey(t.domain, ids[:(i+1)*n.blockTokens])
		for band := range n.bands {
			b := t.lists[band][i]
			if twin := n.find(prefix, band); twin != 0 {
				n.hold(twin)
				n.raise(twin, n.blocks[b].class)
				t.lists[band][i] = twin
				n.drop(b)
				continue
			}
			n.born++
			if i > 0 && band == 0 && len(n.children(n.blocks[t.lists[0][i-1]].prefix, i)) > 0 {
				n.blocks[t.lists[0][i-1]].forked = true
			}
			m := &n.blocks[b]
			m.prefix, m.depth, m.born = prefix, i, n.born
			n.raise(b, m.class)
		}
	}
	t.tokens = verified
	n.pass(t)
}

// pass releases what no further row sees.
func (n *naive) pass(t *naiveTable) {
	windows := false
	for band := len(n.bands) - 1; band >= 0; band-- {
		windows = windows || n.bands[band].window > 0
		end := n.seen(band, t.tokens)
		if band == 0 {
			end = min(end, t.tokens/n.blockTokens-1)
		}
		for i := end - 1; i >= t.slid[band]; i-- {
			b := t.lists[band][i]
			if m := &n.blocks[b]; band > 0 && m.refs == 1 {
				m.rank = n.rankOf(t, band, i)
			}
			t.lists[band][i] = 0
			n.drop(b)
		}
		t.slid[band] = max(t.slid[band], end)
	}
	if windows {
		n.trim(t.domain)
	}
}

// rankOf is how a block is kept that a window has passed: other sequences may go on where the chain forks, and where it is
// expected, and see it from there.
func (n *naive) rankOf(t *naiveTable, band, i int) int {
	whole, rank := t.tokens/n.blockTokens, 0
	for end := i; end <= whole; end++ {
		if end > i && n.seen(band, end*n.blockTokens) > i {
			break
		}
		if end == t.expected/n.blockTokens {
			rank = max(rank, 1)
		}
		if end == i || t.lists[0][end-1] == 0 || n.blocks[t.lists[0][end-1]].prefix == "" {
			continue
		}
		chain := &n.blocks[t.lists[0][end-1]]
		if chain.forked || end == whole && len(n.children(chain.prefix, end)) > 0 {
			rank = 2
		}
	}
	return rank
}

func (n *naive) truncate(t *naiveTable, rows int) {
	n.turn(t.domain)
	n.shrink(t, n.ceil(rows))
	t.tokens = min(t.tokens, rows)
	n.trim(t.domain)
}

func (n *naive) shrink(t *naiveTable, keep int) {
	for band := len(n.bands) - 1; band >= 0; band-- {
		for list := &t.lists[band]; len(*list) > keep; {
			b := (*list)[len(*list)-1]
			*list = (*list)[:len(*list)-1]
			n.drop(b)
		}
	}
}

func (n *naive) fork(t *naiveTable) *naiveTable {
	n.turn(t.domain)
	f := &naiveTable{domain: t.domain, class: t.class, tokens: t.tokens, slid: slices.Clone(t.slid), expected: t.expected}
	for _, list := range t.lists {
		list = slices.Clone(list[:n.ceil(t.tokens)])
		f.lists = append(f.lists, list)
		for _, b := range list {
			if b != 0 {
				n.hold(b)
			}
		}
	}
	return f
}

func (n *naive) release(t *naiveTable) {
	n.shrink(t, 0)
	n.trim(t.domain)
}

func (n *naive) slide(t *naiveTable, firstNeeded int) {
	n.turn(t.domain)
	end := min(firstNeeded, t.tokens) / n.blockTokens
	for band := len(n.bands) - 1; band >= 0; band-- {
		for i := end - 1; i >= t.slid[band]; i-- {
			b := t.lists[band][i]
			t.lists[band][i] = 0
			n.drop(b)
		}
		t.slid[band] = max(t.slid[band], end)
	}
	n.trim(t.domain)
}

func (n *naive) setClass(t *naiveTable, c Class) {
	t.class = c
	for _, list := range t.lists {
		for _, b := range list {
			if b != 0 {
				n.raise(b, c)
			}
		}
	}
}

func (n *naive) pin(b BlockID) bool {
	if n.blocks[b].prefix == "" {
		return false
	}
	n.blocks[b].pins++
	return true
}

func (n *naive) unpin(b BlockID) {
	m := &n.blocks[b]
	domain := m.domain
	m.pins--
	if !n.idle(b) {
		return
	}
	if m.prefix != "" {
		for _, a := range n.path(b) {
			if n.idle(a) {
				n.blocks[a].used = n.now
			}
		}
	}
	n.park(b)
	n.trim(domain)
}

func (n *naive) dropDomain(domain string) {
	for n.evict(domain) {
		continue
	}
}
