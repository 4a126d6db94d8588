package attend

import (
	"fmt"
	"math"

	"weir/internal/arena"
	"weir/kvcache"
)

// Tables are the shapes of what the block tables of a sequence name: layers of another window or of other heads have a table of their
// own. All have the same type, and the same number of blocks and of tokens in a block, since any table may be given any block.
type Tables []KVShape

// Sized are the tables with a type and a size.
func (t Tables) Sized(typ KVType, blockTokens, blocks int) Tables {
	sized := append(Tables(nil), t...)
	for i := range sized {
		sized[i].Type, sized[i].BlockTokens, sized[i].Blocks = typ, blockTokens, blocks
	}
	return sized
}

// PageBytes is the memory of a block, whichever table names it: as much as the largest needs.
func (t Tables) PageBytes() int {
	size := 0
	for _, s := range t {
		size = max(size, s.Layers*s.blockBytes())
	}
	return size
}

// Bytes is the memory of all blocks.
func (t Tables) Bytes() int64 { return int64(t[0].Blocks) * int64(t.PageBytes()) }

// TokenBytes is the memory of one token in all tables: keys and values of all layers. What pages have beside it is not counted.
func (t Tables) TokenBytes() int {
	size := 0
	for _, s := range t {
		size += s.TokenBytes()
	}
	return size
}

// Check says whether the tables can share pages.
func (t Tables) Check() error {
	if len(t) == 0 {
		return fmt.Errorf("%w: it has no table", ErrKVShape)
	}
	for i, s := range t {
		if err := s.Check(); err != nil {
			return err
		}
		if s.Type != t[0].Type || s.BlockTokens != t[0].BlockTokens || s.Blocks != t[0].Blocks {
			return fmt.Errorf("%w: table %d has %d blocks of %d tokens in %v, and table 0 %d of %d in %v", ErrKVShape,
				i, s.Blocks, s.BlockTokens, s.Type, t[0].Blocks, t[0].BlockTokens, t[0].Type)
		}
	}
	if page := t.PageBytes(); page > 0 && t[0].Blocks > math.MaxInt/page {
		return fmt.Errorf("%w: %d blocks of %d bytes", ErrKVShape, t[0].Blocks, page)
	}
	return nil
}

// Pages are the memory of a KV store: keys and values by block. Package kvcache decides which sequence, and which of its tables, a
// block belongs to. All layers of a table lie together in a page, so that a growing sequence touches a new page of memory now and
// then, and not one for each layer in the same step.
type Pages struct {
	tables []*KV
	size   int // bytes of a page
	data   []byte
	arena  *arena.Arena
}

// NewPages reserves the store; what is never written costs nothing where
// the system commits memory lazily.
func NewPages(t Tables) (*Pages, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	p := &Pages{size: t.PageBytes()}
	size := p.size * t[0].Blocks
	var err error
	if p.arena, err = arena.New(int64(size) + 64); err != nil {
		return nil, fmt.Errorf("reserve kv cache of %d bytes: %w", size, err)
	}
	if p.data, err = p.arena.Alloc(size, 64); err != nil {
		return nil, fmt.Errorf("reserve kv cache: %w", err)
	}
	for _, s := range t {
		p.tables = append(p.tables, &KV{KVShape: s, part: tileTokens, tileSize: s.tileBytes(), blockSize: s.blockBytes(), pageSize: p.size, data: p.data})
	}
	return p, nil
}

// Table is what a block table names.
func (p *Pages) Table(i int) *KV { return p.tables[i] }

// Bytes is the reserved memory.
func (p *Pages) Bytes() int { return len(p.data) }

// Page is the memory of a block. What it holds can be copied to the same table of another store of these
// shapes whose layers have the same key forms; of a block that is full every byte counts.
func (p *Pages) Page(block kvcache.BlockID) []byte { return p.data[int(block)*p.size:][:p.size:p.size] }

// PageBytes is the size of a block.
func (p *Pages) PageBytes() int { return p.size }

// Close releases the memory; no use may follow.
func (p *Pages) Close() error { return p.arena.Release() }
