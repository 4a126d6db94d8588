package llm

import (
	"cmp"
	"fmt"
	"sort"

	"weir/engine/kernel/attend"
	"weir/internal/cpu"
	"weir/internal/unit"
)

// defaultKVShare is the part of free memory (after the weights) that the KV cache
// takes by default. The rest is for other programs and the page cache.
const defaultKVShare = 0.5

// maxLength bounds sequences, so that offsets into the cache stay small.
const maxLength = 1 << 27

// budget is the size of the cache and the sequences it allows.
type budget struct {
	shape       cacheShape
	maxModelLen int
	stepRows    int // the most that a step adds to a sequence
	states      int // slots for states
}

// size turns options into a cache of a type for a model of this shape and context, beside
// weights, and what else there is before it, of so many bytes. A sequence of MaxModelLen must fit: an explicit
// length that does not is refused, an implied one is lowered.
func (o *Options) size(s cacheShape, t attend.KVType, context int, weightBytes, stateBytes int64) (budget, error) {
	s = s.sized(t, o.blockTokens(), 1)
	if err := s.Check(); err != nil {
		return budget{}, err
	}
	length := cmp.Or(o.MaxModelLen, context)
	if length < 1 || length > maxLength {
		return budget{}, fmt.Errorf("max-model-len %d: must be from 1 to %d", length, maxLength)
	}
	states, err := o.stateSlots(stateBytes, weightBytes)
	if err != nil {
		return budget{}, err
	}
	weightBytes += int64(states) * stateBytes
	s = s.sized(t, o.blockTokens(), o.blocks(s, length, weightBytes, int64(states)*stateBytes))
	if fit := s.fit(length, o.stepRows()); fit < length {
		if o.MaxModelLen != 0 || fit < 1 {
			drafts := ""
			if o.beside != nil {
				drafts = " and beside as many tokens of the draft model's or MTP head's"
			}
			return budget{}, fmt.Errorf("a kv cache of %d tokens (%s), beside %s of weights%s, cannot hold one sequence of %d (%s); "+
				"lower --max-model-len or raise --kv-cache-memory-bytes",
				fit, unit.Bytes(s.Bytes()), unit.Bytes(weightBytes), drafts, length, unit.Bytes(s.sequenceBytes(length, o.stepRows())))
		}
		length = fit
	}
	if total := cpu.TotalMemoryBytes(); total > 0 && o.KVBytes > total-weightBytes+int64(states)*stateBytes { // which are a part of it
		return budget{}, fmt.Errorf("a kv cache of %s and %s of weights are more than the %s of memory that this machine or its container has; "+
			"lower --kv-cache-memory-bytes",
			unit.Bytes(o.KVBytes), unit.Bytes(weightBytes), unit.Bytes(total))
	}
	return budget{shape: s, maxModelLen: length, stepRows: o.stepRows(), states: states}, nil
}

// stateInterval is after how many rows of a long prompt its state is kept for others.
const stateInterval = 1024

// stateSlots is for how many states there is memory: two for each sequence of a full batch, and as many again and some more for checkpoints,
// within a part of the memory for the cache.
func (o *Options) stateSlots(stateBytes, weightBytes int64) (int, error) {
	if stateBytes == 0 {
		return 0, nil
	}
	const each, more, part, least = 4, 32, 2, 4
	wanted := int64(each*max(o.Scheduler.MaxSeqs, 1) + more)
	memory := int64(float64(max(cpu.AvailableMemoryBytes()-weightBytes, 0)) * defaultKVShare)
	switch {
	case o.KVBlocks > 0:
		memory = wanted * stateBytes * part
	case o.KVBytes > 0:
		memory = o.KVBytes
	}
	slots := min(wanted, memory/part/stateBytes, 1<<20)
	if slots < least {
		return 0, fmt.Errorf("a kv cache of %s, of which states of recurrent layers take half, has no room for %d of %s each; raise --kv-cache-memory-bytes",
			unit.Bytes(memory), least, unit.Bytes(stateBytes))
	}
	return int(slots), nil
}

// stepRows is the most rows that a step adds to a sequence: of a chunk of a prompt, and of drafts.
func (o *Options) stepRows() int {
	c, most := &o.Scheduler, o.mostRows()
	return max(min(cmp.Or(c.PrefillChunk, most), most), c.MaxDrafts+1)
}

// mostRows is the most rows of a step.
func (o *Options) mostRows() int {
	return cmp.Or(o.Scheduler.MaxBatchTokens, max(512, o.Scheduler.MaxSeqs))
}

// blockTokens is how many tokens a block has.
func (o *Options) blockTokens() int { return cmp.Or(o.BlockTokens, 16) }

// sizeWhole is the cache for one text of up to MaxModelLen, of which everything is kept.
func (o *Options) sizeWhole(s cacheShape, t attend.KVType) (budget, error) {
	s = s.whole(t, o.blockTokens(), o.MaxModelLen)
	return budget{shape: s, maxModelLen: o.MaxModelLen, stepRows: o.stepRows()}, s.Check()
}

// blocks sizes the pool, null block included. By default every sequence of a
// full batch can reach its full length, if half of the memory allows that the
// weights leave.
func (o *Options) blocks(s cacheShape, length int, weightBytes, stateBytes int64) int {
	switch {
	case o.KVBlocks > 0:
		return o.KVBlocks
	case o.KVBytes > 0:
		return o.fill(s, length, o.KVBytes-stateBytes)
	}
	full := int64(s.need(length, o.stepRows())) * int64(max(o.Scheduler.MaxSeqs, 1))
	free := int64(float64(max(cpu.AvailableMemoryBytes()-weightBytes, 0)) * defaultKVShare)
	return int(min(full+1, int64(o.fill(s, length, free))))
}

// fill is for how many blocks there is memory, null block included, beside what a draft model or MTP head keeps of as many tokens.
func (o *Options) fill(s cacheShape, length int, memory int64) int {
	t, each := s.Tables[0], int64(s.PageBytes())
	most := int(min(max(memory, 0)/each, 1<<27))
	if o.beside != nil {
		most = sort.Search(most, func(n int) bool { // there is no room for one block more
			tokens := s.sized(t.Type, t.BlockTokens, n+2).tokens(length, o.stepRows())
			return int64(n+1)*each+o.beside(t.Type, tokens) > memory
		})
	}
	return most + 1
}

// sizeTexts is the memory for keys and values of one layer of a pass, for a text
// encoder: exact, whatever KVType says, since they are read once.
func (o *Options) sizeTexts(s cacheShape, context int) (budget, error) {
	length := o.MaxModelLen
	if length == 0 {
		length = min(context, maxLength)
	}
	if length < 1 || length > context {
		return budget{}, fmt.Errorf("max-model-len %d: must be from 1 to the encoder's context of %d", length, context)
	}
	return budget{shape: s.whole(attend.KVF32, textBlock, max(2*mostRows, length)), maxModelLen: length}, nil
}

// textBlock is how many tokens of a text share a block: the least that a store has.
const textBlock = 16
