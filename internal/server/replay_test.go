package server_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/store/storetest"

	"weir/internal/reference"
	"weir/internal/server/servertest"
)

// keyedRequest is what a client asks for under a key, and the answer that it was given.
type keyedRequest struct {
	key, body string
	answer    string // "": none to its end
	unheard   int    // times that the store did not answer in time, on a busy machine
}

var (
	errNotYet  = errors.New("409: the first execution still runs")
	errUnheard = errors.New("503: the store of keys did not answer in time")
)

// ask sends the request once. A connection that breaks is an error.
func (k *keyedRequest) ask(client *http.Client, base string) (answer string, replayed bool, err error) {
	req, err := http.NewRequest(http.MethodPost, base+"/v1/chat/completions", strings.NewReader(k.body))
	if err != nil {
		return "", false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", k.key)
	res, err := client.Do(req)
	if err != nil {
		return "", false, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return "", false, err
	case res.StatusCode == http.StatusConflict && strings.Contains(string(text), "idempotency_in_flight"):
		return "", false, errNotYet
	case res.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(text), "idempotency_unavailable"):
		return "", false, errUnheard
	case res.StatusCode != http.StatusOK:
		return "", false, fmt.Errorf("%d %s", res.StatusCode, text)
	}
	return string(text), res.Header.Get("X-Weir-Replayed") == "true", nil
}

// keyedRequests are of both forms, each with an answer of its own: the seeds are drawn.
func keyedRequests(n int) []*keyedRequest {
	list := make([]*keyedRequest, n)
	for i := range list {
		tokens := 4 + i%40
		if i%25 == 24 {
			tokens = 600 // it is not over before a process is killed
		}
		list[i] = &keyedRequest{key: rand.Text(), body: fmt.Sprintf(
			`{"messages":[{"role":"user","content":"Number %d"}],"temperature":1,"ignore_eos":true,"max_tokens":%d,"stream":%v}`,
			i, tokens, i%2 == 0)}
	}
	return list
}

// counter reads a metric of the process.
func counter(p *servertest.Process, series string) int {
	p.T.Helper()
	_, text := p.Get(p.Admin + "/metrics")
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, series+" "); found {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				p.T.Fatal(err)
			}
			return n
		}
	}
	p.T.Fatalf("there is no %s", series)
	return 0
}

const keyOutcome = `weir_idempotency_keys_total{outcome="%s"}`

// A process that is killed amid 200 requests under keys, and its successor: what a client
// has read to its end is read again, what was cut off is executed once more, and nothing
// is lost or executed twice at once.
func TestKilledAmidIdempotentRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes the lease of a killed process, and 200 requests")
	}
	t.Run("sqlite", func(t *testing.T) { killAmidRequests(t, "sqlite:"+filepath.Join(t.TempDir(), "weir.db")) })
	t.Run("postgres", func(t *testing.T) {
		killAmidRequests(t, storetest.Postgres(t), "--key-pepper", "thirty-two bytes that all weirs share")
	})
}

func killAmidRequests(t *testing.T, store string, flags ...string) {
	t.Parallel()
	flags = append(flags, "--store", store)
	const requests, before = 200, 60
	list := keyedRequests(requests)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: requests}, Timeout: servertest.Patience}
	first := servertest.StartProcess(t, 1024, flags...)
	var answered atomic.Int32
	enough := make(chan struct{})
	var wait sync.WaitGroup
	for _, k := range list {
		wait.Go(func() {
			answer, replayed, err := k.ask(client, first.API)
			if err != nil {
				return // killed
			}
			if replayed {
				t.Errorf("%s was replayed at first", k.key)
			}
			if k.answer = answer; answered.Add(1) == before {
				close(enough)
			}
		})
	}
	<-enough
	first.Kill()
	wait.Wait()

	second := servertest.StartProcess(t, 1024, flags...)
	begun := time.Now()
	var stored, executed, conflicts atomic.Int32
	for _, k := range list {
		wait.Go(func() {
			answer, replayed, tries, err := k.untilAnswered(client, second.API, 500*time.Millisecond)
			conflicts.Add(int32(tries))
			switch {
			case err != nil:
				t.Errorf("%s: %v", k.key, err)
			case replayed:
				stored.Add(1)
			default:
				executed.Add(1)
			}
			if k.answer != "" && (!replayed || answer != k.answer) {
				t.Errorf("what a client has read to its end is another answer now (replayed %v):\n%s\nafter\n%s", replayed, answer, k.answer)
			}
			k.answer = answer
		})
	}
	wait.Wait()
	t.Logf("all have an answer %v after the start of the next process", time.Since(begun))
	unheard := 0
	for _, k := range list {
		unheard += k.unheard
		answer, replayed, err := k.ask(client, second.API)
		if err != nil || !replayed || answer != k.answer {
			t.Fatalf("asked again, replayed %v, %v:\n%s\nafter\n%s", replayed, err, answer, k.answer)
		}
	}
	t.Logf("%d answers before the kill, %d stored; %d executed after it, with %d conflicts", answered.Load(), stored.Load(),
		executed.Load(), conflicts.Load())
	if stored.Load()+executed.Load() != requests || executed.Load() == 0 {
		t.Error("that is not all of them, or nothing was cut off")
	}
	for series, want := range map[string]int{
		fmt.Sprintf(keyOutcome, "executed"): int(executed.Load()), fmt.Sprintf(keyOutcome, "failed"): unheard,
		fmt.Sprintf(keyOutcome, "freed"): 0, fmt.Sprintf(keyOutcome, "in_flight"): int(conflicts.Load()),
		fmt.Sprintf(keyOutcome, "replayed"): int(stored.Load()) + requests,
	} {
		if got := counter(second, series); got != want {
			t.Errorf("%s is %d, want %d", series, got, want)
		}
	}
	if err := second.End(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
}

