package kvcache

import (
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
)

// driver turns bytes into calls on a pool and simulates the engine beside it: an
// arena whose rows hold a digest of the prefix they were computed from. After
// every call it runs Check and compares with the naive pool; at every step it
// runs the copies and the "forward pass" and looks at what the rows hold. So a
// block that was given away too early, written while shared or hit under a
// wrong prefix shows as a wrong row, whatever the counts say.
type driver struct {
	config Config
	pool   *Pool
	naive  *naive // nil when hashes are cut: collisions are no prefix there
	seqs   []*sequence
	pins   []BlockID
	hits   []staleHit
	copies []Copy
	arena  []uint64       // [Blocks][BlockTokens]; a row holds its digest and its group
	router map[Hash]bool  // replayed events
	seen   map[string]int // how often each kind of thing happened
	trace  []byte         // every table after every call, for K18
	input  []byte
}

type sequence struct {
	table  *Table
	naive  *naiveTable
	domain string
	ids    []int32
	rows   int // grown to
	slid   int // by Slide
}

// staleHit is a hit that is kept over other calls before it is used.
type staleHit struct {
	domain string
	ids    []int32
	hit    Hit
}

const (
	maxSequences = 8
	maxSequence  = 6 // blocks per sequence
)

// newDriver reads the pool's shape from the first bytes of a program.
func newDriver(program []byte) (*driver, error) {
	d := &driver{input: program, router: map[Hash]bool{}, seen: map[string]int{}}
	d.config = Config{Blocks: 2 + d.below(63), BlockTokens: 1 + d.below(16), Events: true}
	switch d.below(4) {
	case 1:
		d.config.HashBits = 8
	case 2:
		d.config.TenantBlocks = 1 + d.below(12)
	}
	d.config.Windows = d.windows()
	d.config.FineTokens = []int{0, 1, d.config.BlockTokens, halfOf(d.config.BlockTokens)}[d.below(4)]
	if groups := len(d.config.Windows); groups > 0 {
		d.config.StepRows = []int{0, 1, d.config.BlockTokens, 1 + d.below(3*d.config.BlockTokens)}[d.below(4)]
		d.config.Blocks *= 1 + groups/2
		d.config.TenantBlocks *= 1 + groups/2
	}
	p, err := New(d.config)
	if err != nil {
		return nil, err
	}
	d.pool = p
	if d.config.HashBits == 0 {
		d.naive = newNaive(d.config)
	}
	d.arena = make([]uint64, d.config.Blocks*d.config.BlockTokens)
	return d, nil
}

// halfOf is half of a block, or all of one that has no half.
func halfOf(tokens int) int {
	if tokens%2 == 0 {
		return tokens / 2
	}
	return tokens
}

// domainOf is a domain of the pool: c is fine.
func (d *driver) domainOf(name string) Domain {
	if name == fineName {
		return d.pool.FineDomain(name)
	}
	return d.pool.Domain(name)
}

const fineName = "c"

// rows is how many rows a block of a domain has.
func (d *driver) rows(name string) int { return d.pool.ShapeOf(d.domainOf(name)).BlockTokens() }

// windows draws those of one, two or seven tables, with and without one that sees all.
func (d *driver) windows() []int {
	w, v := 1+d.below(3*d.config.BlockTokens), 1+d.below(3*d.config.BlockTokens)
	shapes := [][]int{nil, nil, {0}, {w}, {0, w}, {w, 0}, {0, 0}, {w, w}, {w, v}, {0, w, w, w, w, w, w}, {w, w, v, 0, v, w, 0}, {w, w, v, v, w, w, w}}
	return shapes[d.below(len(shapes))]
}

// below takes a number in [0, n) from the program.
func (d *driver) below(n int) int {
	if len(d.input) == 0 || n <= 0 {
		return 0
	}
	b := d.input[0]
	d.input = d.input[1:]
	return int(b) % n
}

