package server

import (
	"sync/atomic"

	"weir/scheduler/quota"
)

// prices are what tokens of models cost, as a reload last had it.
type prices struct {
	atomic.Pointer[map[string]quota.Price]
}

// of is what a model's tokens cost now.
func (p *prices) of(model string) quota.Price { return (*p.Load())[model] }

// ofVersion is what the tokens of a version cost: its own price, or that of its model.
func (p *prices) ofVersion(model, version string) quota.Price {
	prices := *p.Load()
	for _, name := range []string{model + "@" + version, model + ":" + version} {
		if price, ok := prices[name]; ok && version != "" {
			return price
		}
	}
	return prices[model]
}
