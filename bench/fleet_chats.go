package bench

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// FleetChats is the closed loop of Chats in tokens, as a run with real replicas measured them: each client holds the same
// conversations in the same order, with the same system prompts.
type FleetChats struct {
	Chats  Chats
	System int           // tokens of a system prompt, with what a template adds to a conversation once
	User   int           // tokens that a turn adds to a prompt, without the answer before it
	Answer int           // tokens of an answer
	Piece  int           // tokens of the pieces by which the router knows prompts
	Lasts  time.Duration // requests that have not ended by then are left out
	Pause  time.Duration // of a client, from an answer's end until its next request is at a replica
}

func (c *FleetChats) check() error {
	switch {
	case c == nil:
		return nil
	case min(c.Chats.Clients, c.Chats.Systems, c.Chats.Turns, c.System, c.User, c.Answer, c.Piece) < 1 || c.Lasts <= 0 || c.Pause < 0:
		return fmt.Errorf("chats of %d clients, %d system prompts and %d turns, of %d, %d and %d tokens in pieces of %d for %v with pauses of %v: "+
			"all must be above 0", c.Chats.Clients, c.Chats.Systems, c.Chats.Turns, c.System, c.User, c.Answer, c.Piece, c.Lasts, c.Pause)
	}
	return nil
}

// longest is the most tokens of a request and its answer.
func (l *FleetLoad) longest() int {
	if c := l.Chats; c != nil {
		return c.System + c.Chats.Turns*(c.User+c.Answer)
	}
	return fleetModelLen
}

// systems is how many system prompts there are of a closed loop.
func (l *FleetLoad) systems() int {
	if l.Chats == nil {
		return 0
	}
	return l.Chats.Chats.Systems
}

// piece is how many tokens the router knows by one key.
func (l *FleetLoad) piece() int {
	if l.Chats == nil {
		return simBlock
	}
	return l.Chats.Piece
}

// chatClient is one client of a closed loop.
type chatClient struct{ random *rand.Rand }

func (c *FleetChats) clients() []chatClient {
	clients := make([]chatClient, c.Chats.Clients)
	for i := range clients {
		clients[i].random = c.Chats.client(i)
	}
	return clients
}

// converse lets a client begin its next conversation.
func (f *fleet) converse(client int) {
	l, r := f.o.Load.Chats, f.clients[client].random
	c := conversation{client: client, tenant: l.Chats.system(r), system: l.System}
	for range l.Chats.Turns {
		text(r, l.Chats.TurnWords) // what is drawn next depends on it
		c.turns = append(c.turns, exchange{user: l.User, answer: l.Answer, think: l.Pause})
	}
	f.all = append(f.all, c)
	f.turn(len(f.all)-1, 0)
}

// turn lets a conversation's turn come.
func (f *fleet) turn(number, turn int) {
	f.left++
	f.done.Requests++
	f.post(fleetEvent{at: f.now + f.o.Load.Chats.Pause, kind: turnComes, number: number, turn: turn})
}

// goOn lets a client take its next turn, or begin another conversation.
func (f *fleet) goOn(q *fleetRequest, answered bool) {
	c := &f.all[q.conversation]
	switch next := q.turn + 1; {
	case f.late():
		f.done.Duration = f.o.Load.Chats.Lasts
	case answered && next < len(c.turns):
		f.turn(q.conversation, next)
	default:
		f.converse(c.client)
	}
}

// late says that a closed loop's time is over.
func (f *fleet) late() bool { return len(f.clients) > 0 && f.now >= f.o.Load.Chats.Lasts }
