package configs

import (
	"slices"
	"testing"
	"time"

	"weir/api"
	"weir/api/tenant"
	"weir/scheduler/brownout"
)

// Changes names every setting that differs, once, and says which of them a running
// process takes; TakeLive takes exactly those.
func TestChanges(t *testing.T) {
	before := Default()
	after := Default()
	after.Log.Level, after.Log.AccessPerSecond = "debug", 3
	after.Scheduler.MaxSeqs = 3
	after.Server.ShutdownTimeout = time.Minute
	after.API.APIKeys = []string{"12345678"}
	after.Tenants = []tenant.Tenant{tenant.New("acme")}
	after.Brownout = []brownout.Step{{Name: "short"}}
	after.Classic = []Classic{NewClassic("churn", "churn.json")}
	after.Predict.Models = []string{"churn.json"}
	after.Models = []ServedModel{NewServedModel("chat", "chat.gguf")}
	after.Model.Path, after.Model.MemoryBytes = "x.gguf", 1<<30
	after.Quota.Failure, after.Quota.Lease, after.Quota.Redis = QuotaClosed, time.Minute, "redis://127.0.0.1"
	after.SLO.Streams = 0.5
	got := Changes(before, after)
	want := []Change{
		{"server.api_key", true}, {"server.shutdown_timeout", false}, {"model.path", true}, {"model.memory_bytes", false}, {"predict.models", true}, {"scheduler.max_num_seqs", false}, {"quota.redis", false},
		{"quota.failure", true}, {"quota.lease", true}, {"slo.streams", true}, {"log.level", true}, {"log.access_per_second", true}, {"tenants", true}, {"brownout", true}, {"classic", true},
		{"models", true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("changes are %v, want %v", got, want)
	}
	before.TakeLive(after)
	for _, c := range Changes(before, after) {
		if c.Live {
			t.Errorf("%s is live, and TakeLive did not take it", c.Key)
		}
	}
	if left := Changes(before, after); len(left) != 4 { // the memory of models, the queue, the timeout and the address of Redis
		t.Errorf("left are %v, want what needs a restart", left)
	}
	if same := Changes(after, after); len(same) != 0 {
		t.Errorf("a configuration differs from itself in %v", same)
	}
}

// Other files of TLS are live; TLS itself is switched on and off by a restart.
func TestChangesOfTLS(t *testing.T) {
	plain, one, two := Default(), Default(), Default()
	one.Server.TLS = api.TLSFiles{Certificate: "a.crt", Key: "a.key"}
	two.Server.TLS = api.TLSFiles{Certificate: "b.crt", Key: "b.key", ClientCA: "ca.crt"}
	for _, c := range []struct {
		before, after Config
		live          bool
	}{{plain, one, false}, {one, plain, false}, {one, two, true}, {two, one, true}} {
		changes := Changes(c.before, c.after)
		if len(changes) < 2 {
			t.Errorf("changes are %v", changes)
		}
		for _, change := range changes {
			if change.Live != c.live {
				t.Errorf("%+v to %+v: %+v", c.before.Server.TLS, c.after.Server.TLS, change)
			}
		}
		running := c.before
		running.TakeLive(c.after)
		if taken := running.Server.TLS == c.after.Server.TLS; taken != c.live {
			t.Errorf("%+v to %+v: taken is %v", c.before.Server.TLS, c.after.Server.TLS, taken)
		}
	}
}

// Every live key is a setting or a list.
func TestLiveKeysExist(t *testing.T) {
	c := Default()
	known := []string{"tenants", "issuers", "prices", "brownout", "classic", "models", "policies"}
	for _, s := range settings(&c) {
		known = append(known, s.Key)
	}
	for key := range liveKeys {
		if !slices.Contains(known, key) {
			t.Errorf("%s is no setting", key)
		}
	}
}
