package predict

import (
	"weir/api"
	"weir/scheduler/quota"
)

// gone is closed when the call's answer is not wanted any more: the client hung up, or the process has ended it.
func (c *call) gone() <-chan struct{} {
	if c.Internal != nil {
		return c.Internal.Gone
	}
	return api.Watch(c.Ctx)
}

// priceOf is what the job pays for its rows.
func (s *Server) priceOf(j *job) quota.Price {
	if s.config.Price == nil {
		return quota.Price{}
	}
	price := s.config.Price(j.about.Name, j.about.Version).OfClass(j.p.Class)
	if j.Internal != nil && j.Internal.PricePercent != 100 {
		price = price.Percent(j.Internal.PricePercent)
	}
	return price
}
