package deployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/reference"
	"weir/router/rollout"
)

// memory is a store; each server has a view of it as its own.
type memory struct {
	mu       sync.Mutex
	revision int64
	records  map[string]Record
	seen     map[string]map[string]Observation // by server and model
	down     bool
	said     map[string]Server
	parts    map[string][]string // who has them, by model
	lapsed   map[string]bool     // servers whose lease is over
	slow     time.Duration       // that Unobserve takes
}

type view struct {
	*memory
	server string
}

// lives reports whether a server's lease stands. The caller holds mu.
func (m *memory) lives(server string) bool { return !m.lapsed[server] }

func (v view) Announce(_ context.Context, d Server) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.down {
		return v.failed()
	}
	if v.said == nil {
		v.said = make(map[string]Server)
	}
	v.said[v.server] = d
	return nil
}

func (v view) Servers(context.Context) (list []Server, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for server, d := range v.said {
		if d.Owner, d.Own = server, server == v.server; v.lives(server) {
			list = append(list, d)
		}
	}
	return list, v.failed()
}

func (v view) Parts(context.Context) (list []Part, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for model, owners := range v.parts {
		for number, owner := range owners {
			if owner != "" && (v.lives(owner) || owner == v.server) {
				list = append(list, Part{model, number + 1, owner, owner == v.server})
			}
		}
	}
	return list, v.failed()
}

func (v view) TakePart(_ context.Context, model string, generation int64) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r, ok := v.records[model]
	if v.down || !ok || r.Generation != generation || !v.lives(v.server) {
		return false, v.failed()
	}
	if v.parts == nil {
		v.parts = make(map[string][]string)
	}
	n := r.Placement.Replicas
	list := append(v.parts[model], make([]string, max(0, n-len(v.parts[model])))...)
	if slices.Contains(list[:n], v.server) {
		return true, nil
	}
	for i, owner := range list {
		if owner == v.server || owner != "" && !v.lives(owner) {
			list[i] = ""
		}
	}
	v.parts[model] = list
	if i := slices.Index(list[:n], ""); i >= 0 {
		list[i] = v.server
		return true, nil
	}
	return false, nil
}

func (v view) LeavePart(_ context.Context, model string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, owner := range v.parts[model] {
		if owner == v.server && !v.down {
			v.parts[model][i] = ""
		}
	}
	return v.failed()
}

func (v view) failed() error {
	if v.down {
		return errors.New("the database is away")
	}
	return nil
}

func (v view) DeploymentRevision(context.Context) (int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.revision, v.failed()
}

func (v view) Deployment(_ context.Context, model string) (Record, bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r, ok := v.records[model]
	return r, ok, v.failed()
}

func (v view) Deployments(context.Context) ([]Record, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Values(v.records)), v.failed()
}

func (v view) ChangeDeployment(_ context.Context, model string, f func(*Record) (*Record, error)) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.down {
		return v.failed()
	}
	var old *Record
	if r, ok := v.records[model]; ok {
		old = &r
	}
	next, err := f(old)
	if err != nil || next == old {
		return err
	}
	v.revision++
	if delete(v.records, model); next != nil {
		v.records[model] = *next
	}
	return nil
}

func (v view) Observe(_ context.Context, o Observation) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen[v.server] == nil {
		v.seen[v.server] = make(map[string]Observation)
	}
	v.seen[v.server][o.Model] = o
	return v.failed()
}

func (v view) Unobserve(_ context.Context, model string) error {
	time.Sleep(v.slow)
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.seen[v.server], model)
	return v.failed()
}

func (v view) Observations(context.Context) ([]Observation, error) { return nil, nil }

// machine is a server whose files outlive it, and whose memory does not.
type machine struct {
	mu      sync.Mutex
	disk    map[string]bool
	tags    map[string]string // what a version is, on the hub
	fails   func() bool
	stocked map[string][]string
	answers map[string]string
	moves   []string // labels, in the order in which names were moved
	kept    map[string]int
	loaded  map[string]bool
	loads   int
	rolls   map[string]rollout.State
	choice  map[string]string // what the configuration lets answer after a start, by model
	lacks   error
	asked   []rollout.Plan

	memory int64            // 0: no limit
	sizes  map[string]int64 // of versions, by label
	labels map[string]string
}

