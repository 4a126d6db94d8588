package server

import (
	"context"
	"reflect"
	"sync"

	"weir/internal/server/state"

	"go.uber.org/zap"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/store"
	"weir/router/transfer"
)

// callers says who calls, and keeps what that needs up to date.
type callers struct {
	authenticator *tenant.Authenticator
	issuers       []tenant.Issuer // that tokens are taken of
	tokens        *tenant.Tokens  // nil: none
	fetched       func(issuer string, err error)
	blocks        *transfer.Client // fetches KV blocks from peers; nil: there are none

	// begin runs something in the background, until its own end is called or all
	// ends.
	begin func(run func(context.Context)) (end context.CancelFunc)
	end   context.CancelFunc // of all, which waits for it
	leave context.CancelFunc // ends the fetching of the issuers' keys

	late *store.Store // of keys, made after the start; nil: none. Owned by the authenticator's Run, until end has returned

	mu         sync.Mutex
	configured *tenant.Directory // without the tenants that were made by the API
	config     configs.Config    // that is in force
	stored     []tenant.Tenant   // made by the API
	unreadable map[string]error  // records of such that this weir cannot read, by name
	faults     map[string]error  // why some are not in force, the unreadable ones among them

	refreshing sync.Mutex // held while the store is read
	revision   int64      // of the last change of the stored tenants that was seen
}

// newCallers reads tenants and issuers of the configuration into s.callers, and looks into the
// store.
func (s *Server) newCallers() error {
	c := &callers{fetched: s.fetched, leave: func() {}}
	c.begin, c.end = background()
	directory, err := tenant.NewDirectory(s.config.Tenants)
	if err != nil {
		return err
	}
	what := tenant.Config{Directory: directory, Region: s.config.Server.Region, Failed: s.keysFailed()}
	if len(s.config.Server.PeerKeys) > 0 {
		if what.Peers, err = tenant.NewPeers(s.config.Server.PeerKeys); err != nil {
			return err
		}
		c.blocks = transfer.NewClient(what.Peers.SignFetch)
	}
	if s.store != nil {
		if what.Pepper, err = state.Pepper(s.config.Store); err != nil {
			return err
		}
		what.Keys = s.store
	} else {
		what.LateKeys = func(ctx context.Context) (tenant.Keys, tenant.Pepper, error) { return c.lateKeys(ctx, s) }
	}
	ctx, cancel := context.WithTimeout(context.Background(), state.Timeout)
	defer cancel()
	if c.authenticator, err = tenant.NewAuthenticator(ctx, what); err != nil {
		return err
	}
	s.callers = c // before anything follows the store beside
	c.begin(c.authenticator.Run)
	c.replace(directory, s.config)
	if len(s.config.Tenants) > 0 && c.authenticator.Open() {
		s.log.Warn("tenants are configured, and nothing says who calls: every caller is let in, without a tenant and without limits. " +
			"weir keys create TENANT makes a key, and from then on callers need one")
	}
	if s.store != nil {
		if err := s.refreshTenants(ctx); err != nil {
			return err
		}
		c.begin(s.followTenants)
	}
	return nil
}

// lateKeys are those of a store that somebody has made since the start, with 'weir keys create' above all: from then on
// callers need a key. Everything else that a store is for begins with the next start.
func (c *callers) lateKeys(ctx context.Context, s *Server) (tenant.Keys, tenant.Pepper, error) {
	exists, err := state.Exists(s.config.Store)
	if err != nil || !exists {
		return nil, tenant.Pepper{}, err
	}
	pepper, err := state.Pepper(s.config.Store)
	if err != nil {
		return nil, tenant.Pepper{}, err
	}
	if c.late, err = state.Open(ctx, s.config.Store, store.Options{}); err != nil {
		return nil, tenant.Pepper{}, err
	}
	s.log.Warn("there is a store by now: its keys are good, and are asked for once it has one; usage, responses and the audit log are kept in it after a restart")
	return c.late, pepper, nil
}

// newTenants is the live part of who calls: tenants, keys of --api-key and issuers.
func (s *Server) newTenants(c configs.Config) (commit func(), err error) {
	directory, err := tenant.NewDirectory(c.Tenants)
	return func() { s.callers.replace(directory, c) }, err
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
func (s *Server) keysFailed() func(error) {
	trouble := &quietly{every: troubleEvery}
	return func(err error) {
		trouble.do(func(held int) {
			s.log.Error("the store of keys failed; keys that were good before stay good for minutes",
				zap.Error(err), zap.Int("times_before", held))
		})
	}
}

// fetched logs whether an issuer's keys could be read.
func (s *Server) fetched(issuer string, err error) {
	if err != nil {
		s.log.Error("the public keys of an issuer of tokens cannot be fetched; trying again",
			zap.String("issuer", issuer), zap.Error(err))
		return
	}
	s.log.Debug("fetched the public keys of an issuer of tokens", zap.String("issuer", issuer))
}

// stop writes what is left to write.
func (c *callers) stop() {
	c.end()
	if c.blocks != nil {
		c.blocks.Close()
	}
	if c.late != nil {
		_ = state.Close(c.late) // the keys' last use is written, or is lost, as the log says
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
