package bench

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// mixSeconds is how long a mix of tenants sends.
const mixSeconds = 300

// tenantsLoad is seven normal tenants, one that comes and goes, one that sends long
// prompts, and with abuse one that sends ten times what a normal one does: together
// half as much again as the machine can serve. No request waits longer than 30 s.
func tenantsLoad(seed uint64, abuse bool) SimOptions {
	o := SimOptions{Scheduler: servedConfig(), Machine: SmallMachine, Seed: seed, KVTokens: 40_000}
	const perSecond = 0.2 // of a normal tenant
	send := func(tenant, label string, rate float64, stream uint64, here func(at float64) bool, prompt int) {
		rng := rand.New(rand.NewPCG(seed, 2000+stream))
		for at := rng.ExpFloat64() / rate; at < mixSeconds; at += rng.ExpFloat64() / rate {
			r := SimRequest{
				Label: label, Tenant: tenant, At: time.Duration(at * 1e9), WaitFor: 30 * time.Second,
				Prompt: cmp.Or(prompt, 60+rng.IntN(101)), Output: 16 + rng.IntN(33),
			}
			if here(at) {
				o.Requests = append(o.Requests, r)
			}
		}
	}
	always := func(float64) bool { return true }
	for i := range 7 {
		send("normal "+strconv.Itoa(i), "normal", perSecond, uint64(i), always, 0)
	}
	send("on and off", "on and off", 8*perSecond, 7, func(at float64) bool { return int(at)%60 < 20 }, 0)
	send("long", "long", 1.0/30, 8, always, 4000)
	if abuse {
		send("abuser", "abuser", 10*perSecond, 9, always, 0)
	}
	return o
}

// SimTenant is what one tenant got of a simulation.
type SimTenant struct {
	Name     string
	Requests int
	Failed   int
	Weight   int
	Work     time.Duration // compute time of its rows
	Fair     time.Duration // what it would have got if all were served in proportion to what they are due
}

// Tenants sums up a simulation by tenant, in order of their names. A tenant of which
// nothing failed wanted no more than it got; the others wanted more. What each is due
// is its part by weight of the compute time, less where it wanted less, and the rest
// of that again divided among the others (max-min fairness).
func (r *SimResult) Tenants() []SimTenant {
	var list []SimTenant
	total := time.Duration(0)
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		at := slices.IndexFunc(list, func(t SimTenant) bool { return t.Name == o.Request.Tenant })
		if at < 0 {
			at = len(list)
			list = append(list, SimTenant{Name: o.Request.Tenant, Weight: max(o.Request.Weight, 1)})
		}
		t := &list[at]
		t.Requests++
		t.Work += o.Work
		total += o.Work
		if o.Err != nil {
			t.Failed++
		}
	}
	slices.SortFunc(list, func(a, b SimTenant) int { return cmp.Compare(a.Name, b.Name) })
	divide(list, total)
	return list
}

// divide sets what each tenant is due of a total.
func divide(list []SimTenant, total time.Duration) {
	wants := make([]int, len(list)) // those that have not been given theirs, who want least by weight first
	for i := range wants {
		wants[i] = i
	}
	demand := func(t *SimTenant) float64 {
		if t.Failed > 0 {
			return 1e300
		}
		return float64(t.Work) / float64(t.Weight)
	}
	slices.SortStableFunc(wants, func(a, b int) int { return cmp.Compare(demand(&list[a]), demand(&list[b])) })
	weight := 0
	for i := range list {
		weight += list[i].Weight
	}
	left := float64(total)
	for _, i := range wants {
		t := &list[i]
		each := min(left/float64(weight), demand(t))
		t.Fair = time.Duration(each * float64(t.Weight))
		left -= each * float64(t.Weight)
		weight -= t.Weight
	}
}

// Jain is Jain's index of fairness over what tenants got by what they were due: 1
// where all got the same part of it, 1/n where one got everything.
func Jain(tenants []SimTenant) float64 {
	sum, squares := 0.0, 0.0
	for i := range tenants {
		x := float64(tenants[i].Work) / max(float64(tenants[i].Fair), 1)
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(tenants)) * max(squares, 1e-9))
}

// fairness is the line of a table that tells how fair a simulation was.
func (r *SimResult) fairness() string {
	tenants := r.Tenants()
	if len(tenants) < 2 {
		return ""
	}
	return fmt.Sprintf("%d tenants; Jain's index of compute time by what each is due %.3f\n", len(tenants), Jain(tenants))
}
