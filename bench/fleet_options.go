package bench

import (
	"errors"
	"fmt"
	"time"

	"weir/router/balance"
)

// FleetOptions are a simulated fleet: the real scheduler and KV cache on simulated machines, behind the real balancer. Zero fields get
// the defaults named.
type FleetOptions struct {
	Replicas int // default 3
	Policy   balance.Policy
	Balance  balance.Config // further settings of the balancer; policy, index size and seed are set from here
	Load     FleetLoad
	Machine  Machine       // default SmallMachine
	Cores    float64       // that the replicas share, one each; 0: each replica has a machine of its own
	KVTokens int           // of each replica's cache; default 40,000
	Report   time.Duration // between two reports of a replica; default 250 ms; below 0 is never
	Late     time.Duration // how late a report comes; default 50 ms
	Faults   []FleetFault
	Pools    FleetPools
	Scaling  FleetScaling // with a Max above 0, Replicas is that
	Seed     uint64
	Check    bool // recount scheduler, cache and index at the end
}

// FleetFault is a replica's death and its return with a cold cache.
type FleetFault struct {
	Replica int
	At      time.Duration
	Down    time.Duration // 0 is for ever
}

// Times of a fleet's life that are no options.
const (
	fleetProbe   = time.Second            // a death or a return is noticed after so long
	fleetConnect = 500 * time.Microsecond // a connection to a dead replica is refused
	fleetRetries = 3                      // attempts of a request, at most
)

func (o *FleetOptions) defaults() error {
	if o.Scaling.Max != 0 {
		if err := o.Scaling.defaults(); err != nil {
			return fmt.Errorf("simulate a fleet: %w", err)
		}
		o.Replicas = o.Scaling.Max
	}
	if o.Replicas == 0 {
		o.Replicas = 3
	}
	if o.Machine == (Machine{}) {
		o.Machine = SmallMachine
	}
	if o.KVTokens == 0 {
		o.KVTokens = 40_000
	}
	if o.Report == 0 {
		o.Report = 250 * time.Millisecond
	}
	if o.Late == 0 {
		o.Late = 50 * time.Millisecond
	}
	o.Load.defaults(o.Replicas)
	if err := o.Pools.defaults(o.Replicas); err != nil {
		return err
	}
	if o.Pools.Prefill > 0 && o.Scaling.Max != 0 {
		return errors.New("simulate a fleet: prefill replicas under an autoscaler are not simulated: leave out one of them")
	}
	if err := o.Load.Chats.check(); err != nil {
		return fmt.Errorf("simulate a fleet: %w", err)
	}
	if o.Replicas < 1 || o.Load.Requests < 1 || o.Load.Tenants < 1 || o.Load.Turns < 1 || !(o.Load.Rate > 0) ||
		!(o.Load.Swing >= 0 && o.Load.Swing < 1) {
		return fmt.Errorf("simulate a fleet: %d replicas, %d requests, %d tenants, %g turns, %g requests a second, a swing of %g: all must be at "+
			"least 1, the rate above 0, the swing from 0 to below 1",
			o.Replicas, o.Load.Requests, o.Load.Tenants, o.Load.Turns, o.Load.Rate, o.Load.Swing)
	}
	if o.KVTokens < o.Load.longest() {
		return fmt.Errorf("simulate a fleet: a cache of %d tokens, want at least the longest request's %d", o.KVTokens, fleetModelLen)
	}
	for _, f := range o.Faults {
		if f.Replica < 0 || f.Replica >= o.Replicas {
			return fmt.Errorf("simulate a fleet: a fault of replica %d, want 0 to %d", f.Replica, o.Replicas-1)
		}
	}
	return nil
}

// errCut is the outcome of a request whose replica died after its first token.
var errCut = errors.New("the replica died after the first token")
