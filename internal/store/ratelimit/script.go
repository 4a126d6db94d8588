package ratelimit

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strconv"

	"weir/internal/redis"
	"weir/scheduler/quota"
)

func newGrantID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:]) | 1
}

// command begins the arguments of an operation on a holder's states.
func (m *Meter) command(op string, who *quota.Holder) []any {
	seeds := 0
	if m.o.Spent != nil && who.HasBudgets() {
		seeds = 1
	}
	return []any{op, m.lease(), seeds}
}

func reserveArgs(args []any, id uint64, ask quota.Ask, parts []quota.Part) []any {
	output, money, least := ask.Needs(parts)
	return appendParts(append(args, id, ask.Input, output, int64(money), int64(least)), parts)
}

func topUpArgs(args []any, g *quota.Grant, generated, cover int64) []any {
	price, input := g.Ask.Price, g.Ask.Input
	args = append(args, g.ID, generated, cover, int64(price.Cost(input, 0, cover)), int64(price.Cost(input, 0, generated)), input)
	return appendParts(args, g.Holder.Parts())
}

func settleArgs(args []any, e *ended) []any {
	ran, u := 0, e.use
	if u.Ran {
		ran = 1
	}
	args = append(args, e.grant.ID, ran, u.Input, u.Output, int64(e.grant.Ask.Price.Cost(u.Input, u.Cached, u.Output)), e.at)
	return appendParts(args, e.grant.Holder.Parts())
}

func appendParts(args []any, parts []quota.Part) []any {
	for i := range parts {
		args = appendPart(args, &parts[i])
	}
	return args
}

func appendPart(args []any, p *quota.Part) []any {
	l, strict := p.Limits(), 0
	if l.StrictTokens() {
		strict |= 1
	}
	if l.StrictMoney() {
		strict |= 2
	}
	return append(args, p.Field(), l.RequestsPerMinute, l.TokensPerMinute, l.InputTokensPerMinute, l.OutputTokensPerMinute,
		l.MaxStreams, l.DailyTokens, l.MonthlyTokens, int64(l.DailyCost), int64(l.MonthlyCost), strict)
}

// keys are a tenant's; the braces put them into one slot of a cluster.
func (m *Meter) keys(tenant string) []string {
	name := m.o.Prefix + "{" + tenant + "}"
	return []string{name, name + ":leases", name + ":grants"}
}

// reply is what the script returns: whether, output, money, then states.
type reply []int64

const stateNumbers = 15

// states reads the states of so many parts.
func (r reply) states(n int) ([]quota.State, error) {
	if len(r) != 3+n*stateNumbers {
		return nil, fmt.Errorf("store: the script returned %d numbers for %d states", len(r), n)
	}
	list := make([]quota.State, n)
	for i := range list {
		v := r[3+i*stateNumbers:]
		list[i] = quota.State{
			At: v[0], Level: [4]int64(v[1:5]), Streams: v[5], HeldOutput: v[6], HeldTokens: v[7], HeldMoney: quota.Money(v[8]),
			Day: v[9], Month: v[10],
			DaySpent:   quota.Spent{Tokens: v[11], Money: quota.Money(v[12])},
			MonthSpent: quota.Spent{Tokens: v[13], Money: quota.Money(v[14])},
		}
	}
	return list, nil
}

func readReply(answer any, err error) (reply, error) {
	words, err := redis.Strings(answer, err)
	if err != nil {
		return nil, err
	}
	if len(words) < 3 {
		return nil, fmt.Errorf("store: the script returned %d numbers", len(words))
	}
	r := make(reply, len(words))
	for i, w := range words {
		if r[i], err = strconv.ParseInt(w, 10, 64); err != nil {
			return nil, fmt.Errorf("store: the script returned %q: %w", w, err)
		}
	}
	return r, nil
}
