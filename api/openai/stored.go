package openai

import (
	"weir/api"
	"weir/api/conversation"
	"weir/api/openai/generation"
	"weir/api/openai/job"
	"weir/api/openai/responses"
	"weir/api/openai/stored"
)

// stored is the call as stored responses see it.
func (c *call) stored() *stored.Call {
	return &stored.Call{Responses: c.server.responses, Ctx: c.ctx, Tenant: c.caller.Tenant, ID: c.rest, Gone: c.watch, Events: c.events}
}

func (c *call) storedResponse() *api.Error { return c.stored().Serve() }

func (c *call) inputItems() *api.Error { return c.stored().ServeInputItems() }

func (c *call) cancelResponse() *api.Error { return c.stored().ServeCancel() }

// releaser lets go of the call's version where something else ends later than the call.
func (c *call) releaser() func() {
	held := c.held
	c.held = nil
	return func() {
		if held != nil {
			held.Release()
		}
	}
}

// runInBackground leaves a generation to a goroutine of its own, and answers with its response as it is now, or with its events.
func (c *call) runInBackground(g *generation.Generation, run *stored.Run) *api.Error {
	body, fault := c.stored().Run(g, run, c.releaser())
	if body != nil {
		c.stream(body)
	}
	return fault
}

// warnUnkept tells the client of a whole answer that it cannot come back to it.
func (c *call) warnUnkept(j *job.Job) {
	if r := responses.RequestOf(j); r != nil && r.Keeper != nil && !r.Store {
		j.Params.Notes.Add("the response is not kept: the store of responses failed")
		warn(c.ctx, j.Params.Notes)
	}
}

// keepResponse prepares a job's response for being kept.
func (c *call) keepResponse(j *job.Job) {
	r := responses.RequestOf(j)
	if r == nil || !r.Store {
		return
	}
	r.Keeper = c.server.responses.NewKeeper(conversation.Response{
		Tenant: c.caller.Tenant.Name, ID: j.ID, Previous: r.Previous, Input: r.StoredInput(j.ID),
	})
}

// Unkept counts the responses that their request wanted to be kept and that the store did not take.
func (s *Server) Unkept() uint64 { return s.responses.Unkept() }