// run plays a whole program and ends with an empty pool (K13).
func (d *driver) run() error {
	ops := []struct {
		name string
		call func() error
	}{
		{"new", d.begin}, {"new", d.begin}, {"grow", d.grow}, {"grow", d.grow}, {"grow", d.grow},
		{"step", d.step}, {"step", d.step}, {"step", d.step}, {"truncate", d.truncate}, {"fork", d.fork},
		{"release", d.release}, {"preempt", d.preempt}, {"slide", d.slide}, {"pin", d.pin}, {"unpin", d.unpin},
		{"class", d.class}, {"expect", d.expect}, {"match", d.match}, {"drain", d.drain}, {"drop", d.drop}, {"insert", d.insert},
	}
	for call := 0; len(d.input) > 0; call++ {
		op := ops[d.below(len(ops))]
		run := func() error { return d.call(op.call) }
		if op.name == "step" {
			run = d.step // many calls, each checked
		}
		if err := run(); err != nil {
			return fmt.Errorf("call %d, %s: %w", call, op.name, err)
		}
	}
	return d.end()
}

// call makes one call and checks everything that must hold after it.
func (d *driver) call(f func() error) error {
	if d.naive != nil {
		d.naive.now += 2
	}
	before := d.tablesNow()
	return errors.Join(f(), d.pool.Check(), d.compare(), d.aliased(before))
}

// tablesNow copies all tables.
func (d *driver) tablesNow() map[*Table][]BlockID {
	tables := map[*Table][]BlockID{}
	for _, s := range d.seqs {
		tables[s.table] = allBlocks(s.table)
	}
	return tables
}

// allBlocks are the blocks of a table of all bands.
func allBlocks(t *Table) []BlockID {
	all := slices.Clone(t.blocks)
	for i := range t.sides {
		all = append(all, t.sides[i].blocks...)
	}
	return all
}

// aliased finds tables that changed although a call was not about them (K6).
// What the call itself did to its table is compared with the naive pool.
func (d *driver) aliased(before map[*Table][]BlockID) error {
	changed := 0
	for _, s := range d.seqs {
		if old, ok := before[s.table]; ok && !slices.Equal(old, allBlocks(s.table)) {
			changed++
		}
	}
	if changed > 1 {
		return fmt.Errorf("K6: %d tables changed in one call", changed)
	}
	return nil
}

// compare sets the pool beside the naive one (K14) and extends the trace.
func (d *driver) compare() error {
	for i, s := range d.seqs {
		d.trace = fmt.Append(d.trace, i, allBlocks(s.table), s.table.tokens)
		if d.naive == nil {
			continue
		}
		if have, want := allBlocks(s.table), slices.Concat(s.naive.lists...); !slices.Equal(have, want) || s.table.tokens != s.naive.tokens {
			return fmt.Errorf("K14: sequence %d has blocks %v and %d rows, want %v and %d", i, have, s.table.tokens, want, s.naive.tokens)
		}
		if err := d.groups(s); err != nil {
			return err
		}
	}
	d.trace = fmt.Append(d.trace, d.pool.Stats(), "\n")
	if d.naive == nil {
		return nil
	}
	for b := BlockID(1); int(b) < len(d.pool.blocks); b++ {
		have, want := &d.pool.blocks[b], &d.naive.blocks[b]
		if have.published != (want.prefix != "") || have.domain != noDomain && have.class != want.class || have.ref != int32(want.refs) {
			return fmt.Errorf("K14: block %d is published %v with class %v, want %q with %v", b, have.published, have.class, want.prefix,
				want.class)
		}
	}
	if have, want := d.evictable(), d.naive.cached(""); !slices.IsSortedFunc(have, d.naive.compareUse) || len(have) != len(want) {
		slices.SortFunc(want, d.naive.compareUse)
		return fmt.Errorf("K14: %v are evicted in this order, want %v", have, want)
	}
	if d.pool.FreeNow() != d.naive.freeNow() {
		return fmt.Errorf("K14: %d blocks are free now, want %d", d.pool.FreeNow(), d.naive.freeNow())
	}
	return nil
}

// evictable lists the cached blocks of the pool, next to be evicted first.
func (d *driver) evictable() (blocks []BlockID) {
	p := d.pool
	kinds := [...]string{"passed", "kept where one is expected", "kept where sequences fork"}
	for rank := range int32(numRanks) {
		list := p.rankRing(rank)
		if !p.lru.empty(list) && (rank < numAside || p.bandOf(BlockID(p.lru.front(list))) > 0) {
			d.seen[kinds[min(rank, numAside)]]++
		}
		for b := p.lru.front(list); b != list; b = p.lru.front(b) {
			blocks = append(blocks, BlockID(b))
		}
	}
	return blocks
}