func (m *machine) Room(_ context.Context, model string, r Revision) (needs, free int64, limited bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	free = m.memory
	for other, list := range m.stocked {
		for _, label := range list {
			if other != model {
				free -= m.sizes[label]
			}
		}
	}
	if m.disk[model+r.Version] {
		needs = m.sizes[r.Version]
	}
	return needs, free, m.memory > 0
}

// label gives a machine that runs another label, and no other.
func (m *machine) label(key, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.labels = map[string]string{key: value}
}

func (m *machine) has() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.labels
}

func newMachine() *machine { m := &machine{disk: make(map[string]bool)}; m.reset(); return m }

// reset is what kill -9 does.
func (m *machine) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stocked, m.answers, m.kept, m.loaded = make(map[string][]string), make(map[string]string), make(map[string]int), make(map[string]bool)
	maps.Copy(m.answers, m.choice)
}

func (m *machine) fail() error {
	if m.fails != nil && m.fails() {
		return errors.New("it fails now and then")
	}
	return nil
}

func (m *machine) Serves(model string) (bool, string) { return model != "other", "no part" }

func (m *machine) Fetch(ctx context.Context, model string, r Revision, tell func(State, int64, int64)) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail(); err != nil {
		return "", err
	}
	for i := range int64(4) {
		if m.disk[model+r.Version] {
			break
		}
		m.mu.Unlock()
		tell(Pulling, 25*i, 100)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		m.mu.Lock()
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
	m.disk[model+r.Version] = true
	digest := "digest of " + r.Version + m.tags[r.Version]
	if r.Digest != "" && r.Digest != digest {
		return "", errors.New("digest refused")
	}
	return digest, nil
}

func (m *machine) SetVersions(_ context.Context, model string, list []Revision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail(); err != nil && list != nil {
		return err
	}
	m.stocked[model] = nil
	for i := range list {
		m.stocked[model] = append(m.stocked[model], list[i].Label)
	}
	switch {
	case len(list) == 0:
		delete(m.answers, model)
	case m.answers[model] == "":
		m.answers[model] = list[0].Label
	}
	return nil
}

func (m *machine) Lacks(string, string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lacks
}

func (m *machine) Answers(model string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answers[model], m.answers[model] != ""
}

func (m *machine) Activate(_ context.Context, model, label string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail(); err != nil {
		return err
	}
	if !slices.Contains(m.stocked[model], label) {
		return fmt.Errorf("%s has no %s", model, label)
	}
	m.load(model, label)
	m.answers[model] = label
	m.moves = append(m.moves, label)
	return nil
}

// load reads a version, unless it is in memory. The caller holds mu.
func (m *machine) load(model, label string) {
	if !m.loaded[model+label] {
		m.loaded[model+label] = true
		m.loads++
	}
}

func (m *machine) Check(ctx context.Context, _, _, candidate string, tell CheckProgress) error {
	switch candidate {
	case "wrong":
		return errors.New("it answers nothing")
	case "slow":
		tell(5, 24)
		<-ctx.Done() // and nothing was found against it
	}
	return nil
}

func (m *machine) KeepLoaded(_ context.Context, model, label string) (func(), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if label == "huge" {
		return nil, errors.New("needs 9 GiB, has 1")
	}
	m.load(model, label)
	m.kept[model+label]++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.kept[model+label]--
	}, nil
}

func (m *machine) Rollout(_ context.Context, p rollout.Plan, _ *Progress, _ CheckProgress) (rollout.State, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.load(p.Model, p.Candidate)
	m.asked = append(m.asked, p)
	if s, ok := m.rolls[p.Candidate]; ok {
		return s, string(s), nil
	}
	return rollout.Running, "step 1", nil
}

// cluster is servers on one store.
type cluster struct {
	t        *testing.T
	store    *memory
	machines []*machine
	running  []*Follower
	stops    []func()
}

