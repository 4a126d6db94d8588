package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
)

// Blocks of a prompt can be fetched from another replica that has computed them (KV transfer). That happens before the job
// enters the loop, on a goroutine of its own: only the request itself waits for the network. What comes is entered into
// the prefix cache between two steps, a window at a time, and the request then finds it there as anything else that is cached.
// So a fetch that fails, or brings a part only, needs no way back: the rest is computed.

const (
	transferWindow   = 8 << 20 // bytes that are copied between two steps: one or two milliseconds
	mostFetches      = 4       // at the same time; further requests compute
	leastFetchTime   = 50 * time.Millisecond
	longestFetchTime = 30 * time.Second
)

// KVSource fetches blocks from other replicas. It is safe for concurrent use.
type KVSource interface {
	// Estimate is how long so many bytes are expected to take from a replica; false: nothing is to be asked of it now.
	Estimate(from inference.KVTransfer, bytes int64) (time.Duration, bool)
	// Rate is how many bytes a second come from the replicas that were asked recently.
	Rate() float64
	// Fetch asks for blocks and gives those that come to the sink, in their order. The error is a *kvcache.TransferFault.
	Fetch(ctx context.Context, from inference.KVTransfer, ask *kvcache.TransferAsk, to kvcache.TransferSink) error
}

// TransferStats counts what came from other replicas, and went there.
type TransferStats struct {
	Fetches       uint64            // begun
	Hits          uint64            // that brought at least a block
	Blocks, Bytes uint64            // entered into the cache
	QueryTokens   uint64            // asked for
	HitTokens     uint64            // of Blocks
	Time          time.Duration     // of fetches
	Failures      map[string]uint64 // by kvcache.TransferReasons
	Skipped       map[string]uint64 // not begun, by SkipReasons

	SentBlocks, SentBytes uint64 // read for other replicas
}

// Why blocks are not fetched that a router says are elsewhere.
const (
	SkipCached = "cached" // they are here
	SkipCost   = "cost"   // computing is expected to take no longer
	SkipBusy   = "busy"   // too many fetches run
	SkipSource = "source" // the replica failed a moment ago
	SkipWindow = "window" // layers with windows have blocks of their own, which do not go to other replicas
)

// SkipReasons are all of them.
var SkipReasons = []string{SkipCached, SkipCost, SkipBusy, SkipSource, SkipWindow}

// transfers is the engine's account of fetches.
type transfers struct {
	slots chan struct{}
	ctx   context.Context //nolint:containedctx // ends all fetches, which outlive their calls
	abort context.CancelFunc

	mu    sync.Mutex
	stats TransferStats
}

func (t *transfers) init() {
	t.slots = make(chan struct{}, mostFetches)
	t.ctx, t.abort = context.WithCancel(context.Background())
	t.stats.Failures, t.stats.Skipped = make(map[string]uint64), make(map[string]uint64)
}

// counts is a copy of the counters, with every reason.
func (t *transfers) counts() TransferStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Failures, s.Skipped = make(map[string]uint64), make(map[string]uint64)
	for _, r := range kvcache.TransferReasons {
		s.Failures[r] = t.stats.Failures[r]
	}
	for _, r := range SkipReasons {
		s.Skipped[r] = t.stats.Skipped[r]
	}
	return s
}

func (t *transfers) count(change func(s *TransferStats)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.stats)
}

func (t *transfers) skip(why string) { t.count(func(s *TransferStats) { s.Skipped[why]++ }) }

// KVIdentity is what the bits of this engine's blocks depend on.
func (e *Engine) KVIdentity() kvcache.Identity {
	compute := e.cpu.Level().String()
	if e.opts.Fine {
		compute += " fine"
	}
	if e.model.long {
		compute += " long"
	}
	return kvcache.Identity{
		ModelDigest: e.info.Digest, KVType: e.info.KVLayout, Compute: compute + " " + cmp.Or(e.opts.Build, "devel"),
		BlockTokens: e.info.BlockTokens, BlockBytes: e.kv.PageBytes(),
	}
}

// ReadBlocks copies blocks of a domain out of the cache, in the order of their hashes: up to the first that is not cached, and
// as many as are copied between two steps at most.
func (e *Engine) ReadBlocks(ctx context.Context, domain string, hashes []kvcache.Hash) ([]kvcache.TransferBlock, error) {
	if !e.model.transfers() {
		return nil, e.blocksStay()
	}
	size := e.kv.PageBytes()
	hashes = hashes[:min(len(hashes), e.windowBlocks())]
	memory := make([]byte, len(hashes)*size) // not taken again: after ctx's end the loop may still write to it
	var found []kvcache.TransferBlock
	err := e.ask(ctx, transferring, func() {
		d := e.cache.Domain(domain)
		for i, h := range hashes {
			b, ids := e.pool.Find(d, h)
			if b == 0 {
				break
			}
			data := memory[i*size : (i+1)*size]
			copy(data, e.kv.Page(b))
			found = append(found, kvcache.TransferBlock{Hash: h, IDs: slices.Clone(ids), Data: data})
		}
	})
	if err != nil {
		return nil, err
	}
	e.transfers.count(func(s *TransferStats) {
		s.SentBlocks += uint64(len(found))
		s.SentBytes += uint64(len(found) * size)
	})
	return found, nil
}

