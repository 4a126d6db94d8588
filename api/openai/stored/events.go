package stored

import (
	"bytes"
	"io"
	"strconv"
	"sync"
	"time"

	"weir/api"
	"weir/api/conversation"
	"weir/api/edge"
	"weir/api/openai/answer"
	"weir/api/openai/generation"
	"weir/api/openai/jsonbody"
	"weir/api/openai/responses"
)

// A response in the background whose request asked for a stream has its events kept by the
// process that computes it: while it is computed, and for as long as the room of pastBytes
// lasts. A client that was cut off reads on behind the last event that came. The store has the
// response, and no events: another process tells the end alone, whose event holds the whole
// response.

// EventLog holds the events of one response, in order: event n has sequence_number n.
type EventLog struct {
	mu   sync.Mutex
	text []byte
	ends []int // of each event in text
	line []byte
	over bool
	more chan struct{} // closed and replaced when events have come
}

func newEventLog() *EventLog { return &EventLog{more: make(chan struct{})} }

// Add adds a piece of a stream. Comments, which are no events, are left out.
func (l *EventLog) Add(piece []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.ends)
	for len(piece) > 0 {
		line, rest, complete := bytes.Cut(piece, []byte{'\n'})
		piece = rest
		if l.line = append(l.line, line...); !complete {
			break
		}
		switch {
		case len(l.line) > 0 && l.line[0] == ':':
		case len(l.line) > 0:
			l.text = append(append(l.text, l.line...), '\n')
		case len(l.text) > l.end():
			l.text = append(l.text, '\n')
			l.ends = append(l.ends, len(l.text))
		}
		l.line = l.line[:0]
	}
	if len(l.ends) > before {
		l.wake()
	}
}

// end is where the last whole event ends.
func (l *EventLog) end() int {
	if n := len(l.ends); n > 0 {
		return l.ends[n-1]
	}
	return 0
}

func (l *EventLog) wake() {
	close(l.more)
	l.more = make(chan struct{})
}

// Copy adds a stream to its end. The fault is that of one that broke off without an event
// for it.
func (l *EventLog) Copy(body io.ReadCloser) *api.Error {
	defer func() { _ = body.Close() }() // nothing is left to be written
	buf := make([]byte, generation.ChunkBytes)
	for {
		n, err := body.Read(buf)
		l.Add(buf[:n])
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return edge.Cancelled()
		}
	}
}

// close says that no more events come.
func (l *EventLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over, l.line = true, nil
	l.wake()
}

func (l *EventLog) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cap(l.text) + 8*cap(l.ends)
}

// read copies what follows a place, which it moves on. Where nothing does, over says that
// nothing will, and more is closed when something has come.
func (l *EventLog) read(p []byte, at *int) (n int, over bool, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = copy(p, l.text[min(*at, l.end()):l.end()])
	*at += n
	return n, l.over, l.more
}

// from is the place of an event; those that have not come follow the last.
func (l *EventLog) from(event int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if event = min(event, len(l.ends)); event == 0 {
		return 0
	}
	return l.ends[event-1]
}

// pastEvents are the logs of responses that have ended, the oldest first.
type pastEvents struct {
	keys  []Key
	logs  map[Key]*EventLog
	bytes int
}

// pastBytes bounds what the logs of responses that have ended take.
const pastBytes = 32 << 20

func (p *pastEvents) keep(k Key, l *EventLog) {
	if p.logs == nil {
		p.logs = map[Key]*EventLog{}
	}
	p.keys = append(p.keys, k)
	p.logs[k] = l
	for p.bytes += l.size(); p.bytes > pastBytes; {
		p.drop(p.keys[0])
	}
}

func (p *pastEvents) drop(k Key) {
	l := p.logs[k]
	if l == nil {
		return
	}
	delete(p.logs, k)
	p.bytes -= l.size()
	for i := range p.keys {
		if p.keys[i] == k {
			p.keys = append(p.keys[:i], p.keys[i+1:]...)
			return
		}
	}
}

// eventsOf gives the log of a response; nil where this process has none.
func (b *Runs) eventsOf(k Key) *EventLog {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.runs[k]; r != nil {
		return r.Events
	}
	return b.past.logs[k]
}

