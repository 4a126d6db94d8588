package tenant

import (
	"crypto/x509"
	"errors"
	"strings"

	"weir/internal/inference"
	"weir/scheduler/quota"
)

// Caller is who sent a request, and what the proof of it allows.
type Caller struct {
	Tenant *Tenant
	Scope  Scope
	Key    *Key // in the store; nil where another proof counted
	Peer   bool // another weir named the tenant

	Counted bool // another weir on the same store counts what the request uses

	KV inference.KVTransfer // what a peer says of the prompt's KV blocks
}

// By names the caller in the audit log: by the key or the tenant, and the address; "" where
// callers need no proof.
func (c Caller) By(address string) string {
	switch {
	case c.Key != nil:
		return "key " + c.Key.ID + " from " + address
	case c.Tenant != nil && c.Tenant.Name != "":
		return "tenant " + c.Tenant.Name + " from " + address
	}
	return ""
}

// KeyID names the caller's key in the store; "" where another proof counted.
func (c *Caller) KeyID() string {
	if c.Key == nil {
		return ""
	}
	return c.Key.ID
}

// MayUse reports whether the caller may use a model that has these names: tenant and key may leave it out.
func (c *Caller) MayUse(names ...string) bool {
	return c.Tenant.MayUse(names...) && (c.Key == nil || c.Key.MayUse(names...))
}

// UsesAll reports whether the caller may use all models.
func (c *Caller) UsesAll() bool {
	return len(c.Tenant.Models) == 0 && (c.Key == nil || len(c.Key.Models) == 0)
}

// Holder is whom a request for a model counts for; names are those of the model in order. What another weir asks for
// does not count for its own key: the tenants that it names are many, and their limits its own to watch.
func (c *Caller) Holder(model string, names ...string) quota.Holder {
	h := quota.Holder{Tenant: c.Tenant.Name, Model: model, Limits: &c.Tenant.Limits, ModelLimits: c.Tenant.LimitsOf(names...)}
	if c.Key != nil && !c.Peer {
		h.Key, h.KeyAccount, h.KeyLimits = c.Key.ID, c.Key.account(), &c.Key.Limits
	}
	return h
}

// Proof is what a request shows of its caller.
type Proof struct {
	Secret      string            // a key or a token; "" is none
	Certificate *x509.Certificate // of the client, verified by TLS; nil is none
	Caller      string            // what a peer says of its own caller; "" is nothing
	Counted     string            // what a server on the same store says that counts the request; "" is nothing
	Request     string            // the request's id, as the client sent it
	Look        bool              // the same proof comes again, to be counted then: Caller is not used up
}

// SecretHeaders are those in which clients send a key: the first with the scheme Bearer,
// then Azure's and Anthropic's.
var SecretHeaders = []string{"Authorization", "Api-Key", "X-Api-Key"}

// SecretOf is the key or token in a request's header; "" where there is none. get
// returns the value of one of SecretHeaders.
func SecretOf(get func(name string) string) string {
	scheme, secret, _ := strings.Cut(get(SecretHeaders[0]), " ")
	if secret = strings.TrimSpace(secret); secret != "" && strings.EqualFold(scheme, "Bearer") {
		return secret
	}
	for _, name := range SecretHeaders[1:] {
		if secret := get(name); secret != "" {
			return secret
		}
	}
	return ""
}

// Denied is a proof that stands for no tenant. The reason is for the log: a client
// learns only that it is denied, whatever the reason.
type Denied struct{ Reason string }

func (d *Denied) Error() string { return "denied: " + d.Reason }

// The kinds of Denied, a bounded set for metrics: which of a caller's proofs failed, and how.
const (
	DeniedNothing = "nothing_shown"
	DeniedKey     = "unknown_key"
	DeniedRevoked = "revoked_key"
	DeniedExpired = "expired_key"
	DeniedTenant  = "unknown_tenant"
	DeniedToken   = "token"
	DeniedPeer    = "peer"
	DeniedRegion  = "region"
)

// DenialKind is the kind of a reason that Reason gave.
func DenialKind(reason string) string {
	switch reason {
	case deniedNothing.Reason:
		return DeniedNothing
	case deniedUnknown.Reason:
		return DeniedKey
	case deniedRevoked.Reason:
		return DeniedRevoked
	case deniedExpired.Reason:
		return DeniedExpired
	case deniedTenant.Reason:
		return DeniedTenant
	case deniedRegion.Reason:
		return DeniedRegion
	case deniedPeer.Reason, deniedPeerTime.Reason, deniedReplay.Reason:
		return DeniedPeer
	}
	return DeniedToken
}

// IsUnlisted reports whether an error of Identify is about a caller whose proof is good, and whose tenant the server does not know.
func IsUnlisted(err error) bool { return errors.Is(err, deniedTenant) }

// ResidencyError is a caller whose proof is good, and whose tenant's data stays in other regions than the server's.
type ResidencyError struct {
	Residency []string
	Region    string // "": the server has none
}

func (e *ResidencyError) Error() string {
	where := "is in no region"
	if e.Region != "" {
		where = "is in " + e.Region
	}
	return "the data of this key's tenant stays in " + strings.Join(e.Residency, ", ") + ", and this server " + where
}

func (e *ResidencyError) Unwrap() error { return deniedRegion }

// ErrUnverifiable says that it cannot be found out now whom a proof stands for, because the
// store or an issuer does not answer.
var ErrUnverifiable = errors.New("callers cannot be verified now")

// Reasons of Denied.
var (
	deniedNothing = &Denied{"no key, token or certificate was shown"}
	deniedUnknown = &Denied{"the key is unknown"}
	deniedRevoked = &Denied{"the key is revoked"}
	deniedExpired = &Denied{"the key has expired"}
	deniedTenant  = &Denied{"the tenant is not configured"}
	deniedRegion  = &Denied{"the tenant's data stays in other regions"}
)
