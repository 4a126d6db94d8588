package openai

import (
	"weir/api"
	"weir/api/conversation"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
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

func serveChat(c *call) *api.Error { return c.stored().ServeChat(c.object) }

func serveChatMessages(c *call) *api.Error { return c.stored().ServeChatMessages() }

// chats answers requests for chats, and lists those that are kept.
func chats(c *call) *api.Error {
	if c.ctx.IsGet() || c.ctx.IsHead() {
		return c.stored().ListChats()
	}
	return generated(&chatEndpoint)(c)
}

func createConversation(c *call) *api.Error {
	o, fault := c.body()
	if fault != nil {
		return fault
	}
	return c.stored().CreateConversation(o.Object, c.id)
}

// object reads the body where a path takes one.
func (c *call) object() (*jsonbody.Object, *api.Error) {
	o, fault := c.body()
	if fault != nil {
		return nil, fault
	}
	return o.Object, nil
}

func serveConversation(c *call) *api.Error { return c.stored().ServeConversation(c.object) }

func serveConversationItems(c *call) *api.Error {
	return c.stored().ServeConversationItems(c.id, c.object)
}

func serveConversationItem(c *call) *api.Error { return c.stored().ServeConversationItem() }

// keepResponse prepares a job's response for being kept.
func (c *call) keepResponse(j *job.Job) {
	r := responses.RequestOf(j)
	if r == nil {
		return
	}
	kept := j.ID
	if r.Store {
		c.keepObject(j, r)
	}
	if r.Conversation != "" {
		kept = r.Conversation
		r.Keeper = c.server.responses.InConversation(c.caller.Tenant.Name, r.Conversation, r.StoredInput(j.ID), r.Keeper)
	}
	if r.Keeper != nil && !r.InBackground() {
		r.Keeper = c.server.responses.Soon(c.caller.Tenant.Name, kept, r.Keeper)
	}
}

// keepObject prepares a response itself for being kept.
func (c *call) keepObject(j *job.Job, r *responses.Request) {
	r.Keeper = c.server.responses.NewKeeper(conversation.Response{
		Tenant: c.caller.Tenant.Name, ID: j.ID, Previous: r.Previous, Input: r.StoredInput(j.ID),
	})
}

// Unkept counts the responses that their request wanted to be kept and that the store did not take.
func (s *Server) Unkept() uint64 { return s.responses.Unkept() }

// Late counts those whose answers did not wait for the store.
func (s *Server) Late() uint64 { return s.responses.Late() }
