package server

import (
	"context"
	"reflect"
	"sync"
	"time"

	"go.uber.org/zap"

	"weir/api/signin"
	"weir/api/tenant"
	"weir/configs"
	"weir/internal/server/keychain"
	"weir/internal/server/state"
	"weir/router/transfer"
	"weir/telemetry"
)

// callers says who calls, and keeps what that needs up to date.
type callers struct {
	authenticator *tenant.Authenticator
	signIn        *signin.Service  // of people, to the pages
	issuers       []tenant.Issuer  // that tokens are taken of
	tokens        *tenant.Tokens   // nil: none
	blocks        *transfer.Client // fetches KV blocks from peers; nil: there are none

	// begin runs something in the background, until its own end is called or all
	// ends.
	begin func(run func(context.Context)) (end context.CancelFunc)
	end   context.CancelFunc // of all, which waits for it
	leave context.CancelFunc // ends the fetching of the issuers' keys

	keys    tenant.Keys   // of the store; nil: none
	records storedTenants // as above
	log     *zap.Logger

	late func() error // closes a store of keys that was made after the start; nil: none. Owned by the authenticator's Run, until end has returned

	mu         sync.Mutex
	configured *tenant.Directory // without the tenants that were made by the API
	config     configs.Config    // that is in force
	stored     []tenant.Tenant   // made by the API
	unreadable map[string]error  // records of such that this weir cannot read, by name
	faults     map[string]error  // why some are not in force, the unreadable ones among them

	refreshing sync.Mutex // held while the store is read
	revision   int64      // of the last change of the stored tenants that was seen
}

// storedTenants are the tenants in the store, made by the API.
type storedTenants interface {
	keychain.Records
	// TenantRevision is that of the last change of any record.
	TenantRevision(ctx context.Context) (int64, error)
}

// newCallers reads tenants and issuers of the configuration, and looks at the keys and tenants in the store, which are nil where there is
// none. What it began is to be stopped, even after an error.
func newCallers(config configs.Config, keys tenant.Keys, records storedTenants, log *zap.Logger) (*callers, error) {
	c := &callers{keys: keys, records: records, log: log, leave: func() {}}
	c.begin, c.end = background()
	c.signIn = signin.New(signin.Config{Issuers: c.inForce, Check: c.check, Failed: func(issuer string, err error) {
		log.Warn("a sign-in service cannot be asked", zap.String("issuer", issuer), zap.Error(err))
	}})
	return c, c.open(config)
}

// inForce are the issuers that tokens are taken of now.
func (c *callers) inForce() []tenant.Issuer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.issuers
}

// check says whether a token stands for a caller.
func (c *callers) check(token string) error {
	_, err := c.authenticator.Identify(tenant.Proof{Secret: token}, time.Now())
	return err
}

func (c *callers) open(config configs.Config) error {
	directory, err := tenant.NewDirectory(config.Tenants)
	if err != nil {
		return err
	}
	what := tenant.Config{Directory: directory, Region: config.Server.Region, Failed: c.keysFailed()}
	if len(config.Server.PeerKeys) > 0 {
		if what.Peers, err = tenant.NewPeers(config.Server.PeerKeys); err != nil {
			return err
		}
		c.blocks = transfer.NewClient(what.Peers.SignFetch)
	}
	if c.keys != nil {
		if what.Pepper, err = state.Pepper(config.Store); err != nil {
			return err
		}
		what.Keys = c.keys
	} else {
		what.LateKeys = func(ctx context.Context) (tenant.Keys, tenant.Pepper, error) { return c.lateKeys(ctx, config) }
	}
	ctx, cancel := context.WithTimeout(context.Background(), state.Timeout)
	defer cancel()
	if c.authenticator, err = tenant.NewAuthenticator(ctx, what); err != nil {
		return err
	}
	c.begin(c.authenticator.Run)
	c.replace(directory, config)
	if len(config.Tenants) > 0 && c.authenticator.Open() {
		c.log.Warn("tenants are configured, and nothing says who calls: every caller is let in, without a tenant and without limits. " +
			"weir keys create TENANT makes a key, and from then on callers need one")
	}
	if c.keys != nil {
		if err := c.refresh(ctx); err != nil {
			return err
		}
		c.begin(c.follow)
	}
	return nil
}

// lateKeys are those of a store that somebody has made since the start, with 'weir keys create' above all: from then on
// callers need a key. Everything else that a store is for begins with the next start.
func (c *callers) lateKeys(ctx context.Context, config configs.Config) (tenant.Keys, tenant.Pepper, error) {
	exists, err := state.Exists(config.Store)
	if err != nil || !exists {
		return nil, tenant.Pepper{}, err
	}
	pepper, err := state.Pepper(config.Store)
	if err != nil {
		return nil, tenant.Pepper{}, err
	}
	late, err := state.Open(ctx, config.Store, state.Options{})
	if err != nil {
		return nil, tenant.Pepper{}, err
	}
	c.late = func() error { return state.Close(late) }
	c.log.Warn("there is a store by now: its keys are good, and are asked for once it has one; usage, responses and the audit log are kept in it after a restart")
	return late.Keys, pepper, nil
}

// tenants is the live part of who calls: tenants, keys of --api-key and issuers.
func (c *callers) tenants(next configs.Config) (commit func(), err error) {
	directory, err := tenant.NewDirectory(next.Tenants)
	return func() { c.replace(directory, next) }, err
}

// replace puts tenants, keys and issuers into force. Issuers that did not change
// keep their keys.
func (c *callers) replace(directory *tenant.Directory, config configs.Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !reflect.DeepEqual(c.issuers, config.Issuers) {
		c.leave()
		c.issuers, c.tokens, c.leave = config.Issuers, nil, func() {}
		if len(c.issuers) > 0 {
			c.tokens = tenant.NewTokens(c.issuers, c.fetched)
			c.leave = c.begin(c.tokens.Run)
		}
	}
	c.configured, c.config = directory, config
	c.enforce()
}

// keysFailed logs that keys cannot be looked up, now and then.
func (c *callers) keysFailed() func(error) {
	trouble := &telemetry.LogLimiter{Every: telemetry.TroubleEvery}
	return func(err error) {
		trouble.Do(func(held int) {
			c.log.Error("the store of keys failed; keys that were good before stay good for minutes",
				zap.Error(err), zap.Int("times_before", held))
		})
	}
}

// fetched logs whether an issuer's keys could be read.
func (c *callers) fetched(issuer string, err error) {
	if err != nil {
		c.log.Error("the public keys of an issuer of tokens cannot be fetched; trying again",
			zap.String("issuer", issuer), zap.Error(err))
		return
	}
	c.log.Debug("fetched the public keys of an issuer of tokens", zap.String("issuer", issuer))
}

// stop writes what is left to write.
func (c *callers) stop() {
	c.end()
	if c.blocks != nil {
		c.blocks.Close()
	}
	if c.late != nil {
		_ = c.late() // the keys' last use is written, or is lost, as the log says
	}
}

// background starts goroutines that one call ends and waits for.
func background() (begin func(run func(context.Context)) context.CancelFunc, end context.CancelFunc) {
	all, cancel := context.WithCancel(context.Background())
	running := new(sync.WaitGroup)
	begin = func(run func(context.Context)) context.CancelFunc {
		ctx, leave := context.WithCancel(all)
		running.Go(func() {
			defer leave()
			run(ctx)
		})
		return leave
	}
	return begin, func() {
		cancel()
		running.Wait()
	}
}
