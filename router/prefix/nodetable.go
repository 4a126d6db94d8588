package prefix

import "math/bits"

// nodeID names a node: its place in its shard, and the shard in the low bits. 0 is no node.
type nodeID uint32

func newNodeID(place, shard uint32) nodeID { return nodeID(place<<shardBits | shard) }
func (n nodeID) place() uint32             { return uint32(n >> shardBits) }
func (n nodeID) shard() uint32             { return uint32(n) & (shards - 1) }

// hash mixes a node's number, as nodes are numbered in the order of their creation. It loses nothing: the factor is odd.
func (n nodeID) hash() uint32 { return uint32(n) * 0x9e3779b1 }

// nodeTable finds entries by their nodes: open addressing with linear probing. The zero value is empty.
type nodeTable struct {
	slots []nodeSlot
	shift uint8 // from a hash to its slot
	used  int
}

// nodeSlot is a node's mixed number and its entry; 0 is free.
type nodeSlot uint64

func newNodeSlot(hash, entry uint32) nodeSlot { return nodeSlot(hash)<<32 | nodeSlot(entry) }
func (s nodeSlot) hash() uint32               { return uint32(s >> 32) }
func (s nodeSlot) entry() uint32              { return uint32(s) }

// home is the first slot of a hash: by its upper bits, which depend on all of the number's.
func (t *nodeTable) home(hash uint32) uint32 { return hash >> t.shift }

// at is the number of a node's slot, or of the free one where its search ends. The table must have slots.
func (t *nodeTable) at(hash uint32) uint32 {
	mask := uint32(len(t.slots) - 1)
	i := t.home(hash)
	for t.slots[i] != 0 && t.slots[i].hash() != hash {
		i = (i + 1) & mask
	}
	return i
}

// find is the entry of a node; 0 when there is none.
func (t *nodeTable) find(n nodeID) uint32 {
	if t.used == 0 {
		return 0
	}
	return t.slots[t.at(n.hash())].entry()
}

// put adds the entry of a node that has none.
func (t *nodeTable) put(n nodeID, entry uint32) {
	if t.used++; 4*t.used > 3*len(t.slots) {
		t.resize(max(2*len(t.slots), firstSize))
	}
	t.slots[t.at(n.hash())] = newNodeSlot(n.hash(), entry)
}

// resize makes the table again with so many slots.
func (t *nodeTable) resize(slots int) {
	old := t.slots
	t.slots, t.shift = make([]nodeSlot, slots), uint8(32-bits.Len(uint(slots-1)))
	for _, v := range old {
		if v != 0 {
			t.slots[t.at(v.hash())] = v
		}
	}
}

// remove takes out a node that is there.
func (t *nodeTable) remove(n nodeID) {
	t.used--
	mask := uint32(len(t.slots) - 1)
	i := t.at(n.hash())
	for j := i; ; {
		j = (j + 1) & mask
		v := t.slots[j]
		if v == 0 {
			break
		}
		if (j-t.home(v.hash()))&mask >= (j-i)&mask {
			t.slots[i], i = v, j
		}
	}
	t.slots[i] = 0
}
