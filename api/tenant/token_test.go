package tenant

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// testIssuer is a server with discovery document and keys.
type testIssuer struct {
	*httptest.Server
	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetches atomic.Int64
	broken  atomic.Bool
}

func newTestIssuer(t *testing.T) *testIssuer {
	t.Helper()
	i := new(testIssuer)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		if i.broken.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: i.keys})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// add publishes a key, and returns what signs with it.
func (i *testIssuer) add(t *testing.T, id string, key crypto.Signer, algorithm jose.SignatureAlgorithm) jose.Signer {
	t.Helper()
	i.mu.Lock()
	i.keys = append(i.keys, jose.JSONWebKey{Key: key.Public(), KeyID: id, Use: "sig"})
	i.mu.Unlock()
	return signer(t, algorithm, key, id)
}

func signer(t *testing.T, algorithm jose.SignatureAlgorithm, key any, id string) jose.Signer {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", id))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// token signs claims: those of a good token with changes, nil leaving one out.
func (i *testIssuer) token(t *testing.T, s jose.Signer, changes map[string]any) string {
	t.Helper()
	signed := must(s.Sign(must(json.Marshal(i.claims(changes)))))
	return must(signed.CompactSerialize())
}

func (i *testIssuer) claims(changes map[string]any) map[string]any {
	claims := map[string]any{
		"iss": i.URL, "sub": "someone", "aud": "weir", "exp": time.Now().Add(time.Hour).Unix(),
		"iat": time.Now().Unix(), "org": "acme",
	}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

// tokensOf starts an authenticator that takes tokens of the issuer, whose first
// fetch has ended.
func tokensOf(t *testing.T, i *testIssuer, change func(*Issuer), tenants ...Tenant) *Authenticator {
	t.Helper()
	c := NewIssuer("corp")
	c.URL, c.Audiences = i.URL, []string{"weir", "other-name"}
	if change != nil {
		change(&c)
	}
	d := mustDirectory(t, tenants...)
	if err := ValidateIssuers([]Issuer{c}, d); err != nil {
		t.Fatal(err)
	}
	fetched := make(chan error, 1000)
	tokens := NewTokens([]Issuer{c}, func(_ string, err error) { fetched <- err })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		tokens.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	<-fetched
	return newTestAuthenticator(t, Config{Directory: d, Tokens: tokens})
}

func TestTokensOfAnIssuer(t *testing.T) {
	i := newTestIssuer(t)
	rs := i.add(t, "r1", rsaKey(), jose.RS256)
	es := i.add(t, "e1", must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), jose.ES256)
	a := tokensOf(t, i, func(c *Issuer) { c.TenantClaim, c.ScopeClaim = "org", "scope" },
		named("acme", nil), named("beta", nil), named("team", func(t *Tenant) {
			t.Claims = []Claim{{"corp", "groups", "team-users"}, {"corp", "sub", "robot"}}
		}))
	inference := ScopeInference
	for _, c := range []struct {
		signer  jose.Signer
		changes map[string]any
		tenant  string
		scope   Scope
	}{
		{rs, nil, "acme", inference},
		{es, nil, "acme", inference},
		{rs, map[string]any{"aud": []string{"x", "other-name"}}, "acme", inference},
		{rs, map[string]any{"org": "beta"}, "beta", inference},
		{rs, map[string]any{"groups": []string{"everybody", "team-users"}}, "team", inference}, // a tenant's claims come first
		{rs, map[string]any{"sub": "robot", "org": nil}, "team", inference},
		{rs, map[string]any{"scope": "openid weir:admin weir:metrics"}, "acme", ScopeAdmin | ScopeMetrics},
		{rs, map[string]any{"scope": []string{"weir:inference", "weir:admin"}}, "acme", inference | ScopeAdmin},
		{rs, map[string]any{"scope": "admin weir:root"}, "acme", inference},
		{rs, map[string]any{"nbf": time.Now().Add(30 * time.Second).Unix()}, "acme", inference}, // clocks differ
	} {
		raw := i.token(t, c.signer, c.changes)
		for range 2 { // the second time from memory
			got, err := a.Identify(Proof{Secret: raw}, time.Now())
			if err != nil || got.Tenant.Name != c.tenant || got.Scope != c.scope {
				t.Errorf("%v gives %+v, %v", c.changes, got, err)
			}
		}
	}
}

// An issuer whose tenants are listed speaks for no other, and several issuers that name tenants need such lists.
func TestIssuersNameTheirOwnTenants(t *testing.T) {
	i := newTestIssuer(t)
	rs := i.add(t, "r1", rsaKey(), jose.RS256)
	a := tokensOf(t, i, func(c *Issuer) { c.TenantClaim, c.Tenants = "org", []string{"beta"} }, named("acme", nil), named("beta", nil))
	if c, err := a.Identify(Proof{Secret: i.token(t, rs, map[string]any{"org": "beta"})}, time.Now()); err != nil || c.Tenant.Name != "beta" {
		t.Errorf("its own tenant: %v %v", c, err)
	}
	if _, err := a.Identify(Proof{Secret: i.token(t, rs, map[string]any{"org": "acme"})}, time.Now()); err == nil || !strings.Contains(Reason(err), `may not name the tenant "acme"`) {
		t.Errorf("another tenant: %v", err)
	}
	one, two := NewIssuer("one"), NewIssuer("two")
	one.URL, two.URL, one.Audiences, two.Audiences = "https://one.example", "https://two.example", []string{"weir"}, []string{"weir"}
	one.TenantClaim, two.TenantClaim, one.Tenants = "org", "org", []string{"acme"}
	if err := ValidateIssuers([]Issuer{one, two}, &Directory{}); err == nil || !strings.Contains(err.Error(), `"two"`) || strings.Contains(err.Error(), `"one"`) {
		t.Errorf("an issuer without a list beside another: %v", err)
	}
	two.TenantClaim = ""
	if err := ValidateIssuers([]Issuer{one, two}, &Directory{}); err != nil {
		t.Error(err)
	}
}

// Each of these would be a way in.
func TestForgedAndForeignTokensAreDenied(t *testing.T) {
	i := newTestIssuer(t)
	rs := i.add(t, "r1", rsaKey(), jose.RS256)
	i.keys = append(i.keys, jose.JSONWebKey{Key: []byte("a symmetric key that should not be there"), KeyID: "h1"},
		jose.JSONWebKey{Key: must(rsa.GenerateKey(rand.Reader, 2048)).Public(), KeyID: "enc", Use: "enc"})
	a := tokensOf(t, i, func(c *Issuer) { c.TenantClaim = "org" }, named("acme", nil))
	stranger := must(rsa.GenerateKey(rand.Reader, 2048))
	public := must(x509.MarshalPKIXPublicKey(rsaKey().Public()))
	part := func(v any) string { return base64.RawURLEncoding.EncodeToString(must(json.Marshal(v))) }
	good := i.token(t, rs, nil)
	parts := strings.Split(good, ".")
	for name, raw := range map[string]string{
		"alg none":              part(map[string]string{"alg": "none"}) + "." + parts[1] + ".",
		"alg None":              part(map[string]string{"alg": "None", "kid": "r1"}) + "." + parts[1] + "." + parts[2],
		"no signature":          parts[0] + "." + parts[1] + ".",
		"HS256, public key":     i.token(t, signer(t, jose.HS256, public, "r1"), nil),
		"HS256, published key":  i.token(t, signer(t, jose.HS256, []byte("a symmetric key that should not be there"), "h1"), nil),
		"RS512, not configured": i.token(t, signer(t, jose.RS512, rsaKey(), "r1"), nil),
		"another key":           i.token(t, signer(t, jose.RS256, stranger, "r1"), nil),
		"an unknown key":        i.token(t, signer(t, jose.RS256, stranger, "r9"), nil),
		"another body":          parts[0] + "." + part(i.claims(map[string]any{"org": "acme", "sub": "root"})) + "." + parts[2],
		"another issuer":        i.token(t, rs, map[string]any{"iss": "https://evil.example"}),
		"issuer with a slash":   i.token(t, rs, map[string]any{"iss": i.URL + "/"}),
		"no issuer":             i.token(t, rs, map[string]any{"iss": nil}),
		"another audience":      i.token(t, rs, map[string]any{"aud": "someone-else"}),
		"no audience":           i.token(t, rs, map[string]any{"aud": nil}),
		"expired":               i.token(t, rs, map[string]any{"exp": time.Now().Add(-time.Second).Unix()}),
		"no end":                i.token(t, rs, map[string]any{"exp": nil}),
		"not yet":               i.token(t, rs, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"no tenant":             i.token(t, rs, map[string]any{"org": nil}),
		"unknown tenant":        i.token(t, rs, map[string]any{"org": "stranger"}),
		"tenant is no text":     i.token(t, rs, map[string]any{"org": []string{"acme"}}),
		"everybody":             i.token(t, rs, map[string]any{"org": "*"}),
		"too long":              good + strings.Repeat("A", maxTokenBytes),
		"four parts":            good + ".x",
		"a key in its own header": must(must(must(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: stranger}, &jose.SignerOptions{EmbedJWK: true})).
			Sign(must(json.Marshal(i.claims(nil))))).CompactSerialize()),
	} {
		var d *Denied
		if c, err := a.Identify(Proof{Secret: raw}, time.Now()); !errors.As(err, &d) || c.Tenant != nil {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	if _, err := a.Identify(Proof{Secret: good}, time.Now()); err != nil {
		t.Errorf("the good token: %v", err)
	}
	var d *Denied
	if _, err := a.Identify(Proof{Secret: good}, time.Now().Add(2*time.Hour)); !errors.As(err, &d) {
		t.Errorf("a token in memory has expired: %v", err)
	}
}

// A flood of tokens with invented key ids does not become a flood at the issuer.
func TestUnknownKeysAreFetchedNowAndThen(t *testing.T) {
	i := newTestIssuer(t)
	i.add(t, "r1", rsaKey(), jose.RS256)
	a := tokensOf(t, i, func(c *Issuer) { c.TenantClaim = "org" }, named("acme", nil))
	for n := range 200 {
		_, _ = a.Identify(Proof{Secret: i.token(t, signer(t, jose.RS256, rsaKey(), "x"+string(rune('a'+n%26))), nil)}, time.Now())
	}
	if n := i.fetches.Load(); n != 1 {
		t.Errorf("%d fetches", n)
	}
}

func TestIssuerThatIsDown(t *testing.T) {
	i := newTestIssuer(t)
	rs := i.add(t, "r1", rsaKey(), jose.RS256)
	i.broken.Store(true)
	a := tokensOf(t, i, func(c *Issuer) { c.TenantClaim = "org" }, named("acme", nil))
	if _, err := a.Identify(Proof{Secret: i.token(t, rs, nil)}, time.Now()); !errors.Is(err, ErrUnverifiable) {
		t.Errorf("no key was ever fetched: %v", err)
	}
	if c, err := a.Identify(Proof{Secret: "sk-other"}, time.Now()); errors.Is(err, ErrUnverifiable) || c.Tenant != nil {
		t.Errorf("a key has nothing to do with it: %v", err)
	}
}

func FuzzToken(f *testing.F) {
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2kuZXhhbXBsZSJ9.")
	f.Add("eyJ..")
	i := NewIssuer("corp")
	i.URL, i.Audiences, i.TenantClaim = "https://i.example", []string{"weir"}, "org"
	tokens := NewTokens([]Issuer{i}, nil)
	none := []jose.JSONWebKey{}
	tokens.issuers[i.URL].keys.keys.Store(&none)
	tokens.issuers[i.URL].keys.ended, tokens.issuers[i.URL].keys.last = true, time.Now().Add(time.Hour) // so that no caller waits
	a := newTestAuthenticator(f, Config{Tokens: tokens})
	f.Fuzz(func(t *testing.T, raw string) {
		if c, err := a.Identify(Proof{Secret: raw}, time.Now()); err == nil {
			t.Fatalf("%q is %+v", raw, c)
		}
	})
}
