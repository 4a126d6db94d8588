package kvcache

import (
	"errors"
	"strings"
	"testing"

	"weir/internal/invariants"
)

// populated is a pool in which every structure has something in it: two live
// tables that share a prefix, a cached chain, a pinned block, free blocks.
func populated(t *testing.T) (*Pool, *Table, *Table) {
	t.Helper()
	return populate(t, Config{Blocks: 17, BlockTokens: 4, TenantBlocks: 12})
}

func populate(t *testing.T, c Config) (*Pool, *Table, *Table) {
	t.Helper()
	p := newPool(t, c)
	gone := start(t, p, "t", "qrstuvwxyz12")
	p.Pin(gone.Blocks(0)[2])
	p.Release(gone)
	return p, start(t, p, "t", "abcdefghij"), start(t, p, "t", "abcdefghXY")
}

// A checker that has never found anything is not known to work: each way of
// breaking a pool must be named.
func TestCheckNamesTheBrokenInvariant(t *testing.T) {
	cases := []struct {
		invariant, what string
		corrupt         func(p *Pool, s, u *Table)
	}{
		{"K1", "the free counter is off", func(p *Pool, _, _ *Table) { p.free++ }},
		{"K1", "the cached counter is off", func(p *Pool, _, _ *Table) { p.cached-- }},
		{"K1", "a domain counts a block too many", func(p *Pool, s, _ *Table) { p.domains[s.domain].resident++ }},
		{"K1", "a domain's key leads nowhere", func(p *Pool, _, _ *Table) { clear(p.slots) }},
		{"K1", "a pinned block has no domain", func(p *Pool, _, _ *Table) { p.blocks[3].domain = noDomain }},
		{"K2", "a reference was forgotten", func(p *Pool, s, _ *Table) { p.blocks[s.blocks[0]].ref-- }},
		{"K2", "a reference was counted twice", func(p *Pool, s, _ *Table) { p.blocks[s.blocks[0]].ref++ }},
		{"K3", "a free block is on no list", func(p *Pool, _, _ *Table) { p.lru.remove(p.lru.front(int32(len(p.blocks)))) }},
		{"K3", "a held block is on the free stack",
			func(p *Pool, s, _ *Table) { p.lru.pushFront(int32(len(p.blocks)), int32(s.blocks[0])) }},
		{"K3", "a cached block is on the list of another class", func(p *Pool, _, _ *Table) {
			b := p.lru.front(p.rankRing(numAside + int32(Normal)))
			p.lru.remove(b)
			p.lru.pushBack(p.rankRing(numAside+int32(Pinned)), b)
		}},
		{"K3", "the free stack runs in a circle (T20)", func(p *Pool, _, _ *Table) {
			b := p.lru.front(int32(len(p.blocks)))
			p.lru[p.lru[b].next].next = b
		}},
		{"K4", "the index lost a block", func(p *Pool, s, _ *Table) { p.index.remove(s.blocks[0]) }},
		{"K4", "the index has a block that is not published", func(p *Pool, s, _ *Table) {
			p.blocks[s.blocks[2]].hash[0]++
			p.index.insert(s.blocks[2])
		}},
		{"K5", "a block is published as a child of another", func(p *Pool, s, _ *Table) { p.blocks[s.blocks[1]].parent = 0 }},
		{"K5", "a parent left the cache before its child", func(p *Pool, s, _ *Table) {
			b := s.blocks[0]
			p.index.remove(b)
			p.children.remove(int32(b))
			p.blocks[b].published = false
		}},
		{"K5", "a child is in a higher class than its parent", func(p *Pool, s, _ *Table) { p.blocks[s.blocks[1]].class = Pinned }},
		{"K6", "a table has fewer blocks than rows", func(p *Pool, s, _ *Table) { s.grown = 99 }},
		{"K7", "a table names a block that was handed out again", func(p *Pool, s, _ *Table) { p.blocks[s.blocks[1]].gen++ }},
		{"K7", "a table names a block of another domain", func(p *Pool, s, _ *Table) { p.blocks[s.blocks[1]].domain++ }},
		{"K10", "a table is listed twice", func(p *Pool, s, _ *Table) { p.tables = append(p.tables, s) }},
		{"K11", "the null block is published", func(p *Pool, _, _ *Table) { p.blocks[0].published = true }},
		{"K11", "a table names the null block inside its window", func(p *Pool, s, _ *Table) { s.blocks[1] = 0 }},
		{"K11", "a table names a block that does not exist", func(p *Pool, s, _ *Table) { s.blocks[1] = 17 }},
		{"K15", "rows that are not final are published", func(p *Pool, s, _ *Table) { s.tokens = 4 }},
		{"K20", "a block hangs on none of the chain", func(p *Pool, s, _ *Table) { *p.side(s.blocks[1], 1) = 0 }},
		{"K20", "a block hangs on another one", func(p *Pool, s, _ *Table) { p.blocks[s.sides[0].blocks[1]].parent = s.blocks[0] }},
		{"K20", "what hangs on a block is in a higher class", func(p *Pool, s, _ *Table) { p.blocks[s.sides[0].blocks[1]].class = Pinned }},
		{"K21", "a window has passed a block that was kept", func(p *Pool, _, _ *Table) { p.bands[1].window = 1 }},
		{"K22", "a page is missing from its block", func(p *Pool, s, _ *Table) { p.mates[s.sides[0].blocks[1]] = 0 }},
		{"K22", "a table lists another page", func(p *Pool, s, _ *Table) { s.sides[0].mates[0][1]++ }},
		{"K22", "a page of a block has a reference", func(p *Pool, s, _ *Table) { p.blocks[s.sides[0].mates[0][1]].ref++ }},
		{"K16", "a domain beyond its bound has cached blocks", func(p *Pool, _, _ *Table) { p.config.TenantBlocks = 2 }},
	}
	for _, c := range cases {
		t.Run(c.invariant+" "+c.what, func(t *testing.T) {
			p, s, u := populated(t)
			if len(c.invariant) == 3 && c.invariant >= "K20" {
				p, s, u = populate(t, Config{Blocks: 49, BlockTokens: 4, Windows: []int{9, 0, 9}})
			}
			if err := p.Check(); err != nil {
				t.Fatalf("before: %v", err)
			}
			c.corrupt(p, s, u)
			if err := p.Check(); err == nil || !strings.Contains(err.Error(), c.invariant+":") {
				t.Errorf("Check says %v, want %s", err, c.invariant)
			}
		})
	}
}

