package capacity

import (
	"cmp"
	"math"
	"slices"
)

// Unit is one instance of a plan and what stands on it.
type Unit struct {
	Instance string   `json:"instance"`
	Count    int      `json:"count"` // of equal ones, in all zones
	Slices   []Slice  `json:"slices,omitempty"`
	Shared   []Tenant `json:"replicas,omitempty"`

	instance *Instance
}

// Slice is a MIG slice and the replica on it.
type Slice struct {
	Placed
	Model string `json:"model"`
	Pool  Pool   `json:"pool"`
}

// Tenant is a replica on a whole instance.
type Tenant struct {
	Model     string   `json:"model"`
	Pool      Pool     `json:"pool"`
	MemoryGiB float64  `json:"memory_gib"` // weights, and the KV that its load needs or that is left
	Latency   *Latency `json:"latency,omitempty"`

	item *item
}

// item is a replica that is packed.
type item struct {
	model *Model
	pool  *PoolPlan
	bytes float64
	busy  float64
}

// pack puts the replicas of all chosen options on as few instances as it finds, those of one zone.
func (p *planner) pack(chosen []*option) []Unit {
	zones := max(1, p.c.Zones)
	var units []Unit
	for i := range p.c.Instances {
		x := &p.c.Instances[i]
		var whole []item
		var want counts
		var queue [][]Slice
		if x.card != nil {
			want, queue = make(counts, len(x.card.Profiles)), make([][]Slice, len(x.card.Profiles))
		}
		for _, o := range chosen {
			for j := range o.pools {
				pool := &o.pools[j]
				if pool.kind.instance != x {
					continue
				}
				each := pool.Replicas / zones
				if k := pool.kind.profile; k >= 0 {
					want[k] += each
					for range each {
						queue[k] = append(queue[k], Slice{Model: o.model.Name, Pool: pool.Pool})
					}
					continue
				}
				for range each {
					whole = append(whole, newItem(o.model, pool))
				}
			}
		}
		if !want.empty() {
			units = append(units, cutUnits(x, want, queue)...)
		}
		units = append(units, stackUnits(p, x, whole)...)
	}
	return joined(units, zones)
}

// cutUnits are cards cut into the slices that are wanted.
func cutUnits(x *Instance, want counts, queue [][]Slice) []Unit {
	var units []Unit
	for _, n := range x.card.cards(want) {
		placed, _ := x.card.place(n)
		u := Unit{Instance: x.Name, Count: 1, instance: x}
		for _, at := range placed {
			k := x.card.find(at.Profile)
			s := queue[k][0]
			queue[k] = queue[k][1:]
			s.Placed = at
			u.Slices = append(u.Slices, s)
		}
		slices.SortFunc(u.Slices, func(a, b Slice) int { return a.Start - b.Start })
		units = append(units, u)
	}
	return units
}

// mostStretch is how much slower a replica's steps may become by those beside it on a shared instance.
const mostStretch = 2

// newItem is a replica with the memory that it needs: weights, and KV for twice its sequences, since beside others they may stay twice as
// long.
func newItem(m *Model, pool *PoolPlan) item {
	it := item{model: m, pool: pool, bytes: m.WeightsGiB * gib}
	demand := pool.replica.demand
	demand.Rate = min(mostStretch*pool.Rate, pool.Sustained)
	if need, err := demand.Need(); err == nil {
		tokens := max(need.Live*demand.held()/(1-demand.Headroom), float64(m.lengths.longest()+2*simBlock))
		if pool.replica.kvTokens > 0 {
			tokens = min(tokens, float64(pool.replica.kvTokens))
		}
		it.bytes += tokens * m.KVBytes
	}
	if it.busy = 1; pool.Latency != nil {
		it.busy = pool.Latency.Busy
	}
	return it
}

// stackUnits puts replicas on whole instances, the largest first, each on the first that has room for it. Where the instance is not
// shared, each has one of its own.
func stackUnits(p *planner, x *Instance, whole []item) []Unit {
	slices.SortStableFunc(whole, func(a, b item) int { return cmp.Compare(b.bytes, a.bytes) })
	var stacks [][]*item
	for i := range whole {
		it := &whole[i]
		at := -1
		if x.Share {
			at = slices.IndexFunc(stacks, func(s []*item) bool { return p.fits(x, append(slices.Clip(s), it)) })
		}
		if at < 0 {
			at, stacks = len(stacks), append(stacks, nil)
		}
		stacks[at] = append(stacks[at], it)
	}
	var units []Unit
	for _, s := range stacks {
		u := Unit{Instance: x.Name, Count: 1, instance: x}
		for _, it := range s {
			u.Shared = append(u.Shared, Tenant{it.model.Name, it.pool.Pool, it.bytes / gib, it.beside(s), it})
		}
		units = append(units, u)
	}
	return units
}

// fits reports whether replicas can share an instance: their memory, their time, and the targets of each.
func (p *planner) fits(x *Instance, s []*item) bool {
	bytes, busy := 0.0, 0.0
	for i, it := range s {
		bytes, busy = bytes+it.bytes, busy+it.busy
		if slices.ContainsFunc(s[:i], func(other *item) bool { return other.model == it.model }) {
			return false
		}
	}
	if bytes > x.MemoryGiB*gib || busy > 1-p.headroom {
		return false
	}
	return !slices.ContainsFunc(s, func(it *item) bool {
		l := it.beside(s)
		return l == nil || it.targets().missed(l) != nil
	})
}

// targets that the replica has to keep by itself. Pools that stand apart share theirs out, so they are not put beside others.
func (it *item) targets() *Targets {
	if it.pool.Pool != Mixed {
		return &Targets{TTFT50: 1}
	}
	return &it.model.Targets
}

// beside is what the replica's requests see where the others compute on the same processors: its steps take 1 / (1 - their share of the
// time) as long. What steps that take s times as long do at a rate, the old ones do at s times the rate in a time s times as short. nil: it
// is more than it sustains, or nothing is known of its steps.
func (it *item) beside(s []*item) *Latency {
	others := 0.0
	for _, other := range s {
		if other != it {
			others += other.busy
		}
	}
	if others == 0 {
		return it.pool.Latency
	}
	stretch := 1 / (1 - others)
	if !(stretch > 0 && stretch <= mostStretch) || stretch*it.pool.Rate > it.pool.Sustained || it.pool.replica.rates.Machine == nil {
		return nil
	}
	l, err := it.pool.replica.latency(stretch * it.pool.Rate)
	if err != nil {
		return nil
	}
	times := func(q Quantiles) Quantiles { return Quantiles{stretch * q.P50, stretch * q.P99} }
	return &Latency{times(l.TTFT), times(l.ITL), it.busy}
}

// joined counts equal units together, in all zones.
func joined(units []Unit, zones int) []Unit {
	var all []Unit
	for _, u := range units {
		same := slices.IndexFunc(all, func(v Unit) bool {
			return v.instance == u.instance && slices.Equal(v.Slices, u.Slices) && slices.EqualFunc(v.Shared, u.Shared, func(a, b Tenant) bool {
				return a.Model == b.Model && a.Pool == b.Pool && a.item.pool == b.item.pool
			})
		})
		if same < 0 {
			u.Count *= zones
			all = append(all, u)
			continue
		}
		all[same].Count += zones
	}
	return all
}

// price of units an hour.
func price(units []Unit) float64 {
	sum := 0.0
	for i := range units {
		sum += float64(units[i].Count) * units[i].instance.PricePerHour
	}
	return math.Round(sum*1e6) / 1e6
}
