package quota

import "time"

// State is what a meter knows of a tenant, of a tenant's use of one model, or of a key. The
// zero value has used nothing. A Meter keeps it in memory; the shared meter keeps
// it in Redis, where a script does what the methods here do, and uses the methods
// for explaining the script's decisions.
//
// A bucket's level is what was used and has not leaked away since, in 60000ths: a
// bucket of limit L leaks L of them each millisecond, so all is whole numbers.
// Output that is reserved and not generated yet is held beside the levels and does
// not leak; so giving it back gives away no credit.
type State struct {
	At    int64             // Unix milliseconds up to which the levels have leaked
	Level [numBuckets]int64 // by Kind

	Streams    int64 // requests that run
	HeldOutput int64 // output tokens reserved by running requests and not in the levels yet
	HeldTokens int64 // all tokens reserved by running requests, for the budgets
	HeldMoney  Money // reserved by running requests

	Day, Month           int64 // of At: days since 1970, months since year 0, both in UTC
	DaySpent, MonthSpent Spent
	Counted              bool // what was spent is counted in both since there are budgets, and what came before was told
}

// Spent is what was used of the budgets of a period.
type Spent struct {
	Tokens int64
	Money  Money
}

// numBuckets is the number of limits per minute: the first kinds.
const numBuckets = int(OutputTokens) + 1

// levelUnit is one request or one token in a bucket's level: the number of
// milliseconds in a minute.
const levelUnit = 60_000

const (
	maxTokens = 10_000_000_000        // of one request; more is taken for this many
	maxLevel  = 9_000_000_000_000_000 // below 2^53, as a script counts in floating point
	maxWaitMS = 1_000_000_000_000     // some 30 years
)

// bucket is the limit of a kind, where it is one per minute.
func (l *Limits) bucket(k Kind) int64 {
	switch k {
	case Requests:
		return l.RequestsPerMinute
	case Tokens:
		return l.TokensPerMinute
	case InputTokens:
		return l.InputTokensPerMinute
	case OutputTokens:
		return l.OutputTokensPerMinute
	default:
		return 0
	}
}

// budget is one limit of a period beside what was spent and held of it.
type budget struct {
	kind                 Kind
	limit, unspent, left int64 // left is of unspent what running answers do not hold
}

func (s *State) tokenBudgets(l *Limits) [2]budget {
	of := func(k Kind, limit, spent int64) budget {
		return budget{k, limit, limit - spent, limit - spent - s.HeldTokens}
	}
	return [2]budget{of(DailyTokens, l.DailyTokens, s.DaySpent.Tokens), of(MonthlyTokens, l.MonthlyTokens, s.MonthSpent.Tokens)}
}

func (s *State) moneyBudgets(l *Limits) [2]budget {
	of := func(k Kind, limit, spent Money) budget {
		return budget{k, int64(limit), int64(limit - spent), int64(limit - spent - s.HeldMoney)}
	}
	return [2]budget{of(DailyCost, l.DailyCost, s.DaySpent.Money), of(MonthlyCost, l.MonthlyCost, s.MonthSpent.Money)}
}

// refresh brings the state to a time: levels leak, and a new day or month begins
// with nothing spent. A time before At changes nothing.
func (s *State) refresh(l *Limits, now time.Time) {
	at := now.UnixMilli()
	elapsed := max(at-s.At, 0)
	s.At = max(s.At, at)
	for k := range s.Level {
		limit := l.bucket(Kind(k))
		if limit <= 0 || elapsed > s.Level[k]/limit {
			s.Level[k] = 0
		} else {
			s.Level[k] -= elapsed * limit
		}
	}
	s.Counted = s.Counted && l.hasBudget()
	day, month := periods(s.At)
	if day > s.Day {
		s.Day, s.DaySpent = day, Spent{}
	}
	if month > s.Month {
		s.Month, s.MonthSpent = month, Spent{}
	}
}

// periods are the day and the month of a time in Unix milliseconds.
func periods(ms int64) (day, month int64) {
	t := time.UnixMilli(ms).UTC()
	return floorDiv(ms, 24*60*levelUnit), int64(t.Year())*12 + int64(t.Month()) - 1
}

// room is how many more requests or tokens a bucket takes now; below zero where a
// debt is to be waited for.
func (s *State) room(k Kind, limit int64) int64 {
	return floorDiv(limit*levelUnit-s.Level[k], levelUnit) - s.heldIn(k)
}

