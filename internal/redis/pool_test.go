package redis

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/reference"
)

// ownServer is a Redis of a test's own, to be stopped and killed.
type ownServer struct {
	t      *testing.T
	folder string
	more   []string
	cmd    *exec.Cmd
	passed sync.RWMutex // held for reading by each connection that is passed on
}

func startServer(t *testing.T, more ...string) *ownServer {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		reference.Missing(t, "redis", "no redis-server on the PATH, to be killed")
	}
	folder, err := os.MkdirTemp("", "redis") //nolint:usetesting // the name of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	s := &ownServer{t: t, folder: folder, more: more}
	t.Cleanup(func() {
		s.kill()
		_ = os.RemoveAll(folder)
	})
	s.start()
	return s
}

func (s *ownServer) socket() string { return filepath.Join(s.folder, "socket") }

func (s *ownServer) start() {
	s.t.Helper()
	arguments := append([]string{"--port", "0", "--unixsocket", s.socket(), "--save", "", "--appendonly", "no", "--dir", s.folder}, s.more...)
	s.cmd = exec.Command("redis-server", arguments...) //nolint:gosec // of this test
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("unix", s.socket())
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(end) {
			s.t.Fatal(err)
		}
	}
}

func (s *ownServer) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // it was killed
		s.cmd = nil
	}
}

func (s *ownServer) signal(what syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(what); err != nil {
		s.t.Fatal(err)
	}
}

// proxy is a port of TCP before the server, whose connections last as long as the server's.
func (s *ownServer) proxy() string {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.serve(l)
	return l.Addr().String()
}

// allPassed returns when all connections that are passed on have ended.
func (s *ownServer) allPassed() {
	s.passed.Lock()
	defer s.passed.Unlock()
}

// serve passes what comes to a port on to the server.
func (s *ownServer) serve(l net.Listener) {
	s.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			s.passed.RLock()
			go func() {
				defer s.passed.RUnlock()
				defer near.Close()
				far, err := net.Dial("unix", s.socket())
				if err != nil {
					return
				}
				defer far.Close()
				go func() {
					_, _ = io.Copy(far, near)
					_ = far.Close()
				}()
				_, _ = io.Copy(near, far)
			}()
		}
	}()
}

