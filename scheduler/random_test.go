package scheduler

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"weir/internal/inference"
	"weir/kvcache"
)

// source turns bytes into choices: of a fuzzer, or of a seeded generator.
type source struct {
	data []byte
	rng  *rand.Rand // used when set
}

func (s *source) more() bool { return s.rng != nil || len(s.data) > 0 }

// below returns a number in [0,n).
func (s *source) below(n int) int {
	if s.rng != nil {
		return s.rng.IntN(n)
	}
	if len(s.data) == 0 {
		return 0
	}
	v := int(s.data[0])
	s.data = s.data[1:]
	return v % n
}

func (s *source) oneIn(n int) bool { return s.below(n) == n-1 }

func seeded(seed uint64) *source { return &source{rng: rand.New(rand.NewPCG(seed, 1))} }

// randomWorld makes a small, tight world: collisions of every kind are likely.
func randomWorld(t testing.TB, src *source) *world {
	cfg, pool := randomConfigs(src)
	w := newWorld(t, cfg, pool)
	w.vocabulary = 2 + src.below(2)
	return w
}

func randomConfigs(src *source) (Config, kvcache.Config) {
	seqs := 1 + src.below(6)
	cfg := Config{
		MaxSeqs: seqs, MaxBatchTokens: seqs + src.below(24), MaxModelLen: 16 + src.below(64),
		PrefillChunk: src.below(9), MaxPrefills: src.below(3),
		MaxWaiting: 4 + src.below(12), MaxWaitingTokens: src.below(2) * 200, OvertakeLimit: src.below(6),
		PreemptLimit: src.below(4), MinRunTokens: 1 + src.below(8), WatermarkBlocks: src.below(3) - 1,
		OutputEstimate: 1 + src.below(24), CapOutput: src.oneIn(3),
		MaxDrafts: src.below(6), LookupMax: 1 + src.below(3), LookupMin: 1,
	}
	block := []int{1, 2, 3, 4, 7, 16}[src.below(6)]
	pool := kvcache.Config{
		Blocks: 2 + src.below(4+64/block), BlockTokens: block, HashBits: []int{0, 0, 8}[src.below(3)], TenantBlocks: []int{0, 0, 3}[src.below(3)],
	}
	if block%2 == 0 { // without a draw, so that worlds stay what they were
		pool.FineTokens = block / 2
	}
	pool.Windows = randomWindows(src)
	if groups := len(pool.Windows); groups > 0 {
		pool.StepRows = src.below(24)
		pool.Blocks *= 1 + groups/2
	}
	return cfg, pool
}

// randomWindows are those of one, two or seven groups, half the time of one that sees all.
func randomWindows(src *source) []int {
	w, v := 1+src.below(24), 1+src.below(24)
	shapes := [][]int{nil, nil, nil, nil, nil, {w}, {0, w}, {w, v}, {0, w, w, w, w, w, w}, {w, w, v, 0, v, w, 0}}
	return shapes[src.below(len(shapes))]
}

// randomRequest is drawn from a small alphabet, so that prompts share prefixes.
func randomRequest(w *world, src *source) Request {
	r := Request{
		MaxTokens: 1 + src.below(12), N: 1, Class: inference.Class(src.below(inference.NumClasses)),
		Tenant: "t" + strconv.Itoa(src.below(3)), Weight: src.below(3), NoCache: src.oneIn(8), User: new(int),
		Speculate: src.oneIn(2),
	}
	if r.Domain = w.pool.Domain(r.Tenant); r.Tenant == "t2" {
		r.Domain = w.pool.FineDomain(r.Tenant)
	}
	for range 1 + src.below(2+src.below(40)) {
		r.Prompt = append(r.Prompt, inference.TokenID(src.below(w.vocabulary)/max(1, 1+src.below(3)-src.below(2))))
	}
	if src.oneIn(2) {
		for i := range r.Prompt {
			r.Prompt[i] = inference.TokenID(i % 2)
		}
	}
	switch src.below(8) {
	case 0:
		r.Logits = LogitsAll
		r.MaxTokens *= src.below(2)
	case 1:
		r.Logits, r.MaxTokens = LogitsNone, 0
	case 2, 3, 4:
		r.N = 1 + src.below(4)
	}
	if r.Logits == LogitsLast && len(r.Prompt)%4 == 0 { // without a draw, so that worlds stay what they were
		for k := range r.N {
			r.Given = append(r.Given, slices.Repeat([]inference.TokenID{inference.TokenID(k % w.vocabulary), 1}, r.MaxTokens)[:1+(k*5+len(r.Prompt))%r.MaxTokens])
		}
	}
	for _, t := range [...]*int64{&r.FirstTokenBy, &r.DoneBy, &r.WaitUntil} {
		if src.oneIn(12) {
			*t = w.now + 1 + int64(src.below(12))
		}
	}
	r.OverQuota, r.Retries = src.oneIn(8), src.below(8)/7
	if src.oneIn(3) {
		r.Chain = r.Domain.Chain(nil, r.Prompt, w.pool.ShapeOf(r.Domain).BlockTokens())
	}
	return r
}

