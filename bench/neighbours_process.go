package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// The attack's clients are a process of their own with the lowest priority, so that they take the processors of the server and
// of the measured tenant's client only as far as these leave them, and so that their processor time is known.

// AttackCounts is what came of an attack's requests.
type AttackCounts struct {
	Answered int
	Refused  int // of these, with a status of 400 or above
	HungUp   int // requests whose client left
	Failed   int // without an answer for another reason, as where the server closed the connection

	Seconds float64 // how long it went on
}

// attackRun is an attack in progress; nil is none.
type attackRun struct {
	cmd    *exec.Cmd
	input  io.Closer // closing it ends the attack
	output bytes.Buffer
}

// startAttack starts the process; nil for no attack.
func (r *neighboursRun) startAttack(ctx context.Context, a *Attack) (*attackRun, error) {
	if a.Clients == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	args := []string{r.o.Weir, "bench", "neighbours", "--attack-url", r.server.url, "--attacks", a.Name, "--words", strconv.Itoa(r.o.Words)}
	if nice, err := exec.LookPath("nice"); err == nil {
		args = append([]string{nice, "-n", "19"}, args...)
	}
	run := &attackRun{cmd: exec.CommandContext(ctx, args[0], args[1:]...)} //nolint:gosec // it is this executable
	run.cmd.Stdout, run.cmd.Stderr = &run.output, r.o.Log
	input, err := run.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	run.input = input
	if err := run.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the attack's clients: %w", err)
	}
	return run, nil
}

// stop ends the attack and notes what came of it.
func (run *attackRun) stop(n *Neighbour) error {
	if run == nil {
		return nil
	}
	if err := errors.Join(run.input.Close(), run.cmd.Wait()); err != nil {
		return fmt.Errorf("the attack's clients: %w", err)
	}
	if err := json.Unmarshal(run.output.Bytes(), &n.Sent); err != nil {
		return fmt.Errorf("the attack's clients: %w", err)
	}
	if n.Sent.Seconds > 0 {
		n.Cores.Attack = (run.cmd.ProcessState.UserTime() + run.cmd.ProcessState.SystemTime()).Seconds() / n.Sent.Seconds
	}
	return nil
}

// attacker is the process of an attack.
type attacker struct {
	url    string
	words  int
	client *http.Client

	mu     sync.Mutex
	counts AttackCounts
	last   map[int]string // response of each client's conversation
}

// RunAttack has an attack's clients send to a server until ctx ends.
func RunAttack(ctx context.Context, url, name string, words int) (AttackCounts, error) {
	attacks, err := attacksNamed([]string{name})
	if err != nil {
		return AttackCounts{}, err
	}
	w := &attacker{url: url, words: words, last: map[int]string{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	a, began := &attacks[0], time.Now()
	var all sync.WaitGroup
	for client := range a.Clients {
		all.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				status, err := a.send(ctx, w, client, turn)
				if ctx.Err() == nil {
					w.count(status, err)
				}
			}
		})
	}
	all.Wait()
	w.counts.Seconds = time.Since(began).Seconds()
	return w.counts, nil
}

func (w *attacker) count(status int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case errors.Is(err, errHungUp):
		w.counts.HungUp++
	case err != nil:
		w.counts.Failed++
	default:
		w.counts.Answered++
		if status >= http.StatusBadRequest {
			w.counts.Refused++
		}
	}
}

// errHungUp is of a request whose client left.
var errHungUp = errors.New("the client hung up")

// send sends one request and reads its answer.
func (a *Attack) send(ctx context.Context, w *attacker, client, turn int) (status int, err error) {
	if a.do != nil {
		return a.do(ctx, w, client, turn)
	}
	path, body := a.request(w.words, client, turn)
	q, err := w.newRequest(ctx, path, body)
	if err != nil {
		return 0, err
	}
	if a.header != nil {
		a.header(q.Header, client, turn)
	}
	if a.HangUp {
		hangingUp, cancel := context.WithTimeoutCause(ctx, hangUpAfter, errHungUp)
		defer cancel()
		res, err := w.client.Do(q.WithContext(hangingUp))
		if err != nil {
			return 0, errors.Join(err, context.Cause(hangingUp))
		}
		defer res.Body.Close()
		if res.StatusCode >= http.StatusBadRequest {
			return res.StatusCode, nil
		}
		return 0, errHungUp
	}
	res, err := w.client.Do(q)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if a.Unread && res.StatusCode == http.StatusOK {
		<-ctx.Done()
		return res.StatusCode, nil
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// newRequest is a request of the attacking tenant with a body of JSON.
func (w *attacker) newRequest(ctx context.Context, path string, body []byte) (*http.Request, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Authorization", "Bearer "+attackerKey)
	return q, nil
}
