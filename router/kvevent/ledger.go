package kvevent

import (
	"fmt"

	"weir/kvcache"
	"weir/router/prefix"
)

// The sizes of blocks that are followed: of smaller ones a prompt has too many keys, and larger ones have no hash.
const (
	leastBlockTokens = 8
	mostBlockTokens  = 256
)

// Domain is where the chains of keys begin that a Ledger makes of blocks whose cache_salt is salt: prompts get theirs of it, too.
func Domain(blockTokens int, salt string) kvcache.Domain {
	return kvcache.Config{BlockTokens: blockTokens}.Domain("kv events", kvcache.Field{Key: "salt", Value: []byte(salt)})
}

// media are the places of blocks that save computing, each as a bit. What lies in storage is most often shared by replicas, and tells none apart.
var media = map[string]uint8{"": 1, "GPU": 1, "CPU": 2}

// block is one that the engine holds.
type block struct {
	key, parent prefix.Key
	in          uint8 // media
}

// Ledger knows the blocks that one engine holds, as it has told, within a bound.
type Ledger struct {
	model  string
	most   int
	plain  kvcache.Domain
	tokens int // of a block; 0: not known yet
	lora   bool
	blocks map[ID]block

	Unread int // blocks that were stored and are not followed
}

// NewLedger makes one of an engine that calls its model so: of adapters, their names. It knows at most so many blocks.
func NewLedger(model string, most int) *Ledger {
	return &Ledger{model: model, most: most, blocks: make(map[ID]block)}
}

// BlockTokens is the size of the engine's blocks; 0: it has not told.
func (l *Ledger) BlockTokens() int { return l.tokens }

// Blocks is how many blocks the engine holds.
func (l *Ledger) Blocks() int { return len(l.blocks) }

// Forget forgets all blocks: the engine may be another one.
func (l *Ledger) Forget() {
	l.blocks, l.tokens, l.lora = make(map[ID]block), 0, false
}

// List appends what is held as changes that follow prefix.Cleared, in any order.
func (l *Ledger) List(dst []prefix.Event) []prefix.Event {
	for _, b := range l.blocks {
		dst = append(dst, prefix.Event{Kind: prefix.Stored, Key: b.key, Parent: b.parent})
	}
	return dst
}

// Take notes an event, and appends the changes of an index that it means. An error says that blocks are of a kind that is not followed.
func (l *Ledger) Take(dst []prefix.Event, e *Event) ([]prefix.Event, error) {
	switch {
	case e.Kind == Cleared:
		l.blocks = make(map[ID]block)
		return append(dst, prefix.Event{Kind: prefix.Cleared}), nil
	case e.Group != 0 || e.Remote: // what layers with other windows keep, and what other engines do
		return dst, nil
	case e.Kind == Removed:
		for _, id := range e.Blocks {
			dst = l.remove(dst, id, media[e.Medium])
		}
	case e.Kind == Stored && media[e.Medium] != 0:
		return l.store(dst, e)
	}
	return dst, nil
}

// remove notes that a block left a medium.
func (l *Ledger) remove(dst []prefix.Event, id ID, from uint8) []prefix.Event {
	b, ok := l.blocks[id]
	if !ok || b.in&from == 0 {
		return dst
	}
	if b.in &^= from; b.in != 0 {
		l.blocks[id] = b
		return dst
	}
	delete(l.blocks, id)
	return append(dst, prefix.Event{Kind: prefix.Removed, Key: b.key})
}

func (l *Ledger) store(dst []prefix.Event, e *Event) ([]prefix.Event, error) {
	if len(e.Tokens) == 0 { // a copy in another medium: its tokens were told with the block
		for _, id := range e.Blocks {
			if b, ok := l.blocks[id]; ok {
				b.in |= media[e.Medium]
				l.blocks[id] = b
			}
		}
		return dst, nil
	}
	if l.tokens == 0 {
		if e.BlockTokens < leastBlockTokens || e.BlockTokens > mostBlockTokens {
			return dst, fmt.Errorf("the engine's blocks have %d tokens; %d to %d can be followed: start vLLM with --block-size 16, SGLang with --page-size 16",
				e.BlockTokens, leastBlockTokens, mostBlockTokens)
		}
		l.tokens, l.plain = e.BlockTokens, Domain(e.BlockTokens, "")
	}
	if e.Adapter == l.model && !l.lora { // the model is an adapter, and the blocks so far were of its base
		l.lora = true
		dst = append(dst, prefix.Event{Kind: prefix.Cleared})
		l.blocks = make(map[ID]block)
	}
	own := ""
	if l.lora {
		own = l.model
	}
	if e.Adapter != own || e.BlockTokens != l.tokens || len(e.Blocks)*e.BlockTokens != len(e.Tokens) {
		l.Unread += len(e.Blocks)
		return dst, nil
	}
	return l.chain(dst, e), nil
}

// chain notes the blocks of an event, each after the one before. Where one is not followed, those after it are not either: nothing tells
// what their prefix is.
func (l *Ledger) chain(dst []prefix.Event, e *Event) []prefix.Event {
	var before block
	if e.HasParent {
		var known bool
		if before, known = l.blocks[e.Parent]; !known {
			l.Unread += len(e.Blocks)
			return dst
		}
	}
	var keys [1]prefix.Key
	for i, id := range e.Blocks {
		root := l.plain // counts for the first block of a sequence, and covers all that follow it
		if i < len(e.Extra) {
			if e.Extra[i].Opaque {
				l.Unread += len(e.Blocks) - i
				return dst
			}
			if e.Extra[i].Salt != "" {
				root = Domain(l.tokens, e.Extra[i].Salt)
			}
		}
		root.Extend(keys[:0], before.key, e.Tokens[i*l.tokens:(i+1)*l.tokens], l.tokens)
		b := block{key: keys[0], parent: before.key, in: media[e.Medium]}
		if old, held := l.blocks[id]; held {
			b.in |= old.in
		} else {
			dst = l.room(dst)
		}
		l.blocks[id] = b
		dst = append(dst, prefix.Event{Kind: prefix.Stored, Key: b.key, Parent: b.parent})
		before = b
	}
	return dst
}

// room forgets a block where as many as are allowed are known.
func (l *Ledger) room(dst []prefix.Event) []prefix.Event {
	if len(l.blocks) < l.most {
		return dst
	}
	for id, b := range l.blocks {
		delete(l.blocks, id)
		return append(dst, prefix.Event{Kind: prefix.Removed, Key: b.key})
	}
	return dst
}
