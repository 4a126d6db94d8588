package kvcache

import "slices"

// Hit is the cached prefix that Match found: Full whole blocks, which a table
// can share, and PartialTokens leading rows of one more, which are copied. It
// holds nothing: once a block of it is evicted the hit is stale and no longer
// accepted. The zero value is a miss.
type Hit struct {
	Tokens        int     // rows that need not be computed
	Full          int     // whole blocks
	Partial       BlockID // block whose first rows fit too; 0 is none
	PartialTokens int

	// Fork is how many rows the prefix cache has beyond those, where sequences have states and there is no checkpoint behind them: other
	// sequences went on otherwise there, and the one that takes the hit leaves a checkpoint.
	Fork int

	state            StateID // the checkpoint behind the last whole block
	last             BlockID // last whole block; its parents are the others
	lastGen, partial uint32  // generations of last and Partial
	queried          int     // tokens that were asked for
}

// Match finds the longest cached prefix of tokens in domain d, at most limit
// tokens of it. A sequence needs one row to compute, so limit is usually
// len(tokens)-1. Cost: one hash and one look-up per block up to the first miss.
func (bs *blockStore) Match(d Domain, tokens []int32, limit int) Hit {
	return bs.MatchChain(d, nil, tokens, limit)
}

// MatchChain is Match for a caller that keeps the hashes of tokens, as
// Domain.Chain gives them. A chain may be short; the hashes that it lacks are
// computed here.
func (bs *blockStore) MatchChain(d Domain, chain []Hash, tokens []int32, limit int) Hit {
	limit = min(limit, len(tokens))
	hit := Hit{queried: len(tokens)}
	slot, ok := bs.slots[d]
	if !ok {
		return hit
	}
	shape, wide, stateful := bs.ShapeOf(d), bs.wide, bs.stateful
	n, some := shape.blockTokens, wide || stateful // a hit may end before the chain does
	var h Hash
	whole, last := 0, BlockID(0) // what every band can give
	if wide {
		clear(bs.runs)
	}
	for end := n; end <= limit; end += n {
		ids := tokens[end-n : end]
		if hit.Full < len(chain) {
			h = chain[hit.Full]
		} else {
			h = d.hashBlock(&bs.buf, hit.Full == 0, h, ids)
		}
		b := bs.index.find(h)
		if b == 0 || !bs.same(b, slot, hit.last, ids) {
			break
		}
		hit.last = b
		hit.Full++
		if some && (!wide || bs.countRuns(shape, b, hit.Full)) && (!stateful || bs.states.of[b] != 0) {
			whole, last = hit.Full, b
		}
	}
	if some {
		hit.Full, hit.last, hit.Fork = whole, last, hit.Full*n
	}
	hit.Tokens = hit.Full * n
	hit.lastGen = bs.blocks[hit.last].gen
	if stateful {
		hit.state = bs.states.of[hit.last]
		return hit
	}
	hit.Fork = 0
	bs.matchPartial(&hit, slot, tokens[hit.Tokens:max(limit, hit.Tokens)])
	return hit
}

// same reports whether block b holds ids after parent in the domain. An equal
// hash alone is no proof.
func (bs *blockStore) same(b BlockID, slot int32, parent BlockID, ids []int32) bool {
	m := &bs.blocks[b]
	return m.domain == slot && m.parent == parent && slices.Equal(bs.ids[int(b)*bs.blockTokens:][:len(ids)], ids)
}

// partialScan bounds the children that are compared with the tokens after the
// last whole block, newest first.
const partialScan = 8

// minPartial is the number of rows that are worth a copy.
func (y *Shape) minPartial() int { return max(4, y.blockTokens/4) }

// matchPartial adds the child of the hit's last block that shares most leading
// tokens with rest.
func (bs *blockStore) matchPartial(hit *Hit, slot int32, rest []int32) {
	least := bs.ShapeOf(bs.domains[slot].key).minPartial()
	if len(rest) < least {
		return
	}
	list := bs.childRing(slot, hit.last)
	best, from := least-1, BlockID(0)
	for n, b := 0, bs.children.front(list); n < partialScan && b != list; n, b = n+1, bs.children.front(b) {
		if k := commonPrefix(bs.rows(BlockID(b)), rest); k > best && (!bs.wide || bs.complete(BlockID(b))) {
			best, from = k, BlockID(b)
		}
	}
	if from == 0 {
		return
	}
	hit.Partial, hit.PartialTokens, hit.partial = from, best, bs.blocks[from].gen
	hit.Tokens += best
}

func commonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// current reports whether every block of a hit still holds what was matched.
// The last whole block of the chain is enough to look at: its parents stay published as long
// as it does. What hangs on them may have gone.
func (bs *blockStore) current(hit *Hit) bool {
	if bs.stateful && bs.states.of[hit.last] != hit.state {
		return false
	}
	if !bs.unchanged(hit.last, hit.lastGen) || !bs.unchanged(hit.Partial, hit.partial) {
		return false
	}
	return !bs.wide || bs.hangs(hit)
}

// hangs reports whether all that a hit needs of the other bands is there.
func (bs *blockStore) hangs(hit *Hit) bool {
	ok := hit.Partial == 0 || bs.complete(hit.Partial)
	bs.eachSeen(hit, func(_, _ int, b BlockID) { ok = ok && b != 0 })
	return ok
}

func (bs *blockStore) unchanged(b BlockID, gen uint32) bool {
	m := &bs.blocks[b]
	return b == 0 || m.published && m.gen == gen
}
