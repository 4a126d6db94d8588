package tenant

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/inference"
)

// Config is what an Authenticator is made of. Without any of the sources of
// identity, every request has the tenant "" and all scopes.
type Config struct {
	Directory  *Directory // nil: an empty one
	StaticKeys []string   // each a tenant of its own, with the scopes of inference and metrics
	Pepper     Pepper     // of the keys in Keys
	Keys       Keys       // nil: none
	// LateKeys is asked now and then for a store that was made after the start, where Keys is nil;
	// nil keys are none yet. LateKeys nil: there will be none.
	LateKeys func(ctx context.Context) (Keys, Pepper, error)
	Tokens   *Tokens // nil: none are taken
	Peers    *Peers  // who may say in whose name they ask; nil: none may
	Region   string  // where this server is; "": in none, and tenants with a residency are refused

	// Failed hears of a store that does not answer. It must not block.
	Failed func(error)
}

// Authenticator says who calls. All methods may be called at the same time.
type Authenticator struct {
	sources atomic.Pointer[sources]
	keyring atomic.Pointer[keyring] // nil: no store
	late    func(ctx context.Context) (Keys, Pepper, error)
	failed  func(error)
	peers   *Peers // nil: none are believed
	counter *counter
	region  string // of this server
	issued  atomic.Bool
}

// sources are what a reload replaces. They are immutable.
type sources struct {
	directory *Directory
	static    staticKeys
	tokens    *Tokens // nil: none
}

