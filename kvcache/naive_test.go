package kvcache

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// naive is what the pool is meant to do, written without any of its
// structures: prefixes are strings, every search is a scan, eviction sorts by
// class, last use and depth. The same calls must lead to the same block ids
// (K14, K18), the same hits (K8) and the same refusals (K12).
type naive struct {
	blockTokens, bound int
	blocks             []naiveBlock
	stack              []BlockID // unpublished idle blocks, next one last
	now                int       // number of the call, for last use
	published          int       // publications so far
}

type naiveBlock struct {
	domain string // owner; "" while free
	prefix string // domain and all token ids up to the end of the block; "" while unpublished
	depth  int    // blocks before this one
	born   int    // number of its publication
	used   int    // call that made it idle
	refs   int
	pins   int
	class  Class
}

type naiveTable struct {
	domain string
	class  Class
	blocks []BlockID
	tokens int
	slid   int
}

type naiveHit struct {
	blocks  []BlockID
	partial BlockID
	rows    int // of partial
}

func newNaive(c Config) *naive {
	n := &naive{blockTokens: c.blockTokens(), bound: c.TenantBlocks, blocks: make([]naiveBlock, c.Blocks)}
	for b := BlockID(c.Blocks - 1); b > 0; b-- {
		n.stack = append(n.stack, b)
	}
	return n
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
	return b != 0 && m.refs == 0 && m.pins == 0
}

func (n *naive) find(prefix string) BlockID {
	for b := range n.blocks {
		if n.blocks[b].prefix == prefix {
			return BlockID(b)
		}
	}
	return 0
}

// children of a prefix, newest first; the children of a domain's root are
// those of depth 0.
func (n *naive) children(prefix string, depth int) []BlockID {
	var children []BlockID
	for b := range n.blocks {
		if m := &n.blocks[b]; m.prefix != "" && m.depth == depth && strings.HasPrefix(m.prefix, prefix+",") {
			children = append(children, BlockID(b))
		}
	}
	slices.SortFunc(children, func(a, b BlockID) int { return n.blocks[b].born - n.blocks[a].born })
	return children
}

