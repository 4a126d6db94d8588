package server

import (
	"sync/atomic"

	"weir/api/openai"
	"weir/configs"
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

// live is the live part of the prices, which the edge has, too.
func (p *prices) live(edge *openai.Server) livePart {
	return func(c configs.Config) (commit func(), err error) {
		return func() {
			p.Store(&c.Prices)
			edge.SetPrices(c.Prices)
		}, nil
	}
}
