package scheduler

import (
	"math/bits"
	"time"

	"weir/internal/inference"
)

// party is one tenant's requests of one class, for the slots that they share
// with other tenants of the class.
//
// A party's share is its part, by weight, of the slots that the class has. Idle
// slots are anybody's: a share only says who gives one back, see pauses.
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

// grown notes how many requests of a party are live now.
func (p *party) grown(now int64) {
	if p.live >= p.most || now-p.mostAt > int64(recentTime) {
		p.most, p.mostAt = p.live, now
	}
}

// size is how many requests a party has, or slots where those are more.
func (p *party) size() int { return max(p.live, p.slots) }

// crowds reports whether a party has many times what another one has with a slot more, and had lately: of tenants of one size none
// crowds the others while one of them is between two requests.
func (p *party) crowds(few *party) bool {
	return p.size()*few.weight >= crowding*max(few.live, few.slots+1, few.most)*p.weight
}

// bulk is how many requests or slots a party has by weight, by powers of four.
func (p *party) bulk() int {
	return bits.Len(uint(p.size()/p.weight)) / 2
}

// tenantShares are the slots and blocks of tenants with live requests, by class, beside what each is due.
type tenantShares struct {
	cfg         *Config
	usable      int // blocks that live sequences may hold together
	blockTokens int

	byKey  map[partyKey]*party
	spare  []*party
	active [inference.NumClasses][]*party
	recent map[partyKey]peak         // of those that had several requests and have none now
	weight [inference.NumClasses]int // of the active ones together
	slots  [inference.NumClasses]int // of the active ones together
	taken  int                       // slots of all classes: running sequences and forks to come
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

func newTenantShares(cfg *Config, usable, blockTokens int) *tenantShares {
	return &tenantShares{
		cfg: cfg, usable: usable, blockTokens: blockTokens, byKey: map[partyKey]*party{}, recent: map[partyKey]peak{},
	}
}

// join counts a request to its tenant's party.
func (ts *tenantShares) join(now int64, r *Request) *party {
	key := partyKey{r.Tenant, r.Class}
	p, ok := ts.byKey[key]
	if !ok {
		if n := len(ts.spare); n > 0 {
			p, ts.spare = ts.spare[n-1], ts.spare[:n-1]
		} else {
			p = &party{}
		}
		*p = party{key: key, at: len(ts.active[r.Class])}
		p.most, p.mostAt = ts.recent[key].most, ts.recent[key].at
		delete(ts.recent, key)
		ts.active[r.Class] = append(ts.active[r.Class], p)
		ts.byKey[key] = p
	}
	p.live++
	p.grown(now)
	weight := max(r.Weight, 1)
	ts.weight[r.Class] += weight - p.weight
	p.weight = weight
	return p
}

// leave takes a request out of the count, and its party when it was the last.
func (ts *tenantShares) leave(now int64, p *party) {
	p.grown(now)
	if p.live--; p.live > 0 {
		return
	}
	if p.most > 1 {
		if len(ts.recent) >= maxRecent {
			clear(ts.recent)
		}
		ts.recent[p.key] = peak{p.most, p.mostAt}
	}
	list := ts.active[p.key.class]
	last := len(list) - 1
	list[p.at] = list[last]
	list[p.at].at = p.at
	list[last] = nil
	ts.active[p.key.class] = list[:last]
	ts.weight[p.key.class] -= p.weight
	delete(ts.byKey, p.key)
	ts.spare = append(ts.spare, p)
}

// hasRoomFor reports whether a tenant stays within its share of the blocks with so many rows more. Blocks were counted for
// its class.
func (ts *tenantShares) hasRoomFor(p *party, rows int) bool {
	return ts.withinShare(p, p.blocks+blocksFor(rows, ts.blockTokens))
}

// callLimit is how many slots the requests of one call, or the choices of one
// request, may have: it leaves free a quarter, and as many as others have now,
// for who comes while they run and would wait for the end of an output
// otherwise. At least half are its own.
func (ts *tenantShares) callLimit(taken int) int {
	all := ts.cfg.MaxSeqs
	return all - min(max(all/4, 2*(ts.taken-taken)), all/2)
}

// crowded reports whether a party's requests of its class or below run, or wait and could start beside the newcomer's,
// whose tenant crowds it.
func (ts *tenantShares) crowded(few *party) bool {
	for c := few.key.class; c < inference.Class(inference.NumClasses); c++ {
		for _, p := range ts.active[c] {
			if p.crowds(few) {
				return true
			}
		}
	}
	return false
}

// addSlots books n further slots of a party, or fewer where n is negative.
func (ts *tenantShares) addSlots(p *party, n int) {
	p.slots += n
	ts.slots[p.key.class] += n
	ts.taken += n
}

// classSlots is how many slots the parties of a class share: all that other
// classes do not have.
func (ts *tenantShares) classSlots(c inference.Class) int {
	return ts.cfg.MaxSeqs - (ts.taken - ts.slots[c])
}

// contested reports whether several tenants have requests in a class.
func (ts *tenantShares) contested(c inference.Class) bool { return len(ts.active[c]) > 1 }

// above reports whether a party has more slots than its share, and not only one.
func (ts *tenantShares) above(p *party) bool {
	c := p.key.class
	return p.slots > 1 && ts.contested(c) && p.slots*ts.weight[c] > ts.classSlots(c)*p.weight
}

// entitled reports whether a party that shares its class with others stays
// within its share with one slot more, or has none.
func (ts *tenantShares) entitled(p *party) bool {
	c := p.key.class
	return ts.contested(c) && (p.slots == 0 || (p.slots+1)*ts.weight[c] <= ts.classSlots(c)*p.weight)
}

// guaranteedSlots are those that a class gets and keeps whatever higher classes want: its
// share, and where there are several slots for each class at least one.
func (ts *tenantShares) guaranteedSlots(c inference.Class) int {
	percent, least := ts.cfg.SharePercent[c], 0
	if percent > 0 && ts.cfg.MaxSeqs > 2*inference.NumClasses {
		least = 1
	}
	return max(ts.cfg.MaxSeqs*percent/100, least)
}

// aboveGuarantee reports whether a class with one slot less still has the slots
// that it is guaranteed.
func (ts *tenantShares) aboveGuarantee(c inference.Class) bool {
	return ts.slots[c] > ts.guaranteedSlots(c)
}

// countBlocks counts the blocks of the parties of a class.
func (ts *tenantShares) countBlocks(class inference.Class, lists ...[]*sequence) {
	for _, p := range ts.active[class] {
		p.blocks = 0
	}
	for _, list := range lists {
		for _, q := range list {
			if q.req.Class == class {
				q.req.party.blocks += q.held(ts.blockTokens)
			}
		}
	}
	for _, p := range ts.active[class] {
		p.room = max(ts.usable*p.weight/ts.weight[class]-p.blocks, 0) * ts.blockTokens
	}
}

// withinShare reports whether so many blocks are no more than a party's share.
func (ts *tenantShares) withinShare(p *party, blocks int) bool {
	return blocks*ts.weight[p.key.class] <= ts.usable*p.weight
}