// blocksStay is why no block goes to another replica.
func (e *Engine) blocksStay() error {
	return fmt.Errorf("%w: layers of this model (%s) see windows, have heads of several sizes or keep states, and its KV blocks do not go to other replicas; "+
		"compute the prompt where the answer is computed", inference.ErrInvalid, e.info.Architecture)
}

// rateTokens is the length of the prompt by which rates are told.
const rateTokens = 1024

// PrefillRate is how many tokens of a prompt are expected to be computed in a second, as steps so far tell.
func (e *Engine) PrefillRate() float64 {
	n := min(rateTokens, e.info.MaxModelLen)
	e.mu.Lock()
	defer e.mu.Unlock()
	return float64(n) / max(e.estimates.Prompt(0, n).Seconds(), 1e-9)
}

// fetchRate is how many tokens a second have their blocks come from other replicas; 0: none do.
func (e *Engine) fetchRate() float64 {
	if e.opts.KVSource == nil || !e.model.transfers() {
		return 0
	}
	return e.opts.KVSource.Rate() * float64(e.info.BlockTokens) / float64(e.kv.PageBytes())
}

// windowBlocks is how many blocks are copied between two steps.
func (e *Engine) windowBlocks() int { return max(1, transferWindow/e.kv.PageBytes()) }

// fetch is the part of a job's life in which blocks of its prompt come from elsewhere.
type fetch struct {
	e      *Engine
	job    *job
	ctx    context.Context //nolint:containedctx // of this fetch
	cancel context.CancelFunc

	mu   sync.Mutex
	over bool
	held []command // cancels that came meanwhile

	next   int // block of the prompt that is entered next
	window []byte
	filled int // blocks of window
}

// newFetch is the fetch of a job that a router has told where blocks are; nil where none can be made.
func (e *Engine) newFetch(j *job) *fetch {
	kv := &j.req.KV
	if e.opts.KVSource == nil || !kv.DoRemotePrefill || kv.RemoteURL == "" || len(j.chain) == 0 || j.req.Given != nil { // what measures keeps other bits
		return nil
	}
	if !e.model.transfers() {
		e.transfers.skip(SkipWindow)
		return nil
	}
	f := &fetch{e: e, job: j}
	f.ctx, f.cancel = context.WithCancel(e.transfers.ctx)
	return f
}

// hold keeps a cancel until the job has entered the loop; false: it has.
func (f *fetch) hold(c command) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return false
	}
	f.held = append(f.held, c)
	if c.choice < 0 {
		f.cancel()
	}
	return true
}

// enter hands the job to the loop, and the cancels behind it.
func (f *fetch) enter(c command) {
	f.cancel()
	f.mu.Lock()
	f.over = true
	work := append([]command{c}, f.held...)
	f.mu.Unlock()
	f.e.inbox.arrive(work...)
}

// first fetches the blocks of a job that has been submitted, and then has it enter the loop.
func (f *fetch) first(c command) {
	f.run()
	f.enter(c)
}

// run fetches what is worth it.
func (f *fetch) run() {
	t := &f.e.transfers
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	default:
		t.skip(SkipBusy)
		return
	}
	j, kv, block := f.job, f.job.req.KV, f.e.info.BlockTokens
	err := f.e.ask(f.ctx, transferring, func() { f.next = f.e.pool.Cached(j.domain, j.chain, j.req.Prompt) })
	if err != nil {
		f.failed(err)
		return
	}
	hashes := j.chain[f.next:]
	if told := kv.RemoteTokens / block; kv.RemoteTokens > 0 {
		hashes = j.chain[f.next:max(f.next, min(told, len(j.chain)))]
	}
	if len(hashes) == 0 {
		t.skip(SkipCached)
		return
	}
	limit, why := f.worth(len(hashes))
	if why != "" {
		t.skip(why)
		return
	}
	f.perform(hashes, limit)
}

// worth is how long computing so many blocks would take, and why fetching them is not worth it.
func (f *fetch) worth(blocks int) (compute time.Duration, why string) {
	e, size := f.e, f.e.info.BlockTokens
	e.mu.Lock()
	compute = e.estimates.Prompt(f.next*size, (f.next+blocks)*size)
	e.mu.Unlock()
	took, ok := e.opts.KVSource.Estimate(f.job.req.KV, int64(blocks)*int64(e.kv.PageBytes()))
	switch {
	case !ok:
		return 0, SkipSource
	case took >= compute:
		return 0, SkipCost
	}
	return compute, ""
}