func newCluster(t *testing.T, n int) *cluster {
	c := &cluster{t: t, store: &memory{records: make(map[string]Record), seen: make(map[string]map[string]Observation)}}
	for i := range n {
		c.machines, c.running, c.stops = append(c.machines, newMachine()), append(c.running, nil), append(c.stops, nil)
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.stops {
			c.kill(i)
		}
	})
	return c
}

func (c *cluster) start(i int) {
	ctx, cancel := context.WithCancel(context.Background())
	name := fmt.Sprint("server", i)
	c.store.mu.Lock()
	delete(c.store.lapsed, name)
	c.store.mu.Unlock()
	machine := c.machines[i]
	self := func() Server { return Server{Instance: name, Labels: machine.has(), Computes: true} }
	f := New(view{c.store, name}, machine, Options{Instance: name, Self: self, Failed: func(err error) {
		if !strings.Contains(err.Error(), "away") {
			c.t.Error(err)
		}
	}})
	done := make(chan struct{})
	go func() {
		_ = f.Begin(ctx, time.Minute)
		f.Run(ctx)
		close(done)
	}()
	c.running[i], c.stops[i] = f, func() { cancel(); <-done }
}

func (c *cluster) kill(i int) {
	if c.stops[i] != nil {
		c.stops[i]()
		c.stops[i] = nil
		c.machines[i].reset()
	}
}

func (c *cluster) apply(s Spec) {
	err := view{c.store, ""}.ChangeDeployment(c.t.Context(), s.Model, func(old *Record) (*Record, error) {
		r := Apply(old, s, fmt.Sprint(c.store.revision), "test", time.Now())
		return &r, nil
	})
	if err != nil {
		c.t.Error(err)
	}
}

// all checks that every server answers with a version, and says so.
func (c *cluster) all(model, label string) {
	c.t.Helper()
	for i, m := range c.machines {
		o, _ := c.running[i].Observed(model)
		if got, _ := m.Answers(model); got != label || o.State != Serving || o.Generation != c.store.records[model].Generation {
			c.t.Errorf("server %d answers %s with %q, want %q: %+v", i, model, got, label, o)
		}
	}
}

// pass lets time pass, and what is due then be done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A version comes to all servers, one after another; the one before stays warm and takes over without a load.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.apply(Spec{Model: "chat", Version: "v1", Warm: Warm{Previous: 1}})
		pass(2 * time.Second)
		if o, _ := c.running[0].Observed("chat"); o.State != Pulling || o.DoneBytes == 0 {
			t.Errorf("amid the pull: %+v", o)
		}
		pass(8 * time.Second)
		c.all("chat", "v1")
		c.apply(Spec{Model: "chat", Version: "v2", Warm: Warm{Previous: 1}})
		pass(8 * time.Second)
		c.all("chat", "v2")
		if r := c.store.records["chat"]; r.Wanted.Digest != "digest of v2" || len(r.History) != 1 || !r.IsSettled() {
			t.Errorf("%+v", r)
		}
		for i, m := range c.machines {
			if m.kept["chatv1"] != 1 || m.loads != 2 {
				t.Errorf("server %d keeps %v and has loaded %d times", i, m.kept, m.loads)
			}
		}
		c.apply(Spec{Model: "chat", Version: "v1", Warm: Warm{Previous: 1}})
		pass(FollowEvery + time.Millisecond)
		c.all("chat", "v1")
		pass(2 * time.Second)
		for i, m := range c.machines {
			if m.kept["chatv2"] != 1 || m.kept["chatv1"] != 0 || m.loads != 2 {
				t.Errorf("after the way back server %d keeps %v and has loaded %d times", i, m.kept, m.loads)
			}
		}
		if err := (view{c.store, ""}).ChangeDeployment(t.Context(), "chat", func(*Record) (*Record, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
		for i, f := range c.running { // before any server has looked
			if follows, err := f.Follows(t.Context(), "chat"); follows || err != nil {
				t.Errorf("server %d follows a deployment that was deleted: %v, %v", i, follows, err)
			}
			if got, ok := c.machines[i].Answers("chat"); ok {
				t.Errorf("server %d answers with %s still", i, got)
			}
		}
		pass(2 * time.Second)
		for i, m := range c.machines {
			if got, ok := m.Answers("chat"); ok || m.kept["chatv2"] != 0 || len(c.store.seen[fmt.Sprint("server", i)]) != 0 {
				t.Errorf("after its end server %d answers with %q, keeps %v and says %v", i, got, m.kept, c.store.seen)
			}
		}
	})
}

