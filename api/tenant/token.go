package tenant

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

const (
	maxTokenBytes = 8 << 10

	// verifiedTokens bounds the tokens in memory, at some 200 bytes each.
	verifiedTokens = 8192
	// verifiedFor is how long a token counts without verifying it again, which
	// matters where an issuer withdraws the key that signed it.
	verifiedFor = 5 * time.Minute
)

// Tokens verifies tokens (JWT) of several issuers.
type Tokens struct {
	issuers  map[string]*issuer // by URL
	verified recent[[sha256.Size]byte, verifiedToken]
}

// verifiedToken is the caller that a token stands for in one directory.
type verifiedToken struct {
	caller    Caller
	directory *Directory
	until     time.Time // end of the token, or of its verification
}

// issuer is one issuer with its public keys.
type issuer struct {
	config   Issuer
	keys     *issuerKeys
	verifier *oidc.IDTokenVerifier
}

// NewTokens takes valid issuers (ValidateIssuers). Their keys are there once Run has
// fetched them. fetched hears of every fetch; it must not block.
func NewTokens(issuers []Issuer, fetched func(issuer string, err error)) *Tokens {
	if fetched == nil {
		fetched = func(string, error) {}
	}
	t := &Tokens{issuers: make(map[string]*issuer), verified: newRecent[[sha256.Size]byte, verifiedToken](verifiedTokens)}
	for _, c := range issuers {
		keys := newIssuerKeys(c, func(err error) { fetched(c.Name, err) })
		t.issuers[c.URL] = &issuer{config: c, keys: keys, verifier: oidc.NewVerifier(c.URL, keys, &oidc.Config{
			SkipClientIDCheck:    true, // several audiences: checked here
			SkipExpiryCheck:      true, // checked here, against the time of the request
			SupportedSigningAlgs: c.Algorithms,
		})}
	}
	return t
}

// Run keeps the issuers' keys until ctx ends.
func (t *Tokens) Run(ctx context.Context) {
	ends := make(chan struct{})
	for _, i := range t.issuers {
		go func() {
			i.keys.run(ctx)
			ends <- struct{}{}
		}()
	}
	for range t.issuers {
		<-ends
	}
}

// looksLikeToken: three parts of base64url with dots between.
func looksLikeToken(text string) bool {
	return len(text) <= maxTokenBytes && strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2
}

// identify finds the caller of a token.
func (t *Tokens) identify(d *Directory, raw string, now time.Time) (Caller, error) {
	sum := sha256.Sum256([]byte(raw))
	if v, ok := t.verified.Get(sum); ok && v.directory == d && now.Before(v.until) {
		return v.caller, nil
	}
	caller, ends, err := t.verify(d, raw, now)
	if err != nil {
		return Caller{}, err
	}
	if again := now.Add(verifiedFor); again.Before(ends) {
		ends = again
	}
	t.verified.Add(sum, verifiedToken{caller, d, ends})
	return caller, nil
}

// verify checks signature, issuer, audience and times, and maps the claims.
func (t *Tokens) verify(d *Directory, raw string, now time.Time) (Caller, time.Time, error) {
	i := t.issuers[claimedIssuer(raw)]
	if i == nil {
		return Caller{}, time.Time{}, &Denied{"the token's issuer is not configured"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), keysTimeout)
	defer cancel()
	token, err := i.verifier.Verify(ctx, raw)
	if err != nil && i.keys.keys.Load() == nil {
		return Caller{}, time.Time{}, fmt.Errorf("%w: the keys of issuer %s were never fetched", ErrUnverifiable, i.config.Name)
	}
	if err != nil {
		return Caller{}, time.Time{}, &Denied{"the token of " + i.config.Name + " does not verify: " + err.Error()}
	}
	claims := make(map[string]any)
	if err := token.Claims(&claims); err != nil {
		return Caller{}, time.Time{}, &Denied{"the token's claims cannot be read: " + err.Error()}
	}
	if why := i.objection(token, claims, now); why != "" {
		return Caller{}, time.Time{}, &Denied{why}
	}
	tenant, err := i.tenant(d, claims)
	if err != nil {
		return Caller{}, time.Time{}, err
	}
	return Caller{Tenant: tenant, Scope: i.scope(claims)}, token.Expiry, nil
}

// leeway is how far the issuer's clock may differ from this machine's.
const leeway = time.Minute

// objection is why a genuine token does not count here and now; "" is nothing.
func (i *issuer) objection(token *oidc.IDToken, claims map[string]any, now time.Time) string {
	switch {
	case token.Expiry.IsZero() || token.Expiry.Unix() == 0:
		return "the token never expires"
	case !now.Before(token.Expiry):
		return "the token has expired"
	case !slices.ContainsFunc(token.Audience, func(a string) bool { return slices.Contains(i.config.Audiences, a) }):
		return fmt.Sprintf("the token of %s is for %.200q, not for this server", i.config.Name, token.Audience)
	}
	if from, ok := claims["nbf"].(float64); ok && now.Add(leeway).Before(time.Unix(int64(from), 0)) {
		return "the token is not valid yet"
	}
	return ""
}

// tenant maps the claims: by the tenants' own claims, or else by the issuer's
// tenant claim. Claims of two tenants are those of neither.
func (i *issuer) tenant(d *Directory, claims map[string]any) (*Tenant, error) {
	var found *Tenant
	for name, value := range claims {
		for _, word := range words(value) {
			t := d.byClaim[Claim{i.config.Name, name, word}]
			if t != nil && found != nil && t != found {
				return nil, &Denied{fmt.Sprintf("the token's claims stand for the tenants %q and %q", found.Name, t.Name)}
			}
			if t != nil {
				found = t
			}
		}
	}
	if found != nil {
		return found, nil
	}
	if name, ok := claims[i.config.TenantClaim].(string); ok && i.config.TenantClaim != "" {
		if allowed := i.config.Tenants; len(allowed) > 0 && !slices.Contains(allowed, name) {
			return nil, &Denied{fmt.Sprintf("issuer %q may not name the tenant %.80q", i.config.Name, name)}
		}
		if t, ok := d.Find(name); ok && !strings.HasPrefix(name, staticPrefix) {
			return t, nil
		}
	}
	return nil, &Denied{"the token's claims stand for no tenant"}
}

const tokenScopePrefix = "weir:"

// scope reads the issuer's scope claim.
func (i *issuer) scope(claims map[string]any) Scope {
	var s Scope
	if i.config.ScopeClaim != "" {
		for _, entry := range words(claims[i.config.ScopeClaim]) {
			for word := range strings.FieldsSeq(entry) {
				if name, found := strings.CutPrefix(word, tokenScopePrefix); found {
					s |= scopeNamed(name)
				}
			}
		}
	}
	if s == 0 {
		return ScopeInference
	}
	return s
}

// words are the texts of a claim: itself, or those of its list.
func words(claim any) []string {
	switch v := claim.(type) {
	case string:
		return []string{v}
	case []any:
		var list []string
		for _, item := range v {
			if text, ok := item.(string); ok {
				list = append(list, text)
			}
		}
		return list
	}
	return nil
}

// claimedIssuer reads the claim iss of a token that is not verified yet, to
// know whose keys to verify it with.
func claimedIssuer(raw string) string {
	_, rest, _ := strings.Cut(raw, ".")
	body, _, _ := strings.Cut(rest, ".")
	data, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return ""
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(data, &claims) != nil {
		return ""
	}
	return claims.Issuer
}
