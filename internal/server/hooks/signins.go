package hooks

import (
	"maps"
	"net"
	"sync"
	"time"

	"weir/internal/server/state"
)

const (
	deniedShortest  = time.Minute // what one audit entry about denied callers covers, at first
	deniedLongest   = time.Hour   // and while it goes on
	deniedAddresses = 16          // that an entry names
)

// signIns gathers callers who showed a proof that stands for no tenant, for the audit log: one entry for all of a time. The
// time doubles as long as they go on, up to an hour, so that a flood adds 30 entries on its first day.
type signIns struct {
	note func(state.Details) // writes an entry

	mu        sync.Mutex
	timer     *time.Timer // nil: none were denied
	window    time.Duration
	last      time.Time // when the last entry was written
	from      time.Time
	count     int
	reasons   map[string]int
	addresses map[string]int
	others    int // requests from addresses that are not named
}

func newSignIns(note func(state.Details)) *signIns { return &signIns{note: note} }

// denied counts a request. reason is one of few; remote is an address with or without a port.
func (s *signIns) denied(reason, remote string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil {
		if s.window == 0 || now.Sub(s.last) > s.window {
			s.window = deniedShortest
		}
		s.from, s.reasons, s.addresses = now, make(map[string]int), make(map[string]int)
		s.timer = time.AfterFunc(s.window, s.flush)
	}
	s.count++
	s.reasons[reason]++
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	if _, known := s.addresses[host]; !known && len(s.addresses) >= deniedAddresses {
		s.others++
		return
	}
	s.addresses[host]++
}

// flush writes what has been counted.
func (s *signIns) flush() {
	now := time.Now()
	s.mu.Lock()
	if s.timer == nil {
		s.mu.Unlock()
		return
	}
	s.timer.Stop()
	more := state.Details{
		"requests": s.count, "reasons": maps.Clone(s.reasons), "addresses": maps.Clone(s.addresses),
		"from": s.from.UTC().Format(time.RFC3339), "to": now.UTC().Format(time.RFC3339),
	}
	if s.others > 0 {
		more["from_other_addresses"] = s.others
	}
	s.timer, s.count, s.others, s.last = nil, 0, 0, now
	s.window = min(2*s.window, deniedLongest)
	s.mu.Unlock()
	s.note(more)
}
