package servertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir/router/rollout"
)

// AwaitVersion waits until a version answers.
func (s *Server) AwaitVersion(want string) {
	s.T.Helper()
	for end := time.Now().Add(Patience); ; time.Sleep(10 * time.Millisecond) {
		_, version := s.Talk(1)
		if version == want {
			return
		}
		if time.Now().After(end) {
			s.T.Fatalf("version %s answers, not %s", version, want)
		}
	}
}

// TellOutcome says something of an answer and gives the status.
func (s *Server) TellOutcome(id, word string) int {
	s.T.Helper()
	r, err := http.Post(s.API+"/v1/outcomes", "application/json", strings.NewReader(fmt.Sprintf(`{"id": %q, %s}`, id, word)))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Body.Close()
	return r.StatusCode
}

// AwaitOutcome says something of an answer until the server knows it.
func (s *Server) AwaitOutcome(id, word string) {
	s.T.Helper()
	status := 0
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if status = s.TellOutcome(id, word); status == http.StatusOK {
			return
		}
	}
	s.T.Fatalf("the outcome of %s: status %d", id, status)
}

// AwaitThumbs waits until a rollout's thumbs are so many in both arms.
func (s *Server) AwaitThumbs(stable, candidate rollout.SignalStatus) {
	s.T.Helper()
	var got [2]rollout.SignalStatus
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		arms := s.Rollouts()[0].Arms
		if got = [2]rollout.SignalStatus{arms[0].Signals["thumbs"], arms[1].Signals["thumbs"]}; got == [2]rollout.SignalStatus{stable, candidate} {
			return
		}
	}
	s.T.Fatalf("thumbs are %+v, want %+v and %+v", got, stable, candidate)
}

// AskChat sends a chat of a conversation of its own and gives its arm, its status and its id.
func (s *Server) AskChat(n, tokens int) (arm string, status int, id string) {
	r, err := http.Post(s.API+"/v1/chat/completions", "application/json", strings.NewReader(fmt.Sprintf(
		`{"model":"chat","messages":[{"role":"user","content":"Hello"}],"max_tokens":%d,"prompt_cache_key":"conversation %d"}`, tokens, n)))
	if err != nil {
		s.T.Error(err)
		return "", 0, ""
	}
	defer r.Body.Close()
	var answer struct{ ID string }
	_ = json.NewDecoder(r.Body).Decode(&answer)
	return r.Header.Get("X-Weir-Arm"), r.StatusCode, answer.ID
}

// AskStream is askChat for a stream; whole says that all of its text came.
func (s *Server) AskStream(n int) (arm string, whole bool) {
	r, err := http.Post(s.API+"/v1/chat/completions", "application/json", strings.NewReader(fmt.Sprintf(
		`{"model":"chat","messages":[{"role":"user","content":"Hello"}],"max_tokens":8,"stream":true,"prompt_cache_key":"conversation %d"}`, n)))
	if err != nil {
		s.T.Error(err)
		return "", false
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return r.Header.Get("X-Weir-Arm"), err == nil && r.StatusCode == http.StatusOK && strings.Contains(string(text), "It is fine today.") && strings.Contains(string(text), "[DONE]")
}

// Rollout is POST to /v1/rollouts and what is below it.
func (s *Server) Rollout(path, body string) (int, rollout.Status, string) {
	s.T.Helper()
	r, err := http.Post(s.Admin+"/v1/rollouts"+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	defer r.Body.Close()
	var raw json.RawMessage
	var st rollout.Status
	_ = json.NewDecoder(r.Body).Decode(&raw)
	_ = json.Unmarshal(raw, &st)
	return r.StatusCode, st, string(raw)
}

// Rollouts are the rollouts of a server.
func (s *Server) Rollouts() []rollout.Status {
	s.T.Helper()
	var list struct{ Rollouts []rollout.Status }
	if status, body := s.Get(s.Admin + "/v1/deployments"); status != http.StatusOK || json.Unmarshal([]byte(body), &list) != nil {
		s.T.Fatalf("%d %s", status, body)
	}
	return list.Rollouts
}

// ClientPace is how often a client of a rollout asks at most: a rollout looks at its arms by time, and what is asked in between more often than
// that tells it nothing and slows the tests beside.
const ClientPace = 10 * time.Millisecond

// AwaitRollout waits for the state of the server's only rollout, while clients ask.
func (s *Server) AwaitRollout(want rollout.State, ask func(n int)) rollout.Status {
	s.T.Helper()
	stop := make(chan struct{})
	var clients sync.WaitGroup
	const many = 12
	for c := range many {
		clients.Go(func() {
			turn := time.NewTicker(ClientPace)
			defer turn.Stop()
			for n := c; ; n += many {
				select {
				case <-stop:
					return
				case <-turn.C:
					ask(n)
				}
			}
		})
	}
	defer func() { close(stop); clients.Wait() }()
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if list := s.Rollouts(); len(list) > 0 && list[0].State == want {
			return list[0]
		} else if len(list) > 0 && list[0].State.Over() {
			s.T.Fatalf("the rollout is %s, not %s: %+v", list[0].State, want, list[0].Changes[len(list[0].Changes)-1])
		}
	}
	s.T.Fatalf("the rollout did not come to %s: %+v", want, s.Rollouts())
	return rollout.Status{}
}

// Talk asks in a conversation of its own and notes which arm answered.
func (s *Server) Talk(n int) (arm, version string) {
	r, err := http.Post(s.API+"/v1/chat/completions", "application/json", strings.NewReader(fmt.Sprintf(
		`{"model":"chat","messages":[{"role":"user","content":"Hello"}],"temperature":0,"max_tokens":80,"prompt_cache_key":"conversation %d"}`, n)))
	if err != nil {
		s.T.Error(err)
		return "", ""
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		s.T.Errorf("conversation %d: status %d", n, r.StatusCode)
	}
	return r.Header.Get("X-Weir-Arm"), r.Header.Get("X-Weir-Version")
}

// AwaitLastRollout waits until the last rollout that a server knows is in a state.
func (p *Process) AwaitLastRollout(want rollout.State) {
	p.T.Helper()
	var last []rollout.Status
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		last = p.Rollouts()
		if n := len(last); n > 0 && (last[n-1].State == want || last[0].State == want) {
			return
		}
	}
	p.T.Fatalf("no rollout is %s: %+v", want, last)
}
