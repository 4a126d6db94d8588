package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/api/edge"
	"weir/api/tenant"
	"weir/internal/inference"
	"weir/scheduler/quota"
)

// spending is a server whose model generates 40 tokens at a price of 1 for each, or one.
type spending struct {
	*rig
	short atomic.Bool
	ended edge.RequestFinish
	used  func() int64 // tokens of all requests that have ended
}

func newSpending(t *testing.T, l quota.Limits) (s *spending, check func()) {
	t.Helper()
	c, m := limited(l)
	s = &spending{}
	var mu sync.Mutex
	used := int64(0)
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) {
		mu.Lock()
		defer mu.Unlock()
		s.ended = f
		used += int64(f.PromptTokens + f.OutputTokens)
	}
	s.used = func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return used
	}
	s.rig = newRig(t, c, &fakeBackend{script: func(r *fakeRun) {
		if s.short.Load() {
			r.say("Hello", 0)
		} else {
			r.say(strings.Repeat("Hello", 40), time.Millisecond)
		}
	}})
	s.openai.SetPrices(map[string]quota.Price{"test-model": {Input: 1e6, Output: 1e6}})
	return s, func() {
		t.Helper()
		synctest.Wait()
		left(t, m, l) // nothing is held
		s.closeInBubble()
	}
}

// An answer that finds a strict limit used up ends with the text so far, the finish reason
// length and the name of the limit; of other limits it goes on, and what it used is counted.
func TestAnswersBeyondALimit(t *testing.T) {
	for _, tc := range []struct {
		limits quota.Limits
		strict string // the limit that ends the answer; "" is none
	}{
		{quota.Limits{TokensPerMinute: 20, Enforcement: quota.Strict}, "tokens_per_minute"},
		{quota.Limits{OutputTokensPerMinute: 19, Enforcement: quota.Strict}, "output_tokens_per_minute"},
		{quota.Limits{DailyTokens: 20, Enforcement: quota.Strict}, "daily_tokens"},
		{quota.Limits{MonthlyTokens: 20, Enforcement: quota.Strict}, "monthly_tokens"},
		{quota.Limits{DailyCost: 20}, "daily_cost"},
		{quota.Limits{MonthlyCost: 20, Enforcement: quota.Strict}, "monthly_cost"},
		{quota.Limits{TokensPerMinute: 20}, ""},
		{quota.Limits{DailyTokens: 20}, ""},
		{quota.Limits{DailyCost: 20, Enforcement: quota.Estimate}, ""},
	} {
		for _, form := range []string{`"max_tokens":100`, `"max_tokens":100,"stream":true`, `"max_tokens":-1`, `"max_tokens":-1,"stream":true`} {
			t.Run(fmt.Sprintf("%+v/%s", tc.limits, form), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, check := newSpending(t, tc.limits)
					tokens, used, end := 19, int64(20), `"finish_reason":"length","stop_reason":"`+tc.strict+`"`
					if tc.strict == "" {
						tokens, used, end = 40, 42, `"finish_reason":"stop","stop_reason":null`
					}
					res, text := s.do("POST", routeCompletions, "", `{"prompt":"Hello",`+form+`}`)
					if res.StatusCode != 200 || strings.Count(text, "Hello") != tokens || !strings.Contains(text, end) || strings.Contains(text, "error") {
						t.Errorf("%d %s", res.StatusCode, text)
					}
					whole := !strings.Contains(form, "stream")
					if said := res.Header.Get("X-Weir-Warnings"); strings.Contains(said, "tenant's limit "+tc.strict) != (whole && tc.strict != "") {
						t.Errorf("warnings %q", said)
					}
					check()
					if s.ended.Limit != tc.strict || s.ended.Status != 200 || s.used() != used {
						t.Errorf("the record has limit %q and status %d; %d tokens were used", s.ended.Limit, s.ended.Status, s.used())
					}
				})
			})
		}
	}
}

// Each API has its own words for an answer that a limit ended.
func TestEveryAPITellsALimitThatEndsAnAnswer(t *testing.T) {
	for _, tc := range []struct{ route, body, end string }{
		{routeChat, `"messages":[{"role":"user","content":"Hello"}]`, `"finish_reason":"length","stop_reason":"daily_tokens"`},
		{routeResponses, `"input":"Hello"`, `"incomplete_details":{"reason":"max_output_tokens","limit":"daily_tokens"}`},
		{routeMessages, `"max_tokens":100,"messages":[{"role":"user","content":"Hello"}]`,
			`"stop_reason":"max_tokens","stop_sequence":null,"limit":"daily_tokens"`},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(tc.route, stream), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, check := newSpending(t, quota.Limits{DailyTokens: 30, Enforcement: quota.Strict})
					status, text := s.post(tc.route, fmt.Sprintf(`{"model":"test-model",%s,"stream":%v}`, tc.body, stream))
					if status != 200 || !strings.Contains(text, tc.end) || !strings.Contains(text, "Hello") {
						t.Errorf("%d %s", status, text)
					}
					if check(); s.used() != 30 {
						t.Errorf("%d tokens of 30 were used", s.used())
					}
				})
			})
		}
	}
}

// Answers of one request share its reserve: all of them end.
func TestChoicesShareALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, check := newSpending(t, quota.Limits{DailyTokens: 50, Enforcement: quota.Strict})
		status, text := s.post(routeCompletions, `{"prompt":["Hello","Hello"],"n":3,"max_tokens":40}`)
		if status != 200 || strings.Count(text, `"finish_reason":"length","stop_reason":"daily_tokens"`) != 6 {
			t.Errorf("%d %s", status, text)
		}
		if check(); s.used() != 50 {
			t.Errorf("%d tokens of 50 were used", s.used())
		}
	})
}

