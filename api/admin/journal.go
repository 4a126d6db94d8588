package admin

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/inference"
	"weir/router"
)

// Journal remembers the requests that run and the last ones that ended or were
// refused: counts, times and names, never text. It is safe for concurrent use.
type Journal struct {
	mu             sync.Mutex
	live           map[liveKey]*Entry
	spare          []*Entry // of requests that have ended, for the next ones
	ended, refused ring     // apart: a flood of refused requests leaves the ended ones in sight
}

// Entry is one request. Times are zero where the moment has not come.
type Entry struct {
	ID      string // as OpenAI's answers name it, or the x-request-id of a refused one
	Route   string
	Model   string // as the server calls it; "" where it has none
	Version string
	Arm     string // of the rollout that chose the version
	Tenant  string // "" where it is not known who called
	Stream  bool
	Prompts int
	Choices int // in all
	Retries int // by the client, before this one
	Prompt  int // tokens
	Cached  int // of these, from the prefix cache
	Output  int // tokens
	Arrived time.Time

	LoadBegan, Loaded time.Time // between them it waited for its model to be in memory
	Parsed, Submitted time.Time // before and behind the tokenising of its prompt

	First    time.Time // token
	Last     time.Time // token
	Finished time.Time
	Status   int    // HTTP status; 0 while it runs
	Code     string // of the error, where there was one
	Limit    string // of the tenant, that ended the answer
	Replica  string // that answered; "" is this process
	Reason   string // why that replica was picked
	Attempts int    // replicas that were asked
	Tried    []*router.Attempt
	Lived    []inference.Lived // what the engine did with the first prompts
	Findings []Finding         // of policies
	Refused  bool              // before it was submitted to an engine, or by the engine's queue
}

// Finding is what a rule of a policy found on one side of a request; never text.
type Finding struct {
	Policy   string  `json:"policy"`
	Rule     string  `json:"rule"`
	Category string  `json:"category"`
	Side     string  `json:"side"`
	Action   string  `json:"action"`
	Count    int     `json:"matches"`
	Bytes    int     `json:"bytes"`
	Score    float64 `json:"score"`
	Digest   string  `json:"digest"` // of the first match, by a key of the process
}

// pastEntries is how many ended requests a Journal remembers, and as many refused
// ones: some hundred bytes each.
const pastEntries = 1024

// liveKey tells running requests apart: clients may give several the same id.
type liveKey struct {
	id      string
	arrived int64 // nanoseconds since 1970
}

func (e *Entry) live() liveKey { return liveKey{e.ID, e.Arrived.UnixNano()} }

// ring holds the last entries.
type ring struct {
	entries []Entry
	next    int // where the next one goes, once the ring is full
}

func (r *ring) add(e *Entry) {
	if len(r.entries) < pastEntries {
		r.entries = append(r.entries, *e)
		return
	}
	r.entries[r.next] = *e
	r.next = (r.next + 1) % pastEntries
}

// newest appends the entries that were added last, the newest first.
func (r *ring) newest(dst []Entry, most int) []Entry {
	n := len(r.entries)
	for i := range min(n, most) {
		dst = append(dst, r.entries[(r.next+2*n-1-i)%n])
	}
	return dst
}

// NewJournal returns an empty journal.
func NewJournal() *Journal { return &Journal{live: make(map[liveKey]*Entry)} }

// Begin notes a request that runs or waits from now on.
func (j *Journal) Begin(e *Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	own := new(Entry)
	if n := len(j.spare); n > 0 {
		own, j.spare = j.spare[n-1], j.spare[:n-1]
	}
	*own = *e
	key := e.live()
	if twin := j.live[key]; twin != nil {
		j.keep(twin)
	}
	j.live[key] = own
}

// maxSpare bounds the entries that are kept for the next requests.
const maxSpare = 64

// keep takes an entry that nothing refers to any more for the next request. The caller holds mu.
func (j *Journal) keep(e *Entry) {
	if len(j.spare) < maxSpare {
		*e = Entry{} // what it refers to is not kept
		j.spare = append(j.spare, e)
	}
}

// End notes a request's end, whether Begin saw it or not.
func (j *Journal) End(e *Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := e.live()
	if own := j.live[key]; own != nil {
		delete(j.live, key)
		j.keep(own)
	}
	if e.Refused {
		j.refused.add(e)
	} else {
		j.ended.add(e)
	}
}

// entries returns all that match, the running ones first, each part by arrival, the
// last first.
func (j *Journal) entries(match func(*Entry) bool) []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	var live, past []Entry
	for _, e := range j.live {
		if match(e) {
			live = append(live, *e)
		}
	}
	for _, r := range []*ring{&j.ended, &j.refused} {
		for i := range r.entries {
			if match(&r.entries[i]) {
				past = append(past, r.entries[i])
			}
		}
	}
	late := func(a, b Entry) int { return cmp.Or(b.Arrived.Compare(a.Arrived), strings.Compare(a.ID, b.ID)) }
	slices.SortFunc(live, late)
	slices.SortFunc(past, late)
	return append(live, past...)
}

// latest returns the requests that run, the oldest first, and the last ones that ended or were refused, the newest first.
func (j *Journal) latest(mostRunning, mostEnded int) (running int, live, past []Entry) {
	j.mu.Lock()
	oldest := make([]*Entry, 0, len(j.live))
	for _, e := range j.live {
		oldest = append(oldest, e)
	}
	running = len(oldest)
	slices.SortFunc(oldest, func(a, b *Entry) int { return cmp.Or(a.Arrived.Compare(b.Arrived), strings.Compare(a.ID, b.ID)) })
	for _, e := range oldest[:min(running, mostRunning)] {
		live = append(live, *e)
	}
	for _, r := range []*ring{&j.ended, &j.refused} {
		past = r.newest(past, mostEnded)
	}
	j.mu.Unlock()
	slices.SortStableFunc(past, func(a, b Entry) int { return b.Finished.Compare(a.Finished) })
	return running, live, past[:min(len(past), mostEnded)]
}

// named reports whether a client or an operator may mean the request by id: by the
// answer's id, or by the x-request-id that is its end.
func (e *Entry) named(id string) bool {
	return e.ID == id || strings.HasSuffix(e.ID, "-"+id)
}
