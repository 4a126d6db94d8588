package scheduler

import (
	"math/bits"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
)

// tenantShare is what one tenant has of one class: live requests, slots and blocks.
//
// Its share is its part, by weight, of the slots that the class has. Any tenant may use
// idle slots: a share only says which tenant gives one back, see pauses.
type tenantShare struct {
	key      shareKey
	weight   int // as its last request said
	live     int // requests that have not ended
	peakLive int // live at once within recentTime, as of mostAt
	peakAt   int64
	slots    int // of its running sequences
	index    int // in tenantShares.active
	blocks   int // scratch of countBlocks
	room     int // scratch of countBlocks, too: rows until it has its share of the blocks
}

type shareKey struct {
	tenant string
	class  inference.Class
}

// noteLive notes how many requests of the tenant are live now.
func (p *tenantShare) noteLive(now int64) {
	if p.live >= p.peakLive || now-p.peakAt > int64(recentPeakTime) {
		p.peakLive, p.peakAt = p.live, now
	}
}

// size is how many requests a tenant has, or slots where those are more.
func (p *tenantShare) size() int { return max(p.live, p.slots) }

// crowds reports whether a tenant has many times as much as another one will have with one slot more, and as it had in the
// last recentPeakTime: tenants of one size do not crowd each other while one of them is between two requests.
func (p *tenantShare) crowds(few *tenantShare) bool {
	return p.size()*few.weight >= crowdFactor*max(few.live, few.slots+1, few.peakLive)*p.weight
}

// sizeClass is how many requests or slots a tenant has by weight, by powers of four.
func (p *tenantShare) sizeClass() int {
	return bits.Len(uint(p.size()/p.weight)) / 2
}

// tenantShares are the slots and blocks of tenants with live requests, by class, beside what each is due.
type tenantShares struct {
	cfg    *Config
	pool   *kvcache.Pool
	usable int // blocks that live sequences may hold together

	byKey  map[shareKey]*tenantShare
	spare  []*tenantShare
	active [inference.NumClasses][]*tenantShare
	recent map[shareKey]recentPeak   // of those that had several requests and have none now
	weight [inference.NumClasses]int // of the active ones together
	slots  [inference.NumClasses]int // of the active ones together
	taken  int                       // slots of all classes: running sequences and forks to come
}

// recentPeakTime is how long a tenant's size lasts after its requests have ended: a tenant that sends in waves is not small between two of them.
const recentPeakTime = 2 * time.Second

// maxRecentPeaks bounds how many tenants without requests are remembered.
const maxRecentPeaks = 1024

// recentPeak is how many requests of a tenant were live at once, and when last.
type recentPeak struct {
	live int
	at   int64
}

func newTenantShares(cfg *Config, pool *kvcache.Pool) *tenantShares {
	return &tenantShares{
		cfg: cfg, pool: pool, usable: pool.Usable(), byKey: map[shareKey]*tenantShare{}, recent: map[shareKey]recentPeak{},
	}
}

// add counts a request to its tenant's share.
func (ts *tenantShares) add(now int64, r *Request) *tenantShare {
	key := shareKey{r.Tenant, r.Class}
	p, ok := ts.byKey[key]
	if !ok {
		if n := len(ts.spare); n > 0 {
			p, ts.spare = ts.spare[n-1], ts.spare[:n-1]
		} else {
			p = &tenantShare{}
		}
		*p = tenantShare{key: key, index: len(ts.active[r.Class])}
		p.peakLive, p.peakAt = ts.recent[key].live, ts.recent[key].at
		delete(ts.recent, key)
		ts.active[r.Class] = append(ts.active[r.Class], p)
		ts.byKey[key] = p
	}
	p.live++
	p.noteLive(now)
	weight := max(r.Weight, 1)
	ts.weight[r.Class] += weight - p.weight
	p.weight = weight
	return p
}

// remove takes a request out of the count, and forgets its tenant when it was the last.
func (ts *tenantShares) remove(now int64, p *tenantShare) {
	p.noteLive(now)
	if p.live--; p.live > 0 {
		return
	}
	if p.peakLive > 1 {
		if len(ts.recent) >= maxRecentPeaks {
			clear(ts.recent)
		}
		ts.recent[p.key] = recentPeak{p.peakLive, p.peakAt}
	}
	list := ts.active[p.key.class]
	last := len(list) - 1
	list[p.index] = list[last]
	list[p.index].index = p.index
	list[last] = nil
	ts.active[p.key.class] = list[:last]
	ts.weight[p.key.class] -= p.weight
	delete(ts.byKey, p.key)
	ts.spare = append(ts.spare, p)
}

// hasRoomFor reports whether a request's tenant stays within its share of the blocks with so many rows more. Blocks were counted for
// its class.
func (ts *tenantShares) hasRoomFor(r *request, rows int) bool {
	return ts.withinShare(r.share, r.share.blocks+r.shape.Need(rows))
}

// callLimit is how many slots the requests of one call, or the choices of one
// request, may have: it leaves free a quarter, and as many as others have now,
// for requests that come while they run and would wait for the end of an output
// otherwise. At least half are its own.
func (ts *tenantShares) callLimit(taken int) int {
	all := ts.cfg.MaxSeqs
	return all - min(max(all/4, 2*(ts.taken-taken)), all/2)
}

// isCrowded reports whether a tenant that crowds this one has requests of its class or below.
func (ts *tenantShares) isCrowded(few *tenantShare) bool {
	for c := few.key.class; c < inference.Class(inference.NumClasses); c++ {
		for _, p := range ts.active[c] {
			if p.crowds(few) {
				return true
			}
		}
	}
	return false
}

// addSlots counts n more slots of a tenant, or fewer where n is negative.
func (ts *tenantShares) addSlots(p *tenantShare, n int) {
	p.slots += n
	ts.slots[p.key.class] += n
	ts.taken += n
}

// classSlots is how many slots the tenants of a class share: all that other
// classes do not have.
func (ts *tenantShares) classSlots(c inference.Class) int {
	return ts.cfg.MaxSeqs - (ts.taken - ts.slots[c])
}

// contested reports whether several tenants have requests in a class.
func (ts *tenantShares) contested(c inference.Class) bool { return len(ts.active[c]) > 1 }

// above reports whether a tenant has more slots than its share, and not only one.
func (ts *tenantShares) above(p *tenantShare) bool {
	c := p.key.class
	return p.slots > 1 && ts.contested(c) && p.slots*ts.weight[c] > ts.classSlots(c)*p.weight
}

// entitled reports whether a tenant that shares its class with others stays
// within its share with one slot more, or has none.
func (ts *tenantShares) entitled(p *tenantShare) bool {
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

// countBlocks counts the blocks of the tenants of a class.
func (ts *tenantShares) countBlocks(class inference.Class, lists ...[]*sequence) {
	for _, p := range ts.active[class] {
		p.blocks = 0
	}
	for _, list := range lists {
		for _, q := range list {
			if q.req.Class == class {
				q.req.share.blocks += q.held()
			}
		}
	}
	for _, p := range ts.active[class] {
		p.room = max(ts.usable*p.weight/ts.weight[class]-p.blocks, 0) * ts.pool.BlockTokens() / max(1, ts.pool.EndlessPages())
	}
}

// withinShare reports whether so many blocks are no more than a tenant's share.
func (ts *tenantShares) withinShare(p *tenantShare, blocks int) bool {
	return blocks*ts.weight[p.key.class] <= ts.usable*p.weight
}