func (s *State) heldIn(k Kind) int64 {
	if k == Tokens || k == OutputTokens {
		return s.HeldOutput
	}
	return 0
}

// wait is how long until a bucket takes need more, as if what is held were used
// now.
func (s *State) wait(k Kind, limit, need int64) time.Duration {
	missing := need - s.room(k, limit)
	if missing > maxLevel/levelUnit {
		return milliseconds(maxWaitMS)
	}
	free := limit*levelUnit - s.Level[k]
	fraction := free - floorDiv(free, levelUnit)*levelUnit
	exact := missing*levelUnit - fraction
	return milliseconds(min(ceilDiv(exact, limit), maxWaitMS))
}

// demand is what a reservation takes of a state.
type demand struct {
	input, output int64
	most          int64 // output that the request may have
	money         Money // for all that is reserved
	leastMoney    Money // for the input and one token of output
}

// least is the output without which an answer cannot begin.
func (n *demand) least() int64 { return min(n.output, 1) }

// fit shortens the output of a need to what can be had at all: of buckets to what a
// full one holds, of budgets to what is left. What running answers hold of a
// strict budget can be had, too, later: who is let in then can end. Not enough left for a first
// token stays for refusal to find.
func (s *State) fit(l *Limits, n *demand) {
	least := n.least()
	if limit := l.TokensPerMinute; limit > 0 {
		n.output = min(n.output, max(limit-n.input, 0))
	}
	if limit := l.OutputTokensPerMinute; limit > 0 {
		n.output = min(n.output, limit)
	}
	for _, b := range s.tokenBudgets(l) {
		if b.limit > 0 {
			n.output = min(n.output, max(b.had(l.StrictTokens())-n.input, least))
		}
	}
	for _, b := range s.moneyBudgets(l) {
		if b.limit > 0 {
			n.money = min(n.money, max(Money(b.had(l.StrictMoney())), n.leastMoney))
		}
	}
}

// refusal is the reason why a need cannot be had now: of several, the one that
// lasts longest. nil is none.
func (s *State) refusal(l *Limits, n *demand) *Refusal {
	var worst *Refusal
	for k, amount := range [numBuckets]int64{1, n.input + n.output, n.input, n.output} {
		if limit := l.bucket(Kind(k)); limit > 0 && amount > s.room(Kind(k), limit) {
			r := &Refusal{Kind: Kind(k), Limit: limit, Left: max(s.room(Kind(k), limit), 0), Need: amount}
			if amount <= limit {
				r.RetryAfter = s.wait(Kind(k), limit, amount)
			}
			worst = worse(worst, r)
		}
	}
	if limit := l.MaxStreams; limit > 0 && s.Streams >= limit {
		worst = worse(worst, &Refusal{Kind: Streams, Limit: limit, Need: 1, RetryAfter: streamWait})
	}
	for _, b := range s.tokenBudgets(l) {
		if b.limit > 0 && n.input+n.output > b.left {
			worst = worse(worst, s.overBudget(b, n.input+n.output))
		}
	}
	for _, b := range s.moneyBudgets(l) {
		if b.limit > 0 && n.money > 0 && int64(n.money) > b.left {
			worst = worse(worst, s.overBudget(b, int64(n.money)))
		}
	}
	return worst
}

// streamWait is how soon to ask again for one of MaxStreams, or for what running
// answers hold of a budget. Nothing here knows when a running answer ends; who calls
// the meter may.
const streamWait = time.Second

// had is what a request may reserve of a budget at most.
func (b *budget) had(strict bool) int64 {
	if strict {
		return b.unspent
	}
	return b.left
}

func (s *State) overBudget(b budget, amount int64) *Refusal {
	r := &Refusal{Kind: b.kind, Limit: b.limit, Left: max(b.left, 0), Need: amount}
	switch {
	case amount <= b.unspent:
		r.RetryAfter, r.Held = streamWait, true
	case amount <= b.limit:
		r.RetryAfter = s.untilPeriodEnds(b.kind)
	}
	return r
}

