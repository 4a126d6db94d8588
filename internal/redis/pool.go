// Package redis is how weir asks Redis: a pool of connections to the server of a URL, and round trips that end with
// their context's deadline or after a bound of the pool's own. Commands and replies are those of the redigo library.
//
//	pool, err := redis.Open("redis://127.0.0.1:6379/0", redis.Options{Dial: time.Second, RoundTrip: time.Second})
//	…
//	fields, err := redis.StringMap(pool.Do(ctx, "HGETALL", "a key"))
package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	redigo "github.com/gomodule/redigo/redis"
)

// Error is a reply by which the server refuses a command.
type Error = redigo.Error

// Command is one of several commands of a round trip.
type Command struct {
	Name string
	Args []any
}

// Options bound what a pool's calls take.
type Options struct {
	Dial      time.Duration // to connect, encryption, password and database included
	RoundTrip time.Duration // of a round trip whose context has no earlier deadline
}

// perCore is how many connections a pool has at most, by processor.
const perCore = 10

// Pool is a pool of connections to one server. Its methods may be called at the same time, except for Close, which is
// the last.
type Pool struct {
	server server
	o      Options
	idle   redigo.Pool
	broken atomic.Int64 // Unix nanoseconds; what was connected before is not used again: the server ended connections

	// Connecting goes on where a caller's time is over: the next caller finds the connection.
	alive context.Context //nolint:containedctx // of the pool: it ends with Close
	close context.CancelFunc
	dials chan struct{} // held by those who connect
	late  chan *conn    // connected too late for their callers
	wg    sync.WaitGroup
}

// Open makes a pool for a URL such as redis://:PASSWORD@HOST:6379/0, or rediss:// for TLS. It connects with the first
// call, so that a server which cannot be reached now is no error.
func Open(url string, o Options) (*Pool, error) {
	s, err := parse(url)
	if err != nil {
		return nil, err
	}
	most := perCore * runtime.GOMAXPROCS(0)
	p := &Pool{server: s, o: o, dials: make(chan struct{}, most), late: make(chan *conn, most)}
	p.alive, p.close = context.WithCancel(context.Background())
	p.idle = redigo.Pool{MaxIdle: most, MaxActive: most, Wait: true, IdleTimeout: 30 * time.Minute, DialContext: p.dial, TestOnBorrow: p.check}
	return p, nil
}

// Close closes the connections.
func (p *Pool) Close() error {
	p.close()
	p.wg.Wait()
	for len(p.late) > 0 {
		_ = (<-p.late).Close() // nothing waits for it
	}
	return p.idle.Close()
}

// Do asks one command. A reply that refuses it is an error of type Error.
func (p *Pool) Do(ctx context.Context, name string, args ...any) (any, error) {
	c, err := p.idle.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close() // back into the pool
	reply, err := redigo.DoContext(c, ctx, name, args...)
	return reply, p.note(err)
}

// Pipeline asks several commands in one round trip. Those that are refused have an Error as their reply.
func (p *Pool) Pipeline(ctx context.Context, commands []Command) ([]any, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	c, err := p.idle.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close() // back into the pool
	replies, err := redigo.Values(redigo.DoContext(c, ctx, "", commands))
	return replies, p.note(err)
}

// note remembers that the server ends connections: the others of before have ended, too.
func (p *Pool) note(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		p.broken.Store(time.Now().UnixNano())
	}
	return err
}

var errEnded = errors.New("the connection has ended")

// check tells whether an idle connection may be used.
func (p *Pool) check(c redigo.Conn, _ time.Time) error {
	if c, ok := c.(*conn); !ok || c.born < p.broken.Load() || !c.isQuiet() {
		return errEnded
	}
	return nil
}

// dial connects for a caller, who waits for it no longer than the context says.
func (p *Pool) dial(ctx context.Context) (redigo.Conn, error) {
	select {
	case c := <-p.late:
		if p.check(c, time.Time{}) == nil {
			return c, nil
		}
		_ = c.Close() // it has ended
	default:
	}
	select {
	case p.dials <- struct{}{}:
	case <-ctx.Done():
		return nil, p.server.failed(ctx.Err())
	}
	type result struct {
		c   *conn
		err error
	}
	done := make(chan result)
	p.wg.Go(func() {
		defer func() { <-p.dials }()
		c, err := p.server.connect(p.alive, p.o)
		select {
		case done <- result{c, err}:
			return
		case <-ctx.Done():
		}
		if err != nil {
			return
		}
		select {
		case p.late <- c:
		default:
			_ = c.Close() // there are enough
		}
	})
	select {
	case r := <-done:
		if r.err != nil {
			return nil, r.err
		}
		return r.c, nil
	case <-ctx.Done():
		return nil, p.server.failed(ctx.Err())
	}
}

// Strings reads a reply that is a list of texts.
func Strings(reply any, err error) ([]string, error) { return redigo.Strings(reply, err) }

// StringMap reads a reply that is a list of names with their texts.
func StringMap(reply any, err error) (map[string]string, error) { return redigo.StringMap(reply, err) }

// Script is a script that the server keeps.
type Script struct{ text, hash string }

// NewScript makes a script of a text in Lua.
func NewScript(text string) *Script {
	return &Script{text, redigo.NewScript(-1, text).Hash()}
}

// Command runs the script, of which the server must know.
func (s *Script) Command(keys []string, args []any) Command {
	return Command{"EVALSHA", s.args(s.hash, keys, args)}
}

// Run runs the script, and tells the server its text where that does not know it.
func (s *Script) Run(ctx context.Context, p *Pool, keys []string, args []any) (any, error) {
	all := s.args(s.hash, keys, args)
	reply, err := p.Do(ctx, "EVALSHA", all...)
	if IsUnknownScript(err) {
		all[0] = s.text
		reply, err = p.Do(ctx, "EVAL", all...)
	}
	return reply, err
}

// Load tells the server the script.
func (s *Script) Load(ctx context.Context, p *Pool) error {
	_, err := p.Do(ctx, "SCRIPT", "LOAD", s.text)
	return err
}

func (s *Script) args(script string, keys []string, args []any) []any {
	all := make([]any, 0, 2+len(keys)+len(args))
	all = append(all, script, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	return append(all, args...)
}

// IsUnknownScript reports that the server does not know a script: it was restarted.
func IsUnknownScript(err error) bool { return hasPrefix(err, "NOSCRIPT ") }

// IsWrongType reports that a key holds something of another type.
func IsWrongType(err error) bool { return hasPrefix(err, "WRONGTYPE ") }

func hasPrefix(err error, prefix string) bool {
	var refused Error
	return errors.As(err, &refused) && strings.HasPrefix(string(refused), prefix)
}

// failed says which server could not be connected to.
func (s *server) failed(err error) error { return fmt.Errorf("connect to %s: %w", s.address, err) }
