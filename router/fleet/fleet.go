// Package fleet is a model that other servers compute: replicas that are weirs, or other
// engines with the same API. It finds them, watches how they are, picks one for each
// request, asks another one where that does not answer, and relays the answer as bytes.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/memory"
	"weir/router"
	"weir/router/balance"
)

// Source says where replicas are: at a URL, at each address of a name, at the URLs of a
// file, or where servers say that they are. Exactly one of the four is set.
type Source struct {
	URL  string // "http://10.0.0.7:8000/v1"
	DNS  string // the same with a name of which each address is a replica
	File string // with a URL on each line; read again when it changes

	Discover     string            // DiscoverStore; its servers say their own region and admin URL
	NodeSelector map[string]string // labels of the servers that Discover finds; none: all

	Kind     Kind     // "" is Weir
	Role     Role     // "" is Both; the others are of weirs alone
	Model    string   // the replicas' name of the model; "" is the fleet's
	APIKey   Key      // sent as a bearer token; "" is none
	AdminURL string   // of the admin listener, for metrics and block events; "" is none
	Zone     string   // where the replicas are; "" is not known
	Region   string   // where the replicas are; without one they get no request of a tenant with a residency
	APIs     []string // that they serve beside chat completions, of APIs; weirs serve all
	Events   Events   // of the caches of vLLM and SGLang
}

// DiscoverStore finds the servers of the store that the router shares with them.
const DiscoverStore = "store"

// Found is a server that computes a model, as it says itself.
type Found struct {
	URL      string
	AdminURL string
	Region   string
	Labels   map[string]string
}

// Key is a secret that no log shows.
type Key string

func (Key) String() string { return hidden }

// GoString keeps the key out of texts made with %#v.
func (Key) GoString() string { return hidden }

const hidden = "(hidden)"

// Config is what a Fleet is made of. Zero values take what stands beside each.
type Config struct {
	Model   string   // the name of the model here
	Version string   // of a classical model, as it is called here; "": as the replicas call it
	Sources []Source // at least one
	Balance balance.Config
	Secret  []byte // that the replicas' block hashes are made with, of weirs (--prefix-cache-key); nil: prompts are told apart by their text

	Routing

	Bodies *memory.Budget // the memory that whole answers take, with whatever else counts to it; nil: there is no bound
	// Discover finds servers that compute a model, for sources with DiscoverStore; nil: there is no store.
	Discover func(ctx context.Context, model string) ([]Found, error)
	// Changed hears of replicas that come, go, fail and recover. It must not block.
	Changed func(Change)
}

// Change is something that happened to a replica.
type Change struct {
	Replica string
	What    string // "added", "removed", "ready", "draining", "down", "breaker open", "breaker half-open", "breaker closed", "source failed"
	Why     string
}

func (c Config) withDefaults() Config {
	c.Routing = c.Routing.withDefaults()
	if c.Changed == nil {
		c.Changed = func(Change) {}
	}
	return c
}

// Check reports all that is wrong with the configuration.
func (c *Config) Check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Model == "" {
		wrong("a fleet has no name for its model")
	}
	if len(c.Sources) == 0 {
		wrong("model %q has no replicas; give a url, a dns name or a file of each, or discover: store", c.Model)
	}
	if err := c.check(); err != nil {
		wrong("model %q: %w", c.Model, err)
	}
	for i := range c.Sources {
		if err := c.Sources[i].Check(); err != nil {
			wrong("model %q: %w", c.Model, err)
		}
		if c.Sources[i].Discover != "" && c.Discover == nil {
			wrong("model %q: discover: store needs the store that the replicas use; set store.url (--store postgres://…)", c.Model)
		}
	}
	errs = append(errs, c.checkRoles())
	return errors.Join(errs...)
}

