package store_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/api/replay"
	"weir/api/usage"
	"weir/internal/store/storetest"
	"weir/telemetry/audit"
)

// proxy stands before a server and can be cut.
type proxy struct {
	server, address string
	mu              sync.Mutex
	listener        net.Listener // nil while cut
	conns           []net.Conn
}

// through returns a URL that leads through a proxy.
func through(t *testing.T, text string) (string, *proxy) {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{server: u.Host, address: "127.0.0.1:0"}
	if err := p.join(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.cut)
	u.Host = p.address
	return u.String(), p
}

func (p *proxy) join() error {
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener, p.address = listener, listener.Addr().String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", p.server)
			if err != nil {
				client.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, client, server)
			p.mu.Unlock()
			for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
				go func() {
					io.Copy(pair[0], pair[1])
					pair[0].Close()
				}()
			}
		}
	}()
	return nil
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return
	}
	p.listener.Close()
	p.listener = nil
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// The server goes away and comes back: calls fail at once and say so, usage waits and
// counts once, and no idempotency key is stuck.
func TestServerGoneAndBack(t *testing.T) {
	address, link := through(t, storetest.Postgres(t))
	var failures atomic.Int32
	s := openStore(t, address, opts{
		Lease: 300 * time.Millisecond, FlushEvery: 20 * time.Millisecond, Failed: func(error) { failures.Add(1) },
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	held := begin(t, s, request("held", 1), replay.Begun).Claim
	s.Record(usage.Record{Ended: ledgerDay})
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}

	link.cut()
	started := time.Now()
	for range 100 {
		s.Record(usage.Record{Ended: ledgerDay})
	}
	if _, err := s.Begin(ctx, request("k", 1)); err == nil {
		t.Error("Begin answers without a server")
	}
	if _, err := s.Append(ctx, audit.Change{Actor: "a", Action: "b"}); err == nil {
		t.Error("Append answers without a server")
	}
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("the failures took %v", took)
	}
	storetest.WaitUntil(t, func() bool { return failures.Load() > 0 })

	if err := link.join(); err != nil {
		t.Fatal(err)
	}
	storetest.WaitUntil(t, func() bool { return s.Stats().Waiting == 0 })
	if report := wholeReport(t, s); report.Total.Requests != 101 || s.Stats().Dropped != 0 {
		t.Errorf("%+v, %+v", report.Total, s.Stats())
	}
	storetest.WaitUntil(t, func() bool {
		got, err := s.Begin(ctx, request("k", 1))
		return err == nil && got.State == replay.Begun
	})
	finish(t, s, held, nil)
	if _, err := s.Append(ctx, audit.Change{Actor: "a", Action: "b"}); err != nil {
		t.Error(err)
	}
}

// The disk is full, and has room again.
func TestFullDisk(t *testing.T) {
	s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "weir.db"), opts{FlushEvery: time.Hour})
	ctx := t.Context()
	full := func(pages string) { storetest.Exec(t, s.DB, "PRAGMA max_page_count = "+pages) }
	change := audit.Change{Actor: "a", Action: "b", Details: strings.Repeat("x", audit.MaxDetailsBytes)}
	s.Record(usage.Record{Ended: ledgerDay})

	full("100")
	written, err := int64(0), error(nil)
	for err == nil {
		if _, err = s.Append(ctx, change); err == nil {
			written++
		}
	}
	if !strings.Contains(err.Error(), "full") || written == 0 {
		t.Fatalf("after %d entries: %v", written, err)
	}
	if _, err := s.Begin(ctx, request("k", 1)); err != nil && !strings.Contains(err.Error(), "full") {
		t.Errorf("Begin: %v", err)
	}
	if head, err := s.Log.Verify(ctx); err != nil || head.Sequence != written {
		t.Errorf("the log has %v, %v; %d entries were acknowledged", head, err, written)
	}

	full("100000")
	if e, err := s.Append(ctx, change); err != nil || e.Sequence != written+1 {
		t.Errorf("entry %d, %v", e.Sequence, err)
	}
	if _, err := s.Log.Verify(ctx); errors.Is(err, audit.ErrBroken) || err != nil {
		t.Error(err)
	}
	if report := wholeReport(t, s); report.Total.Requests != 1 {
		t.Errorf("%+v", report.Total)
	}
}