// perform fetches blocks, for as long as computing them would take.
func (f *fetch) perform(hashes []kvcache.Hash, limit time.Duration) {
	e, j, began, first := f.e, f.job, time.Now(), f.next
	ctx, cancel := context.WithTimeout(f.ctx, min(max(limit, cmp.Or(e.opts.LeastFetch, leastFetchTime)), longestFetchTime))
	defer cancel()
	kv := j.req.KV
	err := e.opts.KVSource.Fetch(ctx, kv, &kvcache.TransferAsk{
		Model: kv.RemoteModel, Domain: j.req.CacheDomain, Identity: e.KVIdentity(), Hashes: hashes,
	}, (*sink)(f))
	if flushed := f.flush(); err == nil {
		err = flushed
	}
	j.fresh = f.computed(first)
	if err == nil && f.next == first {
		err = &kvcache.TransferFault{Reason: kvcache.TransferMissing, Err: errors.New("it has none of the blocks")}
	}
	if f.ctx.Err() == nil && ctx.Err() != nil && err != nil {
		err = &kvcache.TransferFault{Reason: kvcache.TransferTimeout, Err: err}
	}
	e.transfers.count(func(s *TransferStats) {
		blocks := uint64(f.next - first) //nolint:gosec // it never falls
		s.Fetches++
		if blocks > 0 {
			s.Hits++
		}
		s.Time += time.Since(began)
		s.Blocks += blocks
		s.Bytes += blocks * uint64(e.kv.PageBytes())
		s.QueryTokens += uint64(len(hashes) * e.info.BlockTokens)
		s.HitTokens += blocks * uint64(e.info.BlockTokens)
	})
	if err != nil {
		f.failed(err)
	}
}

// computed are those blocks that have come from a block on, of which the other replica says that it computed them for this request.
func (f *fetch) computed(first int) span {
	kv, n := &f.job.req.KV, f.e.info.BlockTokens
	to := min(f.next*n, kv.RemoteTokens)
	return span{min(max(first*n, kv.RemoteTokens-kv.RemoteComputed), to), to}
}

// failed counts why blocks that were wanted are computed.
func (f *fetch) failed(err error) {
	reason := kvcache.TransferClosing
	fault, named := errors.AsType[*kvcache.TransferFault](err)
	switch {
	case f.ctx.Err() != nil:
		reason = kvcache.TransferCancelled
	case named:
		reason = fault.Reason
	}
	f.e.transfers.count(func(s *TransferStats) { s.Failures[reason]++ })
	if hook := f.e.opts.OnFetchFailed; hook != nil && reason != kvcache.TransferCancelled {
		hook(f.job.req, fmt.Errorf("fetch kv blocks from %s: %w", f.job.req.KV.RemoteURL, err))
	}
}

// sink takes the blocks of a fetch.
type sink fetch

// Room is in the window that is entered between two steps.
func (s *sink) Room() []byte {
	size := s.e.kv.PageBytes()
	if s.window == nil {
		s.window = make([]byte, min(s.e.windowBlocks(), len(s.job.chain)-s.next)*size)
	}
	return s.window[s.filled*size:][:size:size]
}

// Take refuses a block of other tokens, and enters a full window.
func (s *sink) Take(ids []int32) error {
	n := s.e.info.BlockTokens
	i := s.next + s.filled
	if i >= len(s.job.chain) || !slices.Equal(ids, s.job.req.Prompt[i*n:(i+1)*n]) {
		return &kvcache.TransferFault{Reason: kvcache.TransferCorrupt, Err: errors.New("a block has other tokens than the prompt")}
	}
	if s.filled++; s.filled*s.e.kv.PageBytes() < len(s.window) {
		return nil
	}
	return (*fetch)(s).flush()
}

// flush enters what has come into the prefix cache. It has no limit of time: the job itself gets its turn no sooner.
func (f *fetch) flush() error {
	if f.filled == 0 {
		return nil
	}
	e, j, window, filled := f.e, f.job, f.window, f.filled
	f.window, f.filled = nil, 0 // where the request has ended, the loop may still read it
	size, n, entered := e.kv.PageBytes(), e.info.BlockTokens, 0
	err := e.ask(f.ctx, transferring, func() {
		entered = e.pool.Insert(j.domain, j.chain, j.req.Prompt[:(f.next+filled)*n], f.next, func(i int, b kvcache.BlockID) {
			copy(e.kv.Page(b), window[(i-f.next)*size:][:size])
		})
	})
	if err != nil {
		return err
	}
	f.next += entered
	if entered < filled {
		return &kvcache.TransferFault{Reason: kvcache.TransferMissing, Err: errors.New("there is no room in the cache for all of them")}
	}
	return nil
}
