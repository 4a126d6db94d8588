package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/router"
	"weir/router/balance"
)

// brokenKinds are what one replica of several may do with every request, and what is then known of it.
var brokenKinds = map[string]Fault{
	"401": Misconfigured, "403": Misconfigured, "404": Misconfigured, "405": Misconfigured, "302": Misconfigured, "413": TooLarge,
	"429": Throttled, "503": Overloaded, "500": ServerError, "502": ServerError,
	"error under 200": ServerError, "empty choices": EmptyAnswer, "html": BadAnswer, "garbage": BadAnswer,
}

var policies = []balance.Policy{balance.Prefix, balance.LeastLoad, balance.PowerOfTwo, balance.RoundRobin, balance.ConsistentHash}

// sources are replicas that are no weirs: what they refuse, they refuse to the router.
func sources(fakes ...*fake) (list []Source) {
	for _, s := range fakes {
		list = append(list, Source{URL: s.URL + "/v1", Kind: VLLM})
	}
	return list
}

// TestOneBrokenReplicaHarmsNobody: whatever one replica of three does to every request, callers are answered by the others,
// each once, and the broken one is found out.
func TestOneBrokenReplicaHarmsNobody(t *testing.T) {
	for kind, want := range brokenKinds {
		for _, policy := range policies {
			for _, fields := range []string{"", streamed} {
				t.Run(fmt.Sprint(kind, "/", policy, "/", fields), func(t *testing.T) {
					broken := newFake(t, "broken", kind)
					f := fleetOf(t, Config{Sources: sources(newFake(t, "a", ""), broken, newFake(t, "b", "")), Balance: balance.Config{Policy: policy}})
					for n := range 60 {
						c := call(fields + strings.Repeat(",", min(len(fields), 1)) + fmt.Sprintf(`"user":"%d"`, n))
						got, text, err := take(t, f, c)
						if err != nil || got.Status != 200 || got.Replica == broken.id() {
							t.Fatalf("request %d: %+v %v %s", n, got, err, text)
						}
						if fields != "" && strings.Count(text, "[DONE]") != 1 {
							t.Fatalf("request %d: %s", n, text)
						}
					}
					// Within the breaker's window a broken replica is asked a few times at most.
					asked := broken.calls.Load()
					for _, s := range f.Status() {
						if s.ID == broken.id() && s.Faults[want.String()] != asked {
							t.Errorf("asked %d times, and it has %v, want %s", asked, s.Faults, want)
						}
						if s.ID != broken.id() && len(s.Faults) > 0 {
							t.Errorf("%s is blamed: %v", s.ID, s.Faults)
						}
					}
					if asked > 5 {
						t.Errorf("the broken one was asked %d times", asked)
					}
				})
			}
		}
	}
}

// TestRefusalsOfAllReplicasAreTheRequests: what every replica refuses is the request's fault; no breaker opens for it.
func TestRefusalsOfAllReplicasAreTheRequests(t *testing.T) {
	for _, kind := range []string{"401", "404", "413", "302"} {
		a, b, c := newFake(t, "a", kind), newFake(t, "b", kind), newFake(t, "c", kind)
		f := fleetOf(t, Config{}, a, b, c)
		for range 30 {
			if got, _, err := take(t, f, call("")); err != nil || fmt.Sprint(got.Status) != kind || got.Attempts > maxAttempts {
				t.Errorf("%s: %+v %v", kind, got, err)
			}
		}
		for _, s := range f.Status() {
			if s.Breaker != "closed" {
				t.Errorf("%s: the breaker of %s is %s", kind, s.ID, s.Breaker)
			}
		}
	}
}

// TestReplicasRestAsLongAsTheyAsk: Retry-After keeps a replica from requests that others can take.
func TestReplicasRestAsLongAsTheyAsk(t *testing.T) {
	throttled, good := newFake(t, "throttled", "429"), newFake(t, "good", "")
	f := fleetOf(t, Config{Sources: sources(throttled, good), Balance: inTurn})
	for range 40 {
		if got, _, err := take(t, f, call("")); err != nil || got.Status != 200 {
			t.Fatalf("%+v %v", got, err)
		}
	}
	if n := throttled.calls.Load(); n != 1 {
		t.Errorf("it was asked %d times within the 7 seconds that it asked for", n)
	}
	r := f.members.Load().list[0]
	if r.id != throttled.id() {
		r = f.members.Load().list[1]
	}
	if now := time.Now(); !r.cools(now) || r.cools(now.Add(7*time.Second)) {
		t.Errorf("it rests until %s", time.Unix(0, r.rests.Load()))
	}
	good.Close()
	if got, _, err := take(t, f, call("")); err != nil || got.Status != 429 {
		t.Errorf("where no other is left: %+v %v", got, err)
	}
}

// TestABrokenReplicaAloneNamesItsFault: the caller's error says what the only replica did.
func TestABrokenReplicaAloneNamesItsFault(t *testing.T) {
	for kind, want := range brokenKinds {
		var told []string
		c := call(streamed)
		c.Tried = func(a *router.Attempt) { told = append(told, a.Failed) }
		got, _, err := take(t, fleetOf(t, Config{}, newFake(t, "broken", kind)), c)
		if err == nil && got.Status == 200 {
			t.Errorf("%s: %+v", kind, got)
		}
		if len(told) != 1 || !strings.Contains(told[0], want.String()) {
			t.Errorf("%s: explained as %q, want %s", kind, told, want)
		}
	}
}