// untilPeriodEnds is the time until a budget starts over.
func (s *State) untilPeriodEnds(k Kind) time.Duration {
	end := time.Date(int(s.Month/12), time.Month(s.Month%12)+2, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	if k == DailyTokens || k == DailyCost {
		end = (s.Day + 1) * 24 * 60 * levelUnit
	}
	return milliseconds(min(end-s.At, maxWaitMS))
}

// reserve takes a need that refusal had nothing against.
func (s *State) reserve(l *Limits, n *demand) {
	for k, amount := range [numBuckets]int64{1, n.input, n.input, 0} {
		s.charge(l, Kind(k), amount)
	}
	s.Streams++
	s.HeldOutput += n.output
	s.HeldTokens += n.input + n.output
	s.HeldMoney += n.money
}

// charge raises a bucket's level.
func (s *State) charge(l *Limits, k Kind, amount int64) {
	if l.bucket(k) > 0 {
		s.Level[k] = min(s.Level[k]+amount*levelUnit, maxLevel)
	}
}

// refund lowers a bucket's level by what was charged elapsed milliseconds ago and
// not used, less what may have leaked of it since: where the level was zero in
// between, a full refund would be credit for a time that was not used.
func (s *State) refund(l *Limits, k Kind, amount, elapsed int64) {
	limit := l.bucket(k)
	if back := amount * levelUnit; limit > 0 && elapsed <= back/limit {
		s.Level[k] = max(s.Level[k]-(back-elapsed*limit), 0)
	}
}

// generated moves output tokens from what is held into the levels.
func (s *State) generated(l *Limits, tokens int64) {
	s.HeldOutput -= tokens
	s.charge(l, Tokens, tokens)
	s.charge(l, OutputTokens, tokens)
}

// hold reserves more for a running request.
func (s *State) hold(tokens int64, money Money) {
	s.HeldOutput += tokens
	s.HeldTokens += tokens
	s.HeldMoney += money
}

// release frees what a request holds.
func (s *State) release(o *openGrant) {
	s.Streams--
	s.HeldOutput -= o.output - o.charged
	s.HeldTokens -= o.input + o.output
	s.HeldMoney -= o.money
}

// settle counts what a released request has used and the levels do not hold yet.
func (s *State) settle(l *Limits, o *openGrant, use Use, cost Money) {
	elapsed := max(s.At-o.at, 0)
	if !use.Ran {
		s.refund(l, Requests, 1, elapsed)
	}
	if more := use.Input - o.input; more >= 0 {
		s.charge(l, Tokens, more)
		s.charge(l, InputTokens, more)
	} else {
		s.refund(l, Tokens, -more, elapsed)
		s.refund(l, InputTokens, -more, elapsed)
	}
	more := max(use.Output-o.charged, 0)
	s.charge(l, Tokens, more)
	s.charge(l, OutputTokens, more)
	s.spend(l, use.Input+use.Output, cost)
}

// seed raises what was spent to at least so much.
func (s *State) seed(day, month Spent) {
	s.Counted = true
	s.DaySpent = Spent{max(s.DaySpent.Tokens, day.Tokens), max(s.DaySpent.Money, day.Money)}
	s.MonthSpent = Spent{max(s.MonthSpent.Tokens, month.Tokens), max(s.MonthSpent.Money, month.Money)}
}

// spend counts what a request has used against the budgets; below zero it takes back what was counted.
func (s *State) spend(l *Limits, tokens int64, money Money) {
	if !l.hasBudget() {
		return
	}
	for _, spent := range [...]*Spent{&s.DaySpent, &s.MonthSpent} {
		spent.Tokens = max(min(spent.Tokens+tokens, maxLevel), 0)
		spent.Money = max(min(spent.Money+money, maxLevel), 0)
	}
}

// extra is how many more output tokens a running request may hold, and of which
// kind the least is.
func (s *State) extra(l *Limits) (tokens int64, kind Kind) {
	tokens = maxTokens
	for _, k := range [...]Kind{Tokens, OutputTokens} {
		if limit := l.bucket(k); limit > 0 {
			if room := s.room(k, limit); room < tokens {
				tokens, kind = room, k
			}
		}
	}
	for _, b := range s.tokenBudgets(l) {
		if b.limit > 0 && b.left < tokens {
			tokens, kind = b.left, b.kind
		}
	}
	return tokens, kind
}

// extraMoney is how much more money a running request may hold.
func (s *State) extraMoney(l *Limits) (money Money, kind Kind) {
	money = maxLevel
	for _, b := range s.moneyBudgets(l) {
		if b.limit > 0 && Money(b.left) < money {
			money, kind = Money(b.left), b.kind
		}
	}
	return money, kind
}

// idle reports whether nothing is lost by forgetting the state.
func (s *State) idle() bool {
	return s.Level == [numBuckets]int64{} && s.Streams == 0 && s.DaySpent == Spent{} && s.MonthSpent == Spent{}
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }
