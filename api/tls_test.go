package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"weir/internal/memory"
	"weir/internal/reference"
)

// authority signs certificates of a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue signs a certificate that is good until then, for 127.0.0.1 and for clients.
func (a *authority) issue(name string, until time.Time) (certificate, key []byte) {
	a.t.Helper()
	own := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, own.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// client is a TLS configuration that trusts a, with a certificate that by issued; a
// nil by is none.
func (a *authority) client(by *authority, name string, until time.Time) *tls.Config {
	a.t.Helper()
	c := &tls.Config{RootCAs: a.pool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	if by != nil {
		pair, err := tls.X509KeyPair(by.issue(name, until))
		if err != nil {
			a.t.Fatal(err)
		}
		// Sent whatever the server asks for: a foreign one, too.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return c
}

// files writes a server's certificate into a folder.
func (a *authority) files(clientCA bool) TLSFiles {
	a.t.Helper()
	dir := a.t.TempDir()
	f := TLSFiles{Certificate: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	certificate, key := a.issue("server", time.Now().Add(time.Hour))
	write(a.t, f.Certificate, certificate)
	write(a.t, f.Key, key)
	if clientCA {
		f.ClientCA = filepath.Join(dir, "ca.crt")
		write(a.t, f.ClientCA, a.pem)
	}
	return f
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serveTLS runs a server over TLS.
func serveTLS(t *testing.T, f TLSFiles, c Config, h *handlerFunc) (addr string, s *Server, held *TLS) {
	t.Helper()
	held, err := NewTLS(f)
	if err != nil {
		t.Fatal(err)
	}
	c.TLS, c.ClientCertificates = held.Config(), true
	addr, s = serve(t, c, h)
	return addr, s, held
}

func httpsClient(t *testing.T, c *tls.Config) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: c}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

func future() time.Time { return time.Now().Add(time.Hour) }

// whoCalls answers with the common name of the verified client certificate.
func whoCalls() *handlerFunc {
	return &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) {
		name := "nobody"
		if c := Peer(ctx); c != nil {
			name = c.Subject.CommonName
		}
		ctx.SetBodyString(name)
	}}
}

// What a client certificate proves: that of the trusted authority is the caller's,
// none is no tenant's, and an expired or foreign one ends the handshake.
func TestClientCertificatesOnTheWire(t *testing.T) {
	ours, foreign := newAuthority(t, "ours"), newAuthority(t, "foreign")
	config := DefaultConfig()
	failed := make(chan string, 8)
	config.Hooks.OnHandshakeError = func(why string, _ error) { failed <- why }
	h := whoCalls()
	addr, _, _ := serveTLS(t, ours.files(true), config, h)
	for _, c := range []struct {
		name   string
		client *tls.Config
		want   string // "": refused
	}{
		{"none", ours.client(nil, "", future()), "nobody"},
		{"ours", ours.client(ours, "acme", future()), "acme"},
		{"expired", ours.client(ours, "acme", time.Now().Add(-time.Hour)), ""},
		{"foreign", ours.client(foreign, "acme", future()), ""},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			config := c.client.Clone()
			config.MaxVersion = version
			res, err := httpsClient(t, config).Get("https://" + addr + "/")
			if c.want == "" {
				if err == nil {
					t.Errorf("%s: a request passed", c.name)
				} else if got := <-failed; got != HandshakeRefused {
					t.Errorf("%s: %s, want %s", c.name, got, HandshakeRefused)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			body, _ := io.ReadAll(res.Body)
			if string(body) != c.want || res.TLS.Version != version {
				t.Errorf("%s: %s over %x", c.name, body, res.TLS.Version)
			}
		}
	}
	if n := h.refused.Load(); n != 0 {
		t.Errorf("%d refusals of requests that never were", n)
	}
}

// Bytes that are no handshake: HTTP is told what is wrong, all else ends, and nothing
// of it counts as a request.
func TestWhatIsNoHandshake(t *testing.T) {
	t.Parallel()
	config := DefaultConfig()
	config.ReadTimeout = 500 * time.Millisecond
	failed := make(chan string, 8)
	config.Hooks.OnHandshakeError = func(why string, _ error) { failed <- why }
	h := whoCalls()
	ours := newAuthority(t, "ours")
	addr, s, _ := serveTLS(t, ours.files(false), config, h)
	for _, c := range []struct{ name, sent, answer, why string }{
		{"http", get("/v1/models"), "400 Bad Request", HandshakePlain},
		{"a large http body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 40000\r\n\r\n" + strings.Repeat("x", 40000), "HTTPS", HandshakePlain},
		{"garbage", strings.Repeat("\x00\xff", 300), "", HandshakeGarbage},
		{"a broken hello", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", "", HandshakeRefused},
		{"half a hello", "\x16\x03\x01\x02\x00\x01\x00", "", HandshakeTimeout},
		{"nothing", "", "", HandshakeTimeout},
	} {
		conn := dial(t, addr)
		send(t, conn, c.sent)
		answer, _ := io.ReadAll(conn)
		if !strings.Contains(string(answer), c.answer) {
			t.Errorf("%s: the answer is %q", c.name, answer)
		}
		select {
		case why := <-failed:
			if why != c.why {
				t.Errorf("%s: %s, want %s", c.name, why, c.why)
			}
		case <-time.After(patience):
			t.Fatalf("%s: no failure was told", c.name)
		}
	}
	conn := dial(t, addr)
	_ = conn.Close()
	if why := <-failed; why != HandshakeHangup {
		t.Errorf("a hang-up is %s", why)
	}
	if n := h.refused.Load(); n != 0 {
		t.Errorf("%d refusals of requests that never were", n)
	}
	for end := time.Now().Add(patience); s.Stats().Connections > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections are left", s.Stats().Connections)
		}
	}
	if old := ours.client(nil, "", future()); true {
		old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		if c, err := tls.Dial("tcp", addr, old); err == nil {
			_ = c.Close()
			t.Error("TLS 1.1 is spoken")
		}
	}
}

// Slow handshakes have places only until others need them.
func TestSlowHandshakesMakePlace(t *testing.T) {
	t.Parallel()
	config := DefaultConfig()
	config.MaxConnections = 50
	var evicted atomic.Int32
	config.Hooks.OnEvicted = func() { evicted.Add(1) }
	ours := newAuthority(t, "ours")
	addr, s, _ := serveTLS(t, ours.files(false), config, whoCalls())
	for range config.MaxConnections {
		send(t, dial(t, addr), "\x16\x03\x01")
	}
	restLonger(t, s, config.MaxConnections)
	for range 5 {
		res, err := httpsClient(t, ours.client(nil, "", future())).Get("https://" + addr + "/")
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("behind slow handshakes: %v %v", res, err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
	}
	if evicted.Load() == 0 {
		t.Error("no slow handshake was evicted")
	}
}

// Beside 2,000 handshakes that do not go on, on a server of 2,000 places, every new
// client gets in, without waiting for their deadline.
func TestManySlowHandshakesLockNoOneOut(t *testing.T) {
	reference.Slow(t)
	config := DefaultConfig()
	config.MaxConnections = 2000
	ours := newAuthority(t, "ours")
	addr, s, _ := serveTLS(t, ours.files(false), config, whoCalls())
	for range config.MaxConnections {
		send(t, dial(t, addr), "\x16\x03\x01")
	}
	restLonger(t, s, config.MaxConnections)
	var slowest atomic.Int64
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for range 10 {
				client := httpsClient(t, ours.client(nil, "", future())) // and so a new connection
				begin := time.Now()
				res, err := client.Get("https://" + addr + "/")
				if err != nil || res.StatusCode != 200 {
					t.Errorf("beside slow handshakes: %v %v", res, err)
					return
				}
				_ = res.Body.Close()
				for took := int64(time.Since(begin)); ; {
					if most := slowest.Load(); took <= most || slowest.CompareAndSwap(most, took) {
						break
					}
				}
			}
		})
	}
	wait.Wait()
	if took := time.Duration(slowest.Load()); took > handshakeTimeout/2 {
		t.Errorf("the slowest client took %v", took)
	} else {
		t.Logf("the slowest of 160 clients took %v", took)
	}
}

