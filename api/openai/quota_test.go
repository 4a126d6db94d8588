package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/api/edge"
	"weir/api/meter"
	"weir/api/tenant"
	"weir/internal/inference"
	"weir/scheduler/quota"
)

// limited is a configuration in which every tenant has these limits, and its meter.
func limited(l quota.Limits) (Config, *meter.Local) {
	c, m := DefaultConfig(), meter.NewLocal(nil)
	c.Meter = m
	all := tenant.New(tenant.Rest)
	all.Limits = l
	directory, err := tenant.NewDirectory([]tenant.Tenant{all})
	if err != nil {
		panic(err)
	}
	if c.Callers, err = tenant.NewAuthenticator(context.Background(), tenant.Config{Directory: directory}); err != nil {
		panic(err)
	}
	return c, m
}

// left is what the meter has of a limit of the only tenant.
func left(t *testing.T, m *meter.Local, l quota.Limits) quota.Remaining {
	t.Helper()
	r, err := m.Remaining(quota.Holder{Limits: &l})
	if err != nil {
		t.Fatal(err)
	}
	if s := m.Stats(); s.Grants != 0 {
		t.Errorf("%d grants are open", s.Grants)
	}
	return r
}

// closeInBubble is close inside a bubble of virtual time, where fasthttp's worker
// pool looks for its end every 10 seconds.
func (r *rig) closeInBubble() {
	r.close()
	time.Sleep(time.Minute)
}

func rateHeaders(h http.Header) string {
	var b strings.Builder
	for _, what := range []string{"Requests", "Tokens"} {
		fmt.Fprintf(&b, "%s/%s/%s ", h.Get("X-Ratelimit-Remaining-"+what), h.Get("X-Ratelimit-Limit-"+what), h.Get("X-Ratelimit-Reset-"+what))
	}
	return strings.TrimSpace(b.String())
}

const helloPrompt = `{"prompt":"Hello","max_tokens":5` // one token of prompt; the answer has three: Hello, world, end

func TestAnswersTellWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := quota.Limits{RequestsPerMinute: 4, TokensPerMinute: 60}
		c, m := limited(limits)
		r := newRig(t, c, &fakeBackend{})
		defer r.closeInBubble()
		for i, body := range []string{helloPrompt + `}`, helloPrompt + `,"stream":true}`} {
			res, text := r.do("POST", routeCompletions, "", body)
			used := int64(4 * i)
			want := fmt.Sprintf("%d/4/%s %d/60/%s", 3-i, time.Duration(15*(i+1))*time.Second, 60-used-6, time.Duration(used+6)*time.Second)
			if res.StatusCode != 200 || rateHeaders(res.Header) != want {
				t.Errorf("answer %d has %q, want %q: %s", i, rateHeaders(res.Header), want, text)
			}
		}
		if got := left(t, m, limits); got.Tokens.Left != 52 || got.Requests.Left != 2 {
			t.Errorf("after two answers of 4 tokens %+v is left", got)
		}
		res, _ := r.do("POST", routeCompletions, "", `{"prompt":"Hello","max_tokens":-7}`)
		if want := "2/4/30s 52/60/8s"; res.StatusCode != 400 || rateHeaders(res.Header) != want {
			t.Errorf("a wrong request was answered %d with %q, want %q", res.StatusCode, rateHeaders(res.Header), want)
		}
	})
}