// Twenty short answers teach that answers are short; 64 long ones at once then stay within
// each strict limit all the same, and a request that is let in gets what it asked for, except for
// the one that takes the rest of a budget.
func TestLongAnswersAfterShortOnes(t *testing.T) {
	for _, l := range []quota.Limits{
		{TokensPerMinute: 200, Enforcement: quota.Strict},
		{DailyTokens: 200, Enforcement: quota.Strict}, {MonthlyTokens: 200, Enforcement: quota.Strict}, {DailyCost: 200}, {MonthlyCost: 200},
	} {
		for _, most := range []string{`,"max_tokens":40`, `,"max_tokens":-1`} {
			t.Run(fmt.Sprintf("%+v%s", l, most), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, check := newSpending(t, l)
					s.short.Store(true)
					for range 20 {
						if status, text := s.post(routeCompletions, `{"prompt":"Hello"`+most+`}`); status != 200 {
							t.Error(status, text)
						}
						time.Sleep(time.Second)
					}
					limit := int64(200)
					if l.TokensPerMinute > 0 {
						time.Sleep(time.Minute) // it is full again
						limit += s.used()
					}
					s.short.Store(false)
					var wg sync.WaitGroup
					whole, cut, refused := atomic.Int64{}, atomic.Int64{}, atomic.Int64{}
					for range 64 {
						wg.Go(func() {
							status, text := s.post(routeCompletions, `{"prompt":"Hello"`+most+`}`)
							switch {
							case status == 429:
								refused.Add(1)
							case strings.Contains(text, `"stop_reason":null`):
								whole.Add(1)
							case strings.Contains(text, `"finish_reason":"length"`):
								cut.Add(1)
							default:
								t.Error(status, text)
							}
						})
					}
					wg.Wait()
					check()
					if s.used() > limit || whole.Load() < 2 {
						t.Errorf("%d tokens of %d were used; %d whole, %d cut, %d refused", s.used(), limit, whole.Load(), cut.Load(), refused.Load())
					}
					if most != `,"max_tokens":-1` && (s.used() < limit-45 || cut.Load() > 1) {
						t.Errorf("%d tokens of %d were used; %d cut", s.used(), limit, cut.Load())
					}
				})
			})
		}
	}
}

// This server does not count the tokens of a relayed answer while they come: what is asked of its
// server ends with what is reserved.
func TestRelayedAnswersKeepStrictLimits(t *testing.T) {
	const limit = 75 // less than a prompt and what is asked for
	for _, body := range []string{
		`"prompt":"Hello","max_tokens":80`, `"prompt":"Hello"`, `"prompt":"Hello","max_completion_tokens":80,"stream":true,"stream_options":{"include_usage":true}`,
		`"prompt":["Hello","Hello"],"n":2,"max_tokens":80`,
	} {
		t.Run(body, func(t *testing.T) {
			c, m := limited(quota.Limits{DailyTokens: limit, Enforcement: quota.Strict})
			used := atomic.Int64{}
			c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { used.Add(int64(f.PromptTokens + f.OutputTokens)) }
			r := relayRig(t, c, edgeUpstream(t, &fakeBackend{script: say(strings.Repeat("Hello", 100), 0)}))
			defer r.close()
			status := 200
			for i := 0; status == 200 && i < 100; i++ {
				var res *http.Response
				var text string
				res, text = r.do("POST", routeCompletions, "", `{"model":"front",`+body+`}`)
				if status = res.StatusCode; status == 200 && i == 0 &&
					(!strings.Contains(res.Header.Get("X-Weir-Warnings"), "by the tenant's limits") || !strings.Contains(text, `"finish_reason":"length"`)) {
					t.Errorf("%v %s", res.Header, text)
				}
			}
			if status != 429 || used.Load() > limit || used.Load() < limit/2 {
				t.Errorf("%d tokens of %d were used; then %d", used.Load(), limit, status)
			}
			left(t, m, quota.Limits{DailyTokens: limit})
		})
	}
}

// A relayed request asks no more urgently than its tenant may.
func TestClassOfARelayedRequest(t *testing.T) {
	for _, highest := range []inference.Class{inference.Default, inference.Interactive} {
		c, _ := limited(quota.Limits{})
		c.Callers = raised(t, highest)
		var class inference.Class
		c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { class = f.Class }
		var got map[string]any
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = nil
			_ = json.NewDecoder(r.Body).Decode(&got)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"choices":[{"index":0,"text":"Hello","finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
		}))
		r := relayRig(t, c, upstream.URL+"/v1")
		for _, ask := range []struct{ field, value string }{{"service_tier", `"priority"`}, {"priority", `-1`}} {
			res, text := r.do("POST", routeCompletions, "", `{"model":"front","prompt":"Hello","`+ask.field+`":`+ask.value+`}`)
			may := highest == inference.Interactive
			_, sent := got[ask.field]
			if said := strings.Contains(res.Header.Get("X-Weir-Warnings"), ask.field+" lowered to class default"); res.StatusCode != 200 ||
				got["prompt"] != "Hello" || sent != may || said == may || class != highest {
				t.Errorf("%s of one that may ask for %v: sent %v as class %v, %v %s", ask.field, highest, got, class, res.Header, text)
			}
		}
		r.close()
		upstream.Close()
	}
}

// raised are callers of whom each may ask for a class.
func raised(t *testing.T, highest inference.Class) *tenant.Authenticator {
	t.Helper()
	all := tenant.New(tenant.Rest)
	all.HighestClass = highest
	directory, err := tenant.NewDirectory([]tenant.Tenant{all})
	if err != nil {
		t.Fatal(err)
	}
	callers, err := tenant.NewAuthenticator(t.Context(), tenant.Config{Directory: directory})
	if err != nil {
		t.Fatal(err)
	}
	return callers
}
