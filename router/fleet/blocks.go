package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"weir/kvcache"
	"weir/router"
	"weir/router/kvevent"
	"weir/router/prefix"
)

const (
	blockNews        = 20 * time.Second // how long a replica is asked to wait for changes of its cache
	maxBlockBytes    = 4 << 20          // of an answer that lists them
	blockEventsPause = 5 * time.Second  // before a replica that told nothing is asked again
)

// hashRoots is what the block hashes of a fleet's replicas are made with, beside the secret that they
// share with this router: the same of all, or what one of them has cached says nothing of another's prompts.
type hashRoots struct {
	digest, kvType string
	blockTokens    int
	told           bool // by KV events with tokens: nothing else counts, a secret neither
}

// blockIndex is what the replicas of a fleet tell of the blocks in their prefix caches, weirs by block events, vLLM and SGLang by KV events,
// and the keys of prompts by which it is looked up.
type blockIndex struct {
	model   string
	secret  []byte // nil: weirs' hashes are not known
	follows bool   // the policy looks at prompts
	index   *prefix.Index
	members *atomic.Pointer[members]
	root    atomic.Pointer[hashRoots] // of the replicas' block hashes; nil: none has told
	rest    time.Duration             // before KV events that broke are read again, the first time
	changed func(Change)
}

// cache is the root in the form that hashes are made from.
func (b *blockIndex) cache(r hashRoots) kvcache.Config {
	return kvcache.Config{BlockTokens: r.blockTokens, ModelDigest: r.digest, KVType: r.kvType, Secret: b.secret}
}

// tellsBlocks says whether a replica's cache can be followed.
func (b *blockIndex) tellsBlocks(r *replica) bool {
	return b.follows && len(b.secret) > 0 && r.target.Kind == Weir && r.target.AdminURL != ""
}

// followBlocks keeps the index as a replica's cache is, until ctx ends.
func (b *blockIndex) followBlocks(ctx context.Context, r *replica) {
	failing := ""
	for ctx.Err() == nil {
		err := b.readBlocks(ctx, r)
		if err == nil {
			failing = ""
			continue
		}
		if text := err.Error(); text != failing && ctx.Err() == nil {
			failing = text
			b.changed(Change{r.id, "block events failed", text})
		}
		if !pause(ctx, blockEventsPause) {
			return
		}
	}
}

// readBlocks asks a replica once for what is new in its cache, and takes it in.
func (b *blockIndex) readBlocks(ctx context.Context, r *replica) error {
	ctx, cancel := context.WithTimeout(ctx, blockNews+probeTimeout)
	defer cancel()
	epoch, seq := b.index.Cursor(r.number)
	query := url.Values{"model": {r.model}, "wait": {blockNews.String()}, "epoch": {strconv.FormatUint(epoch, 10)}, "after": {strconv.FormatUint(seq, 10)}}
	res, err := r.wire.get(ctx, strings.TrimSuffix(r.target.AdminURL, "/")+router.BlockEventsPath+"?"+query.Encode())
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(res.Body, maxBlockBytes))
	switch {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d of %s: %.200q", res.StatusCode, router.BlockEventsPath, r.wire.hide(text))
	}
	var told router.BlockEvents
	if err := json.Unmarshal(text, &told); err != nil {
		return fmt.Errorf("block events: %w", err)
	}
	return b.takeBlocks(r, &told)
}

// takeBlocks takes in what a replica tells of its cache. Where events are missing, the replica
// is asked again for what comes after those that were taken in.
func (b *blockIndex) takeBlocks(r *replica, told *router.BlockEvents) error {
	root := hashRoots{digest: told.Digest, kvType: told.KVType, blockTokens: told.BlockTokens}
	if root.blockTokens < 1 {
		return fmt.Errorf("the replica's blocks have %d tokens", root.blockTokens)
	}
	if err := b.agreed(r, root); err != nil {
		return err
	}
	r.mu.Lock()
	gone := r.gone
	r.mu.Unlock()
	if gone {
		return nil
	}
	for i, e := range told.Events {
		err := b.index.Apply(r.number, prefix.Event{
			Epoch: told.Epoch, Seq: told.First + uint64(i), Kind: prefix.EventKind(e.Kind), Key: e.Hash, Parent: e.Parent,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// agreed reports whether a replica makes its hashes as most do.
func (b *blockIndex) agreed(r *replica, root hashRoots) error {
	known := b.agree(r, root)
	switch {
	case known == root:
		return nil
	case known.told != root.told:
		return errors.New("most other replicas are of another kind; weirs, and engines with kv_events, cannot be told apart by what they have cached in one model")
	case root.told:
		return fmt.Errorf("the replica's blocks have %d tokens, those of most others %d; give them the same --block-size", root.blockTokens, known.blockTokens)
	}
	return fmt.Errorf("the replica's blocks are of another kind (%.12s, %s, %d tokens) than those of most others (%.12s, %s, %d); "+
		"replicas of a model need the same file, --kv-cache-dtype and --block-size to be told apart by what they have cached",
		root.digest, root.kvType, root.blockTokens, known.digest, known.kvType, known.blockTokens)
}

// agree notes how a replica makes its hashes, and returns how most replicas do that have told: prompts are
// hashed in that way. While an update passes from replica to replica, it changes once.
func (b *blockIndex) agree(r *replica, root hashRoots) hashRoots {
	r.mu.Lock()
	same := r.root == root
	r.root = root
	r.mu.Unlock()
	if known := b.root.Load(); same && known != nil {
		return *known
	}
	count := make(map[hashRoots]int)
	most := root
	for _, o := range b.members.Load().list {
		o.mu.Lock()
		of := o.root
		o.mu.Unlock()
		if of.blockTokens == 0 {
			continue
		}
		if count[of]++; count[of] > count[most] {
			most = of
		}
	}
	b.root.Store(&most)
	return most
}

// blockKeys are the hashes that the replicas' engines give to the blocks of a prompt; nil where the prompt's
// tokens, or how hashes are made, are not known.
func (b *blockIndex) blockKeys(c *router.Call) []prefix.Key {
	root := b.root.Load()
	if root == nil || len(c.Tokens) == 0 {
		return nil
	}
	tokens := c.Tokens[:min(len(c.Tokens), prefix.MaxDepth*root.blockTokens)]
	domain := b.cache(*root).Domain(c.Domain)
	if root.told { // such an engine shares its cache between all that it serves, except for salts
		domain = kvevent.Domain(root.blockTokens, c.Salt)
	}
	return domain.Chain(make([]prefix.Key, 0, len(tokens)/root.blockTokens), tokens, root.blockTokens)
}
