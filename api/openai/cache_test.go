package openai

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/api/edge"
	"weir/api/replay"
	"weir/internal/inference"
	"weir/scheduler/quota"
)

func cacheConfig() Config {
	c := DefaultConfig()
	c.ResponseCache = replay.CacheConfig{Bytes: 1 << 20, MaxAge: time.Hour}
	return c
}

// changing are the fields of an answer that a hit has otherwise.
var changing = regexp.MustCompile(`"created":\d+|"cached_tokens":\d+`)

// cached sends a request and returns its answer, except for what changes, and what the cache did.
func (r *rig) cached(path, body string) (text, how string) {
	r.t.Helper()
	res, text := r.do("POST", path, "X-Request-Id: same\r\n", body)
	if res.StatusCode != statusOK {
		r.t.Fatalf("%s: %d %s", body, res.StatusCode, text)
	}
	text = changing.ReplaceAllString(text, "")
	if strings.Contains(body, `"prompt":[`) { // the order of several prompts' events is that in which they came
		lines := strings.Split(text, "\n")
		slices.Sort(lines)
		text = strings.Join(lines, "\n")
	}
	return text, res.Header.Get("X-Weir-Cache")
}

// A hit is the answer that the engine would give, in each form in which it can be asked for.
func TestHitsAreWhatTheEngineWouldSay(t *testing.T) {
	const cold = `"temperature":0`
	for _, tc := range []struct{ path, body string }{
		{routeChat, chatWith(cold)},
		{routeChat, chatWith(`"seed":7,"temperature":0.5`)},
		{routeChat, chatWith(cold + `,"stop":"wor"`)},
		{routeChat, chatWith(cold + `,"stop":["world","x"],"include_stop_str_in_output":true`)},
		{routeChat, chatWith(cold + `,"max_tokens":2`)},
		{routeChat, chatWith(cold + `,"return_token_ids":true`)},
		{routeCompletions, `{"prompt":["a","bcd","e"],"echo":true,` + cold + `}`},
		{routeCompletions, `{"prompt":"a","stop_token_ids":[66],` + cold + `}`},
	} {
		for first := range 2 {
			form := func(stream bool) string {
				if stream {
					return strings.TrimSuffix(tc.body, "}") + `,"stream":true,"stream_options":{"include_usage":true}}`
				}
				return tc.body
			}
			stream := first == 1
			b := &fakeBackend{script: say("Hello world B é👋", 0)}
			r := newRig(t, cacheConfig(), b)
			want, how := r.cached(tc.path, form(stream))
			if how != "miss" {
				t.Errorf("%s: at first %q", tc.body, how)
			}
			executed := b.executions()
			if got, how := r.cached(tc.path, form(stream)); how != "hit" || got != want {
				t.Errorf("%s: %s\n%s\nafter\n%s", tc.body, how, got, want)
			}
			other, how := r.cached(tc.path, form(!stream))
			if how != "hit" || b.executions() != executed {
				t.Errorf("%s in the other form: %s, %d executions after %d", tc.body, how, b.executions(), executed)
			}
			r.close()
			fresh := newRig(t, DefaultConfig(), &fakeBackend{script: say("Hello world B é👋", 0)})
			if want, how := fresh.cached(tc.path, form(!stream)); how != "" || other != want {
				t.Errorf("%s in the other form: %q\n%s\nwant\n%s", tc.body, how, other, want)
			}
			fresh.close()
		}
	}
}

func TestWhatIsAHit(t *testing.T) {
	r := newRig(t, cacheConfig(), &fakeBackend{})
	defer r.close()
	const cold = `"temperature":0`
	r.cached(routeChat, chatWith(cold))
	for fields, want := range map[string]string{
		cold:                                   "hit",
		cold + `,"stream":true`:                "hit",
		cold + `,"seed":5`:                     "hit", // a greedy answer draws nothing
		cold + `,"model":"alias"`:              "hit",
		cold + `,"user":"u","priority":1`:      "hit",
		cold + `,"n":2`:                        "",
		cold + `,"logprobs":true`:              "",
		cold + `,"prompt_logprobs":1`:          "",
		`"n":1`:                                "",
		`"temperature":0.1`:                    "",
		`"temperature":0.1,"seed":1`:           "miss",
		`"temperature":0.1,"seed":2`:           "miss",
		`"temperature":0.2,"seed":1`:           "miss",
		cold + `,"top_p":0.5`:                  "miss",
		cold + `,"max_tokens":7`:               "miss",
		cold + `,"stop":"x"`:                   "miss",
		cold + `,"stop":"y"`:                   "miss",
		cold + `,"stop":["y"],"min_tokens":1`:  "miss",
		cold + `,"skip_special_tokens":false`:  "miss",
		cold + `,"logit_bias":{"5":1}`:         "miss",
		cold + `,"logit_bias":{"5":2}`:         "miss",
		cold + `,"allowed_token_ids":[65,66]`:  "miss",
		cold + `,"bad_words":["q"]`:            "miss",
		cold + `,"repetition_penalty":1.5`:     "miss",
		cold + `,"ignore_eos":true`:            "miss",
		cold + `,"stop_token_ids":[65]`:        "miss",
		cold + `,"add_generation_prompt":true`: "hit",
	} {
		if _, how := r.cached(routeChat, chatWith(fields)); how != want {
			t.Errorf("%s: %q, want %q", fields, how, want)
		}
	}
	if _, how := r.cached(routeChat, `{"messages":[{"role":"user","content":"other"}],`+cold+`}`); how != "miss" {
		t.Errorf("another prompt: %q", how)
	}
	for _, control := range []string{"no-cache", "max-age=0, No-Store"} {
		res, _ := r.do("POST", routeChat, "Cache-Control: "+control+"\r\n", chatWith(cold))
		if how := res.Header.Get("X-Weir-Cache"); how != "" {
			t.Errorf("%s: %q", control, how)
		}
	}
}

