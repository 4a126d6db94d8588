package tokenizer

import "math/bits"

// noSymbol stands for a piece of text that takes part in no merge.
const noSymbol int32 = -1

// noRank marks a pair that does not merge.
const noRank = ^uint32(0)

// pairTable maps an ordered pair of symbols to the symbol they merge into and
// the rank of that merge; lower ranks merge first. It is an open-addressed
// hash table, at most two thirds full, and read-only once built. Large
// vocabularies make it larger than the caches, so two things keep most lookups
// out of it: a dense table for the pairs of bytes, with which every piece
// starts, and a filter that knows most pairs that do not merge.
type pairTable struct {
	slots  []pairSlot
	shift  uint
	count  int
	dense  []mergeStep // by left*denseSymbols+right, for the first symbols; nil without such pairs
	filter []uint64    // bit set by hash; all zero bits are pairs that do not merge
}

type mergeStep struct {
	rank   uint32
	merged int32
}

type pairSlot struct {
	key uint64 // left<<32 | right, plus one; 0 is an empty slot
	mergeStep
}

// denseSymbols: byte-level vocabularies give the bytes the first ids.
const denseSymbols = 256

// filterBits per slot; at 8 about one in twenty absent pairs passes.
const filterBits = 8

func newPairTable(pairs int) *pairTable {
	t := new(pairTable)
	t.resize(max(bits.Len(uint(pairs+pairs/2)), 4))
	return t
}

func (t *pairTable) resize(width int) {
	t.slots, t.shift, t.count = make([]pairSlot, 1<<width), uint(64-width), 0
	t.filter = make([]uint64, len(t.slots)*filterBits/64)
}

func pairHash(left, right int32) (key, hash uint64) {
	key = (uint64(uint32(left))<<32 | uint64(uint32(right))) + 1
	hash = key * 0x9E3779B97F4A7C15
	return key, hash ^ hash>>32
}

// add keeps the first entry of a pair, as the first of two equal merges wins.
func (t *pairTable) add(left, right int32, rank uint32, merged int32) {
	if left < denseSymbols && right < denseSymbols {
		t.addDense(left, right, mergeStep{rank, merged})
		return
	}
	if t.count*3 >= len(t.slots)*2 {
		t.grow()
	}
	key, hash := pairHash(left, right)
	t.insert(hash, pairSlot{key, mergeStep{rank, merged}})
}

func (t *pairTable) addDense(left, right int32, step mergeStep) {
	if t.dense == nil {
		t.dense = make([]mergeStep, denseSymbols*denseSymbols)
		for i := range t.dense {
			t.dense[i] = mergeStep{noRank, noSymbol}
		}
	}
	if at := &t.dense[left*denseSymbols+right]; at.rank == noRank {
		*at = step
	}
}

func (t *pairTable) insert(hash uint64, s pairSlot) {
	i := int(hash >> t.shift)
	for t.slots[i].key != 0 {
		if t.slots[i].key == s.key {
			return
		}
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i] = s
	t.count++
	bit := t.filterBit(hash)
	t.filter[bit/64] |= 1 << (bit % 64)
}

// filterBit takes the low half of the hash; the slot takes the high bits.
func (t *pairTable) filterBit(hash uint64) int {
	return int(hash) & (len(t.filter)*64 - 1)
}

func (t *pairTable) grow() {
	old := t.slots
	t.resize(int(64-t.shift) + 1)
	for _, s := range old {
		if s.key != 0 {
			_, hash := pairHash(int32((s.key-1)>>32), int32(s.key-1))
			t.insert(hash, s)
		}
	}
}

// find returns noRank where the pair does not merge.
func (t *pairTable) find(left, right int32) (rank uint32, merged int32) {
	if left < 0 || right < 0 {
		return noRank, noSymbol
	}
	if left < denseSymbols && right < denseSymbols {
		if t.dense == nil {
			return noRank, noSymbol
		}
		step := t.dense[left*denseSymbols+right]
		return step.rank, step.merged
	}
	key, hash := pairHash(left, right)
	if bit := t.filterBit(hash); t.filter[bit/64]&(1<<(bit%64)) == 0 {
		return noRank, noSymbol
	}
	for i := int(hash >> t.shift); ; i = (i + 1) & (len(t.slots) - 1) {
		switch s := &t.slots[i]; s.key {
		case key:
			return s.rank, s.merged
		case 0:
			return noRank, noSymbol
		}
	}
}
