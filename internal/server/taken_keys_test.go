package server_test

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/internal/store/storetest"

	"weir/internal/server/servertest"
)

// Three servers on one store, of which one at a time is killed, or stopped for longer than its keys are its own, amid requests under keys that
// clients ask again at any server: each key has one whole answer, which everybody reads who reads one.
func TestAKeyHasOneAnswerWhateverDies(t *testing.T) {
	reference.Slow(t)
	const requests, faults = 60, 6
	t.Parallel()
	url := storetest.Postgres(t)
	start := func() *servertest.Process {
		return servertest.StartProcessWith(t, servertest.BriefLease, 1024, servertest.Peppered, "--store", url)
	}
	var mu sync.Mutex // of servers
	servers := []*servertest.Process{start(), start(), start()}
	at := func(i int) string {
		mu.Lock()
		defer mu.Unlock()
		return servers[i%3].API
	}
	list := keyedRequests(requests)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: requests}, Timeout: servertest.Patience}
	answers := make([]map[string]bool, requests)
	var wait sync.WaitGroup
	over := make(chan struct{})
	for i, k := range list {
		answers[i] = make(map[string]bool)
		var own sync.Mutex
		for c := range 2 { // both ask until they have an answer, and then now and then
			wait.Go(func() {
				for n := 0; ; n++ {
					answer, _, err := k.ask(client, at(i+c+n))
					if err == nil && (strings.Contains(answer, "[DONE]") || strings.HasSuffix(strings.TrimSpace(answer), "}")) && !strings.Contains(answer, `"error"`) {
						own.Lock()
						answers[i][answer] = true
						own.Unlock()
						select {
						case <-over:
							return
						default:
						}
					}
					time.Sleep(time.Duration(100+i) * time.Millisecond)
				}
			})
		}
	}
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for n := range faults {
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
		i := random.IntN(3)
		if n%2 == 0 {
			mu.Lock()
			p := servers[i]
			mu.Unlock()
			p.Kill()
			next := start()
			mu.Lock()
			servers[i] = next
			mu.Unlock()
			continue
		}
		mu.Lock()
		stopped := servers[i]
		mu.Unlock()
		stopped.Signal(syscall.SIGSTOP)
		time.Sleep(1400 * time.Millisecond) // longer than its keys are its own, a fifth of the lease
		stopped.Signal(syscall.SIGCONT)
	}
	close(over)
	wait.Wait()
	for i := range answers {
		if len(answers[i]) != 1 {
			t.Errorf("key %d has %d answers", i, len(answers[i]))
		}
	}
}
