package openai

import (
	"weir/api"
	"weir/api/conversation"
	"weir/api/openai/job"
	"weir/api/openai/responses"
	"weir/api/openai/stored"
)

// stored is the call as stored responses see it.
func (c *call) stored() *stored.Call {
	return &stored.Call{Responses: c.server.responses, Ctx: c.ctx, Tenant: c.caller.Tenant, ID: c.rest, Gone: c.watch, Events: c.events}
}

func serveStoredResponse(c *call) *api.Error { return c.stored().Serve() }

func serveInputItems(c *call) *api.Error { return c.stored().ServeInputItems() }

func cancelResponse(c *call) *api.Error { return c.stored().ServeCancel() }

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