// A shutdown does not wait for TLS clients that read nothing: saying goodbye to one
// of them can take seconds.
func TestShutdownLeavesTLSReadersBehind(t *testing.T) {
	t.Parallel()
	config := DefaultConfig()
	config.CloseTimeout = 200 * time.Millisecond
	ours := newAuthority(t, "ours")
	const clients = 8
	var writing atomic.Int32
	large := make([]byte, 64<<20) // more than sockets hold
	addr, s, _ := serveTLS(t, ours.files(false), config, &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) {
		writing.Add(1)
		ctx.Response.SetBodyRaw(large)
	}})
	for range clients {
		conn, err := tls.Dial("tcp", addr, ours.client(nil, "", future()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.NetConn().Close() })
		send(t, conn, get("/"))
	}
	for end := time.Now().Add(patience); writing.Load() < clients; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the requests did not arrive")
		}
	}
	time.Sleep(100 * time.Millisecond) // the sockets fill up
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_ = s.Shutdown(ctx)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("the shutdown took %v", took)
	}
	if n := s.Stats().Connections; n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

// A side that ends a connection at once, to give its place away or at the end of a
// shutdown, does not wait for a client that reads nothing, which TLS's own close does.
func TestAbortDoesNotWaitForTheClient(t *testing.T) {
	ours := newAuthority(t, "ours")
	held, err := NewTLS(ours.files(false))
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []struct {
		name     string
		stopping bool
		do       func(*conn) error
	}{
		{"abort", false, (*conn).abort},
		{"close in a shutdown", true, (*conn).Close},
	} {
		there, here := net.Pipe() // holds no byte that is not read
		c := newConn(here, nil)
		c.listener = newListener(nil, DefaultConfig(), &memory.Budget{})
		c.listener.stopping.Store(end.stopping)
		c.speakTLS(held.Config(), patience)
		client := tls.Client(there, ours.client(nil, "", future()))
		done := make(chan error, 1)
		go func() {
			_, err := client.Write([]byte("x")) // after the handshake, which ends with what the server writes
			if err == nil {
				_, err = client.Read(make([]byte, 1))
			}
			done <- err
		}()
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if err := there.SetReadDeadline(longAgo); err != nil { // the client reads no more
			t.Fatal(err)
		}
		<-done
		begin := time.Now()
		if err := end.do(c); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 4*time.Second { // TLS's own close waits five
			t.Errorf("%s took %v", end.name, took)
		}
		_ = there.Close()
	}
}

