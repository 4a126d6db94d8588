package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"weir/internal/inference"
)

// FleetLoad is a load of conversations. Each belongs to a tenant, whose system prompt it begins with; a turn comes some time after the
// answer of the turn before, with all that was said so far. Zero fields get the defaults named.
type FleetLoad struct {
	Requests int     // turns of all conversations; default 2000
	Rate     float64 // turns a second that are meant to come, while answers take no time; default 0.6 for each replica
	Tenants  int     // default 20
	Zipf     float64 // exponent of the tenants' shares; default 1.1
	System   int     // mean tokens of system prompts; default 800
	User     float64 // length of a user's message, as a share of the prompts of Azure's conversations of 2023; default 0.1
	Output   float64 // length of answers, as a share of those; default 0.5
	Turns    float64 // mean of a conversation; default 4
	Think    time.Duration
	// Think is the mean time from an answer to the next turn; default 20 s.
	Swing float64 // of the rate over the load's time, from 1 - Swing of its mean to 1 + Swing in the middle and back; below 1

	Documents FleetDocuments // between the conversations

	Chats *FleetChats // a closed loop of clients instead of all of the above; nil: conversations come at their times
}

func (l *FleetLoad) defaults(replicas int) {
	set := func(f *float64, v float64) {
		if *f == 0 {
			*f = v
		}
	}
	set(&l.Rate, 0.6*float64(replicas))
	set(&l.Zipf, 1.1)
	set(&l.User, 0.1)
	set(&l.Output, 0.5)
	set(&l.Turns, 4)
	if l.Documents.Tokens == 0 {
		l.Documents.Tokens = 4000
	}
	if l.Documents.Answer == 0 {
		l.Documents.Answer = 16
	}
	if l.Requests == 0 {
		l.Requests = 2000
	}
	if l.Tenants == 0 {
		l.Tenants = 20
	}
	if l.System == 0 {
		l.System = 800
	}
	if l.Think == 0 {
		l.Think = 20 * time.Second
	}
}

// conversation is one conversation of a load.
type conversation struct {
	tenant int
	system int // tokens of its system prompt
	client int // of a closed loop
	turns  []exchange
	begins time.Duration

	document bool // of FleetDocuments
}

// exchange is a user's message and the answer to it, in tokens, and how long after the answer before the message comes.
type exchange struct {
	user, answer int
	think        time.Duration
}

const (
	fleetShape     = "azure-conv" // lengths of messages and answers, and when conversations begin
	fleetModelLen  = 16_384
	fleetMaxTokens = 1024 // that clients allow an answer, whose length is not known before
)

// conversations draws a load.
func (l *FleetLoad) conversations(seed uint64) []conversation {
	r := rand.New(rand.NewPCG(seed, uint64(streamArrival)<<48|9))
	shape := &shapes[slices.IndexFunc(shapes, func(s shape) bool { return s.name == fleetShape })]
	shares := zipf(l.Tenants, l.Zipf)
	var all []conversation
	for left := l.Requests; left > 0; {
		c := conversation{tenant: sort.SearchFloat64s(shares, r.Float64())}
		c.system = l.system(c.tenant)
		tokens := c.system
		for more := true; more && left > 0; more = r.Float64() > 1/l.Turns {
			t := exchange{user: shareOf(&shape.input, r, l.User), answer: shareOf(&shape.output, r, l.Output)}
			if len(c.turns) > 0 {
				t.think = time.Duration(r.ExpFloat64() * float64(l.Think))
			}
			if tokens += t.user + t.answer; tokens+fleetMaxTokens > fleetModelLen {
				break
			}
			c.turns = append(c.turns, t)
			left--
		}
		all = append(all, c)
	}
	times := shape.arrive(r, len(all))
	total := float64(l.Requests) / l.Rate
	rescale(times, total)
	for i, at := range times {
		all[i].begins = time.Duration(total * l.swung(at/total) * float64(time.Second))
	}
	return l.Documents.add(all, total, seed)
}

// swung is when so great a share of a load has come, as a share of its time.
func (l *FleetLoad) swung(share float64) float64 {
	come := func(x float64) bool { return x-l.Swing/(2*math.Pi)*math.Sin(2*math.Pi*x) >= share }
	if l.Swing == 0 {
		return share
	}
	const steps = 1 << 20
	return float64(sort.Search(steps, func(i int) bool { return come(float64(i) / steps) })) / steps
}

// shareOf draws a length and takes a share of it, at least 1.
func shareOf(q *quantiles, r *rand.Rand, share float64) int {
	return max(1, int(share*q.at(r.Float64())))
}

// zipf are the cumulative shares of n, of which the i-th weighs 1/i^s.
func zipf(n int, s float64) []float64 {
	sum, shares := 0.0, make([]float64, n)
	for i := range shares {
		sum += math.Pow(float64(i+1), -s)
		shares[i] = sum
	}
	for i := range shares {
		shares[i] /= sum
	}
	shares[n-1] = 1
	return shares
}

// system is the length of a tenant's system prompt: from a quarter of the mean to seven quarters.
func (l *FleetLoad) system(tenant int) int {
	return l.System/4 + int(scatter(uint64(tenant)+1)%uint64(max(1, 3*l.System/2)))
}

// prompt is a turn's prompt: the system prompt and everything said before. The parts of a text have tokens that depend on where they
// come from; answers have those that a simulated server gives.
func (l *FleetLoad) prompt(c *conversation, number, turn int) []inference.TokenID {
	n := c.system
	for i := range c.turns[:turn+1] {
		n += c.turns[i].user + c.turns[i].answer
	}
	ids := make([]inference.TokenID, 0, n)
	part := func(source uint64, n int) {
		first := inference.TokenID(scatter(source) & (1<<30 - 1))
		for i := range n {
			ids = append(ids, first+inference.TokenID(i))
		}
	}
	part(uint64(c.tenant)+1, c.system)
	for i := range c.turns[:turn+1] {
		part(uint64(number+1)<<20+uint64(i), c.turns[i].user)
		if i < turn {
			for j := range c.turns[i].answer {
				ids = append(ids, simToken(j))
			}
		}
	}
	return ids
}

// scatter spreads numbers over 64 bits (SplitMix64).
func scatter(z uint64) uint64 {
	z *= 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
