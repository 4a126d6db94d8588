package openai

import (
	"bytes"
	"net/http"

	"weir/api"
)

// serveMetrics serves the operator's metrics on the API's port, for those whose
// scrapers reach no other. They show every tenant's load, so they ask for the
// key, which scrapers can send.
func serveMetrics(c *call) *api.Error {
	request, err := http.NewRequest(http.MethodGet, routeMetrics, http.NoBody)
	if err != nil {
		return internalError("build a scrape: " + err.Error())
	}
	request.Header.Set("Accept", string(c.ctx.Request.Header.Peek("Accept")))
	page := &page{header: make(http.Header), status: statusOK}
	c.server.config.Metrics.ServeHTTP(page, request)
	c.ctx.SetStatusCode(page.status)
	c.ctx.SetContentType(page.header.Get("Content-Type"))
	c.ctx.SetBody(page.body.Bytes())
	return nil
}

// page is an http.ResponseWriter that keeps what is written.
type page struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (p *page) Header() http.Header                  { return p.header }
func (p *page) WriteHeader(status int)               { p.status = status }
func (p *page) Write(text []byte) (n int, err error) { return p.body.Write(text) }