// A session is resumed where no authority of clients is trusted, and never where one
// is: a resumed session would keep a certificate that may not be good any more.
func TestSessionsAreNotResumedWithClientAuthorities(t *testing.T) {
	ours := newAuthority(t, "ours")
	for _, asks := range []bool{false, true} {
		addr, _, _ := serveTLS(t, ours.files(asks), DefaultConfig(), whoCalls())
		client := ours.client(ours, "acme", future())
		client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
		resumed := false
		for range 3 {
			res, err := httpsClient(t, client).Get("https://" + addr + "/")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			resumed = resumed || res.TLS.DidResume
		}
		if resumed == asks {
			t.Errorf("authorities: %v, resumed: %v", asks, resumed)
		}
	}
}

// Where every connection has a request, the surplus one is told so over TLS.
func TestSurplusIsToldOverTLS(t *testing.T) {
	t.Parallel()
	config := DefaultConfig()
	config.MaxConnections = 1
	entered, release := make(chan struct{}), make(chan struct{})
	ours := newAuthority(t, "ours")
	addr, _, _ := serveTLS(t, ours.files(false), config, &handlerFunc{handle: func(*fasthttp.RequestCtx) {
		close(entered)
		<-release
	}})
	first := make(chan error, 1)
	go func() {
		res, err := httpsClient(t, ours.client(nil, "", future())).Get("https://" + addr + "/")
		if err == nil {
			err = res.Body.Close()
		}
		first <- err
	}()
	waitFor(t, entered, "the request")
	// A plain reader: Go's HTTP client may take an answer that comes before its request
	// for a broken connection.
	surplus, err := tls.Dial("tcp", addr, ours.client(nil, "", future()))
	if err != nil {
		t.Fatal(err)
	}
	defer surplus.Close()
	answer, err := io.ReadAll(surplus)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 503 ") {
		t.Errorf("surplus: %q %v", answer, err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// The watch works over TLS: it finds a hang-up, and one that finds nothing leaves the
// connection as it was.
func TestWatchOverTLS(t *testing.T) {
	ours := newAuthority(t, "ours")
	for _, c := range []struct {
		name  string
		leave func(*tls.Conn) error
	}{
		{"close", (*tls.Conn).Close},
		{"close_notify", (*tls.Conn).CloseWrite},
		{"cut", func(c *tls.Conn) error { return c.NetConn().Close() }},
	} {
		entered, left := make(chan struct{}), make(chan struct{})
		addr, _, _ := serveTLS(t, ours.files(false), DefaultConfig(), &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) {
			gone := Watch(ctx)
			if string(ctx.Path()) == "/last" {
				close(entered)
				<-gone
				close(left)
				return
			}
			select {
			case <-gone:
				t.Error("a hang-up that was none")
			case <-time.After(5 * time.Millisecond):
			}
			ctx.SetBody(ctx.Path())
		}})
		conn, err := tls.Dial("tcp", addr, ours.client(nil, "", future()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		reader := bufio.NewReader(conn)
		for _, path := range []string{"/a", "/b"} {
			send(t, conn, get(path)+get(path+"2")) // pipelined
			for _, want := range []string{path, path + "2"} {
				res, err := http.ReadResponse(reader, nil)
				if err != nil {
					t.Fatal(err)
				}
				if body, _ := io.ReadAll(res.Body); string(body) != want {
					t.Errorf("%s, want %s", body, want)
				}
			}
		}
		send(t, conn, get("/last"))
		waitFor(t, entered, "the request")
		if err := c.leave(conn); err != nil {
			t.Fatal(err)
		}
		waitFor(t, left, c.name)
	}
}

// New files count from the next connection on, while streams of older ones go on;
// files that are not good change nothing and are told once.
func TestCertificatesAreRefreshed(t *testing.T) {
	old, next := newAuthority(t, "old"), newAuthority(t, "next")
	files := old.files(true)
	release := make(chan struct{})
	addr, _, held := serveTLS(t, files, DefaultConfig(), &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) != "/stream" {
			return
		}
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			for range 3 {
				_, _ = w.WriteString("part ")
				_ = w.Flush()
				<-release
			}
		})
	}})
	res, err := httpsClient(t, old.client(old, "acme", future())).Get("https://" + addr + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	part := make([]byte, 5)
	if _, err := io.ReadFull(res.Body, part); err != nil {
		t.Fatal(err)
	}
	reach := func(a, client *authority) error {
		res, err := httpsClient(t, a.client(client, "acme", future())).Get("https://" + addr + "/")
		if err == nil {
			err = res.Body.Close()
		}
		return err
	}
	certificate, key := next.issue("server", future())
	write(t, files.Certificate, certificate) // and the key of another
	if changed, err := held.Refresh(); changed || err == nil || !strings.Contains(err.Error(), files.Key) || !strings.Contains(err.Error(), "--tls-key") {
		t.Errorf("half a change: %v %v", changed, err)
	}
	if changed, err := held.Refresh(); changed || err != nil {
		t.Errorf("the same again: %v %v", changed, err)
	}
	if err := reach(old, old); err != nil {
		t.Errorf("a bad pair replaced a good one: %v", err)
	}
	write(t, files.Key, key)
	write(t, files.ClientCA, next.pem)
	if changed, err := held.Refresh(); !changed || err != nil {
		t.Fatalf("a whole change: %v %v", changed, err)
	}
	if err := reach(next, next); err != nil {
		t.Errorf("the new certificate: %v", err)
	}
	if reach(old, next) == nil || reach(next, old) == nil {
		t.Error("what was replaced is still good")
	}
	close(release)
	if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "part part " {
		t.Errorf("the stream ended with %q %v", rest, err)
	}
	if err := os.Remove(files.Key); err != nil {
		t.Fatal(err)
	}
	if changed, err := held.Refresh(); changed || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is gone: %v %v", changed, err)
	}
	if err := reach(next, next); err != nil {
		t.Errorf("without the file: %v", err)
	}
}

