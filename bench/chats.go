package bench

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// Chats is a load of conversations as chat front ends make it: a few system prompts that
// many users share, some far more often than others, and turns that send all that was said.
type Chats struct {
	Clients      int // conversations at a time
	Systems      int // different system prompts, Zipf distributed
	SystemWords  int
	TurnWords    int // of a user's turn
	Turns        int // of a conversation
	OutputTokens int // of an answer, at most
	Seed         uint64
}

// Turn is one request of a conversation and what happened to it.
type Turn struct {
	Outcome
	Client, Number int // of the conversation's turns
}

// zipfExponent says how much more often the first system prompt is used than the k-th: k^1.1 times.
const zipfExponent = 1.1

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Run holds conversations until ctx ends; requests that run then are left out. A
// conversation whose request fails is given up, and the client begins another.
func (c *Chats) Run(ctx context.Context, t *Target) []Turn {
	systems := c.systems()
	began := time.Now()
	var mu sync.Mutex
	var turns []Turn
	var all sync.WaitGroup
	for client := range c.Clients {
		all.Go(func() {
			r := c.client(client)
			for ctx.Err() == nil {
				c.converse(ctx, t, r, systems, func(number int, out Outcome) {
					mu.Lock()
					defer mu.Unlock()
					turns = append(turns, Turn{out, client, number})
				}, began)
			}
		})
	}
	all.Wait()
	return turns
}

// client is where a client draws its conversations from.
func (c *Chats) client(number int) *rand.Rand { return rand.New(rand.NewPCG(c.Seed, uint64(number)+1)) }

// system draws the system prompt of a client's next conversation.
func (c *Chats) system(r *rand.Rand) int {
	return pick(zipfShares(c.Systems, zipfExponent), r.Float64())
}

func (c *Chats) systems() []string {
	r := rand.New(rand.NewPCG(c.Seed, 0))
	systems := make([]string, c.Systems)
	for i := range systems {
		systems[i] = text(r, c.SystemWords)
	}
	return systems
}

// converse holds one conversation.
func (c *Chats) converse(ctx context.Context, t *Target, r *rand.Rand, systems []string, note func(int, Outcome), began time.Time) {
	said := []message{{"system", systems[c.system(r)]}}
	for number := range c.Turns {
		said = append(said, message{"user", text(r, c.TurnWords)})
		messages, err := json.Marshal(said)
		if err != nil {
			out := Outcome{Start: time.Since(began).Seconds()}
			out.fail(failRequest, err)
			note(number, out)
			return
		}
		out := t.exchange(ctx, &Request{Messages: messages, OutputTokens: c.OutputTokens}, began, true)
		if !out.ok() && ctx.Err() != nil { // the run is over
			return
		}
		note(number, out)
		if !out.ok() {
			return
		}
		said = append(said, message{"assistant", strings.TrimSpace(out.Text)})
	}
}