// Misuse panics under the build tag invariants. In other builds it changes
// nothing, and Check reports it.
func TestMisuseChangesNothingAndIsReported(t *testing.T) {
	other := newPool(t, Config{Blocks: 4})
	cases := []struct {
		name string
		call func(p *Pool, s *Table)
	}{
		{"begin twice", func(p *Pool, s *Table) { p.Begin(s, p.Domain("t")) }},
		{"begin a table of another pool", func(p *Pool, s *Table) { other.Begin(s, p.Domain("t")) }},
		{"release a copy", func(p *Pool, s *Table) { c := *s; p.Release(&c) }},
		{"commit more than was grown", func(p *Pool, s *Table) { p.Commit(s, make([]int32, 40), 40) }},
		{"commit more than there are ids", func(p *Pool, s *Table) { s.grown = 12; p.Commit(s, make([]int32, 10), 11); s.grown = 10 }},
		{"commit less than is final", func(p *Pool, s *Table) { p.Commit(s, make([]int32, 10), 9) }},
		{"commit a released table", func(p *Pool, _ *Table) { p.Commit(&Table{}, nil, 0) }},
		{"truncate to less than nothing", func(p *Pool, s *Table) { p.Truncate(s, -1) }},
		{"truncate a released table", func(p *Pool, _ *Table) { p.Truncate(&Table{}, 0) }},
		{"slide a released table", func(p *Pool, _ *Table) { p.Slide(&Table{}, 1) }},
		{"fork onto a live table", func(p *Pool, s *Table) { p.Fork(s, s) }},
		{"fork a released table", func(p *Pool, _ *Table) { p.Fork(&Table{}, &Table{}) }},
		{"class out of range", func(p *Pool, s *Table) { p.SetClass(s, numClasses) }},
		{"unpin what is not pinned", func(p *Pool, s *Table) { p.Unpin(s.blocks[0]) }},
		{"unpin what does not exist", func(p *Pool, _ *Table) { p.Unpin(99) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, s, _ := populated(t)
			pool := p
			before := pool.Stats()
			stopped := panics(func() { c.call(p, s) })
			if stopped != invariants.Enabled {
				t.Fatalf("panic %v, with invariants %v", stopped, invariants.Enabled)
			}
			if after := pool.Stats(); after != before {
				t.Errorf("%+v became %+v", before, after)
			}
			err := errors.Join(pool.Check(), other.Check())
			other.fault = nil
			if !invariants.Enabled && !errors.Is(err, errMisuse) {
				t.Errorf("Check says %v", err)
			}
		})
	}
}

func panics(f func()) (stopped bool) {
	defer func() { stopped = recover() != nil }()
	f()
	return false
}

// A table of another pool is refused without being remembered: asking is no
// misuse.
func TestGrowRefusesForeignTables(t *testing.T) {
	p, s, _ := populated(t)
	other := newPool(t, Config{Blocks: 4})
	var copies []Copy
	for name, table := range map[string]*Table{"of another pool": s, "not begun": {}} {
		if _, ok := other.CanGrow(table, 1, Hit{}); ok || other.Grow(table, 1, Hit{}, &copies) {
			t.Errorf("a table %s can grow", name)
		}
	}
	if err := errors.Join(p.Check(), other.Check()); err != nil {
		t.Error(err)
	}
}
