package conversation

import (
	"container/list"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory keeps responses in the process: they end with it. Where a tenant has more than its
// bytes, those that were not used for the longest time go first. It is for servers without a
// store, and for tests.
type Memory struct {
	tenantBytes int64
	now         func() time.Time

	mu      sync.Mutex
	tenants map[string]*tenantResponses
	swept   time.Time
}

// tenantResponses is what one tenant holds.
type tenantResponses struct {
	byID  map[string]*list.Element
	used  list.List // of *entry, the longest unused first
	bytes int64
}

type entry struct {
	response Response
	expires  time.Time
}

// NewMemory returns a Memory whose tenants hold tenantBytes each.
func NewMemory(tenantBytes int64) *Memory {
	return &Memory{tenantBytes: tenantBytes, now: time.Now, tenants: map[string]*tenantResponses{}}
}

var _ Store = (*Memory)(nil)

// sweepEvery is how often responses whose time is over are looked for.
const sweepEvery = time.Minute

// KeepResponse implements Store.
func (m *Memory) KeepResponse(_ context.Context, r *Response, ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	m.sweep(now)
	s := m.tenants[r.Tenant]
	if s == nil {
		s = &tenantResponses{byID: map[string]*list.Element{}}
		m.tenants[r.Tenant] = s
	}
	old := s.find(r.ID, now)
	switch {
	case old == nil && (r.Begun || r.Replaces != ""):
		return ErrUnknown
	case old == nil:
	case r.Replaces != "" && r.Replaces != old.response.Status:
		return ErrChanged
	case r.Replaces == "" && old.response.Finished():
		return ErrFinished
	default:
		s.drop(r.ID)
	}
	expires := now.Add(ttl)
	for id, n := r.Previous, 0; id != "" && n < MaxResponses; n++ {
		e := s.find(id, now)
		if e == nil {
			break
		}
		e.expires = expires
		s.used.MoveToBack(s.byID[id])
		id = e.response.Previous
	}
	s.byID[r.ID] = s.used.PushBack(&entry{response: *r, expires: expires})
	s.bytes += r.Bytes()
	for next := s.used.Front(); next != nil && s.bytes > m.tenantBytes; {
		e := entryOf(next)
		if next = next.Next(); e.response.Finished() { // the end of one that is computed would find no place
			s.drop(e.response.ID)
		}
	}
	return nil
}

func entryOf(place *list.Element) *entry {
	e, _ := place.Value.(*entry)
	return e
}

// find gives a response whose time is not over; nil where there is none.
func (s *tenantResponses) find(id string, now time.Time) *entry {
	place := s.byID[id]
	if place == nil {
		return nil
	}
	e, _ := place.Value.(*entry)
	if !now.Before(e.expires) {
		return nil
	}
	return e
}

func (s *tenantResponses) drop(id string) {
	place := s.byID[id]
	e, _ := place.Value.(*entry)
	s.bytes -= e.response.Bytes()
	s.used.Remove(place)
	delete(s.byID, id)
}

// sweep drops what is over, once in a while.
func (m *Memory) sweep(now time.Time) {
	if now.Sub(m.swept) < sweepEvery {
		return
	}
	m.swept = now
	for name, s := range m.tenants {
		for id := range s.byID {
			if s.find(id, now) == nil {
				s.drop(id)
			}
		}
		if s.used.Len() == 0 {
			delete(m.tenants, name)
		}
	}
}

// FindResponse implements Store.
func (m *Memory) FindResponse(_ context.Context, tenant, id string) (*Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.find(tenant, id); e != nil {
		r := e.response
		return &r, nil
	}
	return nil, ErrUnknown
}

func (m *Memory) find(tenant, id string) *entry {
	if s := m.tenants[tenant]; s != nil {
		return s.find(id, m.now())
	}
	return nil
}

// Conversation implements Store.
func (m *Memory) Conversation(_ context.Context, tenant, id string) ([]*Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var chain []*Response
	bytes := int64(0)
	for id != "" {
		e := m.find(tenant, id)
		switch {
		case e == nil && chain == nil:
			return nil, ErrUnknown
		case e == nil:
			return nil, &BrokenError{Missing: id}
		}
		r := e.response
		chain = append(chain, &r)
		if bytes += r.Bytes(); len(chain) > MaxResponses || bytes > MaxBytes {
			return nil, ErrTooLong
		}
		id = r.Previous
	}
	slices.Reverse(chain)
	return chain, nil
}

// ListResponses implements Store.
func (m *Memory) ListResponses(_ context.Context, tenant string, q Listing) (found []*Response, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.tenants[tenant]
	if s == nil {
		return nil, nil
	}
	next := (*list.Element).Next
	place := s.used.Front()
	if q.Newest {
		next, place = (*list.Element).Prev, s.used.Back()
	}
	for after := q.After; place != nil && len(found) < q.Limit; place = next(place) {
		switch e := entryOf(place); {
		case after != "":
			if e.response.ID == after {
				after = ""
			}
		case strings.HasPrefix(e.response.ID, q.Prefix) && m.now().Before(e.expires):
			r := e.response
			found = append(found, &r)
		}
	}
	return found, nil
}

// DeleteResponse implements Store.
func (m *Memory) DeleteResponse(_ context.Context, tenant, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.find(tenant, id) == nil {
		return ErrUnknown
	}
	m.tenants[tenant].drop(id)
	return nil
}

// ForgetResponses implements Store.
func (m *Memory) ForgetResponses(_ context.Context, tenant string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.tenants[tenant]
	if s == nil {
		return 0, nil
	}
	delete(m.tenants, tenant)
	return int64(s.used.Len()), nil
}
