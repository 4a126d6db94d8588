package scheduler

import (
	"testing"

	"weir/internal/inference"
	"weir/kvcache"
)

func TestTenantSharesSlots(t *testing.T) {
	cfg := &Config{MaxSeqs: 12, SharePercent: [inference.NumClasses]int{inference.Default: 25, inference.Batch: 10}}
	ts := newTenantShares(cfg, emptyPool(t, 90))
	a := ts.add(0, &Request{Tenant: "a", Class: inference.Default, Weight: 2})
	ts.addSlots(a, 6)
	if ts.contested(inference.Default) || ts.above(a) || ts.entitled(a) {
		t.Error("a tenant alone has no share to keep to")
	}
	b := ts.add(0, &Request{Tenant: "b", Class: inference.Default})
	other := ts.add(0, &Request{Tenant: "b", Class: inference.Interactive})
	ts.addSlots(other, 3)

	// The interactive class leaves 9 slots: 6 are a's by weight and 3 are b's.
	if n := ts.classSlots(inference.Default); n != 9 || ts.taken != 9 {
		t.Fatalf("the class has %d slots, %d are taken", n, ts.taken)
	}
	for slots, want := range map[int]struct{ entitled, above bool }{0: {true, false}, 2: {true, false}, 3: {false, false}, 4: {false, true}} {
		ts.addSlots(b, slots)
		ts.addSlots(other, 0)
		if slots > 0 {
			ts.addSlots(a, -slots) // the class keeps what it has
		}
		if ts.entitled(b) != want.entitled || ts.above(b) != want.above {
			t.Errorf("with %d slots: entitled %v, above %v, want %v", slots, ts.entitled(b), ts.above(b), want)
		}
		ts.addSlots(b, -slots)
		ts.addSlots(a, slots)
	}
	if n := ts.guaranteedSlots(inference.Default); n != 3 || !ts.aboveGuarantee(inference.Default) || ts.aboveGuarantee(inference.Batch) {
		t.Errorf("the class is guaranteed %d slots", n)
	}
}

func TestTenantSharesBlocks(t *testing.T) {
	ts := newTenantShares(&Config{MaxSeqs: 12}, emptyPool(t, 90))
	a, b := ts.add(0, &Request{Tenant: "a", Weight: 2}), ts.add(0, &Request{Tenant: "b"})
	ts.countBlocks(inference.Interactive)
	if a.room != 60*16 || b.room != 30*16 {
		t.Errorf("room for %d and %d rows, want 960 and 480", a.room, b.room)
	}
	b.blocks = 29
	of := &request{share: b, shape: ts.pool.ShapeOf(kvcache.Domain{})}
	if !ts.hasRoomFor(of, 16) || ts.hasRoomFor(of, 17) || !ts.withinShare(a, 60) || ts.withinShare(a, 61) {
		t.Error("a has 60 blocks of 90, b has 30")
	}
}

// A tenant's size outlasts its requests, so that waves of requests crowd those of others only as long as they are more.
func TestTenantSharesRememberPeaks(t *testing.T) {
	ts := newTenantShares(&Config{MaxSeqs: 12}, emptyPool(t, 90))
	r := &Request{Tenant: "wave"}
	wave := ts.add(0, r)
	for range 7 {
		ts.add(0, r)
	}
	few := ts.add(0, &Request{Tenant: "few"})
	if !wave.crowds(few) || few.crowds(wave) || !ts.isCrowded(few) {
		t.Error("eight requests do not crowd one")
	}
	for range 8 {
		ts.remove(1, wave)
	}
	if ts.isCrowded(few) || ts.contested(inference.Interactive) {
		t.Error("a tenant without requests crowds others")
	}
	if back := ts.add(2, r); back.peakLive != 8 || len(ts.recent) != 0 {
		t.Errorf("the tenant is back with a peak of %d, want 8", back.peakLive)
	}
	if late := ts.add(int64(recentPeakTime)*3, r); late.peakLive != 2 {
		t.Errorf("the peak is %d long after, want 2", late.peakLive)
	}
}

// emptyPool has so many blocks of 16 rows.
func emptyPool(t *testing.T, blocks int) *kvcache.Pool {
	t.Helper()
	p, err := kvcache.New(kvcache.Config{Blocks: blocks + 1, BlockTokens: 16})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
