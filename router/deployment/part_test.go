package deployment

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/reference"
)

// having are the servers that answer for a model.
func (c *cluster) having(model string) (list []int) {
	for i, m := range c.machines {
		if _, ok := m.Answers(model); ok {
			list = append(list, i)
		}
	}
	return list
}

// lapse is a death whose lease is over.
func (c *cluster) lapse(i int) {
	c.kill(i)
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if c.store.lapsed == nil {
		c.store.lapsed = make(map[string]bool)
	}
	c.store.lapsed[fmt.Sprint("server", i)] = true
}

// summary is what GET says.
func (c *cluster) summary(model string) (Summary, string) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	var seen []Observation
	for server, list := range c.store.seen {
		if o, ok := list[model]; ok && !c.store.lapsed[server] {
			seen = append(seen, o)
		}
	}
	var servers []Server
	for server, d := range c.store.said {
		if !c.store.lapsed[server] {
			servers = append(servers, d)
		}
	}
	r := c.store.records[model]
	seen = Await(seen, servers, model)
	state, why := r.Summarise(seen)
	return state, strings.Join(why, "; ")
}

// As many servers as are asked for have a model, of those that fit; one that dies is followed by another, and fewer are asked for.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		for i, m := range c.machines {
			m.label("region", []string{"eu", "us"}[i%2])
		}
		pass(2 * time.Second)
		c.apply(Spec{Model: "chat", Version: "v1", Placement: &Placement{Replicas: 2, NodeSelector: map[string]string{"region": "eu"}}})
		pass(20 * time.Second)
		has := c.having("chat")
		if state, why := c.summary("chat"); len(has) != 2 || has[0]%2+has[1]%2 != 0 || state != Ready || why != "" {
			t.Fatalf("%v: %s %s", has, state, why)
		}
		c.kill(has[0])
		pass(10 * time.Second)
		if now := c.having("chat"); !slices.Equal(now, has[1:]) {
			t.Errorf("before the lease of %d is over: %v", has[0], now)
		}
		c.lapse(has[0])
		pass(20 * time.Second)
		if now := c.having("chat"); len(now) != 2 || slices.Contains(now, has[0]) {
			t.Errorf("after it: %v", now)
		}
		c.start(has[0])
		pass(20 * time.Second)
		if now := c.having("chat"); len(now) != 2 || slices.Contains(now, has[0]) {
			t.Errorf("it came back, and %v have the model", now)
		}
		c.apply(Spec{Model: "chat", Version: "v1", Placement: &Placement{Replicas: 1, NodeSelector: map[string]string{"region": "eu"}}})
		pass(20 * time.Second)
		if now := c.having("chat"); len(now) != 1 {
			t.Errorf("of one: %v", now)
		}
		c.apply(Spec{Model: "chat", Version: "v1", Placement: &Placement{Replicas: 4, NodeSelector: map[string]string{"region": "eu"}}})
		pass(20 * time.Second)
		state, why := c.summary("chat")
		if now := c.having("chat"); len(now) != 3 || state != Degraded || !strings.Contains(why, "3 of 4 replicas have a server") ||
			!strings.Contains(why, "server1: its label is region=us, and region=eu is asked for") {
			t.Errorf("of four: %v, %s %s", now, state, why)
		}
		c.apply(Spec{Model: "chat", Version: "v1"})
		pass(20 * time.Second)
		c.all("chat", "v1")
	})
}

// A part that moves by labels, or because its holder has died, is on its way until it is there: nothing says before that it has failed.
func TestAPartOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		for i, m := range c.machines {
			m.label("zone", []string{"a", "b", "b"}[i])
		}
		pass(3 * time.Second)
		deploy := func(version, zone string) {
			c.apply(Spec{Model: "chat", Version: version, Placement: &Placement{Replicas: 1, NodeSelector: map[string]string{"zone": zone}}})
		}
		until := func(what string) {
			t.Helper()
			for range 3000 {
				pass(10 * time.Millisecond)
				switch state, why := c.summary("chat"); state {
				case Ready:
					return
				case Progressing:
				case Degraded, Unserved:
					t.Fatalf("%s: %s %s", what, state, why)
				}
			}
			t.Fatalf("%s: it did not become ready", what)
		}
		deploy("v1", "a")
		until("the first")
		deploy("v1", "b")
		until("to other labels")
		holder := c.having("chat")[0]
		c.kill(holder)
		deploy("v2", "b")
		pass(5 * time.Second)
		c.lapse(holder)
		until("after a death")
		if has := c.having("chat"); len(has) != 1 || has[0] == holder || has[0] == 0 {
			t.Errorf("%v have it", has)
		}
	})
}

// A server that could not have a version tries the next one at once.
func TestAFailureIsOfItsGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		var bad atomic.Bool
		bad.Store(true)
		c.machines[0].fails = bad.Load
		pass(2 * time.Second)
		c.apply(Spec{Model: "chat", Version: "bad", Placement: &Placement{Replicas: 1}})
		for range 3000 {
			pass(10 * time.Millisecond)
			if o, _ := c.running[0].Observed("chat"); o.State == Unfit {
				break
			}
		}
		bad.Store(false)
		c.apply(Spec{Model: "chat", Version: "v1", Placement: &Placement{Replicas: 1}})
		pass(8 * time.Second)
		c.all("chat", "v1")
	})
}