// Forget drops the events of a response that was deleted, or of a tenant's where id is "".
func (b *Runs) Forget(tenant, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.past.logs {
		if k.tenant == tenant && (id == "" || k.id == id) {
			b.past.drop(k)
		}
	}
}

// BeginEvents begins the log of a run with what is known of its response at once: a client
// that is cut off early needs its id.
func (c *Call) BeginEvents(run *Run, e answer.Encoder) {
	b := &c.Responses.Runs
	b.mu.Lock()
	run.Events = newEventLog()
	b.mu.Unlock()
	if e, ok := e.(*responses.Encoder); ok {
		run.Events.Add(e.AppendQueued(nil))
	}
}

// Follower is a response body: the events of a log behind a place, as they come. Its
// owner is the connection's goroutine.
type Follower struct {
	log   *EventLog
	at    int
	gone  <-chan struct{}
	every time.Duration // between heartbeats
	stop  func()        // nil: nothing is to be stopped
	ended bool
}

// Follow reads the events of a log from one on.
func (c *Call) Follow(l *EventLog, event int) *Follower {
	return &Follower{log: l, at: l.from(event), gone: c.Gone(), every: c.Responses.heartbeatEvery}
}

// Read implements io.Reader.
func (f *Follower) Read(p []byte) (int, error) {
	n, over, more := f.log.read(p, &f.at)
	switch {
	case n > 0:
		return n, nil
	case over:
		f.ended = true
		return 0, io.EOF
	}
	timer := time.NewTimer(f.every)
	defer timer.Stop()
	select {
	case <-more:
		return f.Read(p)
	case <-f.gone:
		return 0, edge.ErrHungUp
	case <-timer.C:
		return copy(p, answer.Heartbeat), nil
	}
}

// Failure is never one: the events hold it.
func (f *Follower) Failure() *api.Error { return nil }

// IsComplete reports whether the last event was read.
func (f *Follower) IsComplete() bool { return f.ended }

// Close implements io.Closer. The response goes on without this client.
func (f *Follower) Close() error {
	if f.stop != nil {
		f.stop()
	}
	return nil
}

// streamResponse answers GET with stream=true: the events of a response behind the one with
// the number starting_after.
func (c *Call) streamResponse() *api.Error {
	next := 0
	if raw := c.Ctx.QueryArgs().Peek("starting_after"); raw != nil {
		n, ok := jsonbody.ParseIndex(string(raw))
		if !ok {
			return api.RefuseParam("invalid_value", "starting_after", "starting_after is %s; it must be the sequence_number of an event", jsonbody.HeaderQuote(string(raw)))
		}
		next = n + 1
	}
	r, fault := c.findResponse()
	if fault != nil {
		return fault
	}
	if l := c.Responses.Runs.eventsOf(Key{r.Tenant, r.ID}); l != nil {
		c.Events(c.Follow(l, next))
		return nil
	}
	l := newEventLog()
	f := c.Follow(l, 0)
	over := make(chan struct{})
	f.stop = sync.OnceFunc(func() { close(over) })
	go c.Responses.tellEnd(l, r, next, over)
	c.Events(f)
	return nil
}

// tellEnd writes the last event of a response that another process computes, or has computed,
// once the store has it.
func (s *Responses) tellEnd(l *EventLog, r *conversation.Response, number int, over <-chan struct{}) {
	defer l.close()
	ticker := time.NewTicker(s.Runs.LookEvery)
	defer ticker.Stop()
	for !r.Finished() && !r.Lost {
		select {
		case <-over:
			return
		case <-s.running.Aborted():
			return
		case <-ticker.C:
		}
		ctx, cancel := historyContext()
		found, err := s.config.Store.FindResponse(ctx, r.Tenant, r.ID)
		cancel()
		if err != nil {
			return // deleted, or the store is away: the stream breaks, and the client asks again
		}
		r = found
	}
	status := r.Status
	if r.Lost {
		status = "failed"
	}
	event := append([]byte("event: response."), status...)
	event = append(append(event, "\ndata: {\"type\":\"response."...), status...)
	event = strconv.AppendInt(append(event, `","sequence_number":`...), int64(number), 10)
	event = append(append(append(event, `,"response":`...), bytes.ReplaceAll(objectOf(r), []byte{'\n'}, []byte{' '})...), answer.EventEnd...)
	l.Add(event)
}
