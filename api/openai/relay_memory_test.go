package openai

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/api/openai/models"
	"weir/internal/memory"
	"weir/internal/reference"
	"weir/router/balance"
	"weir/router/fleet"
)

// largeAnswers is an upstream whose answers have so many bytes.
func largeAnswers(t *testing.T, size int) *httptest.Server {
	piece := bytes.Repeat([]byte("b"), 64<<10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodGet {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/v1/embeddings":
			_, _ = io.WriteString(w, `{"model":"m","data":[{"embedding":"`)
		default:
			_, _ = io.WriteString(w, `{"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"content":"`)
		}
		for n := 0; n < size; n += len(piece) {
			if _, err := w.Write(piece); err != nil {
				break
			}
		}
		if r.URL.Path == "/v1/embeddings" {
			_, _ = io.WriteString(w, `"}],"usage":{"prompt_tokens":3}}`)
			return
		}
		_, _ = io.WriteString(w, `"}}],"usage":{"prompt_tokens":3,"completion_tokens":9}}`)
	}))
	t.Cleanup(s.Close)
	return s
}

// heapSampler gives the largest heap until it is asked.
func heapSampler() (most func() uint64) {
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		var top uint64
		for {
			metrics.Read(sample)
			top = max(top, sample[0].Value.Uint64())
			select {
			case <-stop:
				done <- top
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-done
	}
}

// Sixteen answers of 8 MB each at once, twice what all bodies may take, take no more memory than that: the others are refused, and
// no replica is blamed. Short runs have a quarter of all that.
func TestWholeAnswersShareTheMemoryOfBodies(t *testing.T) {
	reference.Slow(t)
	answers, size, budget := 16, 8<<20, int64(64<<20)
	if testing.Short() {
		size, budget = size/4, budget/4
	}
	for path, body := range map[string]string{
		routeChat:       `{"model":"front","messages":[{"role":"user","content":"x"}]}`,
		routeEmbeddings: `{"model":"front","input":"x"}`,
		routeMessages:   `{"model":"front","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`,
	} {
		t.Run(path, func(t *testing.T) {
			upstream := largeAnswers(t, size)
			bodies := memory.New(budget)
			front, err := fleet.New(fleet.Config{Model: "front", Bodies: bodies, Sources: []fleet.Source{{URL: upstream.URL + "/v1", Kind: fleet.VLLM, Model: "m"}}})
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, DefaultConfig(), &fakeBackend{})
			defer r.close()
			if err := r.openai.SetModels(&models.Model{ID: "front", Created: 1, Upstream: front}); err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			before := heapSampler()()
			most := heapSampler()
			var wg sync.WaitGroup
			var mu sync.Mutex
			counts := map[int]int{}
			for range answers {
				wg.Go(func() {
					c, err := r.ln.Dial()
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					status, retry, text := receiveLarge(t, c, rawRequest("POST", path, "", body))
					mu.Lock()
					defer mu.Unlock()
					counts[status]++
					if status == http.StatusServiceUnavailable && (retry == "" || !strings.Contains(text, "--http-body-memory-bytes")) {
						t.Errorf("refused with Retry-After %q: %s", retry, text)
					}
				})
			}
			wg.Wait()
			if counts[200] == 0 || counts[200]+counts[503] != answers {
				t.Errorf("statuses %v", counts)
			}
			// What a client holds of an answer is a pipe's buffer, and what an answer is made from takes as much again at most.
			if grew := int64(most() - before); grew > budget+int64(size)+(8<<20) {
				t.Errorf("answers took %d MiB, the budget is %d MiB", grew>>20, budget>>20)
			}
			if bodies.Used() != 0 {
				t.Errorf("%d bytes are held behind the end", bodies.Used())
			}
			for _, s := range front.Status() {
				if s.Breaker != "closed" || s.Faults["no_memory"] != int64(counts[503]) && path != routeMessages || len(s.Faults) > 1 {
					t.Errorf("%s is %s, with faults %v, statuses %v", s.ID, s.Breaker, s.Faults, counts)
				}
			}
			if status, text := r.post(path, body); status != http.StatusOK {
				t.Errorf("the next one: %d %.200s", status, text)
			}
		})
	}
}