// act does one random operation. Between plan and commit everything but a new
// plan is allowed.
func (w *world) act(src *source) {
	w.t.Helper()
	switch op := src.below(16); {
	case op < 4:
		w.submitRandom(src)
	case op < 6:
		if js := w.live(); len(js) > 0 {
			j := js[src.below(len(js))]
			w.cancel(j, src.below(len(j.finish)+1)-1)
		}
	case w.out && op == 6:
		w.abandon()
	case op == 7:
		w.pin(kvcache.BlockID(src.below(w.pool.Usable() + 1)))
	case op == 8:
		w.unpin()
	case w.out:
		w.commit()
	default:
		w.begin()
	}
}

// pin holds a cached block back, as a reader outside the step loop would.
func (w *world) pin(b kvcache.BlockID) {
	if w.pool.Pin(b) {
		w.pinned = append(w.pinned, b)
	}
	w.check()
}

func (w *world) unpin() {
	for _, b := range w.pinned {
		w.pool.Unpin(b)
	}
	w.pinned = w.pinned[:0]
	w.check()
}

func (w *world) submitRandom(src *source) {
	w.t.Helper()
	r := randomRequest(w, src)
	adapter := w.adapters.choose(w, src, &r)
	j, err := w.submit("r"+strconv.Itoa(len(w.order)), r)
	if err == nil {
		j.adapter = adapter
	}
	for _, want := range []error{inference.ErrContextLength, inference.ErrNeverFits, inference.ErrQueueFull} {
		if errors.Is(err, want) {
			var limit *inference.LimitError
			if !errors.As(err, &limit) || limit.Need <= limit.Limit {
				w.fatalf("refusal without counts: %v", err)
			}
			return
		}
	}
	if err != nil {
		w.fatalf("submit: %v", err)
	}
}

// randomStops ends choices by a hash of who they are, and rarely fails one.
func (w *world) randomStops(salt uint64) {
	w.stop = func(j *job, choice, produced int) bool {
		return mix(salt, uint64(j.id), uint64(choice), uint64(produced))%7 == 0
	}
	w.fault = func(j *job) error {
		if mix(salt, uint64(j.id), uint64(w.steps))%97 == 0 {
			return inference.ErrInternal
		}
		return nil
	}
}

// explore runs random operations in many random worlds. Every operation is
// followed by CheckInvariants and every chunk is checked against the arena;
// watch adds what one property is about.
func explore(t *testing.T, watch func(w *world) (finish func())) {
	t.Helper()
	worlds, ops := 150, 150
	if testing.Short() {
		worlds = 30
	}
	for seed := range uint64(worlds) {
		src := seeded(seed)
		w := randomWorld(t, src)
		w.randomStops(seed)
		finish := watch(w)
		for range ops {
			w.act(src)
		}
		w.unpin()
		w.drain(20000)
		if finish != nil {
			finish()
		}
		if t.Failed() {
			t.Fatalf("in world %d", seed)
		}
	}
}

// FuzzScheduler feeds op sequences of the fuzzer to a random world.
func FuzzScheduler(f *testing.F) {
	for seed := range uint64(8) {
		data := make([]byte, 400)
		rng := rand.New(rand.NewPCG(seed, 2))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4000 {
			return
		}
		src := &source{data: data}
		w := randomWorld(t, src)
		w.randomStops(uint64(len(data)))
		for src.more() {
			w.act(src)
		}
		w.unpin()
		w.drain(20000)
	})
}
