package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"weir/internal/socket"
)

// server is what a URL says.
type server struct {
	network, address string
	options          []redigo.DialOption
}

// parse reads a URL. Its errors do not have the URL, which may have a password in it.
func parse(text string) (s server, err error) {
	u, err := url.Parse(text)
	if err != nil {
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err
		}
		return s, err
	}
	query, db := u.Query(), ""
	switch u.Scheme {
	case "redis", "rediss":
		host, port := u.Hostname(), u.Port()
		if host == "" {
			host = "localhost"
		}
		if port == "" {
			port = "6379"
		}
		s.network, s.address = "tcp", net.JoinHostPort(host, port)
		db = strings.Trim(u.Path, "/")
		if u.Scheme == "rediss" {
			config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
			if query.Has("skip_verify") {
				if config.InsecureSkipVerify, err = strconv.ParseBool(query.Get("skip_verify")); err != nil {
					return s, fmt.Errorf("skip_verify is %q, want true or false", query.Get("skip_verify"))
				}
				query.Del("skip_verify")
			}
			s.options = append(s.options, redigo.DialUseTLS(true), redigo.DialTLSConfig(config))
		}
	case "unix":
		s.network, s.address = "unix", u.Path
	default:
		return s, fmt.Errorf("the scheme is %q, want redis, or rediss for TLS", u.Scheme)
	}
	if query.Has("db") {
		db = query.Get("db")
		query.Del("db")
	}
	for name := range query {
		return s, fmt.Errorf("the option %q is unknown; db is one, and with rediss skip_verify", name)
	}
	if db != "" {
		number, err := strconv.Atoi(db)
		if err != nil || number < 0 {
			return s, fmt.Errorf("the database is %q, want a number", db)
		}
		s.options = append(s.options, redigo.DialDatabase(number))
	}
	if password, ok := u.User.Password(); ok {
		s.options = append(s.options, redigo.DialUsername(u.User.Username()), redigo.DialPassword(password))
	}
	return s, nil
}

// connect connects within the time for it.
func (s *server) connect(ctx context.Context, o Options) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Dial)
	defer cancel()
	c := &conn{roundTrip: o.RoundTrip, born: time.Now().UnixNano()}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		plain, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		deadline, _ := ctx.Deadline()
		c.socket = socket.Quick(plain)
		return undated{c.socket}, c.socket.SetDeadline(deadline)
	}
	options := append([]redigo.DialOption{redigo.DialContextFunc(dial), redigo.DialTLSHandshakeTimeout(o.Dial)}, s.options...)
	inner, err := redigo.DialContext(ctx, s.network, s.address, options...)
	if err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" { // says where
			return nil, err
		}
		return nil, s.failed(err)
	}
	c.Conn = inner
	return c, nil
}

// undated leaves deadlines to the round trips: the library would take them away.
type undated struct{ net.Conn }

func (undated) SetDeadline(time.Time) error      { return nil }
func (undated) SetReadDeadline(time.Time) error  { return nil }
func (undated) SetWriteDeadline(time.Time) error { return nil }

// conn is a connection whose round trips have deadlines, for writing and for reading alike.
type conn struct {
	redigo.Conn
	socket    net.Conn
	roundTrip time.Duration
	born      int64 // Unix nanoseconds
}

// DoContext is a round trip: of one command, or without a name of a list of commands.
func (c *conn) DoContext(ctx context.Context, name string, args ...any) (any, error) {
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	if name != "" {
		return c.Do(name, args...)
	}
	for _, list := range args {
		commands, _ := list.([]Command)
		for i := range commands {
			if err := c.Send(commands[i].Name, commands[i].Args...); err != nil {
				return nil, err
			}
		}
	}
	return c.Do("")
}

// ReceiveContext implements redigo.ConnWithContext.
func (c *conn) ReceiveContext(ctx context.Context) (any, error) {
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	return c.Receive()
}

// begin sets the deadline of a round trip.
func (c *conn) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	by := time.Now().Add(c.roundTrip)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(by) {
		by = deadline
	}
	return c.socket.SetDeadline(by)
}

// isQuiet reports that the server has neither ended the connection nor said what it was not asked, as far as the system
// tells.
func (c *conn) isQuiet() bool {
	q, ok := c.socket.(socket.IdleChecker)
	return !ok || q.IsQuiet()
}