// Check reports what is wrong with the source; it does not look there.
func (s *Source) Check() error {
	named := 0
	for _, text := range []string{s.URL, s.DNS, s.File, s.Discover} {
		if text != "" {
			named++
		}
	}
	if named != 1 {
		return fmt.Errorf("a replica has %d of url, dns, file and discover; give one", named)
	}
	if s.Discover != "" {
		return s.checkDiscover()
	}
	if len(s.NodeSelector) > 0 {
		return errors.New("a replica has a node_selector without discover; labels are those of the store's servers: give discover: store, or leave it out")
	}
	if s.Kind != "" && !IsKind(string(s.Kind)) {
		return fmt.Errorf("a replica is of kind %q; there are %q", s.Kind, Kinds())
	}
	for _, api := range s.APIs {
		if !slices.Contains(APIs(), api) {
			return fmt.Errorf("a replica serves the API %q; there are %q", api, APIs())
		}
	}
	if err := errors.Join(s.Events.check(s.Kind), s.checkRole()); err != nil {
		return err
	}
	if s.File != "" {
		return nil
	}
	_, err := parseBase(s.Kind, s.URL+s.DNS)
	return err
}

// Fleet is a router.Upstream. All methods may be called at the same time.
type Fleet struct {
	config Config
	budget *retryBudget

	balancer *balance.Balancer
	sources  discovery  // where replicas are found
	blocks   blockIndex // what they have cached

	mu      sync.Mutex // held while the set changes
	members atomic.Pointer[members]
	moved   chan struct{} // holds a value after the set has changed

	counts struct {
		retries, spills, resumed, none, displaced atomic.Int64
		prefills                                  [numPrefills]atomic.Int64
		picks                                     [balance.Only + 1]atomic.Int64 // by reason
	}
}

// members are the replicas of a fleet. They are replaced whole.
type members struct {
	list     []*replica // sorted by id
	numbered map[balance.ReplicaID]*replica
	pools    bool // some compute prompts for the others
}

func newMembers(list []*replica) *members {
	m := &members{list: list, numbered: make(map[balance.ReplicaID]*replica, len(list))}
	for _, r := range list {
		m.numbered[r.number] = r
		m.pools = m.pools || r.target.Role == Prefill
	}
	return m
}

// New checks c and knows the replicas that have URLs. Run finds the others and watches all.
func New(c Config) (*Fleet, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	f := &Fleet{config: c, budget: newBudget(c.RetryShare, 10*time.Second), moved: make(chan struct{}, 1)}
	var err error
	if f.balancer, err = balance.New(time.Now(), c.Balance); err != nil {
		return nil, fmt.Errorf("model %q: %w", c.Model, err)
	}
	f.blocks.model, f.blocks.secret, f.blocks.changed, f.blocks.rest = c.Model, c.Secret, c.Changed, feedPause
	f.blocks.index, f.blocks.members = f.balancer.Index(), &f.members
	f.blocks.follows = c.Balance.Policy == balance.Prefix || c.Balance.Policy == balance.ConsistentHash
	f.members.Store(newMembers(nil))
	f.sources.config, f.sources.moved, f.sources.changed = &f.config, f.regroup, make(chan struct{}, 1)
	if err := f.sources.set(c.Sources); err != nil {
		return nil, err
	}
	f.regroup()
	return f, nil
}

// Send implements router.Upstream.
func (f *Fleet) Send(ctx context.Context, c *router.Call) (*router.Answer, error) {
	now := time.Now()
	f.budget.request(now)
	fl := &flight{fleet: f, call: c, ctx: ctx, began: now}
	fl.request = balance.Request{Tokens: cmp.Or(len(c.Tokens), c.PromptBytes()/bytesPerToken), Output: c.Output, Session: sessionOf(c.Session)}
	if f.blocks.follows {
		fl.request.Keys = f.blocks.keys(c)
		fl.holders = f.blocks.holders(fl.request.Keys)
	}
	fl.request.Holders = fl.giving()
	if c.Tried != nil {
		fl.request.Seen = new([]balance.Candidate)
	}
	if c.Resume && c.Stream {
		fl.resume = newResume(c.Path, c.Body)
	}
	fl.prefillFirst()
	return fl.begin()
}

// Load implements router.Upstream.
func (f *Fleet) Load() router.Load {
	var l router.Load
	for _, r := range f.members.Load().list {
		l.Running += int(r.running.Load())
		l.Ready = l.Ready || r.takes()
	}
	if !l.Ready {
		l.Why = f.why()
	}
	return l
}