// A deployment that is made again while a server takes back what it said of the one before is told of as any other.
func TestMadeAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.apply(Spec{Model: "chat", Version: "v1"})
		pass(10 * time.Second)
		c.store.slow = 5 * time.Second
		if err := (view{c.store, ""}).ChangeDeployment(t.Context(), "chat", func(*Record) (*Record, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		c.apply(Spec{Model: "chat", Version: "v1"})
		pass(20 * time.Second)
		c.all("chat", "v1")
		if state, why := c.summary("chat"); state != Ready {
			t.Errorf("%s %s", state, why)
		}
	})
}

// A version that answers nothing does not take over at once, unless it is to without a check; one that answered before does.
func TestCheckBeforeTakingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.apply(Spec{Model: "chat", Version: "v1"})
		pass(10 * time.Second)
		c.apply(Spec{Model: "chat", Version: "wrong"})
		pass(10 * time.Second)
		for i, f := range c.running {
			if o, _ := f.Observed("chat"); o.Answers != "v1" || o.State == Serving {
				t.Errorf("server %d: %+v", i, o)
			}
		}
		c.apply(Spec{Model: "chat", Version: "wrong", Unchecked: true})
		pass(10 * time.Second)
		c.all("chat", "wrong")
		c.apply(Spec{Model: "chat", Version: "v1"})
		pass(10 * time.Second)
		c.apply(Spec{Model: "chat", Version: "wrong"})
		pass(10 * time.Second)
		c.all("chat", "wrong")
	})
}

// A deployment shows how far the check of its version is. Where another version is wanted meanwhile the check ends, and its version gets
// no user.
func TestAChecksProgressAndItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.apply(Spec{Model: "chat", Version: "v1"})
		pass(10 * time.Second)
		for range 20 {
			c.apply(Spec{Model: "chat", Version: "slow"})
			pass(10 * time.Second)
			const want = "checking what version slow answers (5 of at most 24 questions)"
			if state, why := c.summary("chat"); state != Progressing || !strings.Contains(why, want) {
				t.Fatalf("%s %s, want %s", state, why, want)
			}
			c.apply(Spec{Model: "chat", Version: "v1"})
			pass(10 * time.Second)
			c.all("chat", "v1")
		}
		if slices.Contains(c.machines[0].moves, "slow") {
			t.Errorf("a version whose check did not end has answered: %q", c.machines[0].moves)
		}
	})
}

// What cannot be is said, and tried again; other deployments go on.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.machines[1].tags = map[string]string{"v1": ", which has moved"}
		c.kill(1) // so that the other one finds the version first
		c.apply(Spec{Model: "chat", Version: "v1"})
		pass(10 * time.Second)
		c.start(1)
		c.apply(Spec{Model: "good", Version: "v1x", Warm: Warm{Versions: []string{"huge"}}})
		c.apply(Spec{Model: "other", Version: "v1"})
		pass(20 * time.Second)
		states := func(model string) (list []string) {
			for i := range c.running {
				o, _ := c.running[i].Observed(model)
				list = append(list, string(o.State)+" "+o.Why)
			}
			slices.Sort(list)
			return list
		}
		if got := states("chat"); got[0] != "failed digest refused" && !strings.HasPrefix(got[0], "failed the version v1 is digest of v1") || got[1] != "serving " {
			t.Errorf("a tag that has moved between two servers: %q", got)
		}
		if got := states("good"); got[0] != "serving the version huge is not warm: needs 9 GiB, has 1" {
			t.Errorf("%q", got)
		}
		if got := states("other"); got[0] != "elsewhere no part" {
			t.Errorf("%q", got)
		}
		c.store.mu.Lock()
		c.store.down = true
		c.store.mu.Unlock()
		pass(time.Minute)
		if got, _ := c.machines[0].Answers("good"); got != "v1x" {
			t.Errorf("without the store %q answers", got)
		}
		c.store.mu.Lock()
		c.store.down = false
		c.store.mu.Unlock()
		c.machines[1].mu.Lock()
		c.machines[1].tags = nil
		c.machines[1].mu.Unlock()
		pass(time.Minute)
		if got := states("chat"); got[0] != "serving " {
			t.Errorf("a digest that is right again: %q", got)
		}
	})
}

