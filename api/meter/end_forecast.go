package meter

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"weir/scheduler/cost"
	"weir/scheduler/quota"
)

// EndForecast is a Meter that foresees when a tenant's running requests end: one that is refused
// because as many run as may (quota.Streams) learns when there will be room. It knows the
// requests that this process admitted, how much they were expected to generate, and how
// long the tenant's requests to a model have taken per token.
type EndForecast struct {
	Meter

	mu      sync.Mutex
	runs    map[runID]*run
	tenants map[string]*tenantRuns
	speeds  map[speedKey]*speed
}

// The bounds of what Ends tells a client, and of what it remembers.
const (
	shortestWait = 50 * time.Millisecond // below, a client would ask more often than anything changes
	longestWait  = time.Minute
	unknownWait  = time.Second // where nothing is known of the tenant's requests
	maxSpeeds    = 1024        // tenants' models; some 2 KB each
	maxRuns      = 256         // of a tenant, whose ends are told apart
	maxPromises  = 1024        // to a tenant's clients
)

// NewEndForecast returns a meter that counts as m does.
func NewEndForecast(m Meter) *EndForecast {
	return &EndForecast{Meter: m, runs: map[runID]*run{}, tenants: map[string]*tenantRuns{}, speeds: map[speedKey]*speed{}}
}

// runID names a grant: a degraded one is of another meter than the rest.
type runID struct {
	grant    uint64
	degraded bool
}

type speedKey struct{ tenant, model string }

// speed is how long the requests of a tenant to a model take.
type speed struct {
	line cost.Line     // by units
	mean time.Duration // of recent requests
}

// run is a request that runs.
type run struct {
	tenant, model, account string
	began                  time.Time
	expected               int64 // units, see unitsOf
	seen                   int64 // of these, generated at the time seenAt
	seenAt                 time.Time
}

// tenantRuns are one tenant's.
type tenantRuns struct {
	runs     map[*run]struct{}
	promised []promisedRetry
}

// promisedRetry is a time at which a refused client was told to come back. The next one is told
// when the next request ends.
type promisedRetry struct {
	of limitOf
	at time.Time
}

// limitOf tells a tenant's limits of streams apart: that of all models, of one, and of a key.
type limitOf struct{ model, account string }

// counts reports whether a run counts for the limit.
func (l limitOf) counts(r *run) bool {
	return (l.model == "" || l.model == r.model) && (l.account == "" || l.account == r.account)
}

// unitsOf is what a request's time is measured by: the tokens that it generates, or those
// that it reads where it generates none.
func unitsOf(input, output int64) int64 { return max(cmp.Or(output, input), 1) }

// Reserve implements Meter.
func (e *EndForecast) Reserve(who quota.Holder, ask quota.Ask) (quota.Grant, error) {
	g, err := e.Meter.Reserve(who, ask)
	if err == nil && g.ID != 0 && (hasStreams(who.Limits) || hasStreams(who.ModelLimits) || hasStreams(who.KeyLimits)) {
		e.began(&who, &g, unitsOf(ask.Input, ask.Output))
	}
	if r, ok := errors.AsType[*quota.Refusal](err); ok && r.Kind == quota.Streams {
		r.RetryAfter = e.untilRoom(&who, r)
	}
	return g, err
}

func hasStreams(l *quota.Limits) bool { return l != nil && l.MaxStreams > 0 }

// TopUp implements Meter.
func (e *EndForecast) TopUp(g *quota.Grant, generated, cover int64) error {
	e.mu.Lock()
	if r := e.runs[runID{g.ID, g.Degraded}]; r != nil {
		r.seen, r.seenAt = generated, time.Now()
		r.expected = max(r.expected, min(cover, generated+generated/4)) // one that outlives what was expected goes on for a quarter
	}
	e.mu.Unlock()
	return e.Meter.TopUp(g, generated, cover)
}

// Settle implements Meter.
func (e *EndForecast) Settle(g *quota.Grant, use quota.Use) {
	e.Meter.Settle(g, use)
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.runs[runID{g.ID, g.Degraded}]
	if r == nil {
		return
	}
	delete(e.runs, runID{g.ID, g.Degraded})
	of := e.tenants[r.tenant]
	delete(of.runs, r)
	if len(of.runs) == 0 {
		delete(e.tenants, r.tenant)
	}
	if use.Ran && (use.Output > 0 || g.Ask.Output == 0) {
		e.learn(speedKey{r.tenant, r.model}, unitsOf(use.Input, use.Output), time.Since(r.began))
	}
}

