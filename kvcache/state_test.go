package kvcache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/internal/invariants"
)

// stateWorld is an engine whose states are the texts that made them: a sequence that reads another one's is found at once.
type stateWorld struct {
	t      *testing.T
	p      *Pool
	states []string // by slot; "?" is spoiled
	run    []*stateSequence
	hits   int
	asked  int
}

type stateSequence struct {
	table Table
	ids   []int32
	end   int
}

func text(ids []int32) string { return fmt.Sprint(ids) }

func newStateWorld(t *testing.T, c Config) *stateWorld {
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &stateWorld{t: t, p: p, states: make([]string, c.States+1)}
}

func (w *stateWorld) check() {
	w.t.Helper()
	if err := w.p.Check(); err != nil {
		w.t.Fatal(err)
	}
}

// begin starts a sequence; false: there is no room.
func (w *stateWorld) begin(d Domain, ids []int32, end int) *stateSequence {
	q := &stateSequence{ids: ids, end: end}
	w.p.Begin(&q.table, d)
	hit := w.p.Match(d, ids, len(ids)-1)
	var copies []Copy
	if !w.p.Grow(&q.table, len(ids), hit, &copies) {
		w.p.Release(&q.table)
		return nil
	}
	if len(copies) > 0 {
		w.t.Fatal("a hit of a sequence with states is of whole blocks")
	}
	q.table.Expect(len(ids))
	w.hits, w.asked = w.hits+q.table.Tokens(), w.asked+len(ids)
	w.run = append(w.run, q)
	return q
}

// step computes some rows and makes accepted of them final.
func (w *stateWorld) step(q *stateSequence, rows, accepted int) {
	w.t.Helper()
	done := q.table.Tokens()
	var copies []Copy
	if !w.p.Grow(&q.table, done+rows, Hit{}, &copies) {
		return
	}
	q.table.Advance(done + rows)
	from, passes := q.table.Passes()
	for _, pass := range passes {
		if want := text(q.ids[:done]); done > 0 && w.states[from] != want {
			w.t.Fatalf("after %d rows a sequence reads %q from slot %d, its own text is %q", done, w.states[from], from, want)
		}
		if pass.To == from || pass.Rows <= done {
			w.t.Fatalf("a pass from slot %d to slot %d, from row %d to %d", from, pass.To, done, pass.Rows)
		}
		done, from = pass.Rows, pass.To
		w.states[from] = text(q.ids[:done])
	}
	before := q.table.Tokens()
	w.p.Commit(&q.table, q.ids, before+accepted)
	if got := q.table.Tokens(); got > before+accepted || accepted == rows && got != before+rows {
		w.t.Fatalf("of %d rows behind %d, of which %d are final, the table has %d", rows, before, accepted, got)
	}
	w.spoil()
}

// spoil overwrites what no table and no block names.
func (w *stateWorld) spoil() {
	for _, id := range w.p.states.free {
		w.states[id] = "?"
	}
}

func (w *stateWorld) end(i int) {
	w.p.Release(&w.run[i].table)
	w.run = slices.Delete(w.run, i, i+1)
	w.spoil()
}

// TestStatesAreThoseOfTheirTexts runs sequences that share beginnings, are cut off, and lose rows, in pools of many and of few slots.
func TestStatesAreThoseOfTheirTexts(t *testing.T) {
	steps := 60_000
	if testing.Short() {
		steps = 6_000
	}
	for seed, c := range []Config{
		{Blocks: 80, BlockTokens: 4, States: 40},
		{Blocks: 40, BlockTokens: 4, States: 9, StateInterval: 16},
		{Blocks: 300, BlockTokens: 2, States: 4, StateInterval: 8},
		{Blocks: 60, BlockTokens: 4, States: 30, TenantBlocks: 30, FloorPercent: 50},
		{Blocks: 90, BlockTokens: 4, States: 20, Windows: []int{0, 9}},
	} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 1))
			w := newStateWorld(t, c)
			domains := []Domain{w.p.Domain("a"), w.p.Domain("b"), w.p.Domain("c")}
			for i := range steps {
				w.random(r, domains)
				if i%16 == 0 {
					w.check()
				}
			}
			for len(w.run) > 0 {
				w.end(0)
			}
			w.p.Reset()
			w.check()
			if s := w.p.Stats(); s.StatesFree != c.States || s.Checkpoints != 0 {
				t.Errorf("after the end %d of %d slots are free, %d are checkpoints", s.StatesFree, c.States, s.Checkpoints)
			}
			if w.hits == 0 || w.hits > w.asked {
				t.Errorf("%d of %d tokens were hits", w.hits, w.asked)
			}
		})
	}
}

