package deployment

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/router/rollout"
)

// A server that restarts amid a rollout goes on with it, also where its configuration chooses the candidate, or a third version: the version
// before answers what the rollout leaves to it.
func TestARestartAmidARollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, choice := range []string{"v1", "v2", "v3"} {
			c := newCluster(t, 1)
			m := c.machines[0]
			c.apply(Spec{Model: "chat", Version: "v1"})
			pass(10 * time.Second)
			c.apply(Spec{Model: "chat", Version: "v2", Policy: &rollout.Plan{}})
			pass(10 * time.Second)
			m.choice = map[string]string{"chat": choice}
			for range 3 {
				c.kill(0)
				c.start(0)
				pass(10 * time.Second)
				o, _ := c.running[0].Observed("chat")
				if got, _ := m.Answers("chat"); got != "v1" || o.State != RollingOut || o.Answers != "v1" {
					t.Errorf("the configuration chooses %s, and %s answers: %+v", choice, got, o)
				}
				if p := m.asked[len(m.asked)-1]; p.Stable != "v1" || p.Candidate != "v2" {
					t.Errorf("the configuration chooses %s: a rollout from %s to %s", choice, p.Stable, p.Candidate)
				}
			}
			if r := c.store.records["chat"]; r.IsSettled() {
				t.Errorf("the rollout is over: %+v", r)
			}
			m.mu.Lock()
			m.rolls = map[string]rollout.State{"v2": rollout.Promoted}
			m.mu.Unlock()
			pass(5 * time.Second)
			c.all("chat", "v2")
			c.kill(0)
		}
	})
}

// A server on which the version before is not there any more does not let the candidate answer all requests.
func TestARestartWithoutTheVersionBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		m := c.machines[0]
		c.apply(Spec{Model: "chat", Version: "v1"})
		pass(10 * time.Second)
		c.apply(Spec{Model: "chat", Version: "v2", Policy: &rollout.Plan{}})
		pass(10 * time.Second)
		c.kill(0)
		m.choice, m.tags = map[string]string{"chat": "v2"}, map[string]string{"v1": ", which has moved"}
		c.start(0)
		pass(10 * time.Second)
		r := c.store.records["chat"]
		if o, _ := c.running[0].Observed("chat"); o.State != Failed || !strings.Contains(o.Why, "the version v1 is not here") || r.IsSettled() {
			t.Errorf("%+v", o)
		}
		m.mu.Lock()
		m.tags = nil
		m.mu.Unlock()
		pass(time.Minute)
		if o, _ := c.running[0].Observed("chat"); o.State != RollingOut || o.Answers != "v1" {
			t.Errorf("it is back: %+v", o)
		}
	})
}

// A server whose own configuration has it answer with the candidate of a rollout that others are in the middle of does not end it for them.
func TestAServerThatHasTheCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.kill(1)
		c.machines[0].choice = map[string]string{"chat": "v1"}
		c.kill(0)
		c.start(0)
		c.apply(Spec{Model: "chat", Version: "v2", Policy: &rollout.Plan{}})
		pass(10 * time.Second)
		step := rollout.Transition{ID: c.store.records["chat"].Rollout, Model: "chat", To: rollout.Running, Step: 2}
		if err := c.running[0].Moved(t.Context(), &step); err != nil {
			t.Fatal(err)
		}
		c.machines[1].choice, c.machines[1].rolls = map[string]string{"chat": "v2"}, map[string]rollout.State{"v2": rollout.Promoted}
		c.machines[1].reset()
		c.start(1)
		pass(10 * time.Second)
		if r := c.store.records["chat"]; r.IsSettled() || r.Progress.State != rollout.Running {
			t.Errorf("%+v", r)
		}
	})
}

// A version that goes on although the configuration has it no more answers, and the deployment says so.
func TestAVersionThatTheConfigurationLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.apply(Spec{Model: "chat", Version: "v1"})
		pass(10 * time.Second)
		c.machines[0].mu.Lock()
		c.machines[0].lacks = errors.New("list it again")
		c.machines[0].mu.Unlock()
		pass(2 * time.Second)
		c.all("chat", "v1")
		if state, why := c.summary("chat"); state != Degraded || !strings.Contains(why, "list it again") {
			t.Errorf("%s %s", state, why)
		}
		c.machines[0].mu.Lock()
		c.machines[0].lacks = nil
		c.machines[0].mu.Unlock()
		pass(2 * time.Second)
		if state, why := c.summary("chat"); state != Ready {
			t.Errorf("%s %s", state, why)
		}
	})
}

// A server is known to the others before it follows anything.
func TestAServerIsAnnouncedFirst(t *testing.T) {
	store := &memory{records: make(map[string]Record), seen: make(map[string]map[string]Observation)}
	f := New(view{store, "a"}, newMachine(), Options{Instance: "a:1", Self: func() Server { return Server{Instance: "a:1"} }})
	if err := f.Announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := (view{store, "b"}).Servers(t.Context()); err != nil || len(list) != 1 || list[0].Instance != "a:1" {
		t.Errorf("%+v, %v", list, err)
	}
}