func (e *EndForecast) began(who *quota.Holder, g *quota.Grant, units int64) {
	now := time.Now()
	r := &run{tenant: who.Tenant, model: who.Model, account: who.KeyAccount, began: now, seenAt: now, expected: units}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs[runID{g.ID, g.Degraded}] = r
	of := e.tenants[r.tenant]
	if of == nil {
		of = &tenantRuns{runs: map[*run]struct{}{}}
		e.tenants[r.tenant] = of
	}
	of.runs[r] = struct{}{}
}

func (e *EndForecast) learn(k speedKey, units int64, took time.Duration) {
	v := e.speeds[k]
	if v == nil {
		if len(e.speeds) >= maxSpeeds {
			clear(e.speeds)
		}
		v = &speed{mean: took}
		e.speeds[k] = v
	}
	v.line.Observe(int(units), took)
	v.mean += (took - v.mean) / 8
}

// untilRoom is how long until the limit that refused a request has room for it: until the
// first request ends that no other refused client was told to wait for.
func (e *EndForecast) untilRoom(who *quota.Holder, refused *quota.Refusal) time.Duration {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	usual := unknownWait
	known := e.speeds[speedKey{who.Tenant, who.Model}]
	if known != nil {
		usual = known.mean
	}
	of, limit := e.tenants[who.Tenant], limitOf{refused.Model, accountOf(who, refused)}
	ends := e.ends(of, limit, now)
	switch {
	case len(ends) == 0 && known == nil:
		return unknownWait
	case len(ends) == 0: // they run in other processes, or are too many
		return bounded(usual / time.Duration(max(refused.Limit, 1)))
	}
	before := of.waiting(limit, now)
	// Who takes a place that gets free is expected to keep it for the usual time.
	wait := bounded(ends[before%len(ends)] + time.Duration(before/len(ends))*usual)
	if wait < longestWait && len(of.promised) < maxPromises {
		of.promised = append(of.promised, promisedRetry{limit, now.Add(wait)})
	}
	return wait
}

func bounded(wait time.Duration) time.Duration { return min(max(wait, shortestWait), longestWait) }

// waiting is how many clients were told of times that are still to come.
func (t *tenantRuns) waiting(limit limitOf, now time.Time) (n int) {
	t.promised = slices.DeleteFunc(t.promised, func(p promisedRetry) bool { return !p.at.After(now) })
	for _, p := range t.promised {
		if p.of == limit {
			n++
		}
	}
	return n
}

// ends are the times until the first of a tenant's requests that count for a limit ends, the second,
// and so on. It is empty where they are too many.
//
// How long one goes on is known in the median only, and the first of several ends before
// the median of the shortest. Were the times Weibull distributed with shape 2 (a standard
// deviation of half the mean, as lengths of answers have), then the first end would be
// so, too, with 1/t² as the sum of all 1/tᵢ²; the next ends are taken for those of the rest.
func (e *EndForecast) ends(of *tenantRuns, limit limitOf, now time.Time) (list []time.Duration) {
	if of == nil || len(of.runs) > maxRuns {
		return nil
	}
	for r := range of.runs {
		if limit.counts(r) {
			list = append(list, max(e.left(r, now), time.Millisecond))
		}
	}
	slices.Sort(list)
	sum := 0.0
	for i, t := range slices.Backward(list) {
		sum += 1 / (t.Seconds() * t.Seconds())
		list[i] = time.Duration(float64(time.Second) / math.Sqrt(sum))
	}
	return list
}

// left is how long a run is expected to go on.
func (e *EndForecast) left(r *run, now time.Time) time.Duration {
	v := e.speeds[speedKey{r.tenant, r.model}]
	if v == nil {
		return unknownWait
	}
	rest := v.line.Estimate(int(r.expected))
	if r.seen > 0 {
		rest = time.Duration(max(r.expected-r.seen, 0)) * v.line.PerRow()
	}
	// What lasts longer than expected goes on for a quarter of its time.
	return max(r.seenAt.Add(rest).Sub(now), now.Sub(r.began)/4)
}
