package admission

import (
	"testing"

	"weir/internal/inference"
)

// What a tenant takes outside of all lanes counts against it in each of them, by its weight.
func TestChargesFromOutsideTheLanes(t *testing.T) {
	s := new(Service)
	var queues []*Queue
	for range 2 {
		queues = append(queues, mustQueue(t, Config{MaxRequests: 1000, Lane: s.Lane()}))
	}
	for _, q := range queues {
		for range 10 {
			offer(t, q, 0, "busy:10", "modest:10") // odd numbers are the busy one's, which came first
		}
	}
	s.Charge("busy", inference.Interactive, 1, 500)
	for lane, q := range queues {
		if ref, ok := serveNext(t, q); !ok || ref%2 == 1 {
			t.Errorf("lane %d: the first turn is that of the tenant that had five outside", lane)
		}
	}
	s.Charge("busy", inference.Interactive, 0, 1<<60) // neither a weight nor a time that can be
}
