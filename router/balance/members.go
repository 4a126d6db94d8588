package balance

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// members are the replicas that get requests. They are replaced whole.
type members struct {
	active []ReplicaID
	ring   []point // of the active ones, by place
}

// point is one of a replica's places on the ring of consistent hashing.
type point struct {
	place   uint64
	replica ReplicaID
}

// ringPoints is the number of each replica's places.
const ringPoints = 64

// ErrFull says that a balancer has no number left for another replica.
var ErrFull = errors.New("no room for another replica")

// Add makes a replica known. Beside replicas that have been there for some time, it begins slowly.
func (b *Balancer) Add(now time.Time, m Member) (ReplicaID, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.replicas {
		r := &b.replicas[i]
		// A number whose former owner has requests in flight is not given away: their ends would count for the new one.
		if c := r.counts(); !r.is(absent) || c.own() > 0 {
			continue
		}
		id := ReplicaID(i)
		r.reset(m, b.speed())
		b.index.Drop(id)
		if m.Blocks > 0 {
			b.index.Limit(id, m.Blocks)
		}
		b.start(id, now)
		return id, nil
	}
	return 0, fmt.Errorf("%w: %d are there", ErrFull, len(b.replicas))
}

// speed is what a replica of which nothing is known is taken to need for a prompt token, in nanoseconds: the mean of the others.
func (b *Balancer) speed() float64 {
	sum, n := 0.0, 0
	for _, m := range b.members.Load() {
		for _, id := range m.active {
			sum += b.replicas[id].prefill.get()
			n++
		}
	}
	if n == 0 {
		return float64(b.c.Prefill)
	}
	return sum / float64(n)
}

// start makes a replica active.
func (b *Balancer) start(id ReplicaID, now time.Time) {
	b.replicas[id].since.Store(int64(b.since(now)))
	b.turn(id, active)
}

// Remove forgets a replica. Its requests in flight may end.
func (b *Balancer) Remove(id ReplicaID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn(id, absent)
	b.index.Drop(id)
}

// Drain gives a replica no more requests; it keeps those that it has.
func (b *Balancer) Drain(id ReplicaID) { b.change(id, draining) }

// Suspend gives a replica no requests until Resume. What it has cached stays known.
func (b *Balancer) Suspend(id ReplicaID) { b.change(id, suspended) }

func (b *Balancer) change(id ReplicaID, s state) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.replicas[id].is(absent) {
		b.turn(id, s)
	}
}

// Resume gives a suspended or draining replica requests again, slowly at first.
func (b *Balancer) Resume(now time.Time, id ReplicaID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := &b.replicas[id]; r.is(suspended) || r.is(draining) {
		b.start(id, now)
	}
}

// Forget drops what a replica is thought to have cached, and its last report: its process is a new one.
func (b *Balancer) Forget(id ReplicaID) {
	b.index.Drop(id)
	b.replicas[id].report.Store(nil)
}

// turn changes a replica's state. The caller holds the lock.
func (b *Balancer) turn(id ReplicaID, s state) {
	b.replicas[id].state.Store(uint32(s))
	all := new([numPools]members)
	for i := range b.replicas {
		if r := &b.replicas[i]; r.is(active) {
			m := &all[r.pool.Load()]
			m.active = append(m.active, ReplicaID(i))
		}
	}
	for i := range all {
		all[i].place()
	}
	b.members.Store(all)
	b.nextSweep.Store(0)
}

// place gives the active replicas their places on the ring.
func (m *members) place() {
	for _, id := range m.active {
		for i := range uint64(ringPoints) {
			m.ring = append(m.ring, point{mix(uint64(id)<<32 + i + 1), id})
		}
	}
	slices.SortFunc(m.ring, func(a, b point) int { return cmp.Compare(a.place, b.place) })
}

// at is the index in the ring of the first point from a place on.
func (m *members) at(place uint64) int {
	i, _ := slices.BinarySearchFunc(m.ring, place, func(p point, place uint64) int { return cmp.Compare(p.place, place) })
	if i == len(m.ring) {
		return 0
	}
	return i
}

// home is the replica that a session is drawn to.
func (m *members) home(session uint64) ReplicaID { return m.ring[m.at(mix(session))].replica }
