package server

import (
	"weir/api/web"
	"weir/router/registry/catalog"
)

// newPages is the protocol of what browsers are shown on the API listener.
func newPages(s *Server) *web.Server {
	return web.New(web.Config{Home: s.predict, Hooks: s.watchers.Pages(), SignIn: s.callers.signIn, Catalog: func() web.Catalog { return offered(s.languages.budget, s.config.Registry.AllowPull) }})
}

// offeredContext is the context that a model of the catalog is taken to be served with: a long chat.
const offeredContext = 8192

// offered is what a machine with so much memory for models could serve; 0 is not known.
func offered(memoryBytes int64, pulls bool) web.Catalog {
	c := web.Catalog{MemoryBytes: memoryBytes, Pulls: pulls, Context: offeredContext}
	for _, m := range catalog.All() {
		o := web.Offered{
			Name: m.Name, Title: m.Title, Use: m.Use, About: m.About, Bytes: m.Bytes, NeedsBytes: m.NeedsBytes(offeredContext), Command: m.Command(),
		}
		if memoryBytes > 0 {
			fits := o.NeedsBytes <= memoryBytes
			o.Fits = &fits
		}
		c.Models = append(c.Models, o)
	}
	return c
}
