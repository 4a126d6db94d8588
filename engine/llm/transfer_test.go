package llm

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/engine/kernel/attend"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/kvcache"
)

// peer is another engine of this process, asked without a network.
type peer struct {
	*Engine
	estimate time.Duration
	change   func(b *kvcache.TransferBlock)         // on the way; nil: nothing
	before   func(ctx context.Context, i int) error // block i is given; nil: nothing
}

// What a fetch may take in these tests, however busy the machine is; impatient is for those that must not come in time.
const (
	patient   = 20 * time.Second
	impatient = time.Second
)

func (p *peer) Estimate(inference.KVTransfer, int64) (time.Duration, bool) {
	return p.estimate, p.estimate >= 0
}

func (p *peer) Rate() float64 { return 1e8 }

func (p *peer) Fetch(ctx context.Context, _ inference.KVTransfer, ask *kvcache.TransferAsk, to kvcache.TransferSink) error {
	if why := p.KVIdentity().Differs(ask.Identity); why != "" {
		return &kvcache.TransferFault{Reason: kvcache.TransferMismatch, Err: errors.New(why)}
	}
	for i := 0; i < len(ask.Hashes); {
		blocks, err := p.ReadBlocks(ctx, ask.Domain, ask.Hashes[i:])
		if err != nil || len(blocks) == 0 {
			return err
		}
		for _, b := range blocks {
			if p.before != nil {
				if err := p.before(ctx, i); err != nil {
					return err
				}
			}
			if p.change != nil {
				p.change(&b)
			}
			copy(to.Room(), b.Data)
			if err := to.Take(b.IDs); err != nil {
				return err
			}
			i++
		}
	}
	return nil
}

func fetched(r *inference.Request) *inference.Request {
	r.KV = inference.KVTransfer{DoRemotePrefill: true, RemoteURL: "http://a.test"}
	return r
}

// blocksOf are the blocks of a prompt as an engine has them; a hash that is not cached ends them.
func blocksOf(t *testing.T, e *Engine, p []int32) []kvcache.TransferBlock {
	t.Helper()
	blocks, err := e.ReadBlocks(t.Context(), "", e.cache.Domain("").Chain(nil, p, e.info.BlockTokens))
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}

func sameBlocks(a, b []kvcache.TransferBlock) bool {
	return slices.EqualFunc(a, b, func(x, y kvcache.TransferBlock) bool {
		return x.Hash == y.Hash && slices.Equal(x.IDs, y.IDs) && bytes.Equal(x.Data, y.Data)
	})
}

// Blocks that were fetched have the bits of those that are computed, and so has the answer, in every family and type of cache.
func TestFetchedBlocksHaveTheBitsOfComputedOnes(t *testing.T) {
	reference.Slow(t)
	types := []attend.KVType{attend.KVF16, attend.KVQ8, attend.KVQ4, attend.KVF32}
	if reference.Raced {
		types = types[1:2]
	}
	for _, m := range differingFamilies() {
		for _, kv := range types {
			t.Run(m.arch+"/"+kv.String(), func(t *testing.T) {
				p := prompt(7, 150)
				o := Options{KVType: kv, Secret: []byte("shared"), LeastFetch: patient}
				far := &peer{Engine: start(t, m, o)}
				ask(t, far.Engine, greedy(p, 1))
				alone := start(t, m, o)
				want := ask(t, alone, greedy(p, 20))
				o.KVSource = far
				near := start(t, m, o)
				got := ask(t, near, fetched(greedy(p, 20)))
				if !near.model.transfers() {
					checkBlocksStay(t, far.Engine, near, got, want)
					return
				}
				if got.err != nil || !slices.Equal(got.tokens[0], want.tokens[0]) {
					t.Errorf("%v %v, want %v", got.tokens, got.err, want.tokens)
				}
				if s := near.Stats(); s.Transfers.Blocks != 9 || s.Cache.HitTokens != 144 {
					t.Errorf("%d blocks were fetched, %d tokens were cached; want 9 and 144", s.Transfers.Blocks, s.Cache.HitTokens)
				}
				computed, came := blocksOf(t, alone, p), blocksOf(t, near, p)
				if len(computed) != 9 || !sameBlocks(computed, came) {
					t.Errorf("%d blocks are not those %d that are computed", len(came), len(computed))
				}
			})
		}
	}
}