// Memory that is too small is said before files are brought, once a server knows what the version needs.
func TestPlacementCountsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		for i, m := range c.machines {
			m.memory, m.sizes = int64(i+1)<<30, map[string]int64{"big": 3 << 29, "huge": 5 << 30}
		}
		pass(2 * time.Second)
		for _, model := range []string{"a", "b"} {
			c.apply(Spec{Model: model, Version: "big", Placement: &Placement{Replicas: 1}})
			pass(time.Minute)
		}
		if a, b := c.having("a"), c.having("b"); !slices.Equal(a, []int{1}) || len(b) != 0 {
			t.Errorf("%v have a, %v have b", a, b)
		}
		if state, why := c.summary("b"); state != Unserved || !strings.Contains(why, "server1: version big needs 1.5 GiB of memory, and 512.0 MiB are free") ||
			!strings.Contains(why, "server0: version big needs 1.5 GiB of memory, and 1.0 GiB are free") {
			t.Errorf("%s %s", state, why)
		}
		c.apply(Spec{Model: "b", Version: "big"}) // everywhere
		c.apply(Spec{Model: "c", Version: "huge", Placement: &Placement{Replicas: 1}})
		pass(3 * time.Minute)
		if c.store.records["c"].Wanted.NeedsBytes != 5<<30 || len(c.having("c")) != 0 {
			t.Errorf("%+v", c.store.records["c"].Wanted)
		}
	})
}

// Whatever dies, comes back and is asked for: never do more servers have a part than are asked for, and in the end as many have as can.
func TestPartsInAnyOrder(t *testing.T) {
	for seed := range uint64(reference.Repeats(5, 20, 60)) { //nolint:gosec // few
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 4)
			random := rand.New(rand.NewPCG(seed, 2))
			models := []string{"a", "b", "c"}
			for range 100 {
				pass(time.Duration(random.IntN(3000)) * time.Millisecond)
				i := random.IntN(4)
				switch random.IntN(6) {
				case 0:
					c.lapse(i)
				case 1:
					if c.stops[i] == nil {
						c.start(i)
					}
				case 2:
					c.store.mu.Lock()
					c.store.down = !c.store.down
					c.store.mu.Unlock()
				default:
					if !c.store.down {
						c.apply(Spec{Model: models[random.IntN(3)], Version: fmt.Sprint("v", random.IntN(3)), Placement: &Placement{Replicas: 1 + random.IntN(3)}})
					}
				}
				c.store.mu.Lock()
				for model, list := range c.store.parts {
					own := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "" || c.store.lapsed[s] })
					if slices.Sort(own); len(slices.Compact(own)) != len(own) {
						t.Errorf("seed %d: one server has two parts of %s: %v", seed, model, own)
					}
				}
				c.store.mu.Unlock()
			}
			c.store.mu.Lock()
			c.store.down = false
			c.store.mu.Unlock()
			for i := range c.stops {
				if c.stops[i] == nil {
					c.start(i)
				}
			}
			pass(2 * time.Minute)
			for model, r := range c.store.records {
				has := c.having(model)
				if state, why := c.summary(model); len(has) != r.Placement.Replicas || state != Ready {
					t.Errorf("seed %d: %v have %s, want %d: %s %s", seed, has, model, r.Placement.Replicas, state, why)
				}
			}
		})
	}
}

// Models spread over servers.
func TestPartsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4)
		pass(2 * time.Second)
		for i := range 40 {
			c.apply(Spec{Model: fmt.Sprint("m", i), Version: "v1", Placement: &Placement{Replicas: 1}})
			pass(2 * time.Second) // what comes at once is spread by name alone
		}
		pass(time.Minute)
		for i, m := range c.machines {
			if n := len(m.answers); n < 8 || n > 12 {
				t.Errorf("server %d has %d of 40 models", i, n)
			}
		}
	})
}

func TestRequirements(t *testing.T) {
	labels := map[string]string{"gpu": "h100", "memory-mib": "4096", "empty": ""}
	for _, c := range []struct {
		r    Requirement
		want bool
	}{
		{Requirement{"gpu", In, []string{"a100", "h100"}}, true},
		{Requirement{"none", In, []string{""}}, false},
		{Requirement{"gpu", NotIn, []string{"a100"}}, true},
		{Requirement{"none", NotIn, []string{"a100"}}, true},
		{Requirement{"empty", Exists, nil}, true},
		{Requirement{"none", DoesNotExist, nil}, true},
		{Requirement{"memory-mib", Gt, []string{"4095"}}, true},
		{Requirement{"memory-mib", Gt, []string{"4096"}}, false},
		{Requirement{"memory-mib", Lt, []string{"4097"}}, true},
		{Requirement{"gpu", Lt, []string{"4097"}}, false},
		{Requirement{"none", Lt, []string{"4097"}}, false},
	} {
		p := Placement{Affinity: []SelectorTerm{{}, {c.r}}}
		if lacks := p.Lacks(labels); (lacks == "") != c.want {
			t.Errorf("%s: %q, want %v", &c.r, lacks, c.want)
		}
	}
	if p := (Placement{Affinity: []SelectorTerm{{}}}); p.Lacks(labels) == "" {
		t.Error("a term without requirements holds")
	}
}
