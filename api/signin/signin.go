// Package signin lets people sign in to weir's pages at the issuers of the configuration, by OpenID Connect's code flow with PKCE. A page
// leads the browser to the issuer and gets a code back; the server changes the code for a token at the issuer, and the page sends that
// token as any client does. The server keeps nothing: there is no cookie, and a session is as long as its token is good.
package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"weir/api"
	"weir/api/tenant"
)

const (
	askTimeout   = 10 * time.Second // of the issuer
	mostAtOnce   = 4                // codes that are changed for tokens, and issuers that are asked for what they offer
	rediscover   = 10 * time.Minute
	rediscoverIn = 5 * time.Second // after one that failed
	maxText      = 4096            // of each field of an order
	maxBody      = 16 << 10
)

// Config is what a Service is made of.
type Config struct {
	Issuers func() []tenant.Issuer         // those in force; of which the ones with a ClientID are offered
	Check   func(token string) error       // whether a token stands for a caller of this server
	Now     func() time.Time               // nil: the clock
	Failed  func(issuer string, err error) // hears why an issuer or its secret cannot be asked, which callers are not told; nil: nothing does
}

// Service is safe for concurrent use.
type Service struct {
	config Config
	places chan struct{}

	mu    sync.Mutex
	found map[string]*discovery // by the issuer's URL
}

// discovery is what an issuer says of itself.
type discovery struct {
	at       time.Time
	provider *oidc.Provider
	err      error
}

// New returns a service; without issuers that have a client id it offers nothing.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{config: c, places: make(chan struct{}, mostAtOnce), found: make(map[string]*discovery)}
}

// Offers are the issuers that people may sign in at.
type Offers struct {
	Issuers []Offer `json:"issuers"`
}

// Offer is one of them: where the browser is led, with what.
type Offer struct {
	Name      string `json:"name"`
	Authorize string `json:"authorize"`       // the issuer's authorization endpoint; "" where Error says why
	ClientID  string `json:"client_id"`       //
	Scope     string `json:"scope"`           // words with spaces between
	Error     string `json:"error,omitempty"` // why it cannot be offered now
}

// Order asks for a token.
type Order struct {
	Issuer   string `json:"issuer"` // its name
	Code     string `json:"code"`
	Verifier string `json:"code_verifier"`
	Redirect string `json:"redirect_uri"` // as the browser was led to the issuer with
	Nonce    string `json:"nonce"`        // that it was led there with
}

// Token is what a page sends as its key.
type Token struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
}

// Offer says where people may sign in.
func (s *Service) Offer(ctx context.Context) Offers {
	list := Offers{Issuers: []Offer{}}
	for _, i := range s.config.Issuers() {
		if i.ClientID == "" {
			continue
		}
		o := Offer{Name: i.Name, ClientID: i.ClientID, Scope: strings.Join(scopes(&i), " ")}
		if p, err := s.discover(ctx, &i); err != nil {
			o.Error = "the sign-in service does not say where people sign in; the server's log says more"
		} else {
			o.Authorize = p.Endpoint().AuthURL
		}
		list.Issuers = append(list.Issuers, o)
	}
	return list
}

// scopes are those that an issuer is asked for.
func scopes(i *tenant.Issuer) []string {
	if slices.Contains(i.SignInScopes, oidc.ScopeOpenID) {
		return i.SignInScopes
	}
	return append([]string{oidc.ScopeOpenID}, i.SignInScopes...)
}

// ReadOrder reads the body of a request for a token.
func ReadOrder(body []byte) (o Order, fault *api.Error) {
	if len(body) > maxBody {
		return o, api.Refuse("request_too_large", fmt.Sprintf("the order of a token has %d bytes; %d are taken", len(body), maxBody))
	}
	if err := json.Unmarshal(body, &o); err != nil {
		return o, api.Refuse("invalid_json", "the order of a token is no JSON object with texts issuer, code, code_verifier and redirect_uri")
	}
	for _, f := range []struct{ name, value string }{{"issuer", o.Issuer}, {"code", o.Code}, {"code_verifier", o.Verifier}, {"redirect_uri", o.Redirect}} {
		if f.value == "" {
			return o, api.RefuseParam("missing_required_parameter", f.name, "%s is missing", f.name)
		}
		if len(f.value) > maxText {
			return o, api.RefuseParam("invalid_value", f.name, "%s has %d bytes; %d are taken", f.name, len(f.value), maxText)
		}
	}
	if u, err := url.Parse(o.Redirect); err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return o, api.RefuseParam("invalid_value", "redirect_uri", "redirect_uri must begin with https://, or with http:// on this machine")
	}
	return o, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Exchange changes a code for a token that stands for a caller of this server: the access token where it does, else the id token.
