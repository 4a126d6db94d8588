package main

import (
	"context"
	"reflect"
	"sync"

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

	ctx     context.Context // of what runs in the background
	end     context.CancelFunc
	running sync.WaitGroup
	leave   context.CancelFunc // ends the fetching of the issuers' keys
}

// newCallers reads tenants and issuers of the configuration, and looks into the
// store.
func (s *server) newCallers() (*callers, error) {
	c := &callers{fetched: s.fetched, leave: func() {}}
	c.ctx, c.end = context.WithCancel(context.Background())
	directory, err := tenant.NewDirectory(s.config.Tenants)
	if err != nil {
		return nil, err
	}
	what := tenant.Config{Directory: directory, Failed: s.keysFailed()}
	if s.store != nil {
		if what.Pepper, err = pepperOf(s.config.Store); err != nil {
			return nil, err
		}
		what.Keys = s.store
	}
	ctx, cancel := context.WithTimeout(c.ctx, storeTimeout)
	defer cancel()
	if c.authenticator, err = tenant.NewAuthenticator(ctx, what); err != nil {
		return nil, err
	}
	c.running.Go(func() { c.authenticator.Run(c.ctx) })
	c.replace(directory, s.config)
	return c, nil
}

// newTenants is the live part of who calls: tenants, keys of --api-key and issuers.
func (s *server) newTenants(c configs.Config) (commit func(), err error) {
	directory, err := tenant.NewDirectory(c.Tenants)
	return func() { s.callers.replace(directory, c) }, err
}

// replace puts tenants, keys and issuers into force. Issuers that did not change
// keep their keys.
func (c *callers) replace(directory *tenant.Directory, config configs.Config) {
	if !reflect.DeepEqual(c.issuers, config.Issuers) {
		c.leave()
		c.issuers, c.tokens, c.leave = config.Issuers, nil, func() {}
		if len(c.issuers) > 0 {
			tokens := tenant.NewTokens(c.issuers, c.fetched)
			ctx, leave := context.WithCancel(c.ctx)
			c.running.Go(func() { tokens.Run(ctx) })
			c.tokens, c.leave = tokens, leave
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
func (c *callers) stop() {
	c.end()
	c.running.Wait()
}
