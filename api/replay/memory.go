package replay

import (
	"container/list"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

// Memory keeps keys and answers in the process: they end with it. It is for servers
// without a store, and for tests.
type Memory struct {
	tenantBytes int64

	mu      sync.Mutex
	entries map[memoryKey]*memoryEntry
	tenants map[string]*memoryTenant
	swept   time.Time
}

type memoryKey struct {
	tenant string
	key    [32]byte
}

type memoryEntry struct {
	fingerprint [32]byte
	claim       string
	expires     time.Time
	answer      []byte
	place       *list.Element // of the tenant's answers; nil while in flight
}

// memoryTenant is what one tenant holds.
type memoryTenant struct {
	answers list.List // of memoryKey, oldest first
	bytes   int64
}

// entryBytes is what an entry costs beside its answer.
const entryBytes = 256

// sweepEvery is how often entries whose time is over are looked for.
const sweepEvery = time.Minute

// NewMemory returns a Memory whose tenants hold tenantBytes of answers each; the
// oldest go first.
func NewMemory(tenantBytes int64) *Memory {
	return &Memory{tenantBytes: tenantBytes, entries: map[memoryKey]*memoryEntry{}, tenants: map[string]*memoryTenant{}}
}

var _ Claims = (*Memory)(nil)

// Look says where a key stands.
func (m *Memory) Look(_ context.Context, r Request) (Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.look(memoryKey{r.Tenant, sha256.Sum256([]byte(r.Key))}, r.Fingerprint, time.Now()), nil
}

// Begin asks for the execution of a request.
func (m *Memory) Begin(_ context.Context, r Request) (Outcome, error) {
	claim := Claim{Tenant: r.Tenant, Key: sha256.Sum256([]byte(r.Key)), ID: rand.Text()}
	key, now := memoryKey{r.Tenant, claim.Key}, time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(now)
	if found := m.look(key, r.Fingerprint, now); found.State != Free {
		return found, nil
	}
	m.entries[key] = &memoryEntry{fingerprint: r.Fingerprint, claim: claim.ID, expires: now.Add(r.TTL)}
	return Outcome{State: Begun, Claim: claim}, nil
}

// look says where a key stands, and forgets an answer whose time is over.
func (m *Memory) look(key memoryKey, fingerprint [32]byte, now time.Time) Outcome {
	e := m.entries[key]
	switch {
	case e == nil:
		return Outcome{State: Free}
	case e.place != nil && !now.Before(e.expires):
		m.drop(key, e)
		return Outcome{State: Free}
	case e.fingerprint != fingerprint:
		return Outcome{State: Differs}
	case e.place == nil:
		return Outcome{State: InFlight}
	}
	return Outcome{State: Answered, Answer: e.answer}
}

// Finish stores the answer of a claim.
func (m *Memory) Finish(_ context.Context, c Claim, answer []byte) error {
	if len(answer) > MaxAnswerBytes {
		return fmt.Errorf("an answer of %d bytes is not kept; at most %d are", len(answer), MaxAnswerBytes)
	}
	key := memoryKey{c.Tenant, c.Key}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[key]
	switch {
	case e == nil || e.claim != c.ID:
		return ErrClaimLost
	case e.place != nil:
		return nil // finished before
	}
	t := m.tenants[c.Tenant]
	if t == nil {
		t = &memoryTenant{}
		m.tenants[c.Tenant] = t
	}
	e.answer, e.place = answer, t.answers.PushBack(key)
	t.bytes += int64(len(answer)) + entryBytes
	for t.bytes > m.tenantBytes && t.answers.Len() > 0 {
		oldest, _ := t.answers.Front().Value.(memoryKey)
		m.drop(oldest, m.entries[oldest])
	}
	return nil
}

// Abandon gives a claim up.
func (m *Memory) Abandon(_ context.Context, c Claim) error {
	key := memoryKey{c.Tenant, c.Key}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[key]; e != nil && e.claim == c.ID && e.place == nil {
		delete(m.entries, key)
	}
	return nil
}

// Forget drops a tenant's answers, with their keys, and returns how many there were.
// Executions go on.
func (m *Memory) Forget(tenant string) (answers int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tenants[tenant]
	if t == nil {
		return 0
	}
	answers = t.answers.Len()
	for t.answers.Len() > 0 {
		key, _ := t.answers.Front().Value.(memoryKey)
		m.drop(key, m.entries[key])
	}
	return answers
}

// drop forgets an answer.
func (m *Memory) drop(key memoryKey, e *memoryEntry) {
	delete(m.entries, key)
	t := m.tenants[key.tenant]
	t.answers.Remove(e.place)
	if t.bytes -= int64(len(e.answer)) + entryBytes; t.answers.Len() == 0 {
		delete(m.tenants, key.tenant)
	}
}

// sweep forgets answers whose time is over. An execution ends by itself.
func (m *Memory) sweep(now time.Time) {
	if now.Sub(m.swept) < sweepEvery {
		return
	}
	m.swept = now
	for key, e := range m.entries {
		if e.place != nil && !now.Before(e.expires) {
			m.drop(key, e)
		}
	}
}
