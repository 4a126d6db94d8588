package openai

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"time"

	"weir/api"
	"weir/api/meter"
	ledger "weir/api/usage" // usage is a type of this package
)

const (
	reportsAtOnce = 4               // reports of usage that are read from the store at one time
	reportTimeout = 5 * time.Second // of one
)

// usageView is a tenant's own usage and limits, as GET /v1/usage shows them.
type usageView struct {
	Object string            `json:"object"`
	Tenant string            `json:"tenant"`
	Limits []meter.LimitView `json:"limits"`
	*ledger.Report
}

// serveUsage answers GET /v1/usage: what the caller's tenant has used, and what its limits and budgets have left.
func serveUsage(c *call) *api.Error {
	args := c.ctx.QueryArgs()
	v, err := url.ParseQuery(string(args.QueryString()))
	if err != nil {
		return api.RefuseParam("invalid_value", "", "the query of the URL cannot be read: %v", err)
	}
	q, err := ledger.ParseQuery(v, time.Now())
	csv := false
	if err == nil {
		csv, err = ledger.WantsCSV(v.Get("format"), c.header("Accept"))
	}
	if e, ok := errors.AsType[*ledger.QueryError](err); ok {
		return api.RefuseParam("invalid_value", e.Param, "%s", e.Message)
	}
	q.Tenant, q.Alone = c.caller.Tenant.Name, true
	view := usageView{Object: "usage", Tenant: q.Tenant, Limits: []meter.LimitView{}}
	if m := c.server.config.Meter; m != nil {
		standings, err := meter.Standings(m, c.caller.Tenant, c.caller.Key)
		if err != nil {
			return meter.Fault(err)
		}
		view.Limits = meter.ViewOf(standings)
	}
	var fault *api.Error
	if view.Report, fault = usageReport(c, q); fault != nil {
		return fault
	}
	if !csv {
		api.WriteJSON(c.ctx, statusOK, view)
		return nil
	}
	if view.Report == nil {
		return api.Refuse("unsupported_operation", "this server keeps no usage, so there are no rows; without format=csv it tells the limits")
	}
	var body bytes.Buffer
	_ = view.WriteCSV(&body) // memory takes all
	c.ctx.SetContentType(ledger.MediaTypeCSV)
	c.ctx.SetBody(body.Bytes())
	return nil
}

// usageReport is the tenant's usage; nil where none is kept.
func usageReport(c *call, q ledger.Query) (*ledger.Report, *api.Error) {
	s := c.server
	if s.config.Usage == nil {
		return nil, nil
	}
	select {
	case s.reports <- struct{}{}:
		defer func() { <-s.reports }()
	default:
		e := api.Refuse("rate_limit_exceeded", "as many reports of usage are being read as may be at once; try again in 1s")
		e.RetryAfter = time.Second
		return nil, e
	}
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	report, err := s.config.Usage.Report(ctx, q)
	if err != nil {
		return nil, api.Refuse("usage_unavailable", "the store of usage does not answer; retry") // its error names the database
	}
	return &report, nil
}
