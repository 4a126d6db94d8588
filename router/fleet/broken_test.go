package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/router"
	"weir/router/balance"
)

// brokenKinds are what one replica of several may do with every request, and what is then known of it.
var brokenKinds = map[string]Fault{
	"401": Misconfigured, "403": Misconfigured, "404": Misconfigured, "405": Misconfigured, "302": Misconfigured, "413": TooLarge,
	"429": Throttled, "503": Overloaded, "500": ServerError, "502": ServerError,
	"error under 200": ServerError, "empty choices": EmptyAnswer, "html": BadAnswer, "garbage": BadAnswer, "null choices": EmptyAnswer,
	"null message": EmptyAnswer, "number content": BadAnswer, "choices of text": BadAnswer, "an array": EmptyAnswer, "negative index": BadAnswer,
}

var policies = []balance.Policy{balance.Prefix, balance.LeastLoad, balance.PowerOfTwo, balance.RoundRobin, balance.ConsistentHash}

// sources are replicas that are no weirs: what they refuse, they refuse to the router.
func sources(fakes ...*fake) (list []Source) {
	for _, s := range fakes {
		list = append(list, Source{URL: s.URL + "/v1", Kind: VLLM})
	}
	return list
}

// TestOneBrokenReplicaHarmsNoOne: whatever one replica of three does to every request, callers are answered by the others,
// each once, and the broken one is found out.
func TestOneBrokenReplicaHarmsNoOne(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	requests := reference.Repeats(40, 80, 200)
	for kind, want := range brokenKinds {
		for _, policy := range policies {
			for _, fields := range []string{"", streamed} {
				t.Run(fmt.Sprint(kind, "/", policy, "/", fields), func(t *testing.T) {
					broken := newFake(t, "broken", kind)
					f := fleetOf(t, Config{Sources: sources(newFake(t, "a", ""), broken, newFake(t, "b", "")), Balance: balance.Config{Policy: policy}})
					for n := range requests {
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

// TestStreamsThatBreakHarmFew: of a replica whose streams begin well and break, in whatever way, callers are told, none takes
// a part for the whole, and its breaker opens for three breaks in a row.
func TestStreamsThatBreakHarmFew(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	for kind, want := range brokenMidway {
		for _, policy := range policies {
			t.Run(fmt.Sprint(kind, "/", policy), func(t *testing.T) {
				broken := newFake(t, "broken", kind)
				f := fleetOf(t, Config{Sources: sources(newFake(t, "a", ""), broken, newFake(t, "b", "")), Balance: balance.Config{Policy: policy}})
				right, told := 0, 0
				for n := range 200 {
					c := call(streamed + fmt.Sprintf(`,"user":"%d"`, n))
					_, text, err := take(t, f, c)
					done := strings.Count(text, "[DONE]")
					switch {
					case err != nil && done == 0 && !strings.Contains(text, "<html>") && !strings.Contains(text, "{\"choi\n"):
						told++
					case err == nil && done == 1 && len(strings.Fields(said(t, text))) == words:
						right++
					default:
						t.Fatalf("request %d: %v %s", n, err, text)
					}
				}
				if told > 3 { // each counts twice
					t.Errorf("%d right, %d told", right, told)
				}
				for _, s := range f.Status() {
					if n := s.Faults[want.fault.String()]; s.ID == broken.id() && int64(told) != n || s.ID != broken.id() && len(s.Faults) > 0 {
						t.Errorf("%s has %v, %d callers were told", s.ID, s.Faults, told)
					}
				}
			})
		}
	}
}

// TestWholeStreamsGetTheirEnd: an answer that has its finish reason is whole, and has one [DONE], whatever its server leaves
// out behind that.
func TestWholeStreamsGetTheirEnd(t *testing.T) {
	for _, kind := range []string{"finish, then end", "finish, then cut", "done, then cut", "no end of lines", ""} {
		for _, fields := range []string{streamed, streamed + `,"messages":[{"role":"user","content":"x"}]`} {
			f := fleetOf(t, Config{}, newFake(t, "a", kind))
			for _, resume := range []bool{false, true} {
				c := call(fields)
				c.Resume = resume
				_, text, err := take(t, f, c)
				if err != nil || said(t, text) != answerOf("a") || strings.Count(text, "[DONE]") != 1 || !strings.HasSuffix(text, done) {
					t.Errorf("%s: %v %s", kind, err, text)
				}
			}
			if s := f.Status()[0]; len(s.Faults) > 0 {
				t.Errorf("%s: it is blamed: %v", kind, s.Faults)
			}
		}
	}
}

// TestStreamsGoOnAfterAnyBreak: what another replica can go on with does so after any break.
func TestStreamsGoOnAfterAnyBreak(t *testing.T) {
	for kind := range brokenMidway {
		if kind == "one of two finishes" {
			continue // several choices cannot go on
		}
		f := fleetOf(t, Config{Routing: Routing{RetryShare: 1}, Sources: sources(newFake(t, "a", kind), newFake(t, "b", "")), Balance: inTurn})
		for range 4 {
			c := call(streamed + `,"messages":[{"role":"user","content":"x"}]`)
			c.Resume = true
			if _, text, err := take(t, f, c); err != nil || strings.Count(text, "[DONE]") != 1 || strings.Count(text, `"finish_reason":"stop"`) != 1 {
				t.Errorf("%s: %v %s", kind, err, text)
			}
		}
	}
}
