package configs

import (
	"context"
	"errors"
	"fmt"

	"weir/router/balance"
	"weir/router/fleet"
)

// FleetOf is how requests for a model that other servers compute are routed.
func (c Config) FleetOf(m ServedModel) (fleet.Config, error) {
	policy, err := balance.ParsePolicy(m.Policy)
	f := fleet.Config{Model: m.Name, Sources: m.Replicas, Routing: m.Routing, Balance: balance.Config{Policy: policy}}
	if m.Tokenizer != "" { // block hashes are of tokens
		f.Secret = []byte(c.Engine.PrefixCacheKey)
	}
	return f, err
}

// Fleet is the same of a classical model.
func (m Classic) Fleet() (fleet.Config, error) {
	policy, err := balance.ParsePolicy(m.Policy)
	return fleet.Config{Model: m.Name, Version: m.Version, Sources: m.Replicas, Routing: m.Routing, Balance: balance.Config{Policy: policy}}, err
}

// validateFleets checks what the router would refuse at its start.
func (c Config) validateFleets() error {
	var errs []error
	check := func(list string, f fleet.Config, err error) {
		if c.Store.URL != "" {
			f.Discover = func(context.Context, string) ([]fleet.Found, error) { return nil, nil }
		}
		if err == nil {
			err = f.Check()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("check %s: %w", list, err))
		}
	}
	for _, m := range c.RoutedModels() {
		f, err := c.FleetOf(m)
		check("models", f, err)
	}
	for _, m := range c.ClassicModels() {
		if len(m.Replicas) > 0 {
			f, err := m.Fleet()
			check("classic", f, err)
		}
	}
	return errors.Join(errs...)
}