func openPool(t *testing.T, url string, o Options) *Pool {
	t.Helper()
	if o.Dial == 0 {
		o.Dial = 20 * time.Second
	}
	if o.RoundTrip == 0 {
		o.RoundTrip = 20 * time.Second
	}
	p, err := Open(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func ping(t *testing.T, p *Pool) {
	t.Helper()
	if reply, err := p.Do(t.Context(), "PING"); err != nil || reply != "PONG" {
		t.Fatalf("%v, %v", reply, err)
	}
}

func TestURLs(t *testing.T) {
	for url, want := range map[string]string{
		"redis://":                     "tcp localhost:6379 0",
		"redis://host:1/3":             "tcp host:1 1",
		"redis://:secret@[::1]/3":      "tcp [::1]:6379 3",
		"rediss://u:secret@host?db=2":  "tcp host:6379 5",
		"rediss://h?skip_verify=true":  "tcp h:6379 2",
		"unix:///tmp/s?db=1":           "unix /tmp/s 1",
		"http://host":                  `the scheme is "http", want redis, or rediss for TLS`,
		"redis://host/x":               `the database is "x", want a number`,
		"redis://host?pool_size=3":     `the option "pool_size" is unknown; db is one, and with rediss skip_verify`,
		"redis://host?skip_verify=yes": `the option "skip_verify" is unknown; db is one, and with rediss skip_verify`,
		"rediss://h?skip_verify=maybe": `skip_verify is "maybe", want true or false`,
		"redis://:secret@host:port":    `invalid port ":port" after host`,
	} {
		s, err := parse(url)
		got := s.network + " " + s.address + " " + string(rune('0'+len(s.options)))
		if err != nil {
			got = err.Error()
		}
		if got != want || strings.Contains(got, "secret") {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

// A pipeline is one round trip; what is refused in it spoils nothing else.
func TestPipeline(t *testing.T) {
	p := openPool(t, "unix://"+startServer(t).socket(), Options{})
	large := strings.Repeat("x", 1<<20)
	replies, err := p.Pipeline(t.Context(), []Command{{"SET", []any{"k", large}}, {"HGET", []any{"k", "f"}}, {"NOSUCH", nil}, {"GET", []any{"k"}}})
	if err != nil || len(replies) != 4 || replies[0] != "OK" {
		t.Fatalf("%.60v, %v", replies, err)
	}
	if wrong, ok := replies[1].(Error); !ok || !IsWrongType(wrong) {
		t.Errorf("%v", replies[1])
	}
	if got, _ := replies[3].([]byte); string(got) != large {
		t.Errorf("%d bytes", len(got))
	}
	s := NewScript("return {KEYS[1], ARGV[1]}")
	if _, err := p.Pipeline(t.Context(), []Command{s.Command([]string{"a"}, []any{7})}); err != nil {
		t.Error(err)
	}
	for range 2 { // the server does not know it, then does
		if got, err := Strings(s.Run(t.Context(), p, []string{"a"}, []any{7})); err != nil || strings.Join(got, " ") != "a 7" {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// A server that is restarted while connections are idle costs no call where the system tells that they have ended, and
// one where it does not.
func TestRestartedServer(t *testing.T) {
	s := startServer(t)
	for name, url := range map[string]string{"tcp": "redis://" + s.proxy(), "unix": "unix://" + s.socket()} {
		t.Run(name, func(t *testing.T) {
			p := openPool(t, url, Options{})
			var wg sync.WaitGroup
			for range 8 { // several connections
				wg.Go(func() { _, _ = p.Do(t.Context(), "BLPOP", "none", "0.1") })
			}
			wg.Wait()
			if p.idle.IdleCount() < 2 {
				t.Fatalf("%d idle connections", p.idle.IdleCount())
			}
			s.kill()
			s.allPassed()
			s.start()
			if name == "unix" || runtime.GOOS != "linux" {
				if _, err := p.Do(t.Context(), "PING"); err == nil {
					t.Fatal("a connection to a server that was killed is answered")
				}
			}
			ping(t, p)
			ping(t, p)
		})
	}
}

// A server that is stopped costs each call its time and no more, and the calls after it go on.
func TestStoppedServer(t *testing.T) {
	s := startServer(t)
	for name, url := range map[string]string{"tcp": "redis://" + s.proxy(), "unix": "unix://" + s.socket()} {
		t.Run(name, func(t *testing.T) {
			p := openPool(t, url, Options{RoundTrip: 50 * time.Millisecond})
			var err error
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
				if _, err = p.Do(t.Context(), "PING"); err == nil {
					break
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			s.signal(syscall.SIGSTOP)
			large := strings.Repeat("x", 8<<20) // more than a socket takes
			for _, args := range [][]any{{"k"}, {"k", large}} {
				_, err := p.Do(t.Context(), []string{"", "GET", "SET"}[len(args)], args...)
				if failed := (net.Error)(nil); !errors.As(err, &failed) || !failed.Timeout() {
					t.Errorf("%d arguments: %v", len(args), err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := p.Do(ctx, "GET", "k"); err == nil {
				t.Error("a stopped server answers")
			}
			s.signal(syscall.SIGCONT)
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
				if _, err = p.Do(t.Context(), "PING"); err == nil {
					break
				}
			}
			if err != nil {
				t.Errorf("when it goes on: %v", err)
			}
		})
	}
}

// A password that is wrong is told with the server's words, and without the password.
func TestPasswords(t *testing.T) {
	address := startServer(t, "--requirepass", "right").proxy()
	ping(t, openPool(t, "redis://:right@"+address+"/1", Options{}))
	ping(t, openPool(t, "redis://default:right@"+address, Options{}))
	for url, want := range map[string]string{"redis://:secret@" + address: "WRONGPASS", "redis://" + address: "NOAUTH"} {
		if _, err := openPool(t, url, Options{}).Do(t.Context(), "GET", "k"); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Over TLS the server's certificate is checked, and a server without TLS is none.
func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	certFile, keyFile := filepath.Join(folder, "cert"), filepath.Join(folder, "key")
	if err := errors.Join(os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := startServer(t)
	address := s.overTLS(certFile, keyFile)
	ping(t, openPool(t, "rediss://"+address+"?skip_verify=true", Options{}))
	if _, err := openPool(t, "rediss://"+address, Options{}).Do(t.Context(), "PING"); err == nil || !strings.Contains(err.Error(), "certificate") || !strings.Contains(err.Error(), address) {
		t.Errorf("a certificate of an unknown authority: %v", err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, url := range []string{"rediss://:x@" + silent.Addr().String(), "redis://:x@" + silent.Addr().String()} {
		if _, err := openPool(t, url, Options{Dial: 20 * time.Millisecond}).Do(t.Context(), "PING"); err == nil {
			t.Errorf("%s: a server that says nothing is one", url)
		}
	}
}

// A caller whose time is over before there is a connection leaves the connecting to the next.
func TestSlowDialling(t *testing.T) {
	s := startServer(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 8)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	p := openPool(t, "redis://:right@"+l.Addr().String(), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := p.Do(ctx, "PING")
		failed <- err
	}()
	near := <-accepted // it waits for the answer to its password
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("the caller got %v", err)
	}
	far, err := net.Dial("unix", s.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if _, err := io.WriteString(near, "+OK\r\n"); err != nil { // to the password, which the server below has none of
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); len(p.late) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection is lost")
		}
	}
	var auth [64]byte
	if n, err := near.Read(auth[:]); !strings.Contains(string(auth[:n]), "AUTH") {
		t.Fatalf("%q, %v", auth[:n], err)
	}
	go func() { _, _ = io.Copy(far, near) }()
	go func() { _, _ = io.Copy(near, far) }()
	ping(t, p)
	if len(accepted) != 0 {
		t.Error("it was connected again")
	}
	_ = near.Close()
}

// overTLS is a port that speaks TLS before the server.
func (s *ownServer) overTLS(certFile, keyFile string) string {
	s.t.Helper()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		s.t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	if err != nil {
		s.t.Fatal(err)
	}
	s.serve(l)
	return l.Addr().String()
}
