package openai

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/api/edge"
	"weir/api/replay"
	"weir/router"
	"weir/scheduler/quota"
)

// watchedClaims counts calls, and holds them where a test wants it to.
type watchedClaims struct {
	replay.Claims
	looks, writes    atomic.Int32
	afterLook, begin func() // nil: nothing
}

func (w *watchedClaims) Look(ctx context.Context, r replay.Request) (replay.Outcome, error) {
	w.looks.Add(1)
	found, err := w.Claims.Look(ctx, r)
	if w.afterLook != nil {
		w.afterLook()
	}
	return found, err
}

func (w *watchedClaims) Begin(ctx context.Context, r replay.Request) (replay.Outcome, error) {
	if w.begin != nil {
		w.begin()
	}
	w.writes.Add(1)
	return w.Claims.Begin(ctx, r)
}

func (w *watchedClaims) Finish(ctx context.Context, c replay.Claim, answer []byte) error {
	w.writes.Add(1)
	return w.Claims.Finish(ctx, c, answer)
}

func (w *watchedClaims) Abandon(ctx context.Context, c replay.Claim) error {
	w.writes.Add(1)
	return w.Claims.Abandon(ctx, c)
}

// What is refused before it runs writes nothing into the store of keys, and a replay
// needs no quota.
func TestRefusalsLeaveTheStoreOfKeysAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := limited(quota.Limits{RequestsPerMinute: 1})
		claims := &watchedClaims{Claims: replay.NewMemory(1 << 20)}
		c.Idempotency.Claims = claims
		k := newKeyRig(t, c, &fakeBackend{})
		defer k.closeInBubble()
		k.expect("bad", routeChat, chatWith(`"temperature":9`), 400, "", false)
		k.expect("model", routeChat, chatWith(`"model":"none"`), 404, "", false)
		if n := claims.writes.Load(); n != 0 {
			t.Errorf("requests that were refused wrote %d times", n)
		}
		k.expect("first", routeChat, chatWith(`"n":1`), 200, "", false)
		before := claims.writes.Load()
		for range 3 {
			k.expect("second", routeChat, chatWith(`"n":1`), 429, "rate_limit_exceeded", false)
		}
		k.expect("first", routeChat, chatWith(`"n":1`), 200, "", true)
		if n := claims.writes.Load(); before != 2 || n != before {
			t.Errorf("an execution wrote %d times, refusals and a replay %d times; want 2 and 0", before, n-before)
		}
		time.Sleep(time.Minute)
		k.expect("second", routeChat, chatWith(`"n":1`), 200, "", false)
		k.expect("second", routeChat, chatWith(`"n":1`), 200, "", true)
		if n := claims.looks.Load(); n != 9 || k.count(edge.KeyFreed) != 5 || k.count(edge.KeyExecuted) != 2 || k.count(edge.KeyReplayed) != 2 {
			t.Errorf("%d looks, %v", n, k.ends)
		}
	})
}

// Requests of one key that all found it free, and all reserved: one is executed, and the
// others give back what they reserved. A late one gets the answer that is there by then.
func TestReservationsOfOneKey(t *testing.T) {
	const callers = 5
	limits := quota.Limits{RequestsPerMinute: callers, TokensPerMinute: 600, MaxStreams: callers}
	for _, tc := range []struct {
		name string
		late time.Duration // between the tries to take the key; an answer takes a second
		want int           // status of those that came too late
	}{{"in flight", 0, http.StatusConflict}, {"answered", time.Minute, http.StatusOK}} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %v", tc.name, stream), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, m := limited(limits)
					var looked sync.WaitGroup
					looked.Add(callers)
					var turn atomic.Int32
					c.Idempotency.Claims = &watchedClaims{
						Claims:    replay.NewMemory(1 << 20),
						afterLook: func() { looked.Done(); looked.Wait() },
						begin:     func() { time.Sleep(time.Duration(turn.Add(1)-1) * tc.late) },
					}
					k := newKeyRig(t, c, &fakeBackend{script: say("Hello world", time.Second/2)})
					defer k.closeInBubble()
					var statuses [600]atomic.Int32
					texts := make([]string, callers)
					var wait sync.WaitGroup
					for i := range callers {
						wait.Go(func() {
							res, text := k.do("POST", routeCompletions, keyed("k"), helloPrompt+fmt.Sprintf(`,"stream":%v}`, stream))
							statuses[res.StatusCode].Add(1)
							if texts[i] = text; res.StatusCode == 200 && !strings.Contains(text, "world") {
								t.Errorf("%s", text)
							}
						})
					}
					wait.Wait()
					synctest.Wait()
					lost := int32(callers - 1)
					if tc.want == http.StatusOK {
						lost = callers
					}
					if k.backend.executions() != 1 || statuses[tc.want].Load() != lost || k.count(edge.KeyExecuted) != 1 || k.count(edge.KeyFreed) != 0 {
						t.Errorf("%d executions, %d of status %d, %v", k.backend.executions(), statuses[tc.want].Load(), tc.want, k.ends)
					}
					if tc.want == http.StatusOK && strings.Join(texts, "") != strings.Repeat(texts[0], callers) {
						t.Errorf("%q", texts)
					}
					if got := left(t, m, limits); tc.late == 0 && (got.Requests.Left != callers-1 || got.Tokens.Left < 600-6) {
						t.Errorf("after one execution %+v is left", got)
					}
				})
			})
		}
	}
}