// groups compares the tables of a sequence's groups with the pages of its blocks.
func (d *driver) groups(s *sequence) error {
	for band, b := range d.naive.bands {
		for at, g := range b.groups {
			var want []BlockID
			for _, b := range s.naive.lists[band] {
				page := BlockID(0)
				if b != 0 {
					page = d.naive.blocks[b].pages[at]
				}
				want = append(want, page)
			}
			if have := s.table.Blocks(g); !slices.Equal(have, want) {
				return fmt.Errorf("K22: group %d of %v has blocks %v, want %v", g, d.config.Windows, have, want)
			}
		}
	}
	return nil
}

func (d *driver) domainName() string { return []string{"a", "b", "c"}[d.below(3)] }

func (d *driver) pick() *sequence {
	if len(d.seqs) == 0 {
		return nil
	}
	return d.seqs[d.below(len(d.seqs))]
}

// tokens draws n ids of a small alphabet, mostly one of them, so that prefixes
// meet.
func (d *driver) tokens(n int) []int32 {
	ids := make([]int32, n)
	seed := uint32(d.below(6))
	for i := range ids {
		seed = seed*1664525 + 1013904223
		if seed>>28 == 0 {
			ids[i] = int32(seed >> 20 & 1)
		}
	}
	if n > 0 {
		ids[n-1] = int32(d.below(3))
	}
	return ids
}

// begin starts a sequence, fresh or on the ids of another one.
func (d *driver) begin() error {
	if len(d.seqs) == maxSequences {
		return d.release()
	}
	domain := d.domainName()
	n := d.rows(domain)
	ids := d.tokens(1 + d.below(3*n))
	if s := d.pick(); s != nil && d.below(2) == 0 {
		ids = slices.Concat(s.ids[:d.below(len(s.ids)+1)], ids)
	}
	return d.start(domain, ids[:min(len(ids), maxSequence*n)])
}

func (d *driver) start(domain string, ids []int32) error {
	s := &sequence{table: &Table{}, domain: domain, ids: ids}
	if d.naive != nil {
		s.naive = d.naive.newTable(domain)
	}
	d.pool.Begin(s.table, d.domainOf(domain))
	d.seqs = append(d.seqs, s)
	hit, err := d.lookup(domain, ids)
	if err != nil {
		return err
	}
	if d.below(4) == 0 { // a hit from earlier calls, which may be stale
		for _, old := range d.hits {
			if old.domain == domain && len(old.ids) <= len(ids) && slices.Equal(old.ids, ids[:len(old.ids)]) {
				return d.useOld(s, old)
			}
		}
	}
	return d.cover(s, 1+d.below(len(ids)), hit)
}

// useOld grows with an old hit. A stale one must be refused, a current one
// must still be what a search would find, if not the longest.
func (d *driver) useOld(s *sequence, old staleHit) error {
	d.seen["old hit"]++
	if _, ok := d.pool.CanGrow(s.table, len(s.ids), old.hit); !ok {
		if d.pool.Grow(s.table, len(s.ids), old.hit, &d.copies) {
			return errors.New("K12: refused by CanGrow, done by Grow")
		}
		d.seen["old hit refused"]++
		return nil
	}
	if n := d.naive; n != nil {
		h, ok := n.hitAt(old.domain, old.ids, old.hit.Full)
		if !ok {
			return errors.New("K8: a stale hit was accepted")
		}
		n.grow(s.naive, len(s.ids), n.withPartial(h, old.hit))
	}
	d.pool.Grow(s.table, len(s.ids), old.hit, &d.copies)
	s.rows = s.table.grown
	return nil
}

// withPartial adds the partial block of a pool's hit.
func (n *naive) withPartial(h naiveHit, hit Hit) naiveHit {
	if hit.Partial == 0 {
		return h
	}
	for band := range n.bands {
		h.partial = append(h.partial, n.find(n.blocks[hit.Partial].prefix, band))
	}
	h.rows = hit.PartialTokens
	return h
}

