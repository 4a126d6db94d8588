package predict

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/scheduler/quota"
)

// Serves reports whether predictions are made at a path with a method, as errands ask for them. The model may be unknown.
func (s *Server) Serves(method, path string) bool {
	if method != http.MethodPost || strings.ContainsAny(path, "?#") {
		return false
	}
	rt, ours := s.findPath(edge.RequestPath([]byte(path)))
	return ours && rt.model != "" && (rt.endpoint == verbsV1["predict"] || rt.endpoint == modelV2["/infer"])
}

// HandleFor answers a prediction that the process itself asks for in a caller's name, on a path that Serves knows; see edge.Errand.
func (s *Server) HandleFor(ctx *fasthttp.RequestCtx, errand *edge.Errand) {
	rt, ours := s.find(&ctx.Request.Header)
	c := &call{Server: s, ctx: ctx, route: &rt, job: job{arrived: time.Now(), caller: errand.Caller, errand: errand}}
	if !ours {
		c.route = &route{endpoint: unknownV2}
	}
	c.identify()
	var fault *api.Error
	if method := edge.MethodName(&ctx.Request.Header); !c.route.takes(method) {
		fault = api.Refuse("method_not_allowed", fmt.Sprintf("%s does not take %s; it takes %s", c.route.pattern, method, c.route.method))
	}
	c.answer(fault)
}

// gone is closed when nobody wants the call's answer any more: the client hung up, or whoever sent the errand has ended it.
func (c *call) gone() <-chan struct{} {
	if c.errand != nil {
		return c.errand.Gone
	}
	return api.Watch(c.ctx)
}

// priceOf is what the job pays for its rows.
func (s *Server) priceOf(j *job) quota.Price {
	if s.config.Price == nil {
		return quota.Price{}
	}
	price := s.config.Price(j.about.Name, j.about.Version).OfClass(j.p.Class)
	if j.errand != nil && j.errand.PricePercent != 100 {
		price = price.Percent(j.errand.PricePercent)
	}
	return price
}