// untilAnswered asks every so often until the first execution is over, which a dead
// process's is after its lease.
func (k *keyedRequest) untilAnswered(client *http.Client, base string, every time.Duration) (
	answer string, replayed bool, conflicts int, err error,
) {
	for end := time.Now().Add(servertest.Patience); time.Now().Before(end); time.Sleep(every) {
		switch answer, replayed, err = k.ask(client, base); {
		case errors.Is(err, errNotYet):
			conflicts++
		case errors.Is(err, errUnheard):
			k.unheard++
		default:
			return answer, replayed, conflicts, err
		}
	}
	return "", false, conflicts, err
}

// Two weirs that share a store execute a request once between them.
func TestTwoServersShareKeys(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	store := "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
	one, two := servertest.StartProcess(t, 512, "--store", store), servertest.StartProcess(t, 512, "--store", store)
	client := &http.Client{Timeout: servertest.Patience}
	list := keyedRequests(20)
	var executed atomic.Int32
	var wait sync.WaitGroup
	for _, k := range list {
		answers := make([]string, 2)
		for i, p := range []*servertest.Process{one, two} {
			wait.Go(func() {
				answer, replayed, _, err := k.untilAnswered(client, p.API, 20*time.Millisecond)
				if err != nil {
					t.Error(err)
				}
				if answers[i] = answer; !replayed {
					executed.Add(1)
				}
			})
		}
		wait.Wait()
		if answers[0] != answers[1] {
			t.Errorf("%s\n%s", answers[0], answers[1])
		}
	}
	if int(executed.Load()) != len(list) {
		t.Errorf("%d requests were executed %d times", len(list), executed.Load())
	}
}

// A hit is what the model would say again, computed alone or among others.
func TestResponseCacheSaysWhatTheModelDoes(t *testing.T) {
	p := servertest.StartProcess(t, 512, "--response-cache-bytes", "1MiB")
	ask := func(body, control string) (text, how string) {
		req, err := http.NewRequest(http.MethodPost, p.API+"/v1/completions", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return "", ""
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Cache-Control", control)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return "", ""
		}
		defer res.Body.Close()
		var answer struct{ Choices []struct{ Text string } }
		if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || len(answer.Choices) != 1 {
			t.Errorf("%s: %d %v", body, res.StatusCode, err)
			return "", ""
		}
		return answer.Choices[0].Text, res.Header.Get("X-Weir-Cache")
	}
	bodies := make([]string, 24)
	for i := range bodies {
		bodies[i] = fmt.Sprintf(`{"prompt":"The number %d is","max_tokens":24,"ignore_eos":true,"temperature":0}`, i)
		if i%2 == 1 {
			bodies[i] = fmt.Sprintf(`{"prompt":"The number %d is","max_tokens":24,"ignore_eos":true,"temperature":1,"seed":%d}`, i, i)
		}
	}
	first := make([]string, len(bodies))
	var wait sync.WaitGroup
	for i, body := range bodies {
		wait.Go(func() {
			var how string
			if first[i], how = ask(body, ""); how != "miss" {
				t.Errorf("%s: %q at first", body, how)
			}
		})
	}
	wait.Wait()
	for i, body := range bodies {
		again, how := ask(body, "")
		if computed, none := ask(body, "no-cache"); how != "hit" || none != "" || again != first[i] || computed != first[i] {
			t.Errorf("%s: %q %q, %q computed among others, %q alone, %q from the cache", body, how, none, first[i], computed, again)
		}
	}
	p.AwaitMetric(fmt.Sprint("weir_response_cache_hits_total ", len(bodies)))
	p.AwaitMetric(fmt.Sprint("weir_response_cache_misses_total ", len(bodies)))
}