// lookup matches and compares with a scan over all prefixes (K8).
func (d *driver) lookup(domain string, ids []int32) (Hit, error) {
	dom, n := d.domainOf(domain), d.rows(domain)
	limit := len(ids) - 1 + d.below(2)
	hit := d.pool.Match(dom, ids, limit)
	chain := dom.Chain(nil, ids, n)
	if again := d.pool.MatchChain(dom, chain, ids, limit); again != hit {
		return hit, fmt.Errorf("K8: %+v with a chain, %+v without", again, hit)
	}
	if hit.Tokens != hit.Full*n+hit.PartialTokens || hit.Tokens > limit {
		return hit, fmt.Errorf("K8: hit %+v of limit %d does not add up", hit, limit)
	}
	d.seen["hit"] += hit.Full
	d.seen["partial hit"] += hit.PartialTokens
	if d.naive == nil {
		return hit, nil
	}
	want := d.naive.match(domain, ids, limit)
	last, partial := BlockID(0), BlockID(0)
	if full := want.full(); full > 0 {
		last = want.blocks[0][full-1]
	}
	if want.rows > 0 {
		partial = want.partial[0]
	}
	if hit.Full != want.full() || hit.last != last || hit.Partial != partial || hit.PartialTokens != want.rows {
		return hit, fmt.Errorf("K8: hit %+v, want %+v", hit, want)
	}
	return hit, nil
}

// cover is CanGrow and Grow on both pools: they agree (K12), and a refusal
// changes nothing (K9).
func (d *driver) cover(s *sequence, rows int, hit Hit) error {
	p := d.pool
	before := snapshot(p, s.table, d.copies)
	idle := p.FreeNow()
	need, can := p.CanGrow(s.table, rows, hit)
	copied := len(d.copies)
	done := p.Grow(s.table, rows, hit, &d.copies)
	if can != done {
		return fmt.Errorf("K12: CanGrow said %v (%d blocks of %d), Grow %v", can, need, idle, done)
	}
	var want naiveHit
	if d.naive != nil {
		want = d.naive.hitOf(hit, s)
		copies, ok := d.naive.grow(s.naive, rows, want)
		if ok != done || ok && !slices.Equal(copies, d.copies[copied:]) {
			return fmt.Errorf("K12: grow to %d rows: %v with copies %v, want %v with %v", rows, done, d.copies[copied:], ok, copies)
		}
	}
	if !done {
		d.seen["refused"]++
		if after := snapshot(p, s.table, d.copies); !reflect.DeepEqual(before, after) {
			return fmt.Errorf("K9: a refused Grow changed the pool from %+v to %+v", before, after)
		}
		return nil
	}
	d.seen["copy"] += len(d.copies) - copied
	n := d.rows(s.domain)
	if s.table.tokens == hit.Full*n && hit.PartialTokens > 0 {
		d.seen["partial dropped"]++
	}
	if least := max(s.rows, rows, hit.Full*n); d.config.StepRows == 0 && s.table.grown < least {
		return fmt.Errorf("K6: the table was grown to %d rows, want %d", s.table.grown, least)
	}
	s.rows = s.table.grown
	return nil
}

// hitOf translates a hit that was just found.
func (n *naive) hitOf(hit Hit, s *sequence) naiveHit {
	if len(s.naive.lists[0]) > 0 {
		return naiveHit{}
	}
	h, _ := n.hitAt(s.domain, s.ids, hit.Full)
	return n.withPartial(h, hit)
}

// snapshot is everything that a refused call must leave alone.
func snapshot(p *Pool, t *Table, copies []Copy) any {
	return []any{
		slices.Clone(p.blocks), slices.Clone(p.ids), slices.Clone(p.lru), slices.Clone(p.own), slices.Clone(p.children),
		slices.Clone(p.index.slots), slices.Clone(p.domains), p.counts, p.Stats(), len(p.log.events),
		slices.Clone(p.hung), slices.Clone(p.mates), allBlocks(t), t.tokens, t.grown, t.slid, t.class, slices.Clone(copies),
	}
}

// grow announces more rows: what is left of the prompt, or new drafts.
func (d *driver) grow() error {
	s := d.pick()
	if s == nil {
		return nil
	}
	block := d.rows(s.domain)
	n := 1 + d.below(2*block)
	rows := min(max(s.rows, s.table.tokens)+n, maxSequence*block)
	if more := rows - len(s.ids); more > 0 {
		s.ids = slices.Concat(s.ids, d.tokens(more))
	}
	hit := Hit{}
	if len(s.table.blocks) == 0 {
		var err error
		if hit, err = d.lookup(s.domain, s.ids); err != nil {
			return err
		}
	}
	return d.cover(s, rows, hit)
}