func TestCacheOfOneTenantIsNotAnothers(t *testing.T) {
	c := cacheConfig()
	c.APIKeys = []string{"tenant-one", "tenant-two"}
	b := &fakeBackend{}
	r := newRig(t, c, b)
	defer r.close()
	for _, tc := range []struct{ key, want string }{
		{"tenant-one", "miss"}, {"tenant-two", "miss"}, {"tenant-one", "hit"}, {"tenant-two", "hit"},
	} {
		res, _ := r.do("POST", routeChat, "Authorization: Bearer "+tc.key+"\r\n", chatWith(`"temperature":0`))
		if got := res.Header.Get("X-Weir-Cache"); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.key, got, tc.want)
		}
	}
	if b.executions() != 2 {
		t.Errorf("%d executions", b.executions())
	}
}

// Only whole answers are kept, and not for ever.
func TestCacheKeepsWholeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		b := &fakeBackend{script: func(r *fakeRun) {
			if broken {
				r.token(0, 65)
				r.stream.Close(inference.ErrInternal)
				return
			}
			r.say("Hello world", time.Second)
		}}
		var finished []edge.RequestFinish
		c := cacheConfig()
		c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished = append(finished, f) }
		k := &keyRig{rig: newRig(t, c, b)}
		defer k.closeInBubble()
		body := chatWith(`"temperature":0`)
		if status, text := k.post(routeChat, body); status != statusInternal {
			t.Fatalf("%d %s", status, text)
		}
		broken = false
		conn, err := k.ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(rawRequest("POST", routeChat, "", body))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		_ = conn.Close() // amid the answer
		time.Sleep(10 * time.Second)
		for i, want := range []string{"miss", "hit"} {
			start := time.Now()
			if _, how := k.cached(routeChat, body); how != want || want == "hit" && time.Since(start) > 0 {
				t.Errorf("%d: %q after %v, want %q", i, how, time.Since(start), want)
			}
		}
		time.Sleep(time.Hour)
		if _, how := k.cached(routeChat, body); how != "miss" {
			t.Errorf("after an hour: %q", how)
		}
		st, ok := k.openai.CacheStats()
		if !ok || st.Hits != 1 || st.Misses != 4 || st.Entries != 1 {
			t.Errorf("%+v", st)
		}
		var hits []int
		for _, f := range finished {
			if f.FromCache {
				hits = append(hits, f.OutputTokens)
				if f.CachedTokens != f.PromptTokens {
					t.Errorf("%+v", f)
				}
			}
		}
		if fmt.Sprint(hits) != "[3]" {
			t.Errorf("output tokens of hits: %v", hits)
		}
	})
}

// A hit needs no place in a full queue.
func TestHitsPassAFullQueue(t *testing.T) {
	full := false
	b := &fakeBackend{refuse: func(*inference.Request) error {
		if full {
			return inference.ErrQueueFull
		}
		return nil
	}}
	r := newRig(t, cacheConfig(), b)
	defer r.close()
	body := chatWith(`"temperature":0`)
	r.cached(routeChat, body)
	full = true
	if _, how := r.cached(routeChat, body); how != "hit" {
		t.Errorf("%q", how)
	}
	if status, _ := r.post(routeChat, chatWith(`"temperature":1`)); status != http.StatusServiceUnavailable {
		t.Errorf("%d", status)
	}
}

// A hit costs a request and a prompt that was cached, and no output.
func TestHitsCostNoOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := quota.Limits{RequestsPerMinute: 4, TokensPerMinute: 60}
		c, m := limited(limits)
		c.ResponseCache = cacheConfig().ResponseCache
		r := newRig(t, c, &fakeBackend{})
		defer r.closeInBubble()
		for i, want := range []int64{56, 55, 54} { // 1 token of prompt and 3 of output, then prompts
			body := helloPrompt + fmt.Sprintf(`,"temperature":0,"stream":%v}`, i == 2)
			if status, text := r.post(routeCompletions, body); status != statusOK {
				t.Fatalf("%d %s", status, text)
			}
			if got := left(t, m, limits); got.Tokens.Left != want || got.Requests.Left != int64(3-i) {
				t.Errorf("after %d answers %+v is left, want %d tokens", i+1, got, want)
			}
		}
	})
}
