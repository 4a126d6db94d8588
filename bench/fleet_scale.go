package bench

import (
	"errors"
	"fmt"
	"math"
	"time"

	"weir/router/balance"
)

// FleetScaling is an autoscaler, by Kubernetes' rules: a look every now and then at what all replicas report together, out fast and in
// slowly. A replica that comes needs time until it serves, and its cache is cold; one that goes ends what it has. Zero fields get the
// values of configs/kubernetes/autoscale.yaml and keda.yaml.
type FleetScaling struct {
	Min, Max int // replicas; Max of 0 is a fleet that does not change

	Running float64 // requests that run, of one replica in the mean, that are wanted
	Waiting float64 // requests that wait, as above
	KV      float64 // share of the KV cache in use, as above

	Every   time.Duration // between two looks; default 15 s, the controller's own
	StartUp time.Duration // from the decision until the replica serves: scheduled, started, weights read; default 60 s

	OutPeriod time.Duration // in which the replicas may become OutShare more or OutCount more, whichever is greater
	OutShare  float64
	OutCount  int

	InWindow time.Duration // the highest wish of so long counts
	InPeriod time.Duration // in which InCount replicas may go
	InCount  int
}

func (s *FleetScaling) defaults() error {
	manifest := FleetScaling{
		Min: 2, Running: 6, Waiting: 4, KV: 0.8, Every: 15 * time.Second, StartUp: time.Minute,
		OutPeriod: 30 * time.Second, OutShare: 1, OutCount: 2, InWindow: 15 * time.Minute, InPeriod: 5 * time.Minute, InCount: 1,
	}
	setDefault(&s.Min, manifest.Min)
	setDefault(&s.Running, manifest.Running)
	setDefault(&s.Waiting, manifest.Waiting)
	setDefault(&s.KV, manifest.KV)
	setDefault(&s.Every, manifest.Every)
	setDefault(&s.StartUp, manifest.StartUp)
	setDefault(&s.OutPeriod, manifest.OutPeriod)
	setDefault(&s.OutShare, manifest.OutShare)
	setDefault(&s.OutCount, manifest.OutCount)
	setDefault(&s.InWindow, manifest.InWindow)
	setDefault(&s.InPeriod, manifest.InPeriod)
	setDefault(&s.InCount, manifest.InCount)
	if s.Min < 1 || s.Max < s.Min || s.Running <= 0 || s.Waiting <= 0 || s.KV <= 0 || s.Every <= 0 || s.StartUp < 0 {
		return fmt.Errorf("autoscale %d to %d replicas by %g running and %g waiting requests and a KV share of %g: want 1 or more, in this order, "+
			"and targets above 0", s.Min, s.Max, s.Running, s.Waiting, s.KV)
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// FleetScale is a change of the number of replicas that are wanted.
type FleetScale struct {
	At       time.Duration
	From, To int
}

// scaling is an autoscaler at work.
type scaling struct {
	o       FleetScaling
	wishes  []FleetScale // of the last InWindow: To is what was wanted
	changes []FleetScale // all of them
}

// scalingTolerance is how far the replicas may be from what the metrics want before anything is done, as a share of them.
const scalingTolerance = 0.1

// fleetSignals are what an autoscaler sees: sums over the replicas that serve.
type fleetSignals struct{ running, waiting, kv float64 }

// look decides how many replicas there shall be, of which have are there or on their way.
func (s *scaling) look(now time.Duration, have int, seen fleetSignals) int {
	want := have
	if wish := max(seen.running/s.o.Running, seen.waiting/s.o.Waiting, seen.kv/s.o.KV); math.Abs(wish/float64(have)-1) > scalingTolerance {
		want = int(math.Ceil(wish))
	}
	want = min(max(want, s.o.Min), s.o.Max)
	s.wishes = append(s.wishes, FleetScale{At: now, From: have, To: want})
	for now-s.wishes[0].At > s.o.InWindow {
		s.wishes = s.wishes[1:]
	}
	switch {
	case want > have:
		before := have - s.changed(now, s.o.OutPeriod, 1)
		want = min(want, max(int(math.Ceil(float64(before)*(1+s.o.OutShare))), before+s.o.OutCount))
		want = max(want, have)
	case want < have:
		for _, w := range s.wishes {
			want = max(want, w.To)
		}
		want = min(have, max(want, have+s.changed(now, s.o.InPeriod, -1)-s.o.InCount))
	}
	if want != have {
		s.changes = append(s.changes, FleetScale{At: now, From: have, To: want})
	}
	return want
}

// changed is how many replicas came in the last period, for a sign above 0, or went.
func (s *scaling) changed(now, period time.Duration, sign int) int {
	n := 0
	for i := len(s.changes) - 1; i >= 0 && now-s.changes[i].At < period; i-- {
		n += max(0, sign*(s.changes[i].To-s.changes[i].From))
	}
	return n
}

// fleetState is where a replica is in its life under an autoscaler.
type fleetState uint8

const (
	serves fleetState = iota
	absent            // no process
	starts            // not ready yet
	drains            // ends what it has
)

// scale looks at the fleet and changes it.
func (f *fleet) scale() {
	f.post(fleetEvent{at: f.now + f.scaling.o.Every, kind: scalingLooks})
	have, seen := 0, fleetSignals{}
	for i := range f.replicas {
		switch r := &f.replicas[i]; r.state {
		case serves:
			st := r.sim.sched.Stats()
			seen.running += float64(st.Running)
			seen.waiting += float64(st.Waiting)
			seen.kv += float64(st.KVBlocksUsed) / float64(st.KVBlocks)
			have++
		case starts:
			have++
		case absent, drains: // the deployment does not count them
		}
	}
	want := f.scaling.look(f.now, have, seen)
	f.account()
	for ; have < want; have++ {
		f.out()
	}
	for ; have > want; have-- {
		f.in()
	}
}

// account adds up how long replicas were there, until now.
func (f *fleet) account() {
	present := 0
	for i := range f.replicas {
		if f.replicas[i].state != absent {
			present++
		}
	}
	f.done.Present += time.Duration(present) * (f.now - f.accounted)
	f.done.Most = max(f.done.Most, present)
	f.accounted = f.now
}

// out begins to start a replica. One that drains does not come back: its process has been told to end.
func (f *fleet) out() {
	for i := range f.replicas {
		if r := &f.replicas[i]; r.state == absent {
			r.state, r.since = starts, f.now
			r.life++
			f.post(fleetEvent{at: f.now + f.scaling.o.StartUp, kind: replicaStarts, replica: i, life: r.life})
			return
		}
	}
}

// started is a replica's first moment of service, with a cold cache.
func (f *fleet) started(number int) error {
	r := &f.replicas[number]
	if err := f.boot(r); err != nil {
		return err
	}
	r.state, r.dead = serves, false
	return f.join(number)
}

// in lets the newest replica go, as a Deployment does: one that does not serve yet at once, another one when it is idle.
func (f *fleet) in() {
	newest := -1
	for i := range f.replicas {
		if r := &f.replicas[i]; (r.state == starts || r.state == serves) &&
			(newest < 0 || r.state == starts && f.replicas[newest].state == serves ||
				r.state == f.replicas[newest].state && r.since >= f.replicas[newest].since) {
			newest = i
		}
	}
	r := &f.replicas[newest]
	if r.state == starts {
		r.state = absent
		r.life++
		return
	}
	r.state = drains
	f.balancer.Drain(r.id)
	f.leave(newest)
}

// leave ends a draining replica that has nothing left to do.
func (f *fleet) leave(number int) {
	r := &f.replicas[number]
	if r.state != drains || len(r.live) > 0 {
		return
	}
	f.account()
	f.balancer.Remove(r.id)
	r.state, r.dead, r.busy = absent, true, false
	r.life++
	r.lived = addCounters(r.lived, r.sim.sched.Stats().Counters)
}

// join makes a replica known to the balancer.
func (f *fleet) join(number int) error {
	id, err := f.balancer.Add(f.time(), balance.Member{Slots: servedConfig().MaxSeqs, Blocks: f.o.KVTokens / simBlock, Pool: f.o.Pools.pool(number)})
	if err != nil {
		return err
	}
	f.replicas[number].id, f.numbers[id] = id, number
	return nil
}

// startScaling gives a fleet its autoscaler: the first replicas serve, the others are not there.
func (f *fleet) startScaling() error {
	s := f.o.Scaling
	if len(f.o.Faults) > 0 {
		return errors.New("faults under an autoscaler are not simulated: leave out one of them")
	}
	f.scaling = &scaling{o: s}
	for i := s.Min; i < len(f.replicas); i++ {
		f.replicas[i].state, f.replicas[i].dead = absent, true
	}
	f.post(fleetEvent{at: s.Every, kind: scalingLooks})
	return nil
}
