package signin_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"weir/api/signin"
	"weir/api/tenant"
)

// issuer is a sign-in service that gives each code once, for the verifier of its challenge.
type issuer struct {
	*httptest.Server
	key *rsa.PrivateKey

	mu     sync.Mutex
	access string            // token beside the id token
	nonce  string            // that the id token has
	codes  map[string]string // the challenge of each
	asked  int               // for discovery
	secret string            // that clients must show
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key, codes: map[string]string{}, access: "opaque"}
	mux := http.NewServeMux()
	say := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		i.asked++
		i.mu.Unlock()
		say(w, map[string]any{"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		say(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "1", Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		challenge, ok := i.codes[r.FormValue("code")]
		delete(i.codes, r.FormValue("code"))
		_, secret, _ := r.BasicAuth()
		if !ok || challenge != base64.RawURLEncoding.EncodeToString(sum[:]) || secret != i.secret && r.FormValue("client_secret") != i.secret {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
			return
		}
		say(w, map[string]any{"access_token": i.access, "token_type": "Bearer", "expires_in": 300, "id_token": i.token(t, i.nonce)})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) token(t *testing.T, nonce string) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: i.key}, (&jose.SignerOptions{}).WithHeader("kid", "1"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(s).Claims(map[string]any{"iss": i.URL, "sub": "ann", "aud": "pages", "nonce": nonce, "exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix()}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// begin is a sign-in that has come back with a code.
func (i *issuer) begin(code, nonce string) signin.Order {
	verifier := strings.Repeat("v", 43)
	sum := sha256.Sum256([]byte(verifier))
	i.mu.Lock()
	defer i.mu.Unlock()
	i.codes[code], i.nonce = base64.RawURLEncoding.EncodeToString(sum[:]), nonce
	return signin.Order{Issuer: "login", Code: code, Verifier: verifier, Redirect: "https://weir.example/console/", Nonce: nonce}
}

func service(i *issuer, good func(string) bool) *signin.Service {
	config := tenant.NewIssuer("login")
	config.URL, config.ClientID = i.URL, "pages"
	return signin.New(signin.Config{
		Issuers: func() []tenant.Issuer {
			return []tenant.Issuer{{Name: "machines", URL: "https://other.example"}, config}
		},
		Check: func(token string) error {
			if good(token) {
				return nil
			}
			return errors.New("no caller")
		},
	})
}

// A code becomes the token that this server takes: the access token, else the id token.
func TestExchange(t *testing.T) {
	i := newIssuer(t)
	isID := func(token string) bool { return strings.Count(token, ".") == 2 }
	for name, tc := range map[string]struct {
		good func(string) bool
		want func(string) bool
	}{
		"access": {func(string) bool { return true }, func(s string) bool { return s == "opaque" }},
		"id":     {isID, isID},
		"none":   {func(string) bool { return false }, nil},
	} {
		s := service(i, tc.good)
		got, fault := s.Exchange(t.Context(), i.begin("code-"+name, "n1"))
		if tc.want == nil {
			if fault == nil || fault.Status != 401 {
				t.Errorf("%s: %+v", name, fault)
			}
			continue
		}
		if fault != nil || !tc.want(got.Token) || time.Until(got.Expires) > 10*time.Minute || time.Until(got.Expires) < 0 {
			t.Errorf("%s: %+v %v", name, got, fault)
		}
	}
}

// A code is good once, for its own verifier and its own sign-in alone.
func TestExchangeRefuses(t *testing.T) {
	i := newIssuer(t)
	s := service(i, func(string) bool { return true })
	once := i.begin("once", "n")
	if _, fault := s.Exchange(t.Context(), once); fault != nil {
		t.Fatal(fault)
	}
	wrong := i.begin("wrong", "n")
	wrong.Verifier = strings.Repeat("w", 43)
	other := i.begin("other", "n")
	other.Nonce = "of another"
	nowhere := i.begin("nowhere", "n")
	nowhere.Issuer = "machines"
	for name, tc := range map[string]struct {
		order signin.Order
		code  string
	}{"twice": {once, "invalid_api_key"}, "another verifier": {wrong, "invalid_api_key"}, "another sign-in": {other, "invalid_api_key"}, "an issuer without people": {nowhere, "invalid_value"}} {
		if _, fault := s.Exchange(t.Context(), tc.order); fault == nil || fault.Code != tc.code {
			t.Errorf("%s: %v", name, fault)
		}
	}
	i.Close()
	if _, fault := s.Exchange(t.Context(), once); fault == nil || fault.Code != "identity_unavailable" || strings.Contains(fault.Message, "127.0.0.1") {
		t.Errorf("an issuer that is gone: %v", fault)
	}
}

// What an issuer says of itself is asked once, however many pages look.
func TestOfferIsRemembered(t *testing.T) {
	i := newIssuer(t)
	s := service(i, nil)
	for range 20 {
		o := s.Offer(t.Context())
		if len(o.Issuers) != 1 || o.Issuers[0].Authorize != i.URL+"/authorize" || o.Issuers[0].Scope != "openid" || o.Issuers[0].Error != "" {
			t.Fatalf("%+v", o)
		}
	}
	if i.asked != 1 {
		t.Errorf("the issuer was asked %d times", i.asked)
	}
	i.Close()
	if o := service(i, nil).Offer(t.Context()); len(o.Issuers) != 1 || o.Issuers[0].Error == "" || o.Issuers[0].Authorize != "" {
		t.Errorf("an issuer that is gone: %+v", o)
	}
}

func TestReadOrder(t *testing.T) {
	for body, want := range map[string]string{
		`{"issuer":"a","code":"b","code_verifier":"c","redirect_uri":"https://x.example/console/"}`:     "",
		`{"issuer":"a","code":"b","code_verifier":"c","redirect_uri":"http://127.0.0.1:9090/console/"}`: "",
		`{"issuer":"a","code":"b","code_verifier":"c","redirect_uri":"http://x.example/console/"}`:      "invalid_value",
		`{"issuer":"a","code":"b","code_verifier":"c","redirect_uri":"javascript:alert(1)"}`:            "invalid_value",
		`{"issuer":"a","code":"b","redirect_uri":"https://x.example/"}`:                                 "missing_required_parameter",
		`[]`: "invalid_json",
		`{"issuer":"` + strings.Repeat("a", 5000) + `","code":"b","code_verifier":"c","redirect_uri":"d"}`: "invalid_value",
		strings.Repeat(" ", 20000): "request_too_large",
	} {
		_, fault := signin.ReadOrder([]byte(body))
		got := ""
		if fault != nil {
			got = fault.Code
		}
		if got != want {
			t.Errorf("%.80s: %q, want %q", body, got, want)
		}
	}
}

func FuzzReadOrder(f *testing.F) {
	f.Add([]byte(`{"issuer":"a","code":"b","code_verifier":"c","redirect_uri":"https://x.example/"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if o, fault := signin.ReadOrder(body); fault == nil && (o.Issuer == "" || len(o.Code) > 4096 || !strings.HasPrefix(o.Redirect, "http")) {
			t.Errorf("%q is %+v", body, o)
		}
	})
}

// A page asks where people sign in; a server without issuers names none.
func ExampleService() {
	s := signin.New(signin.Config{Issuers: func() []tenant.Issuer { return nil }})
	fmt.Println(len(s.Offer(context.Background()).Issuers), "issuers")
	// Output: 0 issuers
}