// A rollout that takes a version back leaves the one before, on a server that restarts too; one that promotes it settles it.
func TestRollouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.apply(Spec{Model: "chat", Version: "v1"})
		pass(10 * time.Second)
		for _, m := range c.machines {
			m.rolls = map[string]rollout.State{"bad": rollout.RolledBack}
		}
		c.apply(Spec{Model: "chat", Version: "bad", Policy: &rollout.Plan{}})
		pass(10 * time.Second)
		c.kill(0)
		c.start(0)
		pass(10 * time.Second)
		for i := range c.running {
			o, _ := c.running[i].Observed("chat")
			if got, _ := c.machines[i].Answers("chat"); got != "v1" || o.State != RolledBack {
				t.Errorf("server %d answers with %q: %+v", i, got, o)
			}
		}
		c.apply(Spec{Model: "chat", Version: "good", Policy: &rollout.Plan{}})
		pass(10 * time.Second)
		if o, _ := c.running[1].Observed("chat"); o.State != RollingOut || o.Why != "step 1" || c.store.records["chat"].Settled.Version != "v1" {
			t.Errorf("%+v", o)
		}
		for _, m := range c.machines {
			m.mu.Lock()
			m.rolls["good"] = rollout.Promoted
			m.mu.Unlock()
		}
		pass(5 * time.Second)
		c.all("chat", "good")
		if r := c.store.records["chat"]; !r.IsSettled() || r.History[0].Version != "v1" || len(r.History) != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// Whatever is asked for in whatever order, while servers are killed, restart, fail now and then, and the store goes away:
// in the end all answer with what is wanted.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(reference.Repeats(5, 20, 60)) { //nolint:gosec // few
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 3)
			random := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			roll := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(n)
			}
			var calm atomic.Bool
			for _, m := range c.machines {
				m.fails = func() bool { return !calm.Load() && roll(5) == 0 }
			}
			wanted := map[string]string{}
			for range 150 {
				pass(time.Duration(roll(1500)) * time.Millisecond)
				model, version := fmt.Sprint("m", roll(4)), fmt.Sprint("v", roll(4))
				switch i := roll(3); roll(8) {
				case 0:
					c.kill(i)
				case 1:
					if c.stops[i] == nil {
						c.start(i)
					}
				case 2:
					c.store.mu.Lock()
					c.store.down = !c.store.down
					c.store.mu.Unlock()
				case 3:
					c.store.mu.Lock()
					if !c.store.down {
						if _, ok := c.store.records[model]; ok {
							delete(c.store.records, model)
							c.store.revision++
						}
						delete(wanted, model)
					}
					c.store.mu.Unlock()
				default:
					c.store.mu.Lock()
					down := c.store.down
					c.store.mu.Unlock()
					if !down {
						c.apply(Spec{Model: model, Version: version, Warm: Warm{Previous: roll(3)}})
						wanted[model] = version
					}
				}
			}
			c.store.mu.Lock()
			c.store.down = false
			calm.Store(true)
			c.store.mu.Unlock()
			for i := range c.stops {
				if c.stops[i] == nil {
					c.start(i)
				}
			}
			pass(3 * time.Minute)
			for model, version := range wanted {
				c.all(model, version)
			}
			for i, m := range c.machines {
				if len(m.answers) != len(wanted) {
					t.Errorf("seed %d: server %d answers for %v, want %v", seed, i, m.answers, wanted)
				}
			}
		})
	}
}