func TestRefusalsByQuota(t *testing.T) {
	price := quota.Price{Input: 1e6, Output: 1e6}
	for _, tc := range []struct {
		name   string
		limits quota.Limits
		want   string // status, code, type, Retry-After-Ms, Retry-After, X-Should-Retry
	}{
		{"requests", quota.Limits{RequestsPerMinute: 1}, "429 rate_limit_exceeded rate_limit_error 60000 60 true"},
		{"requests, soon", quota.Limits{RequestsPerMinute: 10}, ""},
		{"tokens", quota.Limits{TokensPerMinute: 120}, ""},
		{"budget", quota.Limits{DailyTokens: 4}, "429 insufficient_quota insufficient_quota 86400000 86400 false"},
		{"money", quota.Limits{MonthlyCost: 4}, "429 insufficient_quota insufficient_quota 2678400000 2678400 false"},
		{"prompt", quota.Limits{MaxContextTokens: 1}, "400 context_length_exceeded invalid_request_error   false"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, m := limited(tc.limits)
			r := newRig(t, c, &fakeBackend{})
			defer r.closeInBubble()
			model := testModel(t, r.backend)
			model.Price = price
			if err := r.openai.SetModels(model); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				res, text := r.do("POST", routeCompletions, "", helloPrompt+`}`)
				if res.StatusCode == 200 {
					continue
				}
				var answer struct {
					Error struct{ Code, Type string }
				}
				if err := json.Unmarshal([]byte(text), &answer); err != nil {
					t.Fatal(err)
				}
				e := answer.Error
				got := fmt.Sprint(res.StatusCode, " ", e.Code, " ", e.Type, " ", res.Header.Get("Retry-After-Ms"), " ",
					res.Header.Get("Retry-After"), " ", res.Header.Get("X-Should-Retry"))
				if got != tc.want {
					t.Errorf("%s: %q, want %q: %s", tc.name, got, tc.want, text)
				}
				tc.want = ""
				break
			}
			if tc.want != "" {
				t.Errorf("%s: not refused", tc.name)
			}
			left(t, m, tc.limits)
		})
	}
}

// What is computed beside generations counts in requests per minute, too, and is refused beyond them.
func TestTokenisingCountsAsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m := limited(quota.Limits{RequestsPerMinute: 6, TokensPerMinute: 5})
		r := newRig(t, c, &fakeBackend{})
		defer r.closeInBubble()
		chat := `{"messages":[{"role":"user","content":"Hello"}]`
		for i, ask := range []struct{ path, body string }{
			{routeTokenize, `{"prompt":"Hello world, this is a text of more than five tokens"}`}, {routeTokenize, chat + `}`},
			{routeTemplate, chat + `}`}, {routeDetokenize, `{"tokens":[1]}`}, {routeCount, chat + `,"max_tokens":1}`}, {routeTokenize, `{"prompt":"x"}`},
		} {
			if res, body := r.do("POST", ask.path, "", ask.body); res.StatusCode != 200 {
				t.Fatalf("request %d, %s: %d %s", i, ask.path, res.StatusCode, body)
			}
		}
		if got := left(t, m, quota.Limits{RequestsPerMinute: 6, TokensPerMinute: 5}); got.Requests.Left != 0 || got.Tokens.Left != 5 {
			t.Errorf("left are %+v", got)
		}
		for _, path := range []string{routeTokenize, routeTemplate, routeDetokenize, routeCount} {
			if res, body := r.do("POST", path, "", chat+`,"max_tokens":1,"tokens":[1]}`); res.StatusCode != http.StatusTooManyRequests {
				t.Errorf("beyond the limit %s: %d %s", path, res.StatusCode, body)
			}
		}
	})
}

// What did not run is not counted, and what was cancelled counts as far as it ran.
func TestQuotasOfRequestsWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := quota.Limits{RequestsPerMinute: 10, TokensPerMinute: 1000, MaxStreams: 1}
		c, m := limited(limits)
		refuse := true
		r := newRig(t, c, &fakeBackend{script: say(strings.Repeat("Hello", 40), time.Second), refuse: func(*inference.Request) error {
			if refuse {
				return inference.ErrQueueFull
			}
			return nil
		}})
		defer r.closeInBubble()
		if status, _ := r.post(routeCompletions, helloPrompt+`}`); status != 503 {
			t.Fatalf("status %d", status)
		}
		if got := left(t, m, limits); got.Requests.Left != 10 || got.Tokens.Left != 1000 {
			t.Errorf("a request that the queue refused has used %+v", got)
		}
		refuse = false
		conn, err := r.ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(rawRequest("POST", routeCompletions, "", `{"prompt":"Hello","max_tokens":100,"stream":true}`))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3500 * time.Millisecond)
		if status, text := r.post(routeCompletions, helloPrompt+`}`); status != 429 || !strings.Contains(text, "max_streams") {
			t.Errorf("a second stream was answered %d: %s", status, text)
		}
		_ = conn.Close()
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if got := left(t, m, limits); got.Requests.Left != 9 || got.Tokens.Left < 990 {
			t.Errorf("after a hang-up %+v is left", got)
		}
	})
}

