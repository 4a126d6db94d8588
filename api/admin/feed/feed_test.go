package feed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// reader is a page's connection. While held, writes wait.
type reader struct {
	httptest.ResponseRecorder

	mu   sync.Mutex
	text strings.Builder
	held chan struct{} // nil: it reads at once
}

func newReader() *reader {
	return &reader{ResponseRecorder: *httptest.NewRecorder()}
}

func (r *reader) Write(b []byte) (int, error) {
	if r.held != nil {
		<-r.held
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *reader) events() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Split(strings.TrimSuffix(r.text.String(), "\n\n"), "\n\n")
}

// look opens a page; leave closes it and waits for its end.
func look(f *Feed, r *reader) (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/", http.NoBody).WithContext(ctx))
	}()
	return func() { cancel(); <-done }
}

// counted is a snapshot that tells how many were taken.
func counted(n *atomic.Int64) Snapshot {
	return func(context.Context) (any, error) { return n.Add(1), nil }
}

func TestPagesShareSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		f := New(counted(&n), time.Second, 8)
		var leave []func()
		pages := make([]*reader, 3)
		for i := range pages {
			pages[i] = newReader()
			leave = append(leave, look(f, pages[i]))
		}
		time.Sleep(3500 * time.Millisecond)
		for _, end := range leave {
			end()
		}
		for i, p := range pages {
			if got := p.events(); len(got) != 4 || got[3] != "event: now\ndata: 4" {
				t.Errorf("page %d got %q", i, got)
			}
		}
		time.Sleep(time.Minute)
		if n.Load() != 4 {
			t.Errorf("%d snapshots, also while no page looks; want 4", n.Load())
		}
	})
}

func TestASlowPageGetsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		f := New(counted(&n), time.Second, 8)
		slow, quick := newReader(), newReader()
		slow.held = make(chan struct{})
		leaveSlow, leaveQuick := look(f, slow), look(f, quick)
		time.Sleep(10500 * time.Millisecond)
		close(slow.held)
		synctest.Wait()
		if got := slow.events(); len(got) != 2 || got[1] != "event: now\ndata: 11" {
			t.Errorf("the slow page got %q, want the first event and the newest", got)
		}
		if got := quick.events(); len(got) != 11 {
			t.Errorf("the other page got %d events beside it, want 11", len(got))
		}
		leaveSlow()
		leaveQuick()
	})
}

func TestPagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(counted(new(atomic.Int64)), time.Second, 2)
		first, second := look(f, newReader()), look(f, newReader())
		synctest.Wait()
		third := newReader()
		look(f, third)()
		if third.Code != http.StatusTooManyRequests || !strings.Contains(third.events()[0], "2 pages look") {
			t.Errorf("a third page is answered %d %q", third.Code, third.events())
		}
		first()
		fourth := newReader()
		leave := look(f, fourth)
		synctest.Wait()
		if got := fourth.events(); got[0] != "event: now\ndata: 1" {
			t.Errorf("a page that comes when one has gone gets %q at once", got)
		}
		leave()
		second()
	})
}

func TestAStreamEndsAfterAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(counted(new(atomic.Int64)), time.Minute, 1)
		began := time.Now()
		f.ServeHTTP(newReader(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		if took := time.Since(began); took != time.Hour {
			t.Errorf("it lasts %v", took)
		}
	})
}

func TestTroubleIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(func(context.Context) (any, error) { return nil, errors.New("a \"step\" hangs") }, time.Second, 1)
		p := newReader()
		leave := look(f, p)
		synctest.Wait()
		if got := p.events()[0]; got != `event: trouble`+"\n"+`data: {"error":"a \"step\" hangs"}` {
			t.Errorf("the page got %q", got)
		}
		leave()
	})
}

// Example shows a number that grows, once a second.
func Example() {
	var n int
	f := New(func(context.Context) (any, error) { n++; return map[string]int{"requests": n}, nil }, time.Second, 16)
	server := httptest.NewServer(f)
	defer server.Close()
	res, err := http.Get(server.URL)
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	event := make([]byte, len("event: now\ndata: {\"requests\":1}"))
	_, _ = res.Body.Read(event)
	fmt.Println(string(event))
	// Output:
	// event: now
	// data: {"requests":1}
}
