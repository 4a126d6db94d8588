package scheduler

import (
	"time"

	"weir/internal/inference"
)

// party is one tenant's requests of one class, for the slots that they share
// with other tenants of the class.
//
// A party's share is its part, by weight, of the slots that the class has. Idle
// slots are anybody's: a share only says who gives one back, see pause.go.
type party struct {
	key    partyKey
	weight int // as its last request said
	live   int // requests that have not ended
	most   int // live at once within recentTime, as of mostAt
	mostAt int64
	slots  int // of its running sequences
	at     int // in parties.active
	blocks int // scratch of countBlocks
	room   int // scratch of countBlocks, too: rows until it has its share of the blocks
}

type partyKey struct {
	tenant string
	class  inference.Class
}

// parties are the tenants with live requests, by class.
type parties struct {
	byKey  map[partyKey]*party
	spare  []*party
	active [inference.NumClasses][]*party
	recent map[partyKey]peak         // of those that had several requests and have none now
	weight [inference.NumClasses]int // of the active ones together
	slots  [inference.NumClasses]int // of the active ones together
}

// recentTime is how long a tenant's size lasts after its requests have ended: who sends in waves is not small between two of them.
const recentTime = 2 * time.Second

// maxRecent bounds how many tenants without requests are remembered.
const maxRecent = 1024

// peak is how many requests of a tenant were live at once, and when last.
type peak struct {
	most int
	at   int64
}

// join counts a request to its tenant's party.
func (ps *parties) join(now int64, r *Request) *party {
	key := partyKey{r.Tenant, r.Class}
	p, ok := ps.byKey[key]
	if !ok {
		if n := len(ps.spare); n > 0 {
			p, ps.spare = ps.spare[n-1], ps.spare[:n-1]
		} else {
			p = &party{}
		}
		*p = party{key: key, at: len(ps.active[r.Class])}
		p.most, p.mostAt = ps.recent[key].most, ps.recent[key].at
		delete(ps.recent, key)
		ps.active[r.Class] = append(ps.active[r.Class], p)
		ps.byKey[key] = p
	}
	p.live++
	p.grown(now)
	weight := max(r.Weight, 1)
	ps.weight[r.Class] += weight - p.weight
	p.weight = weight
	return p
}

// grown notes how many requests of a party are live now.
func (p *party) grown(now int64) {
	if p.live >= p.most || now-p.mostAt > int64(recentTime) {
		p.most, p.mostAt = p.live, now
	}
}

// leave takes a request out of the count, and its party when it was the last.
func (ps *parties) leave(now int64, p *party) {
	p.grown(now)
	if p.live--; p.live > 0 {
		return
	}
	if p.most > 1 {
		if len(ps.recent) >= maxRecent {
			clear(ps.recent)
		}
		ps.recent[p.key] = peak{p.most, p.mostAt}
	}
	list := ps.active[p.key.class]
	last := len(list) - 1
	list[p.at] = list[last]
	list[p.at].at = p.at
	list[last] = nil
	ps.active[p.key.class] = list[:last]
	ps.weight[p.key.class] -= p.weight
	delete(ps.byKey, p.key)
	ps.spare = append(ps.spare, p)
}

// seat books n further slots of a party, or fewer where n is negative.
func (s *Scheduler) seat(p *party, n int) {
	p.slots += n
	s.parties.slots[p.key.class] += n
	s.slots += n
}

// classSlots is how many slots the parties of a class share: all that other
// classes do not have.
func (s *Scheduler) classSlots(c inference.Class) int {
	return s.cfg.MaxSeqs - (s.slots - s.parties.slots[c])
}

// contested reports whether several tenants have requests in a class.
func (s *Scheduler) contested(c inference.Class) bool { return len(s.parties.active[c]) > 1 }

// above reports whether a party has more slots than its share, and not only one.
func (s *Scheduler) above(p *party) bool {
	c := p.key.class
	return p.slots > 1 && s.contested(c) && p.slots*s.parties.weight[c] > s.classSlots(c)*p.weight
}

// entitled reports whether a party that shares its class with others stays
// within its share with one slot more, or has none.
func (s *Scheduler) entitled(p *party) bool {
	c := p.key.class
	return s.contested(c) && (p.slots == 0 || (p.slots+1)*s.parties.weight[c] <= s.classSlots(c)*p.weight)
}

// entitledHead is the waiting request of a class whose turn it is by service, if
// its tenant is entitled to a slot; nil otherwise.
func (s *Scheduler) entitledHead(c inference.Class) *request {
	if !s.contested(c) || s.waiting.Waiting(c) == 0 {
		return nil
	}
	s.waiting.Scan(c, false)
	defer s.waiting.EndScan()
	ref, _, ok := s.waiting.Next()
	if !ok {
		return nil
	}
	if r := s.requests.find(ID(ref)); s.entitled(r.party) {
		return r
	}
	return nil
}

// guaranteedSlots are those that a class gets and keeps whatever higher classes want: its
// share, and where there are several slots for each class at least one.
func (s *Scheduler) guaranteedSlots(c inference.Class) int {
	percent, least := s.cfg.SharePercent[c], 0
	if percent > 0 && s.cfg.MaxSeqs > 2*inference.NumClasses {
		least = 1
	}
	return max(s.cfg.MaxSeqs*percent/100, least)
}

// owed reports whether a class waits with fewer slots than it is guaranteed.
func (s *Scheduler) owed(c inference.Class) bool {
	return s.waiting.Waiting(c) > 0 && s.parties.slots[c] < s.guaranteedSlots(c)
}

// keepsShare reports whether a class with one slot less still has the slots
// that it is guaranteed.
func (s *Scheduler) keepsShare(c inference.Class) bool {
	return s.parties.slots[c] > s.guaranteedSlots(c)
}
