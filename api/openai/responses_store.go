package openai

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"weir/api"
	"weir/api/conversation"
	"weir/api/edge"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/responses"
)

// Responses are kept unless their request says store: false, so that clients can read them
// again and go on from them.

// Responses says how responses are kept.
type Responses struct {
	TTL         time.Duration      // of a response from its last use on; 0: none is kept
	TenantBytes int64              // of one tenant; the longest unused go first
	Store       conversation.Store // nil: in memory
	Failed      func(error)        // hears of a store that does not answer; nil: nobody does
}

func (s *Server) keepsResponses() bool { return s.config.Responses.TTL > 0 }

// keepsResponses reports whether those of the caller are kept.
func (c *call) keepsResponses() bool {
	return c.server.keepsResponses() && !c.caller.Tenant.KeepsNothing()
}

// keepsNothing says why responses are not kept.
func (c *call) keepsNothing() string {
	if c.caller.Tenant.KeepsNothing() {
		return "nothing of this tenant is kept (retention: none)"
	}
	return "this server keeps no responses (--responses-ttl 0)"
}

func (r *Responses) failed(err error) {
	if r.Failed != nil {
		r.Failed(err)
	}
}

// historyTimeout bounds each other call of the store of responses.
const historyTimeout = 10 * time.Second

func historyContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), historyTimeout)
}

// askContext bounds what a request waits for before it runs.
func askContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), edge.AskTimeout)
}

// recallConversation finds the items that a request goes on from.
func (c *call) recallConversation(o *job.Body) *api.Error {
	o.KeepsResponses = c.keepsResponses()
	var fault *api.Error
	id, ok := o.Text("previous_response_id", &fault)
	if !ok || id == "" {
		return fault
	}
	if !o.KeepsResponses {
		return jsonbody.Unsupported("previous_response_id", "send the whole conversation as input: "+c.keepsNothing())
	}
	ctx, cancel := askContext()
	defer cancel()
	chain, err := c.server.config.Responses.Store.Conversation(ctx, c.caller.Tenant.Name, id)
	if err != nil {
		return c.lostConversation(id, err)
	}
	o.Previous = id
	for _, r := range chain {
		if !r.Finished() {
			return api.RefuseParam("previous_response_not_found", "previous_response_id", "the response %s is not finished; wait for its end", jsonbody.HeaderQuote(r.ID))
		}
		input, fault := jsonbody.Array("", r.Input, math.MaxInt32)
		if fault != nil {
			return internalError("a stored response cannot be read; send the whole conversation as input")
		}
		output, fault := outputOf(r.Object)
		if fault != nil {
			return fault
		}
		o.Earlier = append(append(o.Earlier, input...), output...)
	}
	return nil
}

func (c *call) lostConversation(id string, err error) *api.Error {
	const wayOut = "send the whole conversation as input"
	broken, isBroken := errors.AsType[*conversation.BrokenError](err)
	switch {
	case isBroken:
		return api.RefuseParam("previous_response_not_found", "previous_response_id",
			"the conversation of %s cannot be gone on with, since its earlier response %s is gone; %s", jsonbody.HeaderQuote(id), broken.Missing, wayOut)
	case errors.Is(err, conversation.ErrUnknown):
		return api.RefuseParam("previous_response_not_found", "previous_response_id",
			"no response %s is kept: it never was, was deleted, or was not used for too long; %s", jsonbody.HeaderQuote(id), wayOut)
	case errors.Is(err, conversation.ErrTooLong):
		return api.RefuseParam("previous_response_not_found", "previous_response_id",
			"the conversation of %s has more than %d responses or %d bytes; %s", jsonbody.HeaderQuote(id), conversation.MaxResponses, conversation.MaxBytes, wayOut)
	}
	c.server.config.Responses.failed(err)
	return responsesUnavailable()
}

func responsesUnavailable() *api.Error {
	return api.Refuse("responses_unavailable", "the store of responses does not answer; retry, or send the whole conversation as input with store: false")
}

// outputOf gives the items of a response's output.
func outputOf(object []byte) ([]json.RawMessage, *api.Error) {
	o, fault := jsonbody.ParseObject("", object, jsonbody.MaxFields)
	if fault != nil {
		return nil, internalError("a stored response cannot be read; send the whole conversation as input")
	}
	raw, ok := o.Take("output")
	if !ok {
		return nil, nil
	}
	return jsonbody.Array("", raw, math.MaxInt32)
}

// keeper keeps a response as it changes. Its owner is the goroutine that answers.
type keeper struct {
	server *Server
	record conversation.Response // without object and status
}

// Keep stores an object; false where that failed.
func (k *keeper) Keep(status string, object []byte) bool {
	r := k.record
	r.Status, r.Object = status, append([]byte(nil), object...)
	ctx, cancel := historyContext()
	defer cancel()
	c := &k.server.config.Responses
	err := c.Store.KeepResponse(ctx, &r, c.TTL)
	if err != nil && !errors.Is(err, conversation.ErrFinished) {
		k.server.unkept.add()
		c.failed(err)
		return false
	}
	k.server.unkept.over()
	return true
}

// unkept counts responses that their request wanted to be kept and that the store did not take.
type unkept struct {
	count atomic.Uint64
	now   atomic.Bool // the last one was not kept
}

func (u *unkept) add() {
	u.count.Add(1)
	u.now.Store(true)
}

func (u *unkept) over() {
	if u.now.Load() {
		u.now.Store(false)
	}
}