// An answer that has no room however little else is in memory is refused with a status that clients do not try again: alone, whole and
// translated for another API. The error names the option that makes room.
func TestAnAnswerThatNeverFitsIsNotTriedAgain(t *testing.T) {
	reference.Slow(t)
	for name, tc := range map[string]struct {
		path, body   string
		size, budget int
	}{
		"a chat":            {routeChat, `{"model":"front","messages":[{"role":"user","content":"x"}]}`, 5 << 20, 8 << 20},
		"embeddings":        {routeEmbeddings, `{"model":"front","input":"x"}`, 5 << 20, 8 << 20},
		"above 64 MiB":      {routeChat, `{"model":"front","n":20,"messages":[{"role":"user","content":"x"}]}`, 65 << 20, 256 << 20},
		"with much in it":   {routeChat, `{"model":"front","logprobs":true,"messages":[{"role":"user","content":"x"}]}`, 65 << 20, 256 << 20},
		"a chat as message": {routeMessages, `{"model":"front","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`, 3 << 20, 8 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			upstream := largeAnswers(t, tc.size)
			front, err := fleet.New(fleet.Config{Model: "front", Bodies: memory.New(int64(tc.budget)), Sources: []fleet.Source{{URL: upstream.URL + "/v1", Kind: fleet.VLLM, Model: "m"}}})
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, DefaultConfig(), &fakeBackend{})
			defer r.close()
			if err := r.openai.SetModels(&models.Model{ID: "front", Created: 1, Upstream: front}); err != nil {
				t.Fatal(err)
			}
			c, err := r.ln.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			status, retry, text := receiveLarge(t, c, rawRequest("POST", tc.path, "", tc.body))
			if status != http.StatusBadRequest || retry != "" || !strings.Contains(text, "--http-body-memory-bytes") || strings.Contains(text, "retry") {
				t.Errorf("%d, Retry-After %q: %s", status, retry, text)
			}
			if s := front.Status()[0]; s.Breaker != "closed" || tc.path != routeMessages && s.Faults["oversized"] != 1 {
				t.Errorf("%s is %s, with faults %v", s.ID, s.Breaker, s.Faults)
			}
		})
	}
}

// A server that answers without an end is at fault: another one answers, and its breaker opens. Alone it is a server that failed.
func TestAnswersWithoutEndAreTheServersFault(t *testing.T) {
	reference.Slow(t)
	endless, well := largeAnswers(t, 1<<40), largeAnswers(t, 1)
	for path, body := range map[string]string{
		routeChat:     `{"model":"front","messages":[{"role":"user","content":"x"}]}`,
		routeMessages: `{"model":"front","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`,
	} {
		for _, servers := range [][]*httptest.Server{{endless}, {endless, well}} {
			config := fleet.Config{Model: "front", Bodies: memory.New(64 << 20), Balance: balance.Config{Policy: balance.RoundRobin}, Routing: fleet.Routing{BreakerFailures: 2, BreakerPause: time.Hour, RetryShare: 1}}
			for _, s := range servers {
				config.Sources = append(config.Sources, fleet.Source{URL: s.URL + "/v1", Kind: fleet.VLLM, Model: "m"})
			}
			front, err := fleet.New(config)
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, DefaultConfig(), &fakeBackend{})
			if err := r.openai.SetModels(&models.Model{ID: "front", Created: 1, Upstream: front}); err != nil {
				t.Fatal(err)
			}
			for range 4 {
				want, said := http.StatusOK, `"b`
				if len(servers) == 1 {
					want, said = http.StatusBadGateway, "bad_answer"
				}
				if status, text := r.post(path, body); status != want || !strings.Contains(text, said) {
					t.Errorf("%s, %d servers: %d %.300s", path, len(servers), status, text)
				}
			}
			for _, s := range front.Status() {
				if broken := strings.Contains(endless.URL, s.ID); broken != (s.Breaker == "open") || broken != (s.Faults["bad_answer"] >= 2) {
					t.Errorf("%s, %d servers: %s is %s, with faults %v", path, len(servers), s.ID, s.Breaker, s.Faults)
				}
			}
			r.close()
		}
	}
}

// receiveLarge reads an answer whose text may be large: the first bytes of it.
func receiveLarge(t *testing.T, c io.ReadWriter, request string) (status int, retry, text string) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Error(err)
		return 0, "", ""
	}
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: "POST"})
	if err != nil {
		t.Error(err)
		return 0, "", ""
	}
	defer res.Body.Close()
	var first strings.Builder
	if _, err = io.CopyN(&first, res.Body, 512); err == nil {
		_, err = io.Copy(io.Discard, res.Body)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	return res.StatusCode, res.Header.Get("Retry-After"), first.String()
}