// Who is refused because the tenant's streams all run is told when one of them ends.
func TestWaitForAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m := limited(quota.Limits{MaxStreams: 1})
		c.Meter = meter.NewEndForecast(m)
		r := newRig(t, c, &fakeBackend{script: say(strings.Repeat("Hello", 40), time.Second)})
		defer r.closeInBubble()
		const body = `{"prompt":"Hello","max_tokens":40,"stream":true}`
		for range 10 {
			if status, text := r.post(routeCompletions, body); status != 200 {
				t.Fatal(status, text)
			}
			time.Sleep(time.Second)
		}
		var wait sync.WaitGroup
		wait.Go(func() { r.post(routeCompletions, body) })
		time.Sleep(15500 * time.Millisecond)
		res, text := r.do("POST", routeCompletions, "", body)
		if after := res.Header.Get("Retry-After"); res.StatusCode != 429 || after != "25" || res.Header.Get("X-Should-Retry") != "true" {
			t.Errorf("%d after %s: %s", res.StatusCode, after, text)
		}
		wait.Wait()
	})
}

// A limit of output tokens is cut to the tenant's, and refused by a strict server.
func TestTenantsLimitOfOutput(t *testing.T) {
	for _, strict := range []bool{false, true} {
		c, _ := limited(quota.Limits{MaxOutputTokens: 2})
		c.Strict = strict
		r := newRig(t, c, &fakeBackend{script: say("Hello world the stop", 0)})
		res, text := r.do("POST", routeCompletions, "", helloPrompt+`}`)
		if strict != (res.StatusCode == 400) || strict == strings.Contains(res.Header.Get("X-Weir-Warnings"), "cut to 2 by the tenant's limits") {
			t.Errorf("strict %v: %d %v %s", strict, res.StatusCode, res.Header, text)
		}
		if status, text := r.post(routeCompletions, `{"prompt":"Hello"}`); status != 200 || !strings.Contains(text, `"completion_tokens":2`) {
			t.Errorf("without a limit of its own: %d %s", status, text)
		}
		r.close()
	}
}

// 64 callers at once, over HTTP: streams and tokens stay within the limits.
func TestParallelCallersOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := quota.Limits{TokensPerMinute: 200, Enforcement: quota.Strict}
		c, m := limited(limits)
		var mu sync.Mutex
		used, refused := 0, 0
		c.Hooks.OnRequestFinish = func(f edge.RequestFinish) {
			mu.Lock()
			used += f.PromptTokens + f.OutputTokens
			mu.Unlock()
		}
		r := newRig(t, c, &fakeBackend{script: say("Hello world", 0)})
		defer r.closeInBubble()
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 4 {
					if status, _ := r.post(routeCompletions, helloPrompt+`}`); status != 200 {
						mu.Lock()
						refused++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		if used > 200 || used < 190 || refused == 0 {
			t.Errorf("%d tokens of 200 were used, %d requests of 256 refused", used, refused)
		}
		left(t, m, limits)
	})
}

// A relayed request is counted by the usage that the upstream tells.
func TestRelayedRequestsAreCounted(t *testing.T) {
	limits := quota.Limits{RequestsPerMinute: 2, DailyTokens: 1000}
	c, m := limited(limits)
	r := relayRig(t, c, edgeUpstream(t, &fakeBackend{}))
	defer r.close()
	body := strings.Replace(helloPrompt, "{", `{"model":"front",`, 1) + `}`
	for i := range 3 {
		if status, text := r.post(routeCompletions, body); (status == 200) != (i < 2) {
			t.Fatalf("request %d: %d %s", i, status, text)
		}
	}
	who := quota.Holder{Limits: &quota.Limits{DailyTokens: 1000}}
	if _, err := m.Reserve(who, quota.Ask{Input: 993}); err == nil {
		t.Error("more than 992 tokens are left after twice 4")
	}
	if _, err := m.Reserve(who, quota.Ask{Input: 992}); err != nil {
		t.Errorf("fewer than 992 tokens are left after twice 4: %v", err)
	}
}
