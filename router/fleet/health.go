package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	probeTimeout  = 2 * time.Second
	failedProbes  = 2       // in a row take a replica out; a probe that found it ready puts it back
	busyProbes    = 15      // instead, without an answer, while it works and its probes wait behind that: about a minute
	maxProbeBytes = 1 << 16 // of an answer that says how a replica is
	jitter        = 0.2     // of pauses, so that replicas and routers do not fall into step
)

// Run watches the replicas and looks for further ones until ctx ends.
func (f *Fleet) Run(ctx context.Context) {
	var watchers sync.WaitGroup
	defer watchers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(map[*replica]context.CancelFunc)
	stopLooking := f.sources.look(ctx, &watchers)
	for {
		current := make(map[*replica]bool)
		for _, r := range f.members.Load().list {
			current[r] = true
			if watched[r] == nil {
				inner, stop := context.WithCancel(ctx)
				watched[r] = stop
				if kinds[r.target.Kind].provider == nil { // requests alone tell how a provider is
					watchers.Go(func() { f.watch(inner, r) })
				}
				switch {
				case f.blocks.tellsBlocks(r):
					watchers.Go(func() { f.blocks.followBlocks(inner, r) })
				case f.blocks.follows && r.target.Events.Endpoint != "":
					watchers.Go(func() { f.blocks.followEvents(inner, r) })
				}
			}
		}
		for r, stop := range watched {
			if !current[r] {
				stop()
				delete(watched, r)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-f.sources.changed:
			stopLooking()
			stopLooking = f.sources.look(ctx, &watchers)
		case <-f.moved:
		}
	}
}

// watch probes a replica until ctx ends.
func (f *Fleet) watch(ctx context.Context, r *replica) {
	var d probeFailures
	for {
		before := r.heard.Load()
		found := r.probe(ctx)
		if ctx.Err() != nil {
			return
		}
		if d.add(found, kinds[r.target.Kind].healthWaits && r.running.Load() > 0, r.heard.Load() != before) {
			f.judge(r, found.state, found.why)
		}
		if found.state == Ready {
			f.scrape(ctx, r)
		}
		if !pause(ctx, f.config.ProbeEvery) {
			return
		}
	}
}

// probeResult is what a probe found out.
type probeResult struct {
	state State
	why   string
	slow  bool // no answer came in time
}

// probeFailures are the failed probes of a replica, in a row.
type probeFailures struct{ failures int }

// add takes in a probe and reports whether it counts. A replica that does not answer its
// probe in time, and meanwhile sent pieces of other answers, is busy and lives. waits says
// that probes may stand in line behind its requests.
func (d *probeFailures) add(p probeResult, waits, heard bool) bool {
	switch {
	case p.state != Down:
		d.failures = 0
		return true
	case p.slow && heard:
		return false
	}
	d.failures++
	if p.slow && waits {
		return d.failures >= busyProbes
	}
	return d.failures >= failedProbes
}

// judge notes what the probes say of a replica; its watcher alone calls it. The balancer is
// told before the replica's state is seen and its waiting requests are let go, so that none of
// them picks the same replica again. The cache of one that is down is forgotten.
func (f *Fleet) judge(r *replica, s State, why string) {
	now := time.Now()
	changed := !r.in(s)
	if changed {
		switch s {
		case Ready:
			if r.in(Down) && r.breaker.Load().State() != gobreaker.StateClosed { // another process, or the same one mended
				f.closeBreaker(r)
				f.config.Changed(Change{r.id, "breaker closed", "it is ready again"})
			}
			f.balancer.Resume(now, r.number)
		case Draining:
			f.balancer.Drain(r.number)
		case Down:
			f.balancer.Suspend(r.number)
			f.balancer.Forget(r.number)
		}
	}
	r.set(s, why, now)
	if changed {
		f.config.Changed(Change{r.id, string(s), why})
	}
}

// pause waits about so long; false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64()))) //nolint:gosec // spreads work, hides nothing
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// probe asks a replica whether it takes requests.
func (r *replica) probe(ctx context.Context) probeResult {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	failed := func(err error) probeResult {
		return probeResult{Down, err.Error(), errors.Is(err, context.DeadlineExceeded)}
	}
	address := r.wire.base.JoinPath("models").String()
	if path := kinds[r.target.Kind].health; path != "" {
		address = r.wire.root(path)
	}
	res, err := r.wire.get(ctx, address)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = res.Body.Close() }() // only read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxProbeBytes))
	switch {
	case err != nil:
		return failed(err)
	case res.StatusCode == http.StatusOK:
		return probeResult{state: Ready}
	case res.StatusCode == http.StatusServiceUnavailable && isDraining(body):
		return probeResult{state: Draining, why: status(body)}
	}
	return probeResult{state: Down, why: fmt.Sprintf("status %d of %s: %.100q", res.StatusCode, strings.TrimPrefix(address, "http://"), r.wire.hide(body))}
}

// status is the word of a health answer: {"status":"draining"}.
func status(body []byte) string {
	var said struct{ Status string }
	_ = json.Unmarshal(body, &said) // an answer of another form says nothing
	return said.Status
}

func isDraining(body []byte) bool { return status(body) == "draining" }