// NewAuthenticator asks the store whether it holds keys.
func NewAuthenticator(ctx context.Context, c Config) (*Authenticator, error) {
	a := &Authenticator{peers: c.Peers, late: c.LateKeys, region: c.Region}
	if c.Directory == nil {
		c.Directory = (&Directory{rest: New(Rest), empty: true, open: true}).complete()
	}
	if c.Failed == nil {
		c.Failed = func(error) {}
	}
	a.failed = c.Failed
	a.Replace(c.Directory, c.StaticKeys, c.Tokens)
	if c.Keys != nil {
		a.keyring.Store(newKeyring(c.Pepper, c.Keys, c.Failed))
		var err error
		if a.counter, err = newCounter(c.Pepper); err != nil {
			return nil, err
		}
		if err := a.lookForKeys(ctx); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// lookForKeys notes whether the store has a key, live or not: a server that has
// issued keys asks for one, also when all of them have ended.
func (a *Authenticator) lookForKeys(ctx context.Context) error {
	keys, err := a.keyring.Load().store.List(ctx, "")
	if err == nil && len(keys) > 0 {
		a.issued.Store(true)
	}
	return err
}

const (
	lookEvery  = 2 * time.Second  // for the first key of a store
	flushEvery = 10 * time.Second // of the times when keys were used
)

// FollowEvery is how often a server looks whether another one has changed keys.
const FollowEvery = 200 * time.Millisecond

// Run notes the use of keys, and sees the first key that another process issues,
// until ctx ends.
func (a *Authenticator) Run(ctx context.Context) {
	if a.keyring.Load() == nil && a.late == nil {
		return
	}
	look, flush, follow := time.NewTicker(lookEvery), time.NewTicker(flushEvery), time.NewTicker(FollowEvery)
	defer look.Stop()
	defer follow.Stop()
	defer flush.Stop()
	for {
		select {
		case <-look.C:
			if !a.issued.Load() {
				a.bounded(ctx, a.look)
			}
		case <-follow.C:
			if r := a.keyring.Load(); r != nil {
				a.bounded(ctx, r.follow)
			}
		case <-flush.C:
			a.bounded(ctx, a.flush)
		case <-ctx.Done():
			a.bounded(context.WithoutCancel(ctx), a.flush)
			return
		}
	}
}

// look sees a store that has been made, and the first key of it.
func (a *Authenticator) look(ctx context.Context) {
	err := a.findKeys(ctx)
	if err == nil && a.keyring.Load() != nil {
		err = a.lookForKeys(ctx)
	}
	if err != nil && ctx.Err() == nil {
		a.failed(err)
	}
}

// findKeys takes a late store, if there is one by now.
func (a *Authenticator) findKeys(ctx context.Context) error {
	if a.keyring.Load() != nil {
		return nil
	}
	keys, pepper, err := a.late(ctx)
	if err == nil && keys != nil {
		a.keyring.Store(newKeyring(pepper, keys, a.failed))
	}
	return err
}

func (a *Authenticator) flush(ctx context.Context) {
	if r := a.keyring.Load(); r != nil {
		r.flush(ctx)
	}
}

func (a *Authenticator) bounded(ctx context.Context, do func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	do(ctx)
}

// Replace puts other tenants, static keys and tokens into force; nil tokens are
// none. Requests that run keep their tenant.
func (a *Authenticator) Replace(d *Directory, staticKeys []string, tokens *Tokens) {
	a.sources.Store(&sources{d, newStaticKeys(staticKeys), tokens})
}

// Directory is the one in force.
func (a *Authenticator) Directory() *Directory { return a.sources.Load().directory }

// Forget makes a key's next request ask the store, at once rather than within
// seconds.
func (a *Authenticator) Forget(keyID string) {
	if r := a.keyring.Load(); r != nil {
		r.forget(keyID)
	}
}

// Open reports whether callers need no proof.
func (a *Authenticator) Open() bool {
	s := a.sources.Load()
	return len(s.static.hashes) == 0 && s.tokens == nil && !a.issued.Load() && !s.directory.HasCertificates()
}

// Guarded reports whether anybody can have the scope of admin, so that endpoints
// which need it can be closed to others.
func (a *Authenticator) Guarded() bool { return a.sources.Load().tokens != nil || a.issued.Load() }

// Identify finds the caller of a request: by its key or token, or else by its
// certificate. A secret that stands for no tenant does not hide a certificate that
// does: clients that always send some key work with certificates too. The error is a
// *Denied or wraps ErrUnverifiable.
//
// A caller who is known and is a peer may ask in another tenant's name; what it says wrongly
// is denied. A caller whose tenant's data stays in other regions than this server's is denied with an *ResidencyError; of a peer a
// server without a region believes that the peer has looked at where it is.
func (a *Authenticator) Identify(p Proof, now time.Time) (Caller, error) {
	c, err := a.identify(p, now)
	if err != nil {
		return c, err
	}
	if a.peers != nil && p.Caller != "" {
		if c.Tenant, c.KV, err = a.peers.Verify(p.Caller, p.Look, now); err != nil {
			return Caller{}, err
		}
		c.Peer = true
	}
	c.Counted = a.isCounted(&p)
	if !c.Tenant.MayStayIn(a.region) && (!c.Peer || a.region != "") {
		return Caller{}, &ResidencyError{Residency: c.Tenant.Residency, Region: a.region}
	}
	return c, nil
}

// Peers makes and checks statements of peers; nil where there are none.
func (a *Authenticator) Peers() *Peers { return a.peers }

// SignerFor signs what tells peers that a request is one of t's; nil where there are no peers.
func (a *Authenticator) SignerFor(t *Tenant) inference.PeerSigner {
	if a.peers == nil {
		return nil
	}
	return func(now time.Time, kv inference.KVTransfer) string { return a.peers.Sign(t, kv, now) }
}

// ByName is the tenant of a name that a caller had before, for work that goes on without the caller; false
// where no caller is that tenant any more.
func (a *Authenticator) ByName(name string) (*Tenant, bool) {
	s := a.sources.Load()
	switch {
	case a.Open():
		return s.directory.Unlisted(""), name == ""
	case strings.HasPrefix(name, staticPrefix):
		return s.directory.ofStatic(name), s.static.names(name)
	}
	return s.directory.Find(name)
}

// Returned is a caller of before, with the key that was shown then ("" for another proof), for work that goes on without
// the caller: a key that has ended since still has its limits. false: the tenant does not exist any more, its data stays
// elsewhere by now, or the store of keys does not answer now.
func (a *Authenticator) Returned(name, keyID string, now time.Time) (Caller, bool) {
	t, known := a.ByName(name)
	known = known && t.MayStayIn(a.region)
	c := Caller{Tenant: t, Scope: ScopeInference}
	r := a.keyring.Load()
	if !known || keyID == "" || r == nil {
		return c, known
	}
	key, exists, err := r.entry(keyID).current(r, keyID, now)
	if exists {
		c.Key = &key
	}
	return c, err == nil
}

func (a *Authenticator) identify(p Proof, now time.Time) (Caller, error) {
	s := a.sources.Load()
	d := s.directory
	if a.Open() {
		return Caller{Tenant: d.Unlisted(""), Scope: ScopeInference | ScopeAdmin | ScopeMetrics}, nil
	}
	c, err := a.bySecret(s, p.Secret, now)
	if err == nil || p.Certificate == nil {
		return c, err
	}
	if t, ok := d.OfCertificate(p.Certificate); ok {
		return Caller{Tenant: t, Scope: ScopeInference}, nil
	}
	return Caller{}, err
}

func (a *Authenticator) bySecret(s *sources, secret string, now time.Time) (Caller, error) {
	if secret == "" {
		return Caller{}, deniedNothing
	}
	if name, ok := s.static.find(secret); ok {
		return Caller{Tenant: s.directory.ofStatic(name), Scope: ScopeInference | ScopeMetrics}, nil
	}
	switch {
	case a.keyring.Load() != nil && strings.HasPrefix(secret, KeyPrefix):
		return a.byKey(s.directory, secret, now)
	case s.tokens != nil && looksLikeToken(secret):
		return s.tokens.identify(s.directory, secret, now)
	}
	return Caller{}, deniedUnknown
}

func (a *Authenticator) byKey(d *Directory, text string, now time.Time) (Caller, error) {
	key, err := a.keyring.Load().verify(text, now)
	if err != nil {
		return Caller{}, err
	}
	t, ok := d.Find(key.Tenant)
	if !ok {
		return Caller{}, deniedTenant
	}
	return Caller{Tenant: t, Scope: key.Scope, Key: &key}, nil
}

// Reason is why an error of Identify denies, for the log.
func Reason(err error) string {
	if d := (*Denied)(nil); errors.As(err, &d) {
		return d.Reason
	}
	return err.Error()
}