// checkBlocksStay checks that a model whose layers see windows neither gives blocks nor asks for any, and answers the same.
func checkBlocksStay(t *testing.T, far, near *Engine, got, want answer) {
	t.Helper()
	if _, err := far.ReadBlocks(t.Context(), "", []kvcache.Hash{{1}}); !errors.Is(err, inference.ErrInvalid) || !strings.Contains(err.Error(), far.info.Architecture) {
		t.Errorf("blocks are read: %v", err)
	}
	alone := greedy(prompt(7, 150), 0)
	if alone.KV.DoRemoteDecode = true; !errors.Is(far.check(alone), inference.ErrInvalid) {
		t.Error("a prompt is computed for another replica")
	}
	s := near.Stats().Transfers
	if !slices.Equal(got.tokens[0], want.tokens[0]) || s.Blocks != 0 || s.Skipped[SkipWindow] != 1 || near.fetchRate() != 0 {
		t.Errorf("%v, want %v; %d blocks came, %v", got.tokens, want.tokens, s.Blocks, s.Skipped)
	}
}

// Whatever goes wrong with a fetch, the answer is the same, the rest is computed, and the reason is counted.
func TestAFetchThatFailsIsComputed(t *testing.T) {
	t.Parallel()
	m, p := families[1], prompt(8, 150)
	fault := func(reason string) error { return &kvcache.TransferFault{Reason: reason, Err: errors.New("a test")} }
	after := func(n int, err error) func(context.Context, int) error {
		return func(_ context.Context, i int) error {
			if i == n {
				return err
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		peer   peer
		kv     attend.KVType // of the peer
		domain string        // that the peer has computed for
		blocks int
		reason string
		skip   string
	}{
		"nothing":          {blocks: 9},
		"never reached":    {peer: peer{before: after(0, fault(kvcache.TransferUnreachable))}, reason: kvcache.TransferUnreachable},
		"cut":              {peer: peer{before: after(4, fault(kvcache.TransferTruncated))}, blocks: 4, reason: kvcache.TransferTruncated},
		"other tokens":     {peer: peer{change: func(b *kvcache.TransferBlock) { b.IDs[3]++ }}, reason: kvcache.TransferCorrupt},
		"another cache":    {kv: attend.KVF32, reason: kvcache.TransferMismatch},
		"another tenant's": {domain: "other", reason: kvcache.TransferMissing},
		"slow": {peer: peer{before: func(ctx context.Context, i int) error {
			if i == 2 {
				<-ctx.Done()
			}
			return ctx.Err()
		}}, blocks: 2, reason: kvcache.TransferTimeout},
		"dear":            {peer: peer{estimate: time.Hour}, skip: SkipCost},
		"failed just now": {peer: peer{estimate: -1}, skip: SkipSource},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{KVType: attend.KVQ8, Secret: []byte("shared"), LeastFetch: patient}
			if c.reason == kvcache.TransferTimeout {
				o.LeastFetch = impatient
			}
			alone := start(t, m, o)
			want := ask(t, alone, greedy(p, 10))
			if c.kv != attend.KVF16 {
				o.KVType = c.kv
			}
			c.peer.Engine = start(t, m, o)
			warm := greedy(p, 1)
			warm.CacheDomain = c.domain
			ask(t, c.peer.Engine, warm)
			o.KVType, o.KVSource = attend.KVQ8, &c.peer
			near := start(t, m, o)
			got := ask(t, near, fetched(greedy(p, 10)))
			if got.err != nil || !slices.Equal(got.tokens[0], want.tokens[0]) || !sameBlocks(blocksOf(t, alone, p), blocksOf(t, near, p)) {
				t.Errorf("%v %v, want %v with the same blocks", got.tokens, got.err, want.tokens)
			}
			s := near.Stats().Transfers
			if s.Blocks != uint64(c.blocks) || c.reason != "" && s.Failures[c.reason] != 1 || c.skip != "" && (s.Skipped[c.skip] != 1 || s.Fetches != 0) {
				t.Errorf("counted %+v", s)
			}
		})
	}
}

