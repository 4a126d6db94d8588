package main

import (
	"context"
	"reflect"
	"sync"
	"time"

	"go.uber.org/zap"

	"weir/api/tenant"
	"weir/configs"
)

// callers says who calls, and keeps what that needs up to date.
type callers struct {
	authenticator *tenant.Authenticator
	issuers       []tenant.Issuer // that tokens are taken of
	tokens        *tenant.Tokens  // nil: none
	fetched       func(issuer string, err error)

	// begin runs something in the background, until its own end is called or all
	// ends.
	begin func(run func(context.Context)) (end context.CancelFunc)
	end   context.CancelFunc // of all, which waits for it
	leave context.CancelFunc // ends the fetching of the issuers' keys
}

// newCallers reads tenants and issuers of the configuration, and looks into the
// store.
func (s *server) newCallers() (*callers, error) {
	c := &callers{fetched: s.fetched, leave: func() {}}
	c.begin, c.end = background()
	directory, err := tenant.NewDirectory(s.config.Tenants)
	if err != nil {
		return nil, err
	}
	what := tenant.Config{Directory: directory, Failed: s.keysFailed()}
	if len(s.config.Server.PeerKeys) > 0 {
		if what.Peers, err = tenant.NewPeers(s.config.Server.PeerKeys); err != nil {
			return nil, err
		}
	}
	if s.store != nil {
		if what.Pepper, err = pepperOf(s.config.Store); err != nil {
			return nil, err
		}
		what.Keys = s.store
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if c.authenticator, err = tenant.NewAuthenticator(ctx, what); err != nil {
		return nil, err
	}
	c.begin(c.authenticator.Run)
	c.replace(directory, s.config)
	return c, nil
}

// newTenants is the live part of who calls: tenants, keys of --api-key and issuers. What a
// tenant has spent before counts against a budget that is new.
func (s *server) newTenants(c configs.Config) (commit func(), err error) {
	directory, err := tenant.NewDirectory(c.Tenants)
	if err == nil && s.ledger != nil {
		err = seedBudgets(context.Background(), s.local, s.ledger, directory, time.Now())
	}
	return func() { s.callers.replace(directory, c) }, err
}

// replace puts tenants, keys and issuers into force. Issuers that did not change
// keep their keys.
func (c *callers) replace(directory *tenant.Directory, config configs.Config) {
	if !reflect.DeepEqual(c.issuers, config.Issuers) {
		c.leave()
		c.issuers, c.tokens, c.leave = config.Issuers, nil, func() {}
		if len(c.issuers) > 0 {
			c.tokens = tenant.NewTokens(c.issuers, c.fetched)
			c.leave = c.begin(c.tokens.Run)
		}
	}
	c.authenticator.Replace(directory, config.API.APIKeys, c.tokens)
}

// keysFailed logs that keys cannot be looked up, now and then.
func (s *server) keysFailed() func(error) {
	trouble := &quietly{every: troubleEvery}
	return func(err error) {
		trouble.do(func(held int) {
			s.log.Error("the store of keys failed; keys that were good before stay good for minutes",
				zap.Error(err), zap.Int("times_before", held))
		})
	}
}

// fetched logs whether an issuer's keys could be read.
func (s *server) fetched(issuer string, err error) {
	if err != nil {
		s.log.Error("the public keys of an issuer of tokens cannot be fetched; trying again",
			zap.String("issuer", issuer), zap.Error(err))
		return
	}
	s.log.Debug("fetched the public keys of an issuer of tokens", zap.String("issuer", issuer))
}

// stop writes what is left to write.
func (c *callers) stop() { c.end() }

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
