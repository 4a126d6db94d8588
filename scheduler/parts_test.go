package scheduler

import (
	"errors"
	"testing"

	"weir/internal/inference"
	"weir/kvcache"
)

// parts is a scheduler whose parts are called one by one.
func parts(t *testing.T, cfg Config, blocks int) *Scheduler {
	t.Helper()
	pool, err := kvcache.New(kvcache.Config{Blocks: blocks, BlockTokens: 16, ModelDigest: "m", KVType: "f16"})
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxModelLen, cfg.OutputEstimate = 4096, 16
	s, err := New(cfg, pool)
	if err != nil {
		t.Fatal(err)
	}
	s.step.begin(0, &Plan{})
	s.pacer.begin()
	return s
}

// submit queues a request and hands it back.
func submit(t *testing.T, s *Scheduler, tenant string, class inference.Class, rows int) *request {
	t.Helper()
	ids := make([]inference.TokenID, rows)
	for i := range ids {
		ids[i] = inference.TokenID(s.stats.Submitted)*1000 + inference.TokenID(i) //nolint:gosec // small
	}
	id, err := s.Submit(0, Request{Prompt: ids, MaxTokens: 16, Tenant: tenant, Class: class, Domain: s.pool.Domain(tenant)})
	if err != nil {
		t.Fatal(err)
	}
	return s.requests.find(id)
}

// started submits a request and lets it run.
func started(t *testing.T, s *Scheduler, tenant string, class inference.Class, rows int) *sequence {
	t.Helper()
	r := submit(t, s, tenant, class, rows)
	if !s.admitter.admitOne() || !r.started {
		t.Fatalf("the request of %q does not start", tenant)
	}
	return r.choices[0].seq
}

func TestAdmitterJudges(t *testing.T) {
	judge := func(s *Scheduler, r *request) verdict {
		return s.admitter.judge(&candidate{req: r, ids: r.Prompt, most: r.live})
	}
	s := parts(t, Config{MaxSeqs: 2, PrefillChunk: 32, MaxPrefills: 1}, 10)
	if v := judge(s, submit(t, s, "a", inference.Default, 40)); v != fits {
		t.Errorf("nothing runs: verdict %d, want fits", v)
	}
	s = parts(t, Config{MaxSeqs: 2, PrefillChunk: 32, MaxPrefills: 1}, 10)
	first := started(t, s, "a", inference.Default, 40)
	for _, c := range []struct {
		what   string
		prompt []inference.TokenID
		want   verdict
	}{
		{"a long prompt runs already", make([]inference.TokenID, 40), overLimit},
		{"a short prompt", make([]inference.TokenID, 24), fits},
		{"its first block is being computed", first.ids[:31], awaitsPrefix},
	} {
		r := submit(t, s, "a", inference.Default, len(c.prompt))
		if r.Prompt = c.prompt; judge(s, r) != c.want {
			t.Errorf("%s: verdict %d, want %d", c.what, judge(s, r), c.want)
		}
		s.Cancel(0, r.id, -1)
	}
	started(t, s, "a", inference.Default, 2)
	if v := judge(s, submit(t, s, "a", inference.Default, 31)); v != lacksRoom {
		t.Errorf("all slots are taken: verdict %d, want lacksRoom", v)
	}
}

func TestAdmitterStarts(t *testing.T) {
	s := parts(t, Config{MaxSeqs: 8}, 100)
	started(t, s, "a", inference.Default, 8)
	if s.admitter.lastStarted != startedRequest || s.admitter.admitted != 1 || s.stats.Admitted != 1 {
		t.Errorf("last started %d, %d admitted", s.admitter.lastStarted, s.admitter.admitted)
	}
	if s.admitter.admitOne() {
		t.Error("something starts although nothing waits")
	}
}

func TestPausesFreeSlots(t *testing.T) {
	cfg := Config{MaxSeqs: 4, SharePercent: [inference.NumClasses]int{inference.Default: 25, inference.Batch: 25}}
	s := parts(t, cfg, 100)
	var batch []*sequence
	for range 4 {
		batch = append(batch, started(t, s, "b", inference.Batch, 8))
	}
	s.step.plans++ // what started in this very plan keeps its slot
	wants := submit(t, s, "a", inference.Interactive, 8)
	for i := range 3 {
		if !s.pauses.freeSlot(wants) {
			t.Fatalf("slot %d is not freed for a higher class", i)
		}
		if q := batch[3-i]; len(s.sequences.paused) != i+1 || s.sequences.paused[0] != q {
			t.Fatalf("%d are paused, want the youngest first", len(s.sequences.paused))
		}
	}
	if s.pauses.freeSlot(wants) {
		t.Error("the last slot was taken, which the class is guaranteed")
	}
	if q := s.pauses.nextPaused(true); q != nil {
		t.Error("a paused sequence takes the slot that it was paused for")
	}
	if !s.Cancel(0, wants.id, -1) {
		t.Fatal("the request is gone")
	}
	if s.pauses.resumePaused(true); len(s.sequences.paused) != 0 || s.shares.taken != 4 {
		t.Errorf("%d stay paused with %d slots taken although none waits", len(s.sequences.paused), s.shares.taken)
	}
	if err := s.sequencesInOrder(); err != nil {
		t.Error(err)
	}
}

func (s *Scheduler) sequencesInOrder() error { return errors.Join(s.checkSequences(), s.checkShares()) }

// A victim is of the lowest class, and of these the one that loses least work; a sequence never gives way to a lower class.
func TestPreemptorPicksVictims(t *testing.T) {
	s := parts(t, Config{MaxSeqs: 8, MinRunTokens: 8}, 100)
	batch := started(t, s, "a", inference.Batch, 8)
	started(t, s, "a", inference.Interactive, 8)
	long, short := started(t, s, "a", inference.Default, 32), started(t, s, "a", inference.Default, 32)
	long.computed, short.computed = 32, 16
	if v := s.preemptor.victim(0); v != batch {
		t.Errorf("victim %v, want the batch request", v.req.id)
	}
	s.allocator.preempt(batch, inference.GaveOlder)
	if v := s.preemptor.victim(0); v != short {
		t.Error("the victim is not the one with less computed rows")
	}
	short.preemptions = s.cfg.PreemptLimit
	if v := s.preemptor.victim(0); v != long {
		t.Error("a sequence is preempted beyond its limit while another is not")
	}
	if v := s.preemptor.victim(len(s.sequences.running) - 1); v != nil {
		t.Error("a sequence before the last one gives way to it")
	}
}

// Blocks that end soon are not counted on before they are free: the peak is found at the ends of sequences.
func TestForecastDemand(t *testing.T) {
	f := &forecast{pool: emptyPool(t, 100), blockTokens: 16, slacks: make([]int, 16)}
	if n := f.demand(); n != 0 {
		t.Errorf("nothing runs and %d blocks are needed", n)
	}
	f.add(growth{left: 32, private: 4}, 1) // two blocks more until its end
	if n := f.demand(); n != 2 {
		t.Errorf("demand %d, want 2", n)
	}
	f.add(growth{left: 16, slack: 0, private: 8}, 1) // when both have grown a block each, it ends and frees its own
	if n := f.demand(); n != 2 {
		t.Errorf("demand %d, want 2: one block for each at the end of the shorter one", n)
	}
	f.remove(growth{left: 32, private: 4}, 1)
	if n := f.demand(); n != 1 || len(f.growth) != 1 {
		t.Errorf("demand %d of %d sequences, want 1 of 1", n, len(f.growth))
	}
}
