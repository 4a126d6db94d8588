package admission

import (
	"math/rand/v2"
	"testing"

	"weir/internal/inference"
)

// However often a younger request is preferred, who has n older ones of its tenant before it starts
// by its tenant's 13(n+1)th turn, other tenants keep their turns, and the queue stays whole.
func TestPreferredRequestsPassTheOldestAFewTimesOnly(t *testing.T) {
	q := mustQueue(t, Config{MaxRequests: 1000})
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		offer(t, q, inference.Default, "a:1")
	}
	offer(t, q, inference.Default, "b:1", "b:1", "b:1")
	turns, passed := map[string]int{}, 0
	for q.Len() > 0 {
		q.Scan(inference.Default, false)
		_, ticket, _ := q.Next()
		if rivals := q.Rivals(make([]Rival, 0, 32)); len(rivals) > 0 {
			ticket = rivals[rng.IntN(len(rivals))].Ticket
			q.Prefer(ticket)
			passed++
		}
		e, _ := q.entries.index(uint64(ticket))
		n := *q.entries.at(e)
		q.Done(q.Take(n.item.Cost))
		q.EndScan()
		check(t, q)
		turns[n.item.Tenant]++
		if by := int(n.place) * (maxPreferredTurns + 1); turns[n.item.Tenant] > by {
			t.Errorf("request %d of %s has turn %d, want it by turn %d", n.place, n.item.Tenant, turns[n.item.Tenant], by)
		}
		if turns["a"] == 6 && turns["b"] < 3 {
			t.Errorf("after six turns of one tenant the other had %d of three", turns["b"])
		}
	}
	if passed < 80 {
		t.Errorf("the oldest was passed %d times only", passed)
	}
}

// Requests that are due go first; none is preferred to them.
func TestNoOneIsPreferredToWhoIsDue(t *testing.T) {
	q := mustQueue(t, Config{})
	for ref, due := range []int64{0, 40, 30} {
		if _, err := q.Offer(Item{Ref: uint64(ref), Due: due, Cost: 1}); err != nil {
			t.Fatal(err)
		}
	}
	q.Scan(inference.Interactive, false)
	defer q.EndScan()
	if ref, _, ok := q.Next(); !ok || ref != 2 {
		t.Fatalf("request %d, %v", ref, ok)
	}
	if rivals := q.Rivals(make([]Rival, 0, 8)); len(rivals) != 0 {
		t.Errorf("rivals %v of one that is due", rivals)
	}
}
