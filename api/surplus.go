package api

import (
	"slices"
	"time"

	"github.com/valyala/fasthttp"
)

// A surplus connection is one beyond MaxConnections, all of which have a request or have had no time to send
// one. It is not left in the kernel's backlog, where its client would wait without
// knowing why. It has tellTime to send one request: ProbePaths are answered, so that a probe does not take a
// full server for a dead one or one that is not ready, and anything else gets a 503. There are SurplusConnections of them;
// the oldest, whose client has taken longest to ask, makes place for the next.

// tellTime bounds how long a surplus connection may take to send its request, and to read the answer.
const tellTime = time.Second

// placeSurplus makes c a surplus connection, and returns the one that has to go for it, if any. The caller holds the lock.
func (l *listener) placeSurplus(c *conn) (oldest *conn) {
	if front := l.surplus.Front(); front != nil && l.surplus.Len() >= l.config.SurplusConnections {
		oldest, _ = front.Value.(*conn)
		l.surplus.Remove(front)
	}
	c.surplus = l.surplus.PushBack(c)
	c.hurryUntil, c.greetingTime = time.Now().Add(tellTime), tellTime
	c.lingerBytes, c.lingerTime = 64<<10, tellTime
	return oldest
}

// removeSurplus takes c from the list, if it is there. The caller holds the lock.
func (l *listener) removeSurplus(c *conn) {
	if c.surplus != nil {
		l.surplus.Remove(c.surplus) // nothing where it was removed already
	}
}

// turnedAway tells, once, of a surplus connection that got no answer but 503.
func (l *listener) turnedAway(c *conn) {
	if c.settled.Swap(true) {
		return
	}
	if h := l.config.Hooks.OnTurnedAway; h != nil {
		h()
	}
}

// turnsAway is the refusal of a request on a surplus connection; nil for other connections, and for a probe,
// after which the connection closes.
func (s *Server) turnsAway(ctx *fasthttp.RequestCtx) *Error {
	c := connOf(ctx)
	if c == nil || c.surplus == nil {
		return nil
	}
	c.takeTime()
	if method := string(ctx.Method()); slices.Contains(s.config.ProbePaths, string(ctx.Path())) && (method == fasthttp.MethodGet || method == fasthttp.MethodHead) {
		c.settled.Store(true)
		ctx.SetConnectionClose()
		return nil
	}
	c.listener.turnedAway(c)
	return Refuse("too_many_connections",
		"the server has as many connections as it may; retry, or raise --http-max-connections and the limit on open files")
}

// takeTime ends the hurry of a surplus connection, whose request is there.
func (c *conn) takeTime() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hurryUntil = time.Time{}
}