// random does one thing.
func (w *stateWorld) random(r *rand.Rand, domains []Domain) {
	switch n := r.IntN(20); {
	case n == 0 && len(w.run) > 0:
		w.end(r.IntN(len(w.run)))
	case n == 1:
		w.p.DropDomain(domains[r.IntN(3)])
		w.spoil()
	case n < 6 && len(w.run) < 12:
		ids := make([]int32, 1+r.IntN(40))
		for i := range ids {
			ids[i] = int32(i) + 1000*int32(r.IntN(3)) // three turns of a conversation differ somewhere
			if i < 20 {
				ids[i] = int32(i)
			}
		}
		w.begin(domains[r.IntN(3)], ids, len(ids)+r.IntN(30))
		w.spoil()
	case len(w.run) > 0:
		i := r.IntN(len(w.run))
		q := w.run[i]
		left := len(q.ids) - q.table.Tokens()
		if left == 0 {
			if len(q.ids) >= q.end {
				w.end(i)
				return
			}
			q.ids = append(q.ids, int32(r.IntN(2)))
			left = 1
		}
		rows := 1 + r.IntN(left)
		accepted := rows
		if r.IntN(4) == 0 {
			accepted = r.IntN(rows + 1)
		}
		if r.IntN(8) == 0 { // the plan changes before it is computed
			q.table.Advance(q.table.Tokens() + 1 + r.IntN(left))
		}
		w.step(q, rows, accepted)
	}
}

// TestForkIsACheckpointTheSecondTime: what two prompts have in common is found by the third, wherever their own texts begin.
func TestForkIsACheckpointTheSecondTime(t *testing.T) {
	w := newStateWorld(t, Config{Blocks: 200, BlockTokens: 4, States: 30})
	d := w.p.Domain("")
	for i, want := range []int{0, 0, 40, 40} {
		ids := make([]int32, 100)
		for k := range ids {
			ids[k] = int32(k)
			if k >= 43 {
				ids[k] = int32(1000*i + k)
			}
		}
		q := w.begin(d, ids, 100)
		if got := q.table.Tokens(); got != want {
			t.Errorf("prompt %d: %d tokens were cached, want %d", i, got, want)
		}
		w.step(q, 100-q.table.Tokens(), 100-q.table.Tokens())
		w.end(0)
		w.check()
	}
}

// TestNextTurnGoesOnFromTheLast: an answer's end is found by the next turn, to the block.
func TestNextTurnGoesOnFromTheLast(t *testing.T) {
	w := newStateWorld(t, Config{Blocks: 200, BlockTokens: 4, States: 6})
	d := w.p.Domain("")
	ids := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for turn := range 6 {
		q := w.begin(d, slices.Clone(ids), 1000)
		if got, want := q.table.Tokens(), (len(ids)-2)/4*4; turn > 0 && got != want {
			t.Errorf("turn %d: %d tokens of %d were cached, want %d", turn, got, len(ids), want)
		}
		w.step(q, len(ids)-q.table.Tokens(), len(ids)-q.table.Tokens())
		for range 17 {
			q.ids = append(q.ids, int32(100*turn+len(q.ids)))
			w.step(q, 1, 1)
			w.check()
		}
		ids = append(slices.Clone(q.ids), 7, 7) // the next question
		w.end(0)
	}
}

func TestUnusableStatesAreRefused(t *testing.T) {
	for _, c := range []Config{{Blocks: 9, States: 1}, {Blocks: 9, States: -1}, {Blocks: 9, States: 4, StateInterval: -1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	if invariants.Enabled {
		return // misuse panics
	}
	w := newStateWorld(t, Config{Blocks: 9, BlockTokens: 4, States: 4})
	q := w.begin(w.p.Domain(""), []int32{1, 2, 3}, 3)
	var other Table
	w.p.Fork(&other, &q.table)
	if w.p.Check() == nil {
		t.Error("a sequence with a state was forked")
	}
}
