package server_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os/exec"
	"strings"
	"testing"

	"weir/api"
	"weir/api/apitest"
	"weir/api/tenant"
	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/servertest"
)

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
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	p := apitest.NewPKI(t)
	p.Issue("acme", "acme")
	p.Issue("stranger", "stranger")
	s := servertest.Start(t, acmeOverTLS(p))
	if !strings.HasPrefix(s.API, "https://") || !strings.HasPrefix(s.Admin, "http://") {
		t.Fatalf("the listeners are %s and %s", s.API, s.Admin)
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
			if status, text := call(t, p.Client(c.file), s.API+"/v1/completions", c.key, body); status != c.status {
				t.Errorf("certificate %q, key %q, %d bytes: %d %s", c.file, c.key, len(body), status, text)
			}
		}
	}
	if _, text := s.Get(s.Admin + "/admin/requests?tenant=acme&state=ended"); strings.Count(text, `"tenant":"acme"`)+strings.Count(text, `"tenant": "acme"`) != 4 {
		t.Errorf("the requests of the certificate's tenant: %s", text)
	}
	if answer, err := http.Get("http" + strings.TrimPrefix(s.API, "https") + "/v1/models"); err != nil || answer.StatusCode != 400 {
		t.Errorf("http on the port of https: %v %v", answer, err)
	}
	s.AwaitMetric(`weir_tls_handshake_errors_total{reason="plain_http"} 1`)
}

// A stream that its client leaves frees its blocks, over TLS too.
func TestHangUpOverTLSFreesTheCache(t *testing.T) {
	p := apitest.NewPKI(t)
	s := servertest.Start(t, func(c *configs.Config) { c.Server.TLS = p.Files() })
	answer, err := p.Client("").Post(s.API+"/v1/chat/completions", "application/json", strings.NewReader(servertest.LongAnswer+"900}"))
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
		s.AwaitMetric(want)
	}
}

// A reload takes the certificate that the files hold now, while streams go on, and
// keeps the old one where the new one is not good.
func TestReloadOfCertificates(t *testing.T) {
	p := apitest.NewPKI(t)
	var from servertest.Source
	s := servertest.StartFrom(t, &from, acmeOverTLS(p))
	served := func() string {
		c, err := tls.Dial("tcp", strings.TrimPrefix(s.API, "https://"), p.Client("").Transport.(*http.Transport).TLSClientConfig) //nolint:forcetypeassert // client's
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	p.Issue("acme", "acme")
	answer, err := p.Client("acme").Post(s.API+"/v1/chat/completions", "application/json", strings.NewReader(servertest.LongAnswer+"60}"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	stream := bufio.NewReader(answer.Body)
	if _, err := stream.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	p.Issue("server", "second")
	if status, body := s.Reload(); status != 200 || served() != "second" {
		t.Errorf("%d %s; served is %s", status, body, served())
	}
	p.Issue("other", "third")
	from.Change(func(c *configs.Config) { c.Server.TLS.Certificate = p.Path("other.crt") }, nil)
	if status, body := s.Reload(); status < 400 || !strings.Contains(body, "--tls-key") || served() != "second" {
		t.Errorf("a key of another certificate: %d %s; served is %s", status, body, served())
	}
	from.Change(func(c *configs.Config) { c.Server.TLS.Key = p.Path("other.key") }, nil)
	if status, body := s.Reload(); status != 200 || !strings.Contains(body, "server.tls_certificate") || served() != "third" {
		t.Errorf("other files: %d %s; served is %s", status, body, served())
	}
	from.Change(func(c *configs.Config) { c.Server.TLS, c.Tenants = api.TLSFiles{}, []tenant.Tenant{tenant.New("acme")} }, nil)
	if status, body := s.Reload(); status != 200 || !strings.Contains(body, "need a restart") || served() != "third" {
		t.Errorf("without TLS: %d %s; served is %s", status, body, served())
	}
	if rest, err := io.ReadAll(stream); err != nil || !strings.Contains(string(rest), "[DONE]") {
		t.Errorf("the stream did not go on: %v", err)
	}
}

// curl speaks with the server, by certificate and without.
func TestCurlOverTLS(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed")
	}
	p := apitest.NewPKI(t)
	p.Issue("acme", "acme")
	s := servertest.Start(t, acmeOverTLS(p))
	run := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), curl, append([]string{"-sS", "--max-time", "60", "--cacert", p.Path("ca.crt"), "-w", "\n%{http_code} HTTP/%{http_version}"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("curl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if got := run(s.API + "/v1/models"); !strings.HasSuffix(got, "401 HTTP/1.1") {
		t.Errorf("without a certificate: %s", got)
	}
	got := run("--cert", p.Path("acme.crt"), "--key", p.Path("acme.key"), "-N", "-H", "Content-Type: application/json",
		"-d", servertest.LongAnswer+"4}", s.API+"/v1/chat/completions")
	if !strings.Contains(got, "data: [DONE]") || !strings.HasSuffix(got, "200 HTTP/1.1") {
		t.Errorf("a stream: %s", got)
	}
}

// The admin listener speaks TLS where it is told to, to clients that trust its authority.
func TestAdminListenerOverTLS(t *testing.T) {
	p := apitest.NewPKI(t)
	s := servertest.Start(t, func(c *configs.Config) { c.Server.TLS, c.Server.TLSAdmin = p.Files(), true })
	if !strings.HasPrefix(s.Admin, "https://") {
		t.Fatalf("the admin listener is %s", s.Admin)
	}
	r, err := p.Client("").Get(s.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text := servertest.Body(t, r); r.StatusCode != http.StatusOK || !strings.Contains(text, "weir-default") {
		t.Errorf("%d %.300s", r.StatusCode, text)
	}
	if _, err := http.Get(s.Admin + "/metrics"); err == nil {
		t.Error("a client trusts an authority that it does not know")
	}
}

// acmeOverTLS has one tenant, whose certificate is cn:acme, and a key of another.
func acmeOverTLS(p *apitest.PKI) func(*configs.Config) {
	return func(c *configs.Config) {
		acme := tenant.New("acme")
		acme.Certificates = []string{"cn:acme"}
		c.Server.TLS = p.Files()
		c.Tenants = []tenant.Tenant{acme, tenant.New(tenant.Rest)}
		c.API.APIKeys = []string{"sk-0123456789"}
	}
}