// A fetch holds up its own request only. The request can be cancelled meanwhile, and a drain that waits for it can be aborted.
func TestAFetchHoldsUpNoOne(t *testing.T) {
	m, p := families[0], prompt(9, 150)
	o := Options{Secret: []byte("shared"), LeastFetch: patient}
	reached := make(chan struct{}, 10)
	far := &peer{Engine: start(t, m, o), before: func(ctx context.Context, _ int) error {
		reached <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}
	ask(t, far.Engine, greedy(p, 1))
	o.KVSource = far
	near := start(t, m, o)
	s, err := near.Submit(fetched(greedy(p, 10)))
	if err != nil {
		t.Fatal(err)
	}
	<-reached
	if a := ask(t, near, greedy(prompt(10, 40), 3)); a.err != nil || len(a.tokens[0]) != 3 {
		t.Errorf("beside it: %v %v", a.tokens, a.err)
	}
	s.Cancel(-1)
	if a := read(t, s); a.finish[0] != inference.FinishCancelled {
		t.Errorf("cancelled: %+v", a)
	}
	if n := near.Stats().Transfers.Failures[kvcache.TransferCancelled]; n != 1 {
		t.Errorf("%d fetches were cancelled", n)
	}
	if s, err = near.Submit(fetched(greedy(p, 10))); err != nil {
		t.Fatal(err)
	}
	<-reached
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := near.Close(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
	if a := read(t, s); !errors.Is(a.err, inference.ErrUnavailable) {
		t.Errorf("at the end: %+v", a)
	}
}

// Blocks that were evicted between two windows, or find no room, are computed.
func TestAFetchWithoutRoom(t *testing.T) {
	m, p := families[0], prompt(11, 240)
	o := Options{Secret: []byte("shared"), LeastFetch: patient}
	far := &peer{Engine: start(t, m, o)}
	ask(t, far.Engine, greedy(p, 1))
	want := ask(t, start(t, m, o), greedy(p, 10))
	o.KVSource, o.KVBlocks = far, 18
	near := start(t, m, o)
	for i := range 4 { // what is cached makes room, what runs does not
		ask(t, near, greedy(prompt(uint64(20+i), 60), 2))
	}
	if got := ask(t, near, fetched(greedy(p, 10))); !slices.Equal(got.tokens[0], want.tokens[0]) {
		t.Errorf("%v, want %v", got.tokens, want.tokens)
	}
	if s := near.Stats().Transfers; s.Blocks != 15 {
		t.Errorf("counted %+v", s)
	}
}

// prefixOf asks for the blocks of a prompt alone.
func prefixOf(p []int32) *inference.Request {
	r := greedy(p, 0)
	r.KV.DoRemoteDecode = true
	return r
}

// A request for a prompt's blocks alone ends without a token and leaves the blocks in the cache; another engine that fetches them
// answers as one that computes all, and does not call cached what was computed for its request.
func TestAPrefixIsComputedAlone(t *testing.T) {
	m, p := families[1], prompt(9, 150)
	o := Options{KVType: attend.KVQ8, Secret: []byte("shared"), LeastFetch: patient}
	want := ask(t, start(t, m, o), greedy(p, 20))
	far := &peer{Engine: start(t, m, o)}
	ask(t, far.Engine, greedy(p[:40], 1)) // two blocks of it are cached there
	s, err := far.Submit(prefixOf(p))
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, s)
	if got.err != nil || len(got.tokens[0]) != 0 || got.finish[0] != inference.FinishLength {
		t.Errorf("%v, %d tokens, %v", got.err, len(got.tokens[0]), got.finish[0])
	}
	cached := s.Progress().CachedTokens
	if blocks := blocksOf(t, far.Engine, p); len(blocks) != 9 || cached < 32 {
		t.Errorf("%d blocks of 9 are there, %d tokens were", len(blocks), cached)
	}
	o.KVSource = far
	near := start(t, m, o)
	r := fetched(greedy(p, 20))
	r.KV.RemoteTokens, r.KV.RemoteComputed = len(p), len(p)-cached
	if s, err = near.Submit(r); err != nil {
		t.Fatal(err)
	}
	if got := read(t, s); got.err != nil || !slices.Equal(got.tokens[0], want.tokens[0]) {
		t.Errorf("%v %v, want %v", got.tokens, got.err, want.tokens)
	}
	if n := s.Progress().CachedTokens; n != cached || near.Stats().Transfers.Blocks != 9 {
		t.Errorf("%d tokens were cached, want %d; %d blocks came", n, cached, near.Stats().Transfers.Blocks)
	}
	if _, err := far.Submit(func() *inference.Request { r := prefixOf(p); r.MaxTokens = 1; return r }()); !errors.Is(err, inference.ErrInvalid) {
		t.Errorf("a prefix and an answer: %v", err)
	}
}

func TestTokensThatWereComputedForARequestAreNotCached(t *testing.T) {
	for _, c := range []struct{ from, to, cached, want int }{
		{0, 0, 100, 100}, {0, 96, 96, 0}, {32, 96, 96, 32}, {32, 96, 64, 32}, {32, 96, 16, 16}, {32, 96, 99, 35},
	} {
		if got := (span{c.from, c.to}).without(c.cached); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
