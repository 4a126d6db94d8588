package stored

import "testing"

// What the logs of responses that have ended take is bounded; the oldest go first.
func TestPastEventsAreBounded(t *testing.T) {
	var p pastEvents
	for _, id := range []string{"a", "b", "c"} {
		l := newEventLog()
		l.text = make([]byte, pastBytes/2)
		p.keep(Key{"t", id}, l)
	}
	if p.logs[Key{"t", "c"}] == nil || p.logs[Key{"t", "a"}] != nil || p.bytes > pastBytes || len(p.keys) != len(p.logs) {
		t.Errorf("%d logs of %d bytes are kept", len(p.logs), p.bytes)
	}
	p.drop(Key{"t", "c"})
	p.drop(Key{"t", "c"})
	if len(p.keys) != len(p.logs) || len(p.logs) == 0 && p.bytes != 0 {
		t.Errorf("%d logs of %d bytes are left", len(p.logs), p.bytes)
	}
}