func (n *naive) match(domain string, ids []int32, limit int) naiveHit {
	limit = min(limit, len(ids))
	var h naiveHit
	full := 0
	for ; full+n.blockTokens <= limit; full += n.blockTokens {
		b := n.find(prefixKey(domain, ids[:full+n.blockTokens]))
		if b == 0 {
			break
		}
		h.blocks = append(h.blocks, b)
	}
	children := n.children(prefixKey(domain, ids[:full]), full/n.blockTokens)
	for _, b := range children[:min(8, len(children))] {
		for k := min(n.blockTokens, max(limit-full, 0)); k > h.rows && k >= max(4, n.blockTokens/4); k-- {
			if strings.HasPrefix(n.blocks[b].prefix+",", prefixKey(domain, ids[:full+k])+",") {
				h.partial, h.rows = b, k
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
		m.domain = ""
		n.stack = append(n.stack, b)
	}
}

func (n *naive) drop(b BlockID) {
	if b != 0 {
		n.blocks[b].refs--
		n.park(b)
	}
}

// unpublish forgets a block and all prefixes that continue it.
func (n *naive) unpublish(b BlockID) {
	m := &n.blocks[b]
	for _, kid := range n.children(m.prefix, m.depth+1) {
		n.unpublish(kid)
	}
	m.prefix = ""
	n.park(b)
}

// evict frees one cached block, of any domain or of one; false if there is
// none.
func (n *naive) evict(domain string) bool {
	var cached []BlockID
	for b := range n.blocks {
		if m := &n.blocks[b]; n.idle(BlockID(b)) && m.prefix != "" && (domain == "" || m.domain == domain) {
			cached = append(cached, BlockID(b))
		}
	}
	if len(cached) == 0 {
		return false
	}
	n.unpublish(slices.MinFunc(cached, func(a, b BlockID) int {
		x, y := &n.blocks[a], &n.blocks[b]
		return cmp.Or(cmp.Compare(x.class, y.class), x.used-y.used, y.depth-x.depth)
	}))
	return true
}

func (n *naive) resident(domain string) int {
	count := 0
	for b := range n.blocks {
		if n.blocks[b].domain == domain {
			count++
		}
	}
	return count
}

func (n *naive) trim(domain string) {
	for n.bound > 0 && n.resident(domain) > n.bound && n.evict(domain) {
		continue
	}
}

func (n *naive) alloc(t *naiveTable) BlockID {
	if n.bound > 0 && n.resident(t.domain) >= n.bound {
		n.evict(t.domain)
	}
	if len(n.stack) == 0 {
		n.evict("")
	}
	b := n.stack[len(n.stack)-1]
	n.stack = n.stack[:len(n.stack)-1]
	n.blocks[b] = naiveBlock{domain: t.domain, refs: 1, class: t.class}
	return b
}

func (n *naive) freeNow() int {
	count := 0
	for b := range n.blocks {
		if n.idle(BlockID(b)) {
			count++
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

// path is a block and the published blocks before it.
func (n *naive) path(b BlockID) []BlockID {
	path := []BlockID{b}
	prefix := n.blocks[b].prefix
	for a := range n.blocks {
		if m := &n.blocks[a]; m.prefix != "" && strings.HasPrefix(prefix, m.prefix+",") {
			path = append(path, BlockID(a))
		}
	}
	return path
}

func (n *naive) grow(t *naiveTable, rows int, h naiveHit) (copies []Copy, ok bool) {
	empty := len(t.blocks) == 0
	if !empty {
		h = naiveHit{}
	}
	hitRows := len(h.blocks)*n.blockTokens + h.rows
	tail := t.tokens / n.blockTokens
	cow := !empty && rows > t.tokens && tail < len(t.blocks) && !n.writable(t.blocks[tail])
	need := max(0, n.ceil(max(rows, hitRows))-len(h.blocks)-len(t.blocks))
	if cow {
		need++
	}
	room := n.freeNow()
	for _, b := range h.blocks {
		if n.idle(b) {
			room--
		}
	}
	if need > room {
		return nil, false
	}
	for _, b := range h.blocks {
		n.blocks[b].refs++
		t.blocks = append(t.blocks, b)
	}
	if len(h.blocks) > 0 {
		n.raise(h.blocks[len(h.blocks)-1], t.class)
	}
	if h.rows > 0 {
		if n.idle(h.partial) {
			n.blocks[h.partial].used = n.now
		}
		t.blocks = append(t.blocks, n.alloc(t))
		copies = n.copied(copies, h.partial, t.blocks[len(t.blocks)-1], h.rows)
	}
	t.tokens += hitRows
	if cow {
		old := t.blocks[tail]
		t.blocks[tail] = n.alloc(t)
		copies = n.copied(copies, old, t.blocks[tail], t.tokens%n.blockTokens)
		n.drop(old)
	}
	for len(t.blocks) < n.ceil(rows) {
		t.blocks = append(t.blocks, n.alloc(t))
	}
	if cow {
		n.trim(t.domain)
	}
	return copies, true
}

func (n *naive) writable(b BlockID) bool {
	m := &n.blocks[b]
	return m.refs == 1 && m.pins == 0 && m.prefix == ""
}

func (n *naive) copied(copies []Copy, src, dst BlockID, rows int) []Copy {
	if src == dst || rows == 0 {
		return copies
	}
	return append(copies, Copy{Src: src, Dst: dst, Rows: rows})
}

func (n *naive) commit(t *naiveTable, ids []int32, verified int) {
	for i := t.tokens / n.blockTokens; i < verified/n.blockTokens; i++ {
		b := t.blocks[i]
		if i > 0 && (t.blocks[i-1] == 0 || n.blocks[t.blocks[i-1]].prefix == "") {
			continue
		}
		prefix := prefixKey(t.domain, ids[:(i+1)*n.blockTokens])
		if twin := n.find(prefix); twin != 0 {
			n.blocks[twin].refs++
			n.raise(twin, n.blocks[b].class)
			t.blocks[i] = twin
			n.drop(b)
			continue
		}
		n.published++
		m := &n.blocks[b]
		m.prefix, m.depth, m.born = prefix, i, n.published
		n.raise(b, m.class)
	}
	t.tokens = verified
}

func (n *naive) truncate(t *naiveTable, rows int) {
	n.shrink(t, n.ceil(rows))
	t.tokens = min(t.tokens, rows)
	n.trim(t.domain)
}

func (n *naive) shrink(t *naiveTable, keep int) {
	for len(t.blocks) > keep {
		b := t.blocks[len(t.blocks)-1]
		t.blocks = t.blocks[:len(t.blocks)-1]
		n.drop(b)
	}
}

func (n *naive) fork(t *naiveTable) *naiveTable {
	f := &naiveTable{domain: t.domain, class: t.class, tokens: t.tokens, slid: t.slid}
	f.blocks = slices.Clone(t.blocks[:n.ceil(t.tokens)])
	for _, b := range f.blocks {
		if b != 0 {
			n.blocks[b].refs++
		}
	}
	return f
}

func (n *naive) release(t *naiveTable) {
	n.shrink(t, 0)
	n.trim(t.domain)
}

func (n *naive) slide(t *naiveTable, firstNeeded int) {
	end := max(t.slid, min(firstNeeded, t.tokens)/n.blockTokens)
	for i := end - 1; i >= t.slid; i-- {
		b := t.blocks[i]
		t.blocks[i] = 0
		n.drop(b)
	}
	t.slid = end
	n.trim(t.domain)
}

func (n *naive) setClass(t *naiveTable, c Class) {
	t.class = c
	for _, b := range t.blocks {
		if b != 0 {
			n.raise(b, c)
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