func (s *Service) Exchange(ctx context.Context, o Order) (Token, *api.Error) {
	all := s.config.Issuers()
	at := slices.IndexFunc(all, func(i tenant.Issuer) bool { return i.Name == o.Issuer && i.ClientID != "" })
	if at < 0 {
		return Token{}, api.RefuseParam("invalid_value", "issuer", "issuer is %.80q; people sign in at issuers of the configuration that have a client_id", o.Issuer)
	}
	i := &all[at]
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return Token{}, s.unavailable(i, err)
	}
	defer leave()
	p, err := s.lookUp(ctx, i)
	if err != nil {
		return Token{}, unavailable() // and told of when it was asked
	}
	secret, err := secretOf(i)
	if err != nil {
		return Token{}, s.unavailable(i, err)
	}
	c := oauth2.Config{ClientID: i.ClientID, ClientSecret: secret, Endpoint: p.Endpoint(), RedirectURL: o.Redirect, Scopes: scopes(i)}
	got, err := c.Exchange(ctx, o.Code, oauth2.VerifierOption(o.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response != nil && refused.Response.StatusCode < http.StatusInternalServerError {
		return Token{}, api.Refuse("invalid_api_key", fmt.Sprintf("the sign-in service refused the code (%.80s); sign in once more", refused.ErrorCode))
	}
	if err != nil {
		return Token{}, s.unavailable(i, err)
	}
	return s.chosen(ctx, i, p, got, o.Nonce)
}

// chosen is the token of an answer that this server takes.
func (s *Service) chosen(ctx context.Context, i *tenant.Issuer, p *oidc.Provider, got *oauth2.Token, nonce string) (Token, *api.Error) {
	id, _ := got.Extra("id_token").(string)
	if id == "" {
		return Token{}, s.unavailable(i, errors.New("the sign-in service gave no id token"))
	}
	said, err := p.VerifierContext(ctx, &oidc.Config{ClientID: i.ClientID, SupportedSigningAlgs: i.Algorithms, Now: s.config.Now}).Verify(ctx, id)
	if err != nil || said.Nonce != nonce {
		return Token{}, api.Refuse("invalid_api_key", "the id token is not of this sign-in; sign in once more")
	}
	if err = s.config.Check(got.AccessToken); err == nil {
		return Token{Token: got.AccessToken, Expires: got.Expiry}, nil
	}
	if err = s.config.Check(id); err == nil {
		return Token{Token: id, Expires: said.Expiry}, nil
	}
	return Token{}, api.Refuse("invalid_api_key", "who signed in is no caller of this server: neither the access token nor the id token stands for a tenant, or they are for other services (audiences)")
}

// secretOf reads the client secret of an issuer, where it has one.
func secretOf(i *tenant.Issuer) (string, error) {
	if i.ClientSecretFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(i.ClientSecretFile)
	if err != nil {
		return "", fmt.Errorf("read client_secret_file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// unavailable refuses without a word of the server's own files and addresses.
func (s *Service) unavailable(i *tenant.Issuer, err error) *api.Error {
	if errors.Is(err, errBusy) {
		return api.Refuse("identity_unavailable", "sign in: "+err.Error())
	}
	s.failed(i, err)
	return unavailable()
}

func unavailable() *api.Error {
	return api.Refuse("identity_unavailable", "sign in: the sign-in service cannot be asked now; the server's log says why")
}

func (s *Service) failed(i *tenant.Issuer, err error) {
	if s.config.Failed != nil {
		s.config.Failed(i.Name, err)
	}
}

var errBusy = errors.New("others are signing in; try again")

// enter takes a place for asking issuers; leave gives it back.
func (s *Service) enter(ctx context.Context) (asking context.Context, leave func(), err error) {
	select {
	case s.places <- struct{}{}:
	default:
		return nil, nil, errBusy
	}
	asking, cancel := context.WithTimeout(oidc.ClientContext(ctx, client), askTimeout)
	return asking, func() { cancel(); <-s.places }, nil
}

// client asks issuers. Redirects stay with the issuer's own host.
var client = &http.Client{Timeout: askTimeout, CheckRedirect: func(r *http.Request, via []*http.Request) error {
	if len(via) > 3 || r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}}

// discover is what an issuer says of itself, as remembered or asked now.
func (s *Service) discover(ctx context.Context, i *tenant.Issuer) (*oidc.Provider, error) {
	if d := s.remembered(i.URL); d != nil {
		return d.provider, d.err
	}
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.lookUp(ctx, i)
}

// lookUp is discover of one that has a place.
func (s *Service) lookUp(ctx context.Context, i *tenant.Issuer) (*oidc.Provider, error) {
	if d := s.remembered(i.URL); d != nil {
		return d.provider, d.err
	}
	p, err := oidc.NewProvider(ctx, i.URL)
	if err != nil {
		s.failed(i, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.found) > 64 {
		clear(s.found) // issuers of configurations that are gone
	}
	s.found[i.URL] = &discovery{s.config.Now(), p, err}
	return p, err
}

// remembered is what an issuer said of late; nil: it has to be asked.
func (s *Service) remembered(address string) *discovery {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.found[address]
	if d == nil {
		return nil
	}
	keeps := rediscover
	if d.err != nil {
		keeps = rediscoverIn
	}
	if s.config.Now().Sub(d.at) > keeps {
		return nil
	}
	return d
}