// why says what keeps requests from the replicas, where none of them takes any. It names none of them: clients may read it.
func (f *Fleet) why() string {
	states := make(map[string]int)
	members := f.members.Load().list
	for _, r := range members {
		r.mu.Lock()
		state := string(r.state)
		r.mu.Unlock()
		if state == string(Ready) {
			state = "failing its requests" // its breaker is open
		}
		states[state]++
	}
	if len(members) == 0 {
		return router.ErrNoReplica.Error() + ": none was found"
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(states)) {
		parts = append(parts, fmt.Sprintf("%d %s", states[state], state))
	}
	return fmt.Sprintf("%v: of %d, %s", router.ErrNoReplica, len(members), strings.Join(parts, ", "))
}

// has reports whether a replica is left that takes requests, was not asked, and may get this one.
func (f *Fleet) has(fl *flight) bool {
	panics := fl.panics()
	return slices.ContainsFunc(f.members.Load().list, func(r *replica) bool {
		return (r.takes() || panics && r.in(Ready)) && !slices.Contains(fl.tried, r) && fl.resides(r)
	})
}

// regroup makes the set of replicas that the sources give. Replicas that stay keep what is
// known of them; requests that run go on, whatever happens to their replica.
func (f *Fleet) regroup() {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.members.Load().list
	var next []*replica
	have := make(map[string]bool)
	for _, t := range f.sources.targets() {
		if have[t.id()] {
			continue
		}
		have[t.id()] = true
		i := slices.IndexFunc(old, func(r *replica) bool { return r.same(&t) })
		if i >= 0 {
			next = append(next, old[i])
			continue
		}
		r, err := f.newReplica(t)
		if err != nil {
			f.config.Changed(Change{t.id(), "source failed", err.Error()})
			continue
		}
		next = append(next, r)
		f.config.Changed(Change{r.id, "added", ""})
	}
	slices.SortFunc(next, func(a, b *replica) int { return cmp.Compare(a.id, b.id) })
	f.members.Store(newMembers(next))
	for _, r := range old {
		if !slices.Contains(next, r) {
			r.leave()
			f.balancer.Remove(r.number)
			f.config.Changed(Change{r.id, "removed", ""})
		}
	}
	select {
	case f.moved <- struct{}{}:
	default:
	}
}

func (f *Fleet) newReplica(t Target) (*replica, error) {
	now := time.Now()
	t.Kind = cmp.Or(t.Kind, Weir)
	r := &replica{id: t.id(), target: t, model: cmp.Or(t.Model, f.config.Model), state: Ready, since: now,
		waiting: make(map[*attempt]struct{})}
	r.shares = t.sharesAt()
	r.wire = newWire(t.Base, t.Address, string(t.APIKey), f.config.AnswerTimeout)
	r.wire.provider = kinds[t.Kind].provider
	f.closeBreaker(r)
	var err error
	r.number, err = f.balancer.Add(now, balance.Member{Distance: f.config.distance(t.Zone), Pool: t.Role.pool()})
	return r, err
}

// Reaches reports whether a request that has to stay in the regions may go to a replica of the fleet, ready or not; none: to all. A fleet
// without replicas keeps nothing away.
func (f *Fleet) Reaches(regions []string) bool {
	list := f.members.Load().list
	if len(regions) == 0 || len(list) == 0 {
		return true
	}
	fl := flight{call: &router.Call{Residency: regions}}
	return slices.ContainsFunc(list, fl.resides)
}

// Offers implements router.Upstream: what all sources of replicas have.
func (f *Fleet) Offers(what router.Feature) bool { return f.sources.offers(what) }

// Reconfigure puts other sources into force: replicas come and go, and requests that run go on.
// Other settings than the sources need a new fleet.
func (f *Fleet) Reconfigure(sources []Source) error {
	c := f.config
	c.Sources = sources
	if err := c.Check(); err != nil {
		return err
	}
	if err := f.sources.set(sources); err != nil {
		return err
	}
	f.regroup()
	select {
	case f.sources.changed <- struct{}{}:
	default:
	}
	return nil
}

// Close ends idle connections. Requests that run go on.
func (f *Fleet) Close() {
	for _, r := range f.members.Load().list {
		r.wire.close()
	}
}

var _ router.Upstream = (*Fleet)(nil)