// step is the engine's part: copies in order, then all announced rows, then
// Commit of each sequence. Some sequences reject drafts.
func (d *driver) step() error {
	d.runCopies()
	for _, s := range d.seqs {
		n := d.rows(s.domain)
		digests := digest(s.domain, s.ids)
		for r := s.table.tokens; r < s.rows; r++ {
			for g := range d.pool.Groups() {
				b := s.table.Blocks(g)[r/n]
				if b == 0 || d.pool.blocks[b].published || d.pool.blocks[b].pins > 0 {
					return fmt.Errorf("T17: row %d goes to block %d, which is in the cache", r, b)
				}
				d.arena[int(b)*d.config.BlockTokens+r%n] = digests[r] + uint64(g)
			}
		}
	}
	for i, s := range d.seqs {
		if err := d.rowsOf(s, s.rows); err != nil {
			return fmt.Errorf("sequence %d: %w", i, err)
		}
	}
	for i := range d.seqs {
		if err := d.call(func() error { return d.commit(d.seqs[i]) }); err != nil {
			return fmt.Errorf("commit of sequence %d: %w", i, err)
		}
	}
	return d.cachedRows()
}

func (d *driver) commit(s *sequence) error {
	if s.rows <= s.table.tokens {
		return nil
	}
	verified := s.rows
	if d.below(4) == 0 {
		verified -= d.below(s.rows - s.table.tokens + 1)
		d.seen["rejected draft"]++
	}
	published := d.pool.index.count
	sealed := verified/d.rows(s.domain) - s.table.tokens/d.rows(s.domain)
	d.pool.Commit(s.table, s.ids, verified)
	if got := d.pool.index.count - published; got > sealed {
		return fmt.Errorf("K15: %d blocks were published by %d full ones", got, sealed)
	}
	if d.naive != nil {
		d.naive.commit(s.naive, s.ids, verified)
	}
	if verified < s.rows {
		s.ids = s.ids[:verified]
		return d.cut(s, verified)
	}
	return nil
}

// rowsOf compares the first rows of a sequence with what they must hold.
func (d *driver) rowsOf(s *sequence, rows int) error {
	n, block := d.rows(s.domain), d.config.BlockTokens
	for g := range d.pool.Groups() {
		first := s.slid / n * n
		if len(d.config.Windows) > 0 && d.config.Windows[g] > 0 {
			first = max(first, s.table.tokens-d.config.Windows[g]+1) // what the next row sees
		}
		for r, want := range digest(s.domain, s.ids[:rows]) {
			if r < first {
				continue
			}
			if b := s.table.Blocks(g)[r/n]; b == 0 || d.arena[int(b)*block+r%n] != want+uint64(g) {
				return fmt.Errorf("K8: row %d in block %d of group %d is not that of the sequence", r, b, g)
			}
		}
	}
	return nil
}

// cachedRows compares every published block with what its chain says.
func (d *driver) cachedRows() error {
	p := d.pool
	for b := range p.blocks {
		if !p.blocks[b].published {
			continue
		}
		var ids []int32
		chain := BlockID(b)
		if p.bandOf(BlockID(b)) > 0 {
			chain = p.blocks[b].parent
		}
		for a := chain; a != 0; a = p.blocks[a].parent {
			ids = slices.Concat(p.rows(a), ids)
		}
		name := ""
		for _, c := range []string{"a", "b", "c"} {
			if d.domainOf(c) == p.domains[p.blocks[b].domain].key {
				name = c
			}
		}
		want := digest(name, ids)
		for i, g := range p.bands[p.bandOf(BlockID(b))].groups {
			page := BlockID(b)
			for range i {
				page = p.mates[page]
			}
			n := d.rows(name)
			for r, have := range d.arena[int(page)*d.config.BlockTokens:][:n] {
				if have != want[len(want)-n+r]+uint64(g) {
					return fmt.Errorf("T22: page %d of published block %d does not hold %v of group %d", page, b, ids, g)
				}
			}
		}
	}
	return nil
}

// digest is what row i of a sequence holds: a function of the domain and of
// ids[:i+1].
func digest(domain string, ids []int32) []uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, domain)
	rows := make([]uint64, len(ids))
	for i, id := range ids {
		h.Write([]byte{byte(id)})
		rows[i] = h.Sum64()
	}
	return rows
}

