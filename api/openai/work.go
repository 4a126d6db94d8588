package openai

import (
	"time"

	"weir/api/edge"
)

// What a request takes of the processors beside the engine counts as its tenant's compute time: reading its prompt with
// template and tokens, compiling its format, and what endpoints such as /tokenize are for.

// works measures such work until the function that it returns is called; what the call waits and rests for its permit is left out.
func (c *call) works() (ended func()) {
	began, away := time.Now(), c.permit.Away()
	return func() { c.beside += time.Since(began) - (c.permit.Away() - away) }
}

// tellWork reports the work.
func (c *call) tellWork() {
	h := c.server.config.Hooks.OnWork
	if h == nil || c.beside <= 0 || c.caller.Tenant == nil {
		return
	}
	w := edge.Work{Tenant: c.caller.Tenant, Key: c.caller.KeyID(), Ended: time.Now(), Took: c.beside, Started: c.started}
	if c.found != nil {
		w.Model = c.found.ID
	}
	h(w)
}
