package openai

import (
	"weir/api"
	"weir/scheduler/quota"
)

// gone is closed when nobody wants the call's answer any more: the client hung up, or whoever sent the
// errand has ended it.
func (c *call) gone() <-chan struct{} {
	if c.errand != nil {
		return c.errand.Gone
	}
	return api.Watch(c.ctx)
}

// priced is a model at the prices that the call pays.
func (c *call) priced(m *Model) *Model {
	if c.errand == nil || c.errand.PricePercent == 100 || m.Price == (quota.Price{}) {
		return m
	}
	own := *m
	own.Price = m.Price.Percent(c.errand.PricePercent)
	return &own
}