// Unkept counts the responses that their request wanted to be kept and that the store did not take.
func (s *Server) Unkept() uint64 { return s.unkept.count.Load() }

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
	r.Keeper = &keeper{server: c.server, record: conversation.Response{
		Tenant: c.caller.Tenant.Name, ID: j.ID, Previous: r.Previous, Input: r.StoredInput(j.ID),
	}}
}

// storedResponse answers for one response: GET and DELETE.
func (c *call) storedResponse() *api.Error {
	if string(c.ctx.Method()) == http.MethodDelete {
		return c.deleteResponse()
	}
	if c.ctx.QueryArgs().GetBool("stream") {
		return c.streamResponse()
	}
	r, fault := c.findResponse()
	if fault != nil {
		return fault
	}
	c.ctx.SetContentType("application/json")
	c.ctx.SetBody(objectOf(r))
	return nil
}

// findResponse finds the response that the path names.
func (c *call) findResponse() (*conversation.Response, *api.Error) {
	if !c.server.keepsResponses() {
		return nil, c.noResponse()
	}
	ctx, cancel := askContext()
	defer cancel()
	r, err := c.server.config.Responses.Store.FindResponse(ctx, c.caller.Tenant.Name, c.rest)
	switch {
	case errors.Is(err, conversation.ErrUnknown):
		return nil, c.noResponse()
	case err != nil:
		c.server.config.Responses.failed(err)
		return nil, responsesUnavailable()
	}
	return r, nil
}

func (c *call) noResponse() *api.Error {
	return api.RefuseParam("response_not_found", "response_id", "no response %s is kept: it never was, was deleted, or was not used for too long", jsonbody.HeaderQuote(c.rest))
}

func (c *call) deleteResponse() *api.Error {
	if !c.server.keepsResponses() {
		return c.noResponse()
	}
	ctx, cancel := historyContext()
	defer cancel()
	err := c.server.config.Responses.Store.DeleteResponse(ctx, c.caller.Tenant.Name, c.rest)
	c.server.background.forget(c.caller.Tenant.Name, c.rest)
	switch {
	case errors.Is(err, conversation.ErrUnknown):
		return c.noResponse()
	case err != nil:
		c.server.config.Responses.failed(err)
		return responsesUnavailable()
	}
	api.WriteJSON(c.ctx, statusOK, struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{c.rest, "response", true})
	return nil
}

// objectOf is a stored response as clients get it: one whose process is gone has failed.
func objectOf(r *conversation.Response) []byte {
	if !r.Lost {
		return r.Object
	}
	fault := api.Refuse("request_cancelled", "the process that computed the response is gone; ask again")
	return withStatus(r.Object, "failed", responses.AppendFault(nil, fault))
}

// withStatus gives an object another status and error.
func withStatus(object []byte, status string, fault []byte) []byte {
	o, err := jsonbody.ParseObject("", object, jsonbody.MaxFields)
	if err != nil {
		return object
	}
	for i := range o.Fields {
		switch f := &o.Fields[i]; f.Name {
		case "status":
			f.Raw = api.AppendString(nil, status)
		case "error":
			f.Raw = fault
		}
	}
	o.Add("status", api.AppendString(nil, status)) // another server may have left them out
	o.Add("error", fault)
	return o.AppendJSON(nil)
}

const (
	defaultItems = 20
	mostItems    = 100
)

// inputItems lists the items that a request has added to its conversation, the last first
// unless order says asc.
func (c *call) inputItems() *api.Error {
	r, fault := c.findResponse()
	if fault != nil {
		return fault
	}
	items, fault := jsonbody.Array("", r.Input, math.MaxInt32)
	if fault != nil {
		return internalError("a stored response cannot be read")
	}
	args := c.ctx.QueryArgs()
	limit := defaultItems
	if raw := args.Peek("limit"); raw != nil {
		n, ok := jsonbody.ParseIndex(string(raw))
		if !ok || n < 1 || n > mostItems {
			return api.RefuseParam("invalid_value", "limit", "limit is %s; it must be between 1 and %d", jsonbody.HeaderQuote(string(raw)), mostItems)
		}
		limit = n
	}
	switch order := string(args.Peek("order")); order {
	case "", "desc":
		for i, k := 0, len(items)-1; i < k; i, k = i+1, k-1 {
			items[i], items[k] = items[k], items[i]
		}
	case "asc":
	default:
		return api.RefuseParam("invalid_value", "order", "order is %s; it must be asc or desc", jsonbody.HeaderQuote(order))
	}
	if after := string(args.Peek("after")); after != "" {
		for len(items) > 0 {
			id := itemID(items[0])
			if items = items[1:]; id == after {
				break
			}
		}
	}
	more := len(items) > limit
	items = items[:min(limit, len(items))]
	page := struct {
		Object string            `json:"object"`
		Data   []json.RawMessage `json:"data"`
		First  *string           `json:"first_id"`
		Last   *string           `json:"last_id"`
		More   bool              `json:"has_more"`
	}{Object: "list", Data: items, More: more}
	if n := len(items); n > 0 {
		first, last := itemID(items[0]), itemID(items[n-1])
		page.First, page.Last = &first, &last
	} else {
		page.Data = []json.RawMessage{}
	}
	api.WriteJSON(c.ctx, statusOK, page)
	return nil
}

func itemID(item []byte) string {
	var named struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(item, &named) // stored items are objects
	return named.ID
}