// insert enters blocks that were computed elsewhere, between two steps.
func (d *driver) insert() error {
	p, domain := d.pool, d.domainName()
	n, block := d.rows(domain), d.config.BlockTokens
	ids := d.tokens((1 + d.below(maxSequence)) * n)
	if s := d.pick(); s != nil && d.below(2) == 0 {
		n = d.rows(s.domain)
		domain, ids = s.domain, slices.Concat(s.ids[:len(s.ids)/n*n], ids)
	}
	d.runCopies()
	ids = ids[:len(ids)/n*n]
	dom := d.domainOf(domain)
	cached := p.Cached(dom, nil, ids)
	from := min(cached+d.below(2), len(ids)/n)
	free, before, counts := p.FreeNow(), snapshot(p, &Table{}, nil), p.counts
	digests := digest(domain, ids)
	got := p.Insert(dom, nil, ids, from, func(i int, b BlockID) { copy(d.arena[int(b)*block:][:n], digests[i*n:]) })
	counts.Evictions, counts.Folded, counts.Collisions = p.counts.Evictions, p.counts.Folded, p.counts.Collisions
	switch {
	case !p.simple && (got > 0 || !reflect.DeepEqual(before, snapshot(p, &Table{}, nil))):
		return fmt.Errorf("%d blocks were entered into a pool with windows %v", got, d.config.Windows)
	case !p.simple:
		return nil
	case from > cached && (got > 0 || !reflect.DeepEqual(before, snapshot(p, &Table{}, nil))):
		return fmt.Errorf("K8: %d blocks were entered behind one that is not cached", got)
	case from > cached:
		d.seen["insert refused"]++
		return nil
	case got > free || p.counts != counts:
		return fmt.Errorf("K12: %d blocks were entered of %d that were free, counts %+v, want %+v", got, free, p.counts, counts)
	case d.config.HashBits == 0 && p.Cached(dom, nil, ids) < from+got && d.config.TenantBlocks == 0:
		return fmt.Errorf("K8: %d blocks are cached after %d were entered behind %d", p.Cached(dom, nil, ids), got, from)
	}
	d.seen["insert"] += got
	if d.naive != nil {
		t := d.naive.newTable(domain)
		if _, ok := d.naive.grow(t, (from+got)*n, d.naive.match(domain, ids, from*n)); !ok {
			return fmt.Errorf("K12: %d blocks were entered, for which there is no room", got)
		}
		d.naive.commit(t, ids, (from+got)*n)
		d.naive.release(t)
	}
	return d.cachedRows()
}

func (d *driver) runCopies() {
	n := d.config.BlockTokens
	for _, c := range d.copies {
		copy(d.arena[int(c.Dst)*n:int(c.Dst)*n+c.Rows], d.arena[int(c.Src)*n:])
	}
	d.copies = d.copies[:0]
}

func (d *driver) cut(s *sequence, rows int) error {
	d.pool.Truncate(s.table, rows)
	if d.naive != nil {
		d.naive.truncate(s.naive, rows)
	}
	s.rows = min(s.rows, rows)
	return nil
}

func (d *driver) truncate() error {
	s := d.pick()
	if s == nil {
		return nil
	}
	first := s.table.fewestRows()
	rows := first + d.below(max(s.rows, s.table.tokens)-first+1)
	if rows < len(s.ids) && d.below(2) == 0 {
		s.ids = s.ids[:rows]
	}
	return d.cut(s, rows)
}

func (d *driver) fork() error {
	s := d.pick()
	if s == nil || len(d.seqs) == maxSequences {
		return nil
	}
	f := &sequence{table: &Table{}, domain: s.domain, rows: s.table.tokens, slid: s.slid}
	f.ids = slices.Concat(s.ids[:s.table.tokens], d.tokens(1))
	d.pool.Fork(f.table, s.table)
	if d.naive != nil {
		f.naive = d.naive.fork(s.naive)
	}
	d.seqs = append(d.seqs, f)
	return nil
}

// release ends a sequence in whatever state it is, and once more (K10).
func (d *driver) release() error {
	if len(d.seqs) == 0 {
		return nil
	}
	i := d.below(len(d.seqs))
	s := d.seqs[i]
	d.seqs = slices.Delete(d.seqs, i, i+1)
	d.pool.Release(s.table)
	before := d.pool.Stats()
	d.pool.Release(s.table)
	if after := d.pool.Stats(); after != before {
		return fmt.Errorf("K10: a second release changed %+v to %+v", before, after)
	}
	if d.naive != nil {
		d.naive.release(s.naive)
	}
	return nil
}