func TestTLSFilesNameTheFault(t *testing.T) {
	a := newAuthority(t, "ours")
	good := a.files(true)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	write(t, empty, nil)
	for _, c := range []struct {
		name   string
		change func(*TLSFiles)
		want   []string
	}{
		{"no certificate", func(f *TLSFiles) { f.Certificate += ".absent" }, []string{"tls.crt.absent", "--tls-certificate"}},
		{"no key", func(f *TLSFiles) { f.Key += ".absent" }, []string{"tls.key.absent", "--tls-key"}},
		{"the certificate for a key", func(f *TLSFiles) { f.Key = f.Certificate }, []string{"tls.crt", "--tls-key"}},
		{"empty authorities", func(f *TLSFiles) { f.ClientCA = empty }, []string{"empty.pem", "--tls-client-ca"}},
		{"an endless file", func(f *TLSFiles) { f.ClientCA = "/dev/zero" }, []string{"/dev/zero", "larger than"}},
		{"a folder", func(f *TLSFiles) { f.Key = filepath.Dir(f.Key) }, []string{"directory", "--tls-key"}},
	} {
		f := good
		c.change(&f)
		_, err := NewTLS(f)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", c.name, err, want)
			}
		}
	}
}

// Large bodies and answers pass whole, and a refusal by the head reaches a client that
// is still sending.
func TestBodiesOverTLS(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t, "ours")
	h := &handlerFunc{
		handle: func(ctx *fasthttp.RequestCtx) {
			if string(ctx.Path()) == "/denied" {
				ctx.SetStatusCode(401)
				return
			}
			ctx.SetBody(ctx.PostBody())
		},
		takes: func(h *fasthttp.RequestHeader) bool { return string(h.RequestURI()) != "/denied" },
	}
	addr, _, _ := serveTLS(t, ours.files(true), DefaultConfig(), h)
	client := httpsClient(t, ours.client(ours, "acme", future()))
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			res, err := client.Post("https://"+addr+"/", "text/plain", bytes.NewReader(sent))
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d bytes came back of %d: %v", len(got), len(sent), err)
			}
			if res, err = client.Post("https://"+addr+"/denied", "text/plain", bytes.NewReader(sent)); err != nil || res.StatusCode != 401 {
				t.Errorf("denied: %v %v", res, err)
				return
			}
			_ = res.Body.Close()
		})
	}
	wait.Wait()
}
