package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/api"
	"weir/api/tenant"
	"weir/configs"
	"weir/telemetry"
)

// pki is a test's authority, and the files of a server that it signed.
type pki struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{t: t, dir: t.TempDir()}
	p.key = p.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, p.key.Public(), p.key)
	if err != nil {
		t.Fatal(err)
	}
	if p.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	p.write("ca.crt", "CERTIFICATE", der)
	p.issue("server", "server")
	return p
}

func (p *pki) newKey() *ecdsa.PrivateKey {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	return key
}

func (p *pki) path(file string) string { return filepath.Join(p.dir, file) }

func (p *pki) write(file, kind string, der []byte) {
	p.t.Helper()
	if err := os.WriteFile(p.path(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// issue writes FILE.crt and FILE.key with a certificate for a common name.
func (p *pki) issue(file, name string) {
	p.t.Helper()
	own := p.newKey()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, p.cert, own.Public(), p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(file+".crt", "CERTIFICATE", der)
	p.write(file+".key", "PRIVATE KEY", text)
}

func (p *pki) files() api.TLSFiles {
	return api.TLSFiles{Certificate: p.path("server.crt"), Key: p.path("server.key"), ClientCA: p.path("ca.crt")}
}

// client trusts the authority and shows the certificate of a file, "" for none.
func (p *pki) client(file string) *http.Client {
	p.t.Helper()
	transport := &http.Transport{TLSClientConfig: p.clientTLS(file)}
	p.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// clientTLS shows the certificate of a name; "" shows none.
func (p *pki) clientTLS(file string) *tls.Config {
	p.t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	c.RootCAs.AddCert(p.cert)
	if file != "" {
		pair, err := tls.LoadX509KeyPair(p.path(file+".crt"), p.path(file+".key"))
		if err != nil {
			p.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// acmeOverTLS has one tenant, whose certificate is cn:acme, and a key of another.
func (p *pki) acmeOverTLS(c *configs.Config) {
	acme := tenant.New("acme")
	acme.Certificates = []string{"cn:acme"}
	c.Server.TLS = p.files()
	c.Tenants = []tenant.Tenant{acme, tenant.New(tenant.Rest)}
	c.API.APIKeys = []string{"sk-0123456789"}
}

func call(t *testing.T, client *http.Client, url, key, body string) (status int, text string) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		t.Errorf("a %d that the client did not ask for", code)
		return nil
	}})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(got)
}

// Who calls over TLS: by a tenant's certificate, by a key, with or without another
// certificate; small and large bodies alike.
func TestClientCertificatesAreCallers(t *testing.T) {
	p := newPKI(t)
	p.issue("acme", "acme")
	p.issue("stranger", "stranger")
	s := start(t, p.acmeOverTLS)
	if !strings.HasPrefix(s.api, "https://") || !strings.HasPrefix(s.metrics, "http://") {
		t.Fatalf("the listeners are %s and %s", s.api, s.metrics)
	}
	large := strings.Repeat(" ", 2<<20) + `{"prompt":"a","max_tokens":1}`
	for _, body := range []string{`{"prompt":"a","max_tokens":1}`, large} {
		for _, c := range []struct {
			file, key string
			status    int
		}{
			{"acme", "", 200}, {"acme", "sk-wrong-wrong", 200}, {"stranger", "", 401}, {"stranger", "sk-0123456789", 200},
			{"", "", 401}, {"", "sk-0123456789", 200},
		} {
			if status, text := call(t, p.client(c.file), s.api+"/v1/completions", c.key, body); status != c.status {
				t.Errorf("certificate %q, key %q, %d bytes: %d %s", c.file, c.key, len(body), status, text)
			}
		}
	}
	if _, text := s.get(s.metrics + "/admin/requests?tenant=acme&state=ended"); strings.Count(text, `"tenant":"acme"`)+strings.Count(text, `"tenant": "acme"`) != 4 {
		t.Errorf("the requests of the certificate's tenant: %s", text)
	}
	if answer, err := http.Get("http" + strings.TrimPrefix(s.api, "https") + "/v1/models"); err != nil || answer.StatusCode != 400 {
		t.Errorf("http on the port of https: %v %v", answer, err)
	}
	s.await(`weir_tls_handshake_errors_total{reason="plain_http"} 1`)
}

// A stream that its client leaves frees its blocks, over TLS too.
func TestHangUpOverTLSFreesTheCache(t *testing.T) {
	p := newPKI(t)
	s := start(t, func(c *configs.Config) { c.Server.TLS = p.files() })
	answer, err := p.client("").Post(s.api+"/v1/chat/completions", "application/json", strings.NewReader(longAnswer+"900}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(answer.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	for _, want := range []string{
		`weir_client_disconnects_total{engine="0",model_name="weir-default"} 1`,
		`vllm:num_requests_running{engine="0",model_name="weir-default"} 0`,
		`vllm:kv_cache_usage_perc{engine="0",model_name="weir-default"} 0`,
		`weir_cancel_to_free_seconds_count{engine="0",model_name="weir-default"} 1`,
	} {
		s.await(want)
	}
}

// A reload takes the certificate that the files hold now, while streams go on, and
// keeps the old one where the new one is not good.
func TestReloadOfCertificates(t *testing.T) {
	p := newPKI(t)
	var from source
	s := startFrom(t, &from, p.acmeOverTLS)
	served := func() string {
		c, err := tls.Dial("tcp", strings.TrimPrefix(s.api, "https://"), p.client("").Transport.(*http.Transport).TLSClientConfig) //nolint:forcetypeassert // client's
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	p.issue("acme", "acme")
	answer, err := p.client("acme").Post(s.api+"/v1/chat/completions", "application/json", strings.NewReader(longAnswer+"60}"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	stream := bufio.NewReader(answer.Body)
	if _, err := stream.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	p.issue("server", "second")
	if status, body := reload(t, s); status != 200 || served() != "second" {
		t.Errorf("%d %s; served is %s", status, body, served())
	}
	p.issue("other", "third")
	from.change(func(c *configs.Config) { c.Server.TLS.Certificate = p.path("other.crt") }, nil)
	if status, body := reload(t, s); status < 400 || !strings.Contains(body, "--tls-key") || served() != "second" {
		t.Errorf("a key of another certificate: %d %s; served is %s", status, body, served())
	}
	from.change(func(c *configs.Config) { c.Server.TLS.Key = p.path("other.key") }, nil)
	if status, body := reload(t, s); status != 200 || !strings.Contains(body, "server.tls_certificate") || served() != "third" {
		t.Errorf("other files: %d %s; served is %s", status, body, served())
	}
	from.change(func(c *configs.Config) { c.Server.TLS, c.Tenants = api.TLSFiles{}, []tenant.Tenant{tenant.New("acme")} }, nil)
	if status, body := reload(t, s); status != 200 || !strings.Contains(body, "need a restart") || served() != "third" {
		t.Errorf("without TLS: %d %s; served is %s", status, body, served())
	}
	if rest, err := io.ReadAll(stream); err != nil || !strings.Contains(string(rest), "[DONE]") {
		t.Errorf("the stream did not go on: %v", err)
	}
}

// Files that change are taken without being asked; bad ones are in the log once, and
// change nothing.
func TestChangedCertificatesAreTaken(t *testing.T) {
	p := newPKI(t)
	var errs lockedBuffer
	log, level, err := telemetry.NewLogger(&errs, false, telemetry.LogConfig{Level: "info", Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{log: log, level: level}
	s.config.Server.TLS = p.files()
	if err := s.newTLS(); err != nil {
		t.Fatal(err)
	}
	begin, end := background()
	defer end()
	begin(func(ctx context.Context) { s.refreshTLS(ctx, time.Millisecond) })
	wait := func(text string, times int) {
		t.Helper()
		for deadline := time.Now().Add(patience); strings.Count(errs.String(), text) < times; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the log never said %q %d times:\n%s", text, times, errs.String())
			}
		}
	}
	if err := os.WriteFile(p.path("server.crt"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	wait("the last good ones stay in force", 1)
	time.Sleep(20 * time.Millisecond)
	if n := strings.Count(errs.String(), "\n"); n > 3 { // half-written files are read, too
		t.Errorf("one bad file made %d lines:\n%s", n, errs.String())
	}
	p.issue("server", "second")
	wait("new connections get the new certificate", 1)
}

// The second listener over TLS, and weir top that looks at it.
func TestSecondListenerOverTLS(t *testing.T) {
	p := newPKI(t)
	s := start(t, func(c *configs.Config) { c.Server.TLS, c.Server.TLSAdmin = p.files(), true })
	if !strings.HasPrefix(s.metrics, "https://") {
		t.Fatalf("the second listener is %s", s.metrics)
	}
	var out, errs strings.Builder
	if code := execute([]string{"top", s.metrics, "--ca", p.path("ca.crt"), "--once", "--interval", "100ms"}, &out, &errs); code != exitOK {
		t.Fatalf("weir top: %s", errs.String())
	}
	if !strings.Contains(out.String(), "weir-default") {
		t.Errorf("weir top shows %s", out.String())
	}
	if code := execute([]string{"top", s.metrics, "--once"}, &out, &errs); code == exitOK {
		t.Error("weir top trusts an authority that nobody named")
	}
	if code := execute([]string{"top", s.metrics, "--once", "--ca", p.path("server.key")}, &out, &errs); code == exitOK || !strings.Contains(errs.String(), "has no certificate") {
		t.Errorf("a file without certificates: %s", errs.String())
	}
}

// curl speaks with the server, by certificate and without.
func TestCurlOverTLS(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed")
	}
	p := newPKI(t)
	p.issue("acme", "acme")
	s := start(t, p.acmeOverTLS)
	run := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), curl, append([]string{"-sS", "--max-time", "60", "--cacert", p.path("ca.crt"), "-w", "\n%{http_code} HTTP/%{http_version}"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("curl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if got := run(s.api + "/v1/models"); !strings.HasSuffix(got, "401 HTTP/1.1") {
		t.Errorf("without a certificate: %s", got)
	}
	got := run("--cert", p.path("acme.crt"), "--key", p.path("acme.key"), "-N", "-H", "Content-Type: application/json",
		"-d", longAnswer+"4}", s.api+"/v1/chat/completions")
	if !strings.Contains(got, "data: [DONE]") || !strings.HasSuffix(got, "200 HTTP/1.1") {
		t.Errorf("a stream: %s", got)
	}
}

func TestServeNamesTheFilesOfTLSThatItCannotUse(t *testing.T) {
	p := newPKI(t)
	var out, errs strings.Builder
	code := execute([]string{"serve", "--port", "0", "--admin-address", "off", "--tls-certificate", p.path("absent.crt"), "--tls-key", p.path("server.key")}, &out, &errs)
	if code == exitOK || !strings.Contains(errs.String(), "absent.crt") || !strings.Contains(errs.String(), "--tls-certificate") {
		t.Errorf("%d: %s", code, errs.String())
	}
}
