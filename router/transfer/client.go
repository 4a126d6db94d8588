package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/router"
)

const (
	// What is expected of a replica that was never asked: a network of one gigabit a second.
	firstRate  = 100e6 // bytes a second
	firstDelay = 5 * time.Millisecond

	leastSample = 1 << 20 // bytes that tell a rate
	mostRemotes = 1024    // that are remembered

	forgotten = time.Minute // how long a rate that was learned holds at least

	restAfterFault    = 5 * time.Second
	restAfterMismatch = time.Minute // another model or build stays one for a while
)

// Client asks other weirs for blocks, and learns how fast they come. It is safe for concurrent use.
type Client struct {
	sign func(now time.Time) string
	http *http.Client

	mu      sync.Mutex
	remotes map[string]*remote
	all     remote // of whichever were asked
}

// remote is what is known of a replica and a model.
type remote struct {
	rate  float64 // bytes a second
	delay time.Duration
	rests time.Time // until then nothing is asked of it
	heard time.Time // when rate and delay were last learned
}

// NewClient makes a client that proves with sign that it is a peer.
func NewClient(sign func(now time.Time) string) *Client {
	return &Client{sign: sign, remotes: make(map[string]*remote), all: remote{rate: firstRate, delay: firstDelay}, http: &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			MaxIdleConnsPerHost: mostAsks, IdleConnTimeout: time.Minute, DisableCompression: true, ReadBufferSize: 256 << 10,
			TLSHandshakeTimeout: 2 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the statement goes nowhere else
	}}
}

// Close ends the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// known is what is known of a replica. The caller holds mu.
func (c *Client) known(from *inference.KVTransfer) *remote {
	name := from.RemoteURL + " " + from.RemoteModel
	r := c.remotes[name]
	if r == nil {
		if len(c.remotes) >= mostRemotes {
			clear(c.remotes)
		}
		r = &remote{rate: firstRate, delay: firstDelay}
		c.remotes[name] = r
	}
	return r
}

// Estimate is how long so many bytes are expected to take; false: the replica failed a moment ago.
func (c *Client) Estimate(from inference.KVTransfer, size int64) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, now := c.known(&from), time.Now()
	if now.Before(r.rests) {
		return 0, false
	}
	r.forget(now)
	return r.delay + time.Duration(float64(size)/r.rate*float64(time.Second)), true
}

// forget lets a network that was slow be tried again.
func (r *remote) forget(now time.Time) {
	if now.Sub(r.heard) > forgotten {
		r.rate, r.delay = max(r.rate, firstRate), min(r.delay, firstDelay)
	}
}

// Rate is how many bytes a second come from the replicas that were asked recently.
func (c *Client) Rate() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.forget(time.Now())
	return c.all.rate
}

// Fetch asks for blocks and gives those that come to the sink.
func (c *Client) Fetch(ctx context.Context, from inference.KVTransfer, asked *kvcache.TransferAsk, to kvcache.TransferSink) error {
	began := time.Now()
	res, err := c.ask(ctx, from, asked)
	if err == nil {
		defer func() { _ = res.Body.Close() }() // only read
		delay := time.Since(began)
		var got int64
		if got, err = read(res.Body, asked, to); err == nil && got > 0 || ctx.Err() != nil {
			c.learn(&from, delay, got, time.Since(began)-delay)
		}
	}
	if fault, ok := errors.AsType[*kvcache.TransferFault](err); ok && !errors.Is(ctx.Err(), context.Canceled) {
		c.rest(&from, fault.Reason)
	}
	return err
}

// read takes in an answer, and returns the bytes of its blocks.
func read(body io.Reader, asked *kvcache.TransferAsk, to kvcache.TransferSink) (got int64, err error) {
	in, err := NewReader(body, asked.Identity)
	if err != nil {
		return 0, err
	}
	for _, h := range asked.Hashes {
		ids, err := in.Next(h, to.Room())
		if err != nil || ids == nil {
			return got, err
		}
		got += int64(asked.Identity.BlockBytes)
		if err := to.Take(ids); err != nil {
			return got, err
		}
	}
	return got, in.End()
}

// ask sends the request. The answer is one that has blocks.
func (c *Client) ask(ctx context.Context, from inference.KVTransfer, asked *kvcache.TransferAsk) (*http.Response, error) {
	fault := func(reason string, err error) error { return &kvcache.TransferFault{Reason: reason, Err: err} }
	base, err := url.Parse(from.RemoteURL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fault(kvcache.TransferRefused, fmt.Errorf("%.100q is no URL of a weir's admin listener", from.RemoteURL))
	}
	body := ask{Model: asked.Model, Domain: asked.Domain, Identity: asked.Identity}
	for _, h := range asked.Hashes[:min(len(asked.Hashes), MostBlocks)] {
		body.Hashes = append(body.Hashes, h.String())
	}
	text, err := json.Marshal(&body)
	if err != nil {
		return nil, fault(kvcache.TransferRefused, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(from.RemoteURL, "/")+Path, bytes.NewReader(text))
	if err != nil {
		return nil, fault(kvcache.TransferRefused, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(router.CallerHeader, c.sign(time.Now()))
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fault(kvcache.TransferUnreachable, err)
	}
	if res.StatusCode == http.StatusOK && res.Header.Get("Content-Type") == ContentType {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }()                // only read
	said, _ := io.ReadAll(io.LimitReader(res.Body, 2<<10)) // what cannot be read says nothing
	reason := kvcache.TransferRefused
	if res.StatusCode == http.StatusConflict {
		reason = kvcache.TransferMismatch
	}
	return nil, fault(reason, fmt.Errorf("status %d: %.500q", res.StatusCode, said))
}

// learn takes in how long an answer took to begin, and its blocks to come.
func (c *Client) learn(from *inference.KVTransfer, delay time.Duration, size int64, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.known(from).learn(now, delay, size, took)
	c.all.learn(now, delay, size, took)
}

func (r *remote) learn(now time.Time, delay time.Duration, size int64, took time.Duration) {
	r.delay += (delay - r.delay) / 2
	r.heard = now
	if rate := float64(size) / max(took.Seconds(), 1e-6); size >= leastSample || rate < r.rate { // few bytes tell no high rate
		r.rate = max((r.rate+rate)/2, 1)
	}
}

// rest keeps further requests from a replica that has failed.
func (c *Client) rest(from *inference.KVTransfer, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := restAfterFault
	switch reason {
	case kvcache.TransferMismatch:
		rest = restAfterMismatch
	case kvcache.TransferMissing:
		return
	}
	c.known(from).rests = time.Now().Add(rest)
}
