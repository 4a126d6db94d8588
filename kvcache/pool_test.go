package kvcache

import (
	"slices"
	"strings"
	"testing"
)

func newPool(t testing.TB, c Config) *Pool {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// start makes a sequence whose rows are all computed.
func start(t testing.TB, p *Pool, domain, text string) *Table {
	t.Helper()
	s := &Table{}
	d := p.Domain(domain)
	p.Begin(s, d)
	if !extend(p, s, text, p.Match(d, word(text), len(text)-1)) {
		t.Fatalf("no room for %q: %+v", text, p.Stats())
	}
	return s
}

// extend grows a table to the whole text and commits.
func extend(p *Pool, s *Table, text string, hit Hit) bool {
	var copies []Copy
	if !p.Grow(s, len(text), hit, &copies) {
		return false
	}
	p.Commit(s, word(text), len(text))
	return true
}

func mustCheck(t *testing.T, p *Pool) {
	t.Helper()
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestNewRefusesBadConfigs(t *testing.T) {
	for _, c := range []struct {
		config Config
		names  string
	}{
		{Config{Blocks: 1}, "blocks is 1"},
		{Config{Blocks: 1 << 29}, "blocks is 536870912"},
		{Config{Blocks: 9, BlockTokens: -1}, "block tokens is -1"},
		{Config{Blocks: 9, BlockTokens: 257}, "block tokens is 257"},
		{Config{Blocks: 9, TenantBlocks: -1}, "tenant blocks is -1"},
		{Config{Blocks: 9, HashBits: 129}, "hash bits is 129"},
	} {
		if _, err := New(c.config); err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%+v: error %v, want %q", c.config, err, c.names)
		}
	}
	p := newPool(t, Config{Blocks: 9})
	if p.BlockTokens() != 16 || p.Usable() != 8 || p.FreeNow() != 8 {
		t.Errorf("%d tokens per block, %d usable, %d free", p.BlockTokens(), p.Usable(), p.FreeNow())
	}
}

// K13 and T43: whatever ran, an idle pool has all its blocks.
func TestK13NothingLeaks(t *testing.T) {
	p := newPool(t, Config{Blocks: 65, BlockTokens: 4})
	live := make([]*Table, 0, 8)
	letters := strings.Repeat("abcdefghijklmnop", 8)
	for i := range 20000 {
		if len(live) == cap(live) {
			p.Release(live[i%8])
			live = slices.Delete(live, i%8, i%8+1)
		}
		from := i * 7 % 16
		live = append(live, start(t, p, "t", letters[from:from+1+i*5%28]))
	}
	for _, s := range live {
		p.Release(s)
	}
	mustCheck(t, p)
	cached := p.Stats().Cached
	if n := p.Reset(); n != cached || p.FreeNow() != p.Usable() || p.Stats().Free != p.Usable() {
		t.Errorf("reset freed %d of %d: %+v", n, cached, p.Stats())
	}
	mustCheck(t, p)
}

// K15 and T22: what was grown but not verified is never hashed, also when the
// sequence ends before its Commit.
func TestK15DraftsAreNeverPublished(t *testing.T) {
	p := newPool(t, Config{Blocks: 9, BlockTokens: 4})
	d, s, ids := p.Domain("t"), &Table{}, word("abcdefghijkl")
	var copies []Copy
	p.Begin(s, d)
	p.Grow(s, 12, Hit{}, &copies)
	if hit := p.Match(d, ids, 12); hit.Tokens != 0 {
		t.Errorf("hit %+v before any commit", hit)
	}
	p.Commit(s, ids, 7)
	if hit := p.Match(d, ids, 12); hit.Tokens != 4 {
		t.Errorf("hit %+v after 7 verified rows, want one block", hit)
	}
	p.Release(s)
	if st := p.Stats(); st.Cached != 1 || st.Free != 7 {
		t.Errorf("after the release: %+v", st)
	}
	mustCheck(t, p)
}

// T17: between Grow and the next Commit, the rows to be written lie in blocks
// that no other tenant can name.
func TestT17RowsToBeWrittenAreTheTablesOwn(t *testing.T) {
	p := newPool(t, Config{Blocks: 17, BlockTokens: 4})
	s := start(t, p, "t", "abcdef")
	fork := &Table{}
	p.Fork(fork, s)
	p.Truncate(s, 3)
	var copies []Copy
	if !p.Grow(s, 9, Hit{}, &copies) {
		t.Fatal("no room")
	}
	for row := 3; row < 9; row++ {
		b := s.Blocks(0)[row/4]
		if slices.Contains(fork.Blocks(0), b) || p.blocks[b].published || p.blocks[b].ref != 1 {
			t.Errorf("row %d goes to block %d: %+v", row, b, p.blocks[b])
		}
	}
	if want := (Copy{Src: 1, Dst: s.Blocks(0)[0], Rows: 3}); !slices.Equal(copies, []Copy{want}) {
		t.Errorf("copies %v, want %v", copies, want)
	}
	mustCheck(t, p)
}

// T20: a block that left its table by window, pin and release reaches the
// free stack once.
func TestT20ABlockIsFreedOnce(t *testing.T) {
	p := newPool(t, Config{Blocks: 9, BlockTokens: 4})
	s := start(t, p, "t", "abcdefghi")
	first := s.Blocks(0)[0]
	p.Pin(first)
	p.Pin(first)
	p.Slide(s, 8)
	p.Slide(s, 8)
	p.Unpin(first)
	p.Release(s)
	p.Release(s)
	p.Unpin(first)
	p.Reset()
	if st := p.Stats(); st.Free != 8 {
		t.Errorf("%+v, want 8 free", st)
	}
	mustCheck(t, p)
}

// T21: a released table is empty, and can start another sequence.
func TestT21ReleaseIsIdempotentAndTheTableReusable(t *testing.T) {
	p := newPool(t, Config{Blocks: 9, BlockTokens: 4})
	s := start(t, p, "t", "abcdefghi")
	p.Release(s)
	p.Release(s)
	if len(s.Blocks(0)) != 0 || s.Tokens() != 0 || p.Stats().Tables != 0 {
		t.Errorf("blocks %v, %d rows, %+v", s.Blocks(0), s.Tokens(), p.Stats())
	}
	p.Begin(s, p.Domain("t"))
	if !extend(p, s, "ABCDE", Hit{}) || s.Class() != Normal {
		t.Error("the table cannot be begun again")
	}
	mustCheck(t, p)
}

// T11 and K12: rows inside the last block need nothing, also in a full pool.
func TestT11TheLastBlocksRoomCountsAsRoom(t *testing.T) {
	p := newPool(t, Config{Blocks: 3, BlockTokens: 16})
	s := start(t, p, "t", "abcdefghijklmnopq")
	var copies []Copy
	for rows := 1; rows <= 40; rows++ {
		need, ok := p.CanGrow(s, rows, Hit{})
		if fits := rows <= 32; ok != fits || fits && need != 0 {
			t.Errorf("%d rows: needs %d, %v", rows, need, ok)
		}
		if p.Grow(s, rows, Hit{}, &copies) != ok {
			t.Errorf("%d rows: Grow and CanGrow disagree", rows)
		}
	}
	mustCheck(t, p)
}

// The hit's own blocks are no room for the rest of the sequence.
func TestK12HeldHitBlocksAreNotRoom(t *testing.T) {
	p := newPool(t, Config{Blocks: 5, BlockTokens: 4})
	p.Release(start(t, p, "t", "abcdefgh"))
	d, s, ids := p.Domain("t"), &Table{}, word("abcdefghijklmnopq")
	p.Begin(s, d)
	hit := p.Match(d, ids, 16)
	var copies []Copy
	if need, ok := p.CanGrow(s, 17, hit); ok || need != 3 || p.Grow(s, 17, hit, &copies) {
		t.Errorf("5 blocks fit into 4: needs %d beside the hit", need)
	}
	if need, ok := p.CanGrow(s, 16, hit); !ok || need != 2 || !p.Grow(s, 16, hit, &copies) {
		t.Errorf("4 blocks do not fit into 4: needs %d beside the hit", need)
	}
	if s.Tokens() != 8 {
		t.Errorf("%d rows are final after a hit of 8", s.Tokens())
	}
	mustCheck(t, p)
}

// A hit that outlived its blocks is refused until it is matched again.
func TestStaleHitsAreRefused(t *testing.T) {
	p := newPool(t, Config{Blocks: 5, BlockTokens: 4})
	p.Release(start(t, p, "t", "abcdefgh"))
	d, s, ids := p.Domain("t"), &Table{}, word("abcdefghi")
	hit := p.Match(d, ids, 8)
	p.Release(start(t, p, "t", "0123456789012345"))
	p.Begin(s, d)
	var copies []Copy
	if need, ok := p.CanGrow(s, 9, hit); ok || need != 0 || p.Grow(s, 9, hit, &copies) {
		t.Errorf("a stale hit was accepted, needs %d", need)
	}
	if again := p.Match(d, ids, 8); again.Tokens != 0 || !p.Grow(s, 9, again, &copies) {
		t.Errorf("hit %+v after eviction", again)
	}
	mustCheck(t, p)
}

// Rows that are final already need no room, also where the tail is shared.
func TestGrowToFinalRowsTakesNothing(t *testing.T) {
	p := newPool(t, Config{Blocks: 3, BlockTokens: 4})
	s, fork := start(t, p, "t", "abcdef"), &Table{}
	p.Fork(fork, s)
	var copies []Copy
	if need, ok := p.CanGrow(s, 6, Hit{}); need != 0 || !ok || !p.Grow(s, 6, Hit{}, &copies) || len(copies) > 0 {
		t.Errorf("growing to 6 final rows needs %d blocks, %v, copies %v", need, ok, copies)
	}
	if need, ok := p.CanGrow(s, 7, Hit{}); need != 1 || ok || p.Grow(s, 7, Hit{}, &copies) {
		t.Errorf("a row in a shared tail needs %d blocks of none, %v", need, ok)
	}
	p.Release(fork)
	if need, ok := p.CanGrow(s, 7, Hit{}); need != 0 || !ok {
		t.Errorf("a row in a tail of one's own needs %d blocks, %v", need, ok)
	}
	mustCheck(t, p)
}

// T19: somebody reads a pinned block, so it is not written either, even if it
// has left the cache and one table holds it alone.
func TestT19PinnedBlocksAreNotWritten(t *testing.T) {
	p := newPool(t, Config{Blocks: 9, BlockTokens: 4})
	s := start(t, p, "t", "abcdefgh")
	head, pinned := s.Blocks(0)[0], s.Blocks(0)[1]
	p.Pin(pinned)
	p.Slide(s, 4)
	p.unpublish(head)
	if m := p.blocks[pinned]; m.published || m.ref != 1 {
		t.Fatalf("block %d is %+v", pinned, m)
	}
	p.Truncate(s, 6)
	var copies []Copy
	if !p.Grow(s, 7, Hit{}, &copies) || s.Blocks(0)[1] == pinned || len(copies) != 1 {
		t.Errorf("row 6 goes to blocks %v with copies %v", s.Blocks(0), copies)
	}
	p.Release(s)
	if st := p.Stats(); st.Pinned != 1 || st.Free != 7 {
		t.Errorf("%+v, want the pinned block to be kept", st)
	}
	p.Unpin(pinned)
	mustCheck(t, p)
}

// K5 with classes: a tail that was replaced after the class fell may stand
// before blocks that were grown in a higher one.
func TestPublishingRaisesTheParentsClass(t *testing.T) {
	p := newPool(t, Config{Blocks: 9, BlockTokens: 4})
	s, fork := start(t, p, "t", "ab"), &Table{}
	p.SetClass(s, Retained)
	var copies []Copy
	p.Grow(s, 8, Hit{}, &copies)
	p.Fork(fork, s)
	p.SetClass(s, Ephemeral)
	p.Grow(s, 8, Hit{}, &copies)
	p.Commit(s, word("abcdefgh"), 8)
	mustCheck(t, p)
	for _, b := range s.Blocks(0) {
		if c := p.blocks[b].class; c != Retained {
			t.Errorf("block %d is %v", b, c)
		}
	}
}

// A copy pays from 4 rows and from a quarter of the block on.
func TestPartialHitsHaveALeastLength(t *testing.T) {
	for blockTokens, least := range map[int]int{8: 4, 16: 4, 64: 16, 256: 64} {
		p := newPool(t, Config{Blocks: 9, BlockTokens: blockTokens})
		d, text := p.Domain("t"), strings.Repeat("a", blockTokens)
		p.Release(start(t, p, "t", text))
		for rows, want := range map[int]int{least - 1: 0, least: least, blockTokens - 1: blockTokens - 1} {
			if hit := p.Match(d, word(text), rows); hit.Tokens != want || hit.PartialTokens != want {
				t.Errorf("blocks of %d, %d rows: hit %+v, want %d", blockTokens, rows, hit, want)
			}
		}
	}
}

// The newest eight of a block's many children are looked at for a partial
// hit, and the best of these is taken.
func TestPartialHitsScanEightChildren(t *testing.T) {
	p := newPool(t, Config{Blocks: 65, BlockTokens: 8})
	for _, tail := range []string{"abcdefg0", "abcd1111", "abcde111", "abcd2222", "abcd3333", "abcd4444", "abcd5555", "abcd6666",
		"abcd7777"} {
		p.Release(start(t, p, "t", "system: "+tail))
	}
	hit := p.Match(p.Domain("t"), word("system: abcdefgX"), 16)
	if hit.Full != 1 || hit.PartialTokens != 5 || spell(p.rows(hit.Partial)) != "abcde111" {
		t.Errorf("hit %+v on %q", hit, spell(p.rows(hit.Partial)))
	}
}

// T32: what an eviction touches does not depend on how much is cached.
func TestT32EvictionTouchesFewBlocks(t *testing.T) {
	for _, blocks := range []int{64, 4096} {
		p := newPool(t, Config{Blocks: blocks + 1, BlockTokens: 1})
		d := p.Domain("t")
		for i := range blocks {
			s := &Table{}
			p.Begin(s, d)
			var copies []Copy
			p.Grow(s, 1, Hit{}, &copies)
			p.Commit(s, []int32{int32(i)}, 1)
			p.Release(s)
		}
		before := [][]link{slices.Clone(p.lru), slices.Clone(p.own), slices.Clone(p.children)}
		p.evict(noDomain)
		changed := 0
		for i, now := range []rings{p.lru, p.own, p.children} {
			for n := range now {
				if now[n] != before[i][n] {
					changed++
				}
			}
		}
		if changed == 0 || changed > 12 {
			t.Errorf("%d blocks cached: eviction changed %d links", blocks, changed)
		}
	}
}

// K16: whatever makes blocks of a domain idle, they do not exceed its bound.
func TestK16BoundHoldsAfterUnpin(t *testing.T) {
	p := newPool(t, Config{Blocks: 17, BlockTokens: 4, TenantBlocks: 2})
	s := start(t, p, "t", "abcdefghijkl")
	for _, b := range s.Blocks(0) {
		p.Pin(b)
	}
	p.Release(s)
	if n := p.Resident(p.Domain("t")); n != 3 {
		t.Errorf("%d blocks are resident while pinned, want 3", n)
	}
	for b := BlockID(3); b > 0; b-- {
		p.Unpin(b)
		mustCheck(t, p)
	}
	if n := p.Resident(p.Domain("t")); n != 2 {
		t.Errorf("%d blocks are resident, want 2", n)
	}
}

// K17: a log that is not drained stays bounded and ends in a listing.
func TestK17AnOverflowingLogBecomesAListing(t *testing.T) {
	p := newPool(t, Config{Blocks: 9, BlockTokens: 1, Events: true})
	for i := range 2000 {
		p.Release(start(t, p, "t", string(rune('a'+i%20))))
	}
	if n := len(p.log.events); n != 1024 {
		t.Errorf("the log holds %d events", n)
	}
	var kinds []EventKind
	p.DrainEvents(func(e Event) { kinds = append(kinds, e.Kind) })
	if want := append([]EventKind{Cleared}, make([]EventKind, p.Stats().Published)...); !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
	p.DrainEvents(func(e Event) { t.Errorf("event %+v after a drain", e) })
}

// Without Config.Events nothing is kept.
func TestEventsAreOptional(t *testing.T) {
	p := newPool(t, Config{Blocks: 9, BlockTokens: 4})
	p.Release(start(t, p, "t", "abcdefgh"))
	p.DrainEvents(func(e Event) { t.Errorf("event %+v", e) })
}

// T28: what a tenant has cached cannot be seen, dropped or counted by another.
func TestT28DomainsDoNotMeet(t *testing.T) {
	p := newPool(t, Config{Blocks: 17, BlockTokens: 4})
	a, b := p.Domain("a"), p.Domain("b")
	p.Release(start(t, p, "a", "abcdefgh"))
	p.Release(start(t, p, "b", "abcd"))
	if hit := p.Match(b, word("abcdefgh"), 8); hit.Tokens != 4 {
		t.Errorf("b finds %+v", hit)
	}
	if p.Resident(a) != 2 || p.Resident(b) != 1 || p.Stats().Domains != 2 {
		t.Errorf("a has %d, b %d blocks", p.Resident(a), p.Resident(b))
	}
	if n := p.DropDomain(b); n != 1 || p.Resident(a) != 2 || p.Resident(b) != 0 || p.Stats().Domains != 1 {
		t.Errorf("dropping b freed %d, a has %d", n, p.Resident(a))
	}
	if n := p.DropDomain(p.Domain("c")); n != 0 {
		t.Errorf("dropping an unknown domain freed %d", n)
	}
	mustCheck(t, p)
}

// Nothing in a sequence's life allocates once its table and the list of copies
// have their size.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	p := newPool(t, Config{Blocks: 65, BlockTokens: 4, TenantBlocks: 48, Events: true})
	d, ids := p.Domain("t"), word(strings.Repeat("abcdefgh", 16))
	var s, fork Table
	copies := make([]Copy, 0, 8)
	var n int32
	life := func() {
		n++
		ids[20] = n % 5
		p.Begin(&s, d)
		hit := p.Match(d, ids, 40)
		p.CanGrow(&s, 40, hit)
		p.Grow(&s, 40, hit, &copies)
		p.Commit(&s, ids, 40)
		p.Fork(&fork, &s)
		for row := 41; row < 100; row++ {
			ids[row] = n
			p.Grow(&s, row, Hit{}, &copies)
			p.Commit(&s, ids, row)
		}
		p.Truncate(&s, 90)
		p.SetClass(&s, Retained)
		p.Release(&s)
		p.Release(&fork)
		p.DrainEvents(func(Event) {})
		copies = copies[:0]
	}
	life()
	if allocs := testing.AllocsPerRun(100, life); allocs != 0 {
		t.Errorf("%v allocations per sequence", allocs)
	}
	mustCheck(t, p)
}

func TestClassNames(t *testing.T) {
	var names []string
	for c := range Class(numClasses + 1) {
		names = append(names, c.String())
	}
	if want := []string{"ephemeral", "normal", "retained", "pinned", "class 4"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
