package admission

import (
	"testing"

	"weir/internal/inference"
)

// A tenant of twice the weight gets twice the compute before the other is the least served one.
func TestCountersDivideByWeight(t *testing.T) {
	ct := counters{cfg: Config{MaxIdleTenants: 4}, byKey: make(map[flowKey]int32)}
	for c := range ct.classes {
		ct.classes[c].idle = idleList{none, none, 0}
	}
	a := ct.flowOf(Item{Tenant: "a", Class: inference.Default, Weight: 2})
	b := ct.flowOf(Item{Tenant: "b", Class: inference.Default})
	ct.flows.at(b).turn = 1
	ct.push(a)
	ct.push(b)
	got := map[int32]int{}
	for range 30 {
		fi, ok := ct.leastServed(inference.Default)
		if !ok {
			t.Fatal("no tenant is the least served one")
		}
		got[fi]++
		ct.serve(fi, 10)
	}
	if got[a] != 20 || got[b] != 10 {
		t.Errorf("turns: %d and %d, want 20 and 10", got[a], got[b])
	}
	if d := ct.Debt("b", inference.Default); d != 0 && d != 10 {
		t.Errorf("debt %d", d)
	}

	// What was charged too much is taken off the next charges.
	before := ct.flows.at(a).service
	ct.Refund(FlowID(a), 5)
	if ct.serve(a, 5); ct.flows.at(a).service != before {
		t.Error("a refund does not pay the next charge")
	}
}

// Only requests of a lower standing give way; retries before first tries, of these the youngest.
func TestShedOrder(t *testing.T) {
	q, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range []Item{
		{Ref: 1, Tenant: "a", Class: inference.Batch, Cost: 1},
		{Ref: 2, Tenant: "a", Class: inference.Batch, Cost: 1, Retries: 1},
		{Ref: 3, Tenant: "a", Class: inference.Batch, Cost: 1},
		{Ref: 4, Tenant: "a", Class: inference.Default, Cost: 1},
	} {
		if _, err := q.Offer(it); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []uint64{2, 3, 1} {
		if ref := q.drop(q.sheds.furthest(inference.Batch)); ref != want {
			t.Errorf("%d gives way, want %d", ref, want)
		}
	}
	if n := q.sheds.totals.below(inference.Default); n.Requests != 0 {
		t.Errorf("%d requests give way to default ones, want none", n.Requests)
	}
}
