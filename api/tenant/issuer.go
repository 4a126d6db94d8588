package tenant

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// Issuer is a server that issues tokens (JWT), whose word on who calls is taken.
type Issuer struct {
	Name      string   // what tenants' claims call it
	URL       string   // its own name: the claim iss of its tokens
	KeysURL   string   // its public keys (JWKS); "": where its discovery document says
	Audiences []string // a token must be meant for one of them (claim aud)

	// TenantClaim is the claim whose value is the name of the caller's tenant, where
	// no tenant's own claims say so. "": those alone count.
	TenantClaim string
	// Tenants are the names that TenantClaim may have; empty: any tenant's.
	Tenants []string
	// ScopeClaim is the claim that lists scopes, as a list or as words with spaces
	// between: weir:inference, weir:admin, weir:metrics. A token without any of them,
	// and every token where ScopeClaim is "", has the scope of inference.
	ScopeClaim string
	Algorithms []string // signatures that are taken, of Algorithms

	// ClientID is what the issuer calls weir's pages; with it people sign in there, by OpenID Connect's code flow with PKCE. "": they paste tokens.
	ClientID         string
	ClientSecretFile string   // has the client's secret; "": it is a public client
	SignInScopes     []string // scopes that people's sign-ins ask for beside openid
}

// Algorithms are the signatures that a token may have: with public keys only, so that
// reading a key is not enough to sign with it.
var Algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// NewIssuer is an issuer that takes the two signatures in general use.
func NewIssuer(name string) Issuer { return Issuer{Name: name, Algorithms: []string{"RS256", "ES256"}} }

// Validate reports all that is wrong with the issuer by itself.
func (i *Issuer) Validate() error {
	var errs []error
	if !IsName(i.Name) {
		errs = append(errs, fmt.Errorf("name is %.80q; it must be %s", i.Name, NameForm))
	}
	errs = append(errs, checkURL("url", i.URL))
	if i.KeysURL != "" {
		errs = append(errs, checkURL("keys_url", i.KeysURL))
	}
	if len(i.Audiences) == 0 || slices.Contains(i.Audiences, "") {
		errs = append(errs, errors.New("audiences needs at least one name, the one that tokens for this server have in their claim aud; "+
			"without it a token for any other service of the issuer would do"))
	}
	if len(i.Algorithms) == 0 {
		errs = append(errs, fmt.Errorf("algorithms is empty; it takes some of %s", strings.Join(Algorithms, ", ")))
	}
	if i.ClientID == "" && (i.ClientSecretFile != "" || len(i.SignInScopes) > 0) {
		errs = append(errs, errors.New("client_secret_file and sign_in_scopes are for people who sign in, and there is no client_id"))
	}
	for _, name := range i.Tenants {
		if !IsName(name) {
			errs = append(errs, fmt.Errorf("tenants has %.80q; a tenant's name is %s", name, NameForm))
		}
	}
	if len(i.Tenants) > 0 && i.TenantClaim == "" {
		errs = append(errs, errors.New("tenants bounds what tenant_claim may name, and there is no tenant_claim"))
	}
	for _, a := range i.Algorithms {
		if !slices.Contains(Algorithms, a) {
			errs = append(errs, fmt.Errorf("algorithms has %.20q; it takes some of %s", a, strings.Join(Algorithms, ", ")))
		}
	}
	return errors.Join(errs...)
}

// checkURL takes https, and http to this machine: who can change an issuer's keys
// on their way is every tenant.
func checkURL(field, text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Host == "", u.User != nil, u.Fragment != "":
		return fmt.Errorf("%s is %.200q; it must be a URL such as https://login.example", field, text)
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%s is %.200q; it must begin with https://, or with http:// on this machine", field, text)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ValidateIssuers checks issuers by themselves and together, and that there is one
// for every claim of the tenants.
func ValidateIssuers(issuers []Issuer, d *Directory) error {
	var errs []error
	names, urls := make(map[string]bool), make(map[string]bool)
	naming := 0 // issuers whose tokens name tenants
	for n := range issuers {
		if issuers[n].TenantClaim != "" {
			naming++
		}
	}
	for n := range issuers {
		i := &issuers[n]
		err := i.Validate()
		switch {
		case err != nil:
		case names[i.Name]:
			err = fmt.Errorf("there are two issuers called %q; keep one", i.Name)
		case urls[i.URL]:
			err = fmt.Errorf("url is %q, which another issuer has; keep one", i.URL)
		case naming > 1 && i.TenantClaim != "" && len(i.Tenants) == 0:
			err = fmt.Errorf("its tenant_claim may name the tenants of %d issuers; list those that it may name in tenants", naming)
		}
		names[i.Name], urls[i.URL] = true, true
		if err != nil {
			errs = append(errs, fmt.Errorf("issuers[%d] %.80q: %w", n, i.Name, err))
		}
	}
	for _, name := range d.Issuers() {
		if !names[name] {
			errs = append(errs, fmt.Errorf("a tenant has claims of the issuer %q, which is not among issuers; add it there", name))
		}
	}
	return errors.Join(errs...)
}