// preempt releases a sequence and starts it again on its ids.
func (d *driver) preempt() error {
	s := d.pick()
	if s == nil {
		return nil
	}
	i := slices.Index(d.seqs, s)
	d.seqs = slices.Delete(d.seqs, i, i+1)
	d.pool.Release(s.table)
	if d.naive != nil {
		d.naive.release(s.naive)
		d.naive.now += 2
	}
	if len(s.ids) == 0 {
		return nil
	}
	return d.start(s.domain, s.ids)
}

func (d *driver) slide() error {
	s := d.pick()
	if s == nil {
		return nil
	}
	first := d.below(s.rows + 1)
	d.pool.Slide(s.table, first)
	s.slid = max(s.slid, min(first, s.table.tokens))
	if d.naive != nil {
		d.naive.slide(s.naive, first)
	}
	d.seen["slide"]++
	return nil
}

func (d *driver) pin() error {
	b := BlockID(1 + d.below(d.pool.Usable()))
	if len(d.pins) == 4 {
		return d.unpin()
	}
	ok := d.pool.Pin(b)
	if d.naive != nil && ok != d.naive.pin(b) {
		return fmt.Errorf("K14: pin of block %d: %v", b, ok)
	}
	if ok {
		d.pins = append(d.pins, b)
		d.seen["pin"]++
	}
	return nil
}

func (d *driver) unpin() error {
	if len(d.pins) == 0 {
		return nil
	}
	i := d.below(len(d.pins))
	b := d.pins[i]
	d.pins = slices.Delete(d.pins, i, i+1)
	d.pool.Unpin(b)
	if d.naive != nil {
		d.naive.unpin(b)
	}
	return nil
}

func (d *driver) class() error {
	s := d.pick()
	if s == nil {
		return nil
	}
	c := Class(d.below(numClasses))
	d.pool.SetClass(s.table, c)
	if d.naive != nil {
		d.naive.setClass(s.naive, c)
	}
	return nil
}

func (d *driver) expect() error {
	s := d.pick()
	if s == nil {
		return nil
	}
	rows := d.below(len(s.ids) + 1)
	s.table.Expect(rows)
	if d.naive != nil {
		s.naive.expected = rows
	}
	return nil
}

// match keeps a hit for later.
func (d *driver) match() error {
	s := d.pick()
	if s == nil || len(s.ids) == 0 {
		return nil
	}
	hit, err := d.lookup(s.domain, s.ids)
	if hit.Tokens > 0 {
		d.hits = append(d.hits, staleHit{s.domain, slices.Clone(s.ids), hit})
		d.hits = d.hits[max(0, len(d.hits)-4):]
	}
	return err
}

// drain replays the event log and compares with the cache (K17).
func (d *driver) drain() error {
	d.pool.DrainEvents(func(e Event) {
		switch e.Kind {
		case Stored:
			d.router[e.Hash] = true
		case Removed:
			delete(d.router, e.Hash)
		case Cleared:
			clear(d.router)
		}
	})
	for i := range d.pool.blocks {
		if m := &d.pool.blocks[i]; m.published && d.pool.bandOf(BlockID(i)) == 0 && !d.router[m.hash] {
			return fmt.Errorf("K17: no event told of block %d", i)
		}
	}
	if len(d.router) != d.pool.index.count {
		return fmt.Errorf("K17: %d hashes by events, %d in the cache", len(d.router), d.pool.index.count)
	}
	return nil
}

func (d *driver) drop() error {
	if d.below(8) == 0 {
		d.pool.Reset()
		if d.naive != nil {
			d.naive.dropDomain("")
		}
		return nil
	}
	name := d.domainName()
	d.pool.DropDomain(d.domainOf(name))
	if d.naive != nil {
		d.naive.dropDomain(name)
	}
	return nil
}

// end releases everything and drops the cache: all blocks are free (K13).
func (d *driver) end() error {
	for key, n := range map[string]uint64{
		"evicted": d.pool.counts.Evictions, "folded": d.pool.counts.Folded, "collision": d.pool.counts.Collisions,
	} {
		d.seen[key] = int(n)
	}
	for len(d.seqs) > 0 {
		if err := d.call(d.release); err != nil {
			return err
		}
	}
	for len(d.pins) > 0 {
		if err := d.call(d.unpin); err != nil {
			return err
		}
	}
	d.pool.Reset()
	if s := d.pool.Stats(); s.Free != d.pool.Usable() || s.Domains != 0 || s.Tables != 0 || s.Published != 0 {
		return fmt.Errorf("K13: after the last sequence the pool has %+v", s)
	}
	return errors.Join(d.pool.Check(), d.drain())
}
