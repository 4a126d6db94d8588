// Package feed sends snapshots to the pages that look at a server, as server-sent events: one is taken per interval while somebody
// looks, encoded once for all, and a page that is slow gets the newest one when it is ready for it.
package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Snapshot is what a page is shown, as JSON. It ends with ctx.
type Snapshot func(ctx context.Context) (any, error)

// Feed is a handler of GET requests. It is safe for concurrent use; while no page looks it has no goroutine.
type Feed struct {
	snapshot Snapshot
	every    time.Duration
	most     int           // pages at once
	longest  time.Duration // of a stream: a page comes back, with a key that is checked again

	mu    sync.Mutex
	pages map[*page]struct{}
	last  []byte // event; nil before the first
	stop  context.CancelFunc
}

// page is one that looks. Its channel holds the newest event at most.
type page struct{ events chan []byte }

// New is a feed of a snapshot per interval, to so many pages at once.
func New(snapshot Snapshot, every time.Duration, most int) *Feed {
	return &Feed{snapshot: snapshot, every: every, most: most, longest: time.Hour, pages: make(map[*page]struct{})}
}

// ServeHTTP sends events until the page goes, or for an hour.
func (f *Feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, ok := f.join()
	if !ok {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "5")
		w.Header().Set("Connection", "close") // the admin listener has few
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprintf(w, "{\"error\": \"%d pages look at this server; close one of them\"}\n", f.most)
		return
	}
	defer f.leave(p)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	end := time.NewTimer(f.longest)
	defer end.Stop()
	for {
		select {
		case event := <-p.events:
			_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // where the writer has none, the connection's own counts
			if _, err := w.Write(event); err != nil || control.Flush() != nil {
				return
			}
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// writeTimeout is how long a page may take to read an event.
const writeTimeout = 10 * time.Second

// join adds a page, which gets the newest event at once; false where there are too many.
func (f *Feed) join() (*page, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pages) >= f.most {
		return nil, false
	}
	p := &page{events: make(chan []byte, 1)}
	f.pages[p] = struct{}{}
	if len(f.pages) == 1 {
		ctx, stop := context.WithCancel(context.Background())
		f.stop, f.last = stop, nil
		go f.run(ctx)
	} else if f.last != nil {
		p.events <- f.last
	}
	return p, true
}

func (f *Feed) leave(p *page) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pages, p)
	if len(f.pages) == 0 {
		f.stop()
	}
}

// run takes snapshots until no page looks.
func (f *Feed) run(ctx context.Context) {
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		f.send(ctx, f.event(ctx))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// event is a snapshot as an event, or why there is none.
func (f *Feed) event(ctx context.Context) []byte {
	v, err := f.snapshot(ctx)
	var text []byte
	if err == nil {
		text, err = json.Marshal(v)
	}
	if err != nil {
		text, _ = json.Marshal(map[string]string{"error": err.Error()}) // strings always can be
		return append(append([]byte("event: trouble\ndata: "), text...), "\n\n"...)
	}
	return append(append([]byte("event: now\ndata: "), text...), "\n\n"...)
}

// send gives an event to all pages; one that has not taken the last gets this in its place.
func (f *Feed) send(ctx context.Context, event []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return // the pages that asked for it have gone
	}
	f.last = event
	for p := range f.pages {
		select {
		case <-p.events:
		default:
		}
		p.events <- event
	}
}
