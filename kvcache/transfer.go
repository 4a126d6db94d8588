package kvcache

import "fmt"

// Blocks can be computed by another replica and entered here: by Insert, under the hashes that they would have had. For that
// their bits must be those that this replica would compute, which Identity decides.

// Identity is all that the bits of blocks depend on, beside the tokens. Two replicas of one identity store the same bits for
// the same tokens.
type Identity struct {
	ModelDigest string `json:"model_digest"`
	KVType      string `json:"kv_cache_dtype"` // and its layout
	Compute     string `json:"compute"`        // the kernels' instruction level, their mode, and the build that they are of
	BlockTokens int    `json:"block_size"`
	BlockBytes  int    `json:"block_bytes"`
}

// Differs names the first thing in which two identities differ; "" is none.
func (i Identity) Differs(other Identity) string {
	for _, f := range []struct {
		name      string
		here, far any
	}{
		{"model_digest", i.ModelDigest, other.ModelDigest}, {"kv_cache_dtype", i.KVType, other.KVType}, {"compute", i.Compute, other.Compute},
		{"block_size", i.BlockTokens, other.BlockTokens}, {"block_bytes", i.BlockBytes, other.BlockBytes},
	} {
		if f.here != f.far {
			return fmt.Sprintf("%s is %.80q here and %.80q there", f.name, fmt.Sprint(f.here), fmt.Sprint(f.far))
		}
	}
	return ""
}

// Find returns the block of a domain that is published under a hash, and the ids that it holds, which are valid until the
// pool changes; 0 where there is none.
func (p *Pool) Find(d Domain, h Hash) (b BlockID, ids []int32) {
	slot, ok := p.slots[d]
	if !p.simple {
		return 0, nil
	}
	if b = p.index.find(h); !ok || b == 0 || p.blocks[b].domain != slot {
		return 0, nil
	}
	return b, p.rows(b)
}

// Cached is how many whole blocks of tokens the cache has; chain as MatchChain takes it.
func (p *Pool) Cached(d Domain, chain []Hash, tokens []int32) (blocks int) {
	return p.MatchChain(d, chain, tokens, len(tokens)).Full
}

// Insert enters blocks that were computed elsewhere into the cache: those of tokens from block from on, as far as there are
// idle blocks for them, and returns how many. The blocks before these must be cached, or none is entered. write gives a
// block its content. chain as MatchChain takes it. Nothing stays referenced: they can be evicted as any other.
func (p *Pool) Insert(d Domain, chain []Hash, tokens []int32, from int, write func(i int, b BlockID)) (blocks int) {
	n := p.ShapeOf(d).blockTokens
	hit := p.MatchChain(d, chain, tokens, from*n)
	if hit.Full < from || !p.simple {
		return 0
	}
	var t Table
	p.Begin(&t, d)
	p.attach(&t, &hit, nil) // of whole blocks: nothing is copied
	blocks = max(0, min(len(tokens)/n-from, p.FreeNow()-p.protectedFrom(t.domain)))
	for i := range blocks {
		b := p.alloc(t.domain, t.class, 0)
		t.push(&p.blockStore, b)
		write(from+i, b)
	}
	t.grown = (from + blocks) * n
	p.Commit(&t, tokens, t.grown)
	p.Release(&t)
	return blocks
}

// TransferAsk asks a replica for blocks: those of a domain by hash, in their order. The answer ends before the first one that
// is not cached there.
type TransferAsk struct {
	Model    string // the replica's name of it
	Domain   string
	Identity Identity // of who asks
	Hashes   []Hash
}

// TransferBlock is a block as it was copied out of a cache.
type TransferBlock struct {
	Hash Hash
	IDs  []int32
	Data []byte
}

// TransferSink takes the blocks of an answer.
type TransferSink interface {
	Room() []byte           // for the next block
	Take(ids []int32) error // the block is there; ids are its tokens
}

// TransferFault says why blocks did not come from another replica. Reason is the label of metrics.
type TransferFault struct {
	Reason string
	Err    error
}

// Reasons of a TransferFault.
const (
	TransferUnreachable = "unreachable" // no connection, or it broke off before the answer
	TransferRefused     = "refused"     // the replica has another peer key, no such model, or too much to do
	TransferMismatch    = "mismatch"    // it is of another identity
	TransferCorrupt     = "corrupt"     // a checksum or the tokens of a block are wrong, or it is no answer of this format
	TransferTruncated   = "truncated"   // the answer has no end
	TransferTimeout     = "timeout"     // computing would have been done by now
	TransferMissing     = "missing"     // the replica has none of the blocks any more
	TransferCancelled   = "cancelled"   // the request has ended
	TransferClosing     = "closing"     // this engine takes nothing more
)

// TransferReasons are all of them.
var TransferReasons = []string{
	TransferUnreachable, TransferRefused, TransferMismatch, TransferCorrupt, TransferTruncated, TransferTimeout, TransferMissing,
	TransferCancelled, TransferClosing,
}

func (f *TransferFault) Error() string { return f.Reason + ": " + f.Err.Error() }

func (f *TransferFault) Unwrap() error { return f.Err }
