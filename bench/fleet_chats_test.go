package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/router/balance"
	"weir/scheduler/cost"
)

func chatLoad() FleetLoad {
	return FleetLoad{Chats: &FleetChats{
		Chats:  Chats{Clients: 8, Systems: 12, SystemWords: 250, TurnWords: 12, Turns: 4, OutputTokens: 24, Seed: 1},
		System: 330, User: 25, Answer: 24, Piece: 60, Lasts: time.Minute, Pause: time.Millisecond,
	}}
}

// A closed loop is the better served the less is computed twice, and replicas that share processors serve it less.
func TestFleetOfAClosedLoop(t *testing.T) {
	o := FleetOptions{Load: chatLoad(), KVTokens: 4000, Report: -1, Cores: 2}
	prefix := simulateFleet(t, o)
	if again := simulateFleet(t, o); again.Digest != prefix.Digest {
		t.Errorf("digests %x and %x of the same load", prefix.Digest, again.Digest)
	}
	if prefix.Done == 0 || prefix.Done != prefix.Requests || prefix.Duration != time.Minute || len(prefix.TTFT) != prefix.Done {
		t.Errorf("%d of %d requests are done after %v, %d are counted", prefix.Done, prefix.Requests, prefix.Duration, len(prefix.TTFT))
	}
	sum := 0
	for _, n := range prefix.ByReplica {
		sum += n
	}
	if sum != prefix.Done {
		t.Errorf("%v by replica, %d together", prefix.ByReplica, prefix.Done)
	}
	o.Policy = balance.RoundRobin
	turns := simulateFleet(t, o)
	if prefix.HitRate() < turns.HitRate()+0.1 || prefix.PerSecond() < 1.2*turns.PerSecond() {
		t.Errorf("%.2f cached and %.0f tok/s by prefix, %.2f and %.0f by turns", prefix.HitRate(), prefix.PerSecond(), turns.HitRate(), turns.PerSecond())
	}
	o.Cores = 0
	if apart := simulateFleet(t, o); apart.PerSecond() < 1.3*turns.PerSecond() {
		t.Errorf("%.0f tok/s with a processor each, %.0f with two for three", apart.PerSecond(), turns.PerSecond())
	}
	o.Load.Chats.Answer = 0
	if _, err := SimulateFleet(o); err == nil {
		t.Error("answers of no tokens are simulated")
	}
}

// The simulator's clients hold the conversations that real ones hold, of the lengths that real ones were told.
func TestSimulatedChatsAreTheRealOnes(t *testing.T) {
	c := Chats{Clients: 2, Systems: 6, SystemWords: 20, TurnWords: 5, Turns: 3, OutputTokens: 8, Seed: 3}
	systems := c.systems()
	const most = 30 // of a client's requests
	var mu sync.Mutex
	asked := make(map[string][]int) // by the first turn's text, which tells the client: its system prompts
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	left := 2 * most
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Messages []message }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
			return
		}
		if len(q.Messages) == 2 {
			mu.Lock()
			asked[q.Messages[1].Content] = append(asked[q.Messages[1].Content], slices.Index(systems, q.Messages[0].Content))
			mu.Unlock()
		}
		turn := (len(q.Messages) - 2) / 2
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"Right.\"},\"finish_reason\":\"stop\"}]}\n\n"+
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n", 50+turn*(9+7))
		mu.Lock()
		if left--; left == 0 {
			cancel()
		}
		mu.Unlock()
	}))
	defer server.Close()
	target := &Target{BaseURL: server.URL, Endpoint: EndpointChat, Model: "m", Timeout: time.Minute}
	if err := target.Check(); err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	run := &ClusterRun{Policy: "prefix", Duration: time.Second, Turns: c.Run(ctx, target)}
	server.Close() // requests that were cancelled may still be noted

	f := &fleet{o: FleetOptions{Load: FleetLoad{Chats: &FleetChats{Chats: c, User: 1, Answer: 1}}}}
	f.clients = f.o.Load.Chats.clients()
	for client := range c.Clients {
		first := rand.New(rand.NewPCG(c.Seed, uint64(client)+1))
		for range most / 6 {
			system := c.system(first)
			opening := text(first, c.TurnWords)
			for range c.Turns - 1 {
				text(first, c.TurnWords)
			}
			f.converse(client)
			if got := f.all[len(f.all)-1].tenant; got != system {
				t.Errorf("client %d: system prompt %d, a client of that seed draws %d", client, got, system)
			}
			if real := asked[opening]; len(real) > 0 && !slices.Contains(real, system) {
				t.Errorf("client %d: system prompt %d, the real client sent %v", client, system, real)
			}
		}
	}

	got, err := tokensOf(&c, []*ClusterRun{run})
	if err != nil || got.System != 41 || got.User != 9 || got.Answer != 7 || got.Chats.Clients != 2 {
		t.Errorf("%+v, %v: want 41 of a system prompt, 9 of a turn, 7 of an answer", got, err)
	}
	if _, err := tokensOf(&c, []*ClusterRun{{}}); err == nil {
		t.Error("a run without requests tells lengths")
	}
	results, err := SimulateCluster(&ClusterOptions{Replicas: 2, Chats: c, Duration: time.Second}, []*ClusterRun{run}, SmallMachine, 4000)
	if err != nil || len(results) != 1 || results[0].figures().Requests == 0 {
		t.Errorf("%v, %v", results, err)
	}
}

// An engine's steps are measured, of prompts and of outputs.
func TestMeasureMachine(t *testing.T) {
	reference.Slow(t)
	length, sequences := MachineNeeds()
	m := NewMachine()
	if err := m.Measure(t.Context(), []*Rig{openRig(t, length, sequences, 600)}); err != nil {
		t.Fatal(err)
	}
	one, many := m.Learned.Estimate(cost.Load{Rows: 1, Outputs: 1}), m.Learned.Estimate(cost.Load{Rows: 64, Outputs: 1, Prompt: cost.Attended(0, 64)})
	if p := m.Prior(); one <= 0 || many < one || p.Step < 0 || p.Row <= 0 {
		t.Errorf("a row takes %v and 64 take %v: %+v", one, many, p)
	}
}