// Whatever answers: each takes the key last, and gives the quota back where it loses it.
func TestReservationsOfOneKeyElsewhere(t *testing.T) {
	t.Parallel()
	limits := quota.Limits{RequestsPerMinute: 2, MaxStreams: 2}
	for _, tc := range []struct {
		name string
		rig  func(t *testing.T, c Config) *rig
		path string
		body string
	}{
		{"relay", func(t *testing.T, c Config) *rig {
			return relayRig(t, c, edgeUpstream(t, &fakeBackend{script: say("Hello world", 300*time.Millisecond)}))
		}, routeChat, chatWith(`"n":1`)},
		{"embeddings", func(t *testing.T, c Config) *rig {
			r, vectors, _ := poolingRig(t, c)
			vectors.refuse = func(context.Context, *router.Embedding) error {
				time.Sleep(300 * time.Millisecond)
				return nil
			}
			return r
		}, routeEmbeddings, `{"model":"vectors","input":"a"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, m := limited(limits)
			var looked sync.WaitGroup
			looked.Add(2)
			c.Idempotency.Claims = &watchedClaims{Claims: replay.NewMemory(1 << 20), afterLook: func() { looked.Done(); looked.Wait() }}
			r := tc.rig(t, c)
			defer r.close()
			var answered, conflicts atomic.Int32
			var wait sync.WaitGroup
			for range 2 {
				wait.Go(func() {
					switch res, text := r.do("POST", tc.path, keyed("k"), tc.body); res.StatusCode {
					case 200:
						answered.Add(1)
					case http.StatusConflict:
						conflicts.Add(1)
					default:
						t.Errorf("%d %s", res.StatusCode, text)
					}
				})
			}
			wait.Wait()
			if answered.Load() != 1 || conflicts.Load() != 1 {
				t.Errorf("%d answers, %d conflicts", answered.Load(), conflicts.Load())
			}
			if got := left(t, m, limits); got.Requests.Left != 1 {
				t.Errorf("after one execution %+v is left", got)
			}
		})
	}
}

// hangingClaims is a store that never answers.
type hangingClaims struct{ replay.Claims }

func (hangingClaims) Look(ctx context.Context, _ replay.Request) (replay.Outcome, error) {
	<-ctx.Done()
	return replay.Outcome{}, ctx.Err()
}

func (h hangingClaims) Begin(ctx context.Context, r replay.Request) (replay.Outcome, error) {
	return h.Look(ctx, r)
}

// A store of keys that hangs costs a request two seconds.
func TestAStoreThatHangsRefusesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := limited(quota.Limits{})
		c.Idempotency.Claims = hangingClaims{replay.NewMemory(1 << 20)}
		k := newKeyRig(t, c, &fakeBackend{})
		defer k.closeInBubble()
		begun := time.Now()
		k.expect("first", routeChat, chatWith(`"n":1`), 503, "idempotency_unavailable", false)
		if d := time.Since(begun); d > edge.AskTimeout || d > 2*time.Second {
			t.Errorf("it was refused after %v", d)
		}
	})
}
