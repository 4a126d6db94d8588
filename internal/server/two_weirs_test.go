package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/store/storetest"

	"weir/internal/reference"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
)

// streamed asks for an answer of most tokens as a stream, and returns how many tokens it had, the prompt's included, by its
// own running count: also where the stream breaks off. ended is the reason or the error's code; "" is none.
func streamed(p *servertest.Process, key string, most int, got func()) (tokens int64, ended string) {
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Hello"}],"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, most)
	r, err := http.NewRequestWithContext(p.T.Context(), http.MethodPost, p.API+servertest.ChatPath, strings.NewReader(body))
	if err != nil {
		p.T.Error(err)
		return 0, ""
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		var refusal struct{ Error struct{ Code string } }
		_ = json.NewDecoder(res.Body).Decode(&refusal) // a code that is empty fails the test
		return 0, refusal.Error.Code
	}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		var chunk struct {
			Usage struct {
				Total int64 `json:"total_tokens"`
			}
			Choices []struct {
				Reason string `json:"finish_reason"`
			}
		}
		data, found := strings.CutPrefix(lines.Text(), "data: ")
		if !found || json.Unmarshal([]byte(data), &chunk) != nil {
			continue
		}
		tokens = max(tokens, chunk.Usage.Total)
		if len(chunk.Choices) > 0 && chunk.Choices[0].Reason != "" {
			ended = chunk.Choices[0].Reason
		}
		if got != nil {
			got()
		}
	}
	return tokens, ended
}

// twoWeirs are two processes on one store and one Redis, and a key whose budget is never exceeded.
func twoWeirs(t *testing.T, budget int, flags ...string) (weirs []*servertest.Process, key string) {
	t.Helper()
	url := storetest.Postgres(t)
	t.Setenv("WEIR_KEY_PEPPER", strings.Repeat("pepper of a test", 3))
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	key = servertest.NewKey(t, url, keychain.Request{Tenant: "two", Terms: fmt.Appendf(nil, `{"limits":{"daily_tokens":%d,"enforcement":"strict"}}`, budget)})
	flags = append(flags, "--store", url, "--quota-redis", reference.Redis.Get(t), "--quota-timeout", "20s")
	for range 2 {
		weirs = append(weirs, servertest.StartProcess(t, 1024, flags...))
	}
	return weirs, key
}

// spentOf is what a weir says was used of the key's budget.
func spentOf(p *servertest.Process, key string) int64 {
	p.T.Helper()
	var own ownUsage
	if _, _, text := p.As(key, "GET", p.API+"/v1/usage", ""); json.Unmarshal([]byte(text), &own) != nil || len(own.Limits) == 0 {
		p.T.Fatalf("%s", text)
	}
	i := slices.IndexFunc(own.Limits, func(l struct {
		Limit, Model, Key string
		Value, Used, Left float64
	}) bool {
		return l.Limit == "daily_tokens"
	})
	return int64(own.Limits[i].Used)
}

// After twenty short answers 64 long ones at once, over two servers that run: what all of them used together is within the
// budget, and both servers say how much it is.
func TestABudgetOverTwoRunningWeirs(t *testing.T) {
	reference.Slow(t)
	const budget, long = 4000, 300
	weirs, key := twoWeirs(t, budget)
	var used atomic.Int64
	for i := range 20 {
		n, _ := streamed(weirs[i%2], key, 3, nil)
		used.Add(n)
	}
	var wg sync.WaitGroup
	ends := make([]string, 64)
	for i := range ends {
		wg.Go(func() {
			n, ended := streamed(weirs[i%2], key, long, nil)
			used.Add(n)
			ends[i] = ended
		})
	}
	wg.Wait()
	if n := used.Load(); n > budget || n < budget-long {
		t.Errorf("%d tokens of %d were used", n, budget)
	}
	for _, ended := range ends {
		if ended != "length" && ended != "rate_limit_exceeded" && ended != "insufficient_quota" {
			t.Errorf("an answer ended with %q", ended)
		}
	}
	for _, p := range weirs {
		for end := time.Now().Add(servertest.Patience); spentOf(p, key) != used.Load(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("it says %d were used, want %d", spentOf(p, key), used.Load())
			}
		}
	}
}

// One of two servers is killed amid its answers. What it had reserved is not given out twice: with what its clients got,
// the budget is not exceeded. Nor is it lost: except for what the answers may have gone on for unseen, the other server gives
// out the rest.
func TestAWeirIsKilledAmidAnswersOfABudget(t *testing.T) {
	reference.Slow(t)
	const budget, streams, long = 8000, 4, 1500
	weirs, key := twoWeirs(t, budget, "--quota-lease", "1s")
	alive, dying := weirs[0], weirs[1]
	var used, chunks atomic.Int64
	seen := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			n, _ := streamed(dying, key, long, func() {
				if chunks.Add(1) == 100*streams {
					seen <- struct{}{}
				}
			})
			used.Add(n)
		})
	}
	<-seen
	dying.Kill()
	wg.Wait()
	delivered := used.Load()
	held := int64(0)
	for end := time.Now().Add(servertest.Patience); time.Now().Before(end); {
		n, ended := streamed(alive, key, 200, nil)
		used.Add(n)
		if ended == "insufficient_quota" {
			break
		}
		if ended == "rate_limit_exceeded" { // its running answers hold the rest
			held++
			time.Sleep(50 * time.Millisecond)
		}
	}
	t.Logf("%d tokens before the kill, %d in all of %d; %d times the rest was held", delivered, used.Load(), budget, held)
	if n := used.Load(); n > budget {
		t.Errorf("%d tokens of %d were used", n, budget)
	}
	if n := used.Load(); n < budget-streams*(long+100)-200 {
		t.Errorf("only %d tokens of %d were used: what the dead server had reserved is lost", n, budget)
	}
	if spent := spentOf(alive, key); spent > budget || spent < used.Load() {
		t.Errorf("%d are counted as spent of %d, and %d were used", spent, budget, used.Load())
	}
}
