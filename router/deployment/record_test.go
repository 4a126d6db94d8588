package deployment

import (
	"slices"
	"strings"
	"testing"
	"time"

	"weir/router/rollout"
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func labels(list []Revision) (out []string) {
	for i := range list {
		out = append(out, list[i].Label)
	}
	return out
}

// settled is a record that has served the versions one after another.
func settled(t *testing.T, versions ...string) Record {
	t.Helper()
	var r *Record
	for _, v := range versions {
		next := Apply(r, Spec{Model: "chat", Version: v, Warm: Warm{Previous: 1}}, "id", "test", now)
		next, ok := next.Settle(next.Generation)
		if !ok {
			t.Fatalf("%s was not settled: %+v", v, next)
		}
		r = &next
	}
	return *r
}

func TestTheSameSpecChangesNothing(t *testing.T) {
	plan := func() *rollout.Plan { return &rollout.Plan{Steps: []rollout.Step{{Percent: 10}}} }
	spec := func() Spec {
		return Spec{Model: "chat", Version: "v1", Resources: map[string]string{"scheduler.max_num_seqs": "4"}, Policy: plan(), Warm: Warm{Versions: []string{"v0"}}}
	}
	first := Apply(nil, spec(), "a", "one", now)
	if first.Generation != 1 || first.Rollout != RolloutPrefix+"a" || first.Wanted.Label != LabelOf("v1", spec().Resources) || first.By != "one" {
		t.Fatalf("%+v", first)
	}
	if again := Apply(&first, spec(), "b", "two", now.Add(time.Hour)); again.Generation != 1 || again.Rollout != first.Rollout || again.By != "one" {
		t.Errorf("the same again: %+v", again)
	}
	for name, change := range map[string]func(*Spec){
		"version": func(s *Spec) { s.Version = "v2" }, "resources": func(s *Spec) { s.Resources = nil },
		"policy": func(s *Spec) { s.Policy.Gates.Distance = 0.5 }, "no policy": func(s *Spec) { s.Policy = nil }, "warm": func(s *Spec) { s.Warm = Warm{} },
	} {
		s := spec()
		change(&s)
		next := Apply(&first, s, "b", "two", now)
		if next.Generation != 2 || next.By != "two" {
			t.Errorf("another %s: %+v", name, next)
		}
		if (next.Rollout == first.Rollout) != (name == "warm") {
			t.Errorf("another %s: the rollout is %q after %q", name, next.Rollout, first.Rollout)
		}
		if first.Generation != 1 || first.Wanted.Version != "v1" {
			t.Errorf("another %s changed the record before", name)
		}
	}
}

// Labels tell versions apart: the same version with other resources has another one, and one that was there before has its own.
func TestRevisions(t *testing.T) {
	r := settled(t, "v1", "v2")
	if got := labels(r.History); !slices.Equal(got, []string{"v1"}) || r.Settled.Label != "v2" {
		t.Fatalf("%+v", r)
	}
	back := Apply(&r, Spec{Model: "chat", Version: "v1"}, "x", "test", now)
	if back.Wanted.Label != "v1" || back.Wanted.Generation != 1 || back.Generation != 3 {
		t.Errorf("back to the first: %+v", back.Wanted)
	}
	more := Apply(&r, Spec{Model: "chat", Version: "v2", Resources: map[string]string{"scheduler.max_num_seqs": "8"}}, "x", "test", now)
	if more.Wanted.Label != "v2-410916fb" {
		t.Errorf("with other resources: %+v", more.Wanted)
	}
	pinned, changed := more.Pin(more.Wanted.Label, "sha256:1")
	if again, twice := pinned.Pin(more.Wanted.Label, "sha256:2"); !changed || twice || again.Wanted.Digest != "sha256:1" || more.Wanted.Digest != "" {
		t.Errorf("pinned twice: %+v", again)
	}
	for version, want := range map[string]string{
		"v1": "v1", "hf.co/o/r:Q4_K_M": "hf.co/o/r:Q4_K_M", "sha256:0123456789abcdef": "sha256:0123456789ab", "chat@sha256:0123456789abcdef": "sha256:0123456789ab",
	} {
		if got := LabelOf(version, nil); got != want {
			t.Errorf("%s has the label %s", version, got)
		}
	}
}

// The configuration may have a version under its label: with resources it is another one from the first time on, the same
// resources are the same version, and without any it is the configuration's again.
func TestRevisionsWithResources(t *testing.T) {
	spec := func(version, bytes string) Spec {
		s := Spec{Model: "chat", Version: version}
		if bytes != "" {
			s.Resources = map[string]string{"kv_cache_memory_bytes": bytes}
		}
		return s
	}
	var r *Record
	labels := make(map[string]string)
	for _, s := range []Spec{spec("2", "16MiB"), spec("2", "32MiB"), spec("1", ""), spec("2", ""), spec("1", "16MiB"), spec("2", "16MiB"), spec("1", "")} {
		next := Apply(r, s, "id", "test", now)
		next, _ = next.Settle(next.Generation)
		words := s.Version + s.Resources["kv_cache_memory_bytes"]
		if before, ok := labels[next.Wanted.Label]; ok && before != words {
			t.Errorf("%s has the label of %s, %s", words, before, next.Wanted.Label)
		}
		if labels[next.Wanted.Label] = words; (next.Wanted.Label == s.Version) != (s.Resources == nil) {
			t.Errorf("%s has the label %s", words, next.Wanted.Label)
		}
		r = &next
	}
	if len(labels) != 5 {
		t.Errorf("%v", labels)
	}
}

// What was superseded before it settled is not what a rollback goes to.
func TestSettle(t *testing.T) {
	r := settled(t, "v1")
	bad := Apply(&r, Spec{Model: "chat", Version: "v2"}, "x", "test", now)
	good := Apply(&bad, Spec{Model: "chat", Version: "v3", Warm: Warm{Previous: 2, Versions: []string{"v9", "v3", "v1"}}}, "x", "test", now)
	if _, ok := good.Settle(bad.Generation); ok {
		t.Error("a generation that is over was settled")
	}
	if got := labels(good.Kept()); !slices.Equal(got, []string{"v1", "v9"}) {
		t.Errorf("before it settled %q stay warm", got)
	}
	done, ok := good.Settle(good.Generation)
	if !ok || done.Settled.Label != "v3" || !slices.Equal(labels(done.History), []string{"v1"}) {
		t.Errorf("%+v", done)
	}
	if _, twice := done.Settle(done.Generation); twice {
		t.Error("it was settled twice")
	}
	var many []string
	for i := range 15 {
		many = append(many, strings.Repeat("v", i+1))
	}
	if long := settled(t, many...); len(long.History) != maxHistory {
		t.Errorf("%d versions are remembered", len(long.History))
	}
}

func TestIsFinal(t *testing.T) {
	for _, c := range []struct {
		seen []Observation
		want bool
	}{
		{nil, false},
		{[]Observation{{Generation: 2, State: Elsewhere}}, false}, // a router
		{[]Observation{{Generation: 2, State: Elsewhere}, {Generation: 2, State: Unfit}}, true},
		{[]Observation{{Generation: 2, State: Failed}, {Generation: 2, State: Serving}}, true},
		{[]Observation{{Generation: 2, State: Failed}, {Generation: 1, State: Failed}}, false},
		{[]Observation{{Generation: 2, State: Unfit}, {Generation: 2, State: Elsewhere, Standby: true}}, false},
		{[]Observation{{Generation: 2, State: Unfit}, {State: Pending}}, false},
		{[]Observation{{Generation: 2, State: RolledBack}, {Generation: 2, State: RollingOut}}, false},
	} {
		if got := IsFinal(c.seen, 2); got != c.want {
			t.Errorf("%+v: %v", c.seen, got)
		}
	}
}

func TestSummarise(t *testing.T) {
	r := settled(t, "v1")
	seen := func(list ...Observation) []Observation { return list }
	for _, c := range []struct {
		name string
		seen []Observation
		want Summary
		why  string
	}{
		{"nobody yet", nil, Progressing, "no server has looked"},
		{"nobody", seen(Observation{Instance: "b", Generation: 1, State: Elsewhere, Why: "routes only"}), Unserved, "b: routes only"},
		{"all", seen(Observation{Instance: "a", Generation: 1, State: Serving}, Observation{Instance: "b", Generation: 1, State: Elsewhere}), Ready, ""},
		{"pulling", seen(Observation{Instance: "a", Generation: 1, State: Pulling, DoneBytes: 43, TotalBytes: 100, Why: "from hf.co"}), Progressing, "a: pulling 43 %: from hf.co"},
		{"behind", seen(Observation{Instance: "a", State: Serving}), Progressing, "a: acts on generation 0 of 1"},
		{"failed", seen(Observation{Instance: "a", Generation: 1, State: Failed, Why: "needs 3 GiB"}, Observation{Instance: "b", State: Loading, Generation: 1}), Degraded, "a: failed: needs 3 GiB b: loading"},
		{"not looked", Await(seen(Observation{Instance: "b", Generation: 1, State: Elsewhere, Why: "routes only"}), []Server{{Instance: "a"}, {Instance: "b"}, {Instance: "c", Draining: true}}, "chat"), Progressing, "b: routes only a: it has not looked"},
		{"taken back", seen(Observation{Instance: "a", Generation: 1, State: RolledBack, Why: "error_rate"}), Degraded, "a: rolled back: error_rate"},
		{"not warm", seen(Observation{Instance: "a", Generation: 1, State: Serving, Why: "v0 is not warm"}), Degraded, "a: v0 is not warm"},
	} {
		if got, why := r.Summarise(c.seen); got != c.want || !strings.HasPrefix(strings.Join(why, " "), c.why) {
			t.Errorf("%s: %s %q", c.name, got, why)
		}
	}
}
