package stored

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/conversation"
	"weir/api/edge"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/responses"
	"weir/api/tenant"
)

// Responses are kept unless their request says store: false, so that clients can read them
// again and go on from them.

// Responses are the responses that a server keeps, and those that it computes without their clients.
type Responses struct {
	config         Config
	running        *edge.Running
	heartbeatEvery time.Duration // of streams that are read again
	KeepWait       time.Duration // of the end of an answer for its write; tests change it before the first request
	Runs           Runs
	unkept         unkept
	late           writes
	conversations  locks
}

// New returns those of a server that keeps none yet.
func New(c Config, running *edge.Running, heartbeatEvery time.Duration) *Responses {
	s := &Responses{config: c, running: running, heartbeatEvery: heartbeatEvery, KeepWait: defaultKeepWait}
	s.Runs.LookEvery = lookForCancelEvery
	return s
}

// Call is a request that has to do with stored responses.
type Call struct {
	Responses *Responses
	Ctx       *fasthttp.RequestCtx
	Tenant    *tenant.Tenant
	ID        string                 // of the response that the path names
	Gone      func() <-chan struct{} // gives the channel that is closed when the client hangs up; nil: it never does
	Events    func(io.ReadCloser)    // answers with events
}

// Unkept counts the responses that their request wanted to be kept and that the store did not take.
func (s *Responses) Unkept() uint64 { return s.unkept.count.Load() }

// IsFailing reports whether the store did not take the last response.
func (s *Responses) IsFailing() bool { return s.unkept.now.Load() }

// NewKeeper keeps a response, of which record says whose it is and what its request has added.
func (s *Responses) NewKeeper(record conversation.Response) responses.Keeper {
	return &keeper{responses: s, record: record}
}

// Config says how responses are kept.
type Config struct {
	TTL         time.Duration      // of a response from its last use on; 0: none is kept
	TenantBytes int64              // of one tenant; the longest unused go first
	Store       conversation.Store // nil: in memory
	Failed      func(error)        // hears of a store that does not answer; may be nil
}

// keeps reports whether responses are kept at all.
func (s *Responses) keeps() bool { return s.config.TTL > 0 }

// keepsResponses reports whether those of the caller are kept.
func (c *Call) keepsResponses() bool {
	return c.Responses.keeps() && !c.Tenant.KeepsNothing()
}

// keepsNothing says why responses are not kept.
func (c *Call) keepsNothing() string {
	if c.Tenant.KeepsNothing() {
		return "nothing of this tenant is kept (retention: none)"
	}
	return "this server keeps no responses (--responses-ttl 0)"
}

func (r *Config) failed(err error) {
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

// Recall finds the items that a request goes on from.
func (c *Call) Recall(o *job.Body) *api.Error {
	o.KeepsResponses = c.keepsResponses()
	if fault := c.recallConversation(o); fault != nil || o.Conversation != "" {
		return fault
	}
	var fault *api.Error
	id, ok := o.Text("previous_response_id", &fault)
	if !ok || id == "" {
		return fault
	}
	if !o.KeepsResponses {
		return jsonbody.Unsupported("previous_response_id", "send the whole conversation as input: "+c.keepsNothing())
	}
	c.Responses.settle(c.Tenant.Name, id)
	ctx, cancel := askContext()
	defer cancel()
	chain, err := c.Responses.config.Store.Conversation(ctx, c.Tenant.Name, id)
	if err == nil && !namesResponse(id) {
		err = conversation.ErrUnknown
	}
	if err != nil {
		return c.lostConversation(id, err)
	}
	o.Previous = id
	for _, r := range chain {
		if r.Lost {
			return api.RefuseParam("previous_response_not_found", "previous_response_id", "the response %s has failed: the process that computed it is gone; "+
				"ask again, or send the whole conversation as input", jsonbody.HeaderQuote(r.ID))
		}
		if !r.Finished() {
			return api.RefuseParam("previous_response_not_found", "previous_response_id", "the response %s is not finished; wait for its end", jsonbody.HeaderQuote(r.ID))
		}
		input, fault := jsonbody.Array("", r.Input, math.MaxInt32)
		if fault != nil {
			return api.Refuse("internal_error", "a stored response cannot be read; send the whole conversation as input")
		}
		output, fault := outputOf(r.Object)
		if fault != nil {
			return fault
		}
		o.Earlier = append(append(o.Earlier, input...), output...)
	}
	return nil
}

func (c *Call) lostConversation(id string, err error) *api.Error {
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
	c.Responses.config.failed(err)
	return Unavailable()
}

// Unavailable is the fault of a store that does not answer.
func Unavailable() *api.Error {
	return api.Refuse("responses_unavailable", "the store of responses does not answer; retry, or send the whole conversation as input with store: false")
}

// outputOf gives the items of a response's output.
func outputOf(object []byte) ([]json.RawMessage, *api.Error) {
	o, fault := jsonbody.ParseObject("", object, jsonbody.MaxFields)
	if fault != nil {
		return nil, api.Refuse("internal_error", "a stored response cannot be read; send the whole conversation as input")
	}
	raw, ok := o.Take("output")
	if !ok {
		return nil, nil
	}
	return jsonbody.Array("", raw, math.MaxInt32)
}

// keeper keeps a response as it changes. Its owner is the goroutine that answers.
type keeper struct {
	responses *Responses
	record    conversation.Response // without object and status
	begun     bool                  // a state of it was stored
}

// Keep stores an object; false where that failed.
func (k *keeper) Keep(status string, object []byte) bool {
	r := k.record
	r.Begun = k.begun
	r.Status, r.Object = status, append([]byte(nil), object...)
	ctx, cancel := historyContext()
	defer cancel()
	c := &k.responses.config
	err := c.Store.KeepResponse(ctx, &r, c.TTL)
	if err != nil && !errors.Is(err, conversation.ErrFinished) && !errors.Is(err, conversation.ErrUnknown) {
		k.responses.unkept.add()
		c.failed(err)
		return false
	}
	k.begun = true
	k.responses.unkept.over()
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

// namesResponse reports whether an id is not that of another kind of record.
func namesResponse(id string) bool {
	return !strings.HasPrefix(id, ConversationPrefix) && !strings.HasPrefix(id, ChatPrefix)
}

// findResponse finds the response that the path names.
func (c *Call) findResponse() (*conversation.Response, *api.Error) {
	if !c.Responses.keeps() || !namesResponse(c.ID) {
		return nil, c.noResponse()
	}
	c.Responses.settle(c.Tenant.Name, c.ID)
	ctx, cancel := askContext()
	defer cancel()
	r, err := c.Responses.config.Store.FindResponse(ctx, c.Tenant.Name, c.ID)
	switch {
	case errors.Is(err, conversation.ErrUnknown):
		return nil, c.noResponse()
	case err != nil:
		c.Responses.config.failed(err)
		return nil, Unavailable()
	}
	return r, nil
}

func (c *Call) noResponse() *api.Error {
	return api.RefuseParam("response_not_found", "response_id", "no response %s is kept: it never was, was deleted, or was not used for too long", jsonbody.HeaderQuote(c.ID))
}

func (c *Call) deleteResponse() *api.Error {
	if !c.Responses.keeps() || !namesResponse(c.ID) {
		return c.noResponse()
	}
	c.Responses.settle(c.Tenant.Name, c.ID)
	if _, fault := c.Responses.Runs.stop(Key{c.Tenant.Name, c.ID}); fault != nil { // its end would be kept again
		return fault
	}
	ctx, cancel := historyContext()
	defer cancel()
	err := c.Responses.config.Store.DeleteResponse(ctx, c.Tenant.Name, c.ID)
	c.Responses.Runs.Forget(c.Tenant.Name, c.ID)
	switch {
	case errors.Is(err, conversation.ErrUnknown):
		return c.noResponse()
	case err != nil:
		c.Responses.config.failed(err)
		return Unavailable()
	}
	api.WriteJSON(c.Ctx, http.StatusOK, struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{c.ID, "response", true})
	return nil
}

// objectOf is a stored response as clients get it: one whose process is gone has failed.
func objectOf(r *conversation.Response) []byte {
	if !r.Lost {
		return r.Object
	}
	fault := api.Refuse("request_cancelled", "the process that computed the response is gone; ask again")
	return WithStatus(r.Object, "failed", responses.AppendFault(nil, fault))
}

// WithStatus gives an object another status and error.
func WithStatus(object []byte, status string, fault []byte) []byte {
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

// ServeInputItems lists the items that a request has added to its conversation, the last first
// unless order says asc.
func (c *Call) ServeInputItems() *api.Error {
	r, fault := c.findResponse()
	if fault != nil {
		return fault
	}
	return c.listItems(r.Input, "desc")
}

// listing says which part of a list is wanted.
type listing struct {
	limit  int
	newest bool // the last first
	after  string
}

// readPage reads limit, order and after of the query.
func (c *Call) readPage(order string) (p listing, fault *api.Error) {
	args := c.Ctx.QueryArgs()
	p = listing{limit: defaultItems, after: string(args.Peek("after"))}
	if raw := args.Peek("limit"); raw != nil {
		n, ok := jsonbody.ParseIndex(string(raw))
		if !ok || n < 1 || n > mostItems {
			return p, api.RefuseParam("invalid_value", "limit", "limit is %s; it must be between 1 and %d", jsonbody.HeaderQuote(string(raw)), mostItems)
		}
		p.limit = n
	}
	if own := string(args.Peek("order")); own != "" {
		order = own
	}
	switch p.newest = order == "desc"; {
	case p.newest, order == "asc":
		return p, nil
	}
	return p, api.RefuseParam("invalid_value", "order", "order is %s; it must be asc or desc", jsonbody.HeaderQuote(order))
}

// listItems answers with a page of items: limit, order, after.
func (c *Call) listItems(list []byte, order string) *api.Error {
	items, fault := jsonbody.Array("", list, math.MaxInt32)
	if fault != nil {
		return api.Refuse("internal_error", "a stored response cannot be read")
	}
	p, fault := c.readPage(order)
	if fault != nil {
		return fault
	}
	if p.newest {
		slices.Reverse(items)
	}
	if p.after != "" {
		for len(items) > 0 {
			id := itemID(items[0])
			if items = items[1:]; id == p.after {
				break
			}
		}
	}
	more := len(items) > p.limit
	items = items[:min(p.limit, len(items))]
	api.WriteJSON(c.Ctx, http.StatusOK, pageOf(items, more))
	return nil
}

// page is a part of a list of items.
type page struct {
	Object string            `json:"object"`
	Data   []json.RawMessage `json:"data"`
	First  *string           `json:"first_id"`
	Last   *string           `json:"last_id"`
	More   bool              `json:"has_more"`
}

func pageOf(items []json.RawMessage, more bool) page {
	p := page{Object: "list", Data: []json.RawMessage{}, More: more}
	if n := len(items); n > 0 {
		first, last := itemID(items[0]), itemID(items[n-1])
		p.Data, p.First, p.Last = items, &first, &last
	}
	return p
}

func itemID(item []byte) string {
	var named struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(item, &named) // stored items are objects
	return named.ID
}

// Serve answers for one response: GET and DELETE.
func (c *Call) Serve() *api.Error {
	if string(c.Ctx.Method()) == http.MethodDelete {
		return c.deleteResponse()
	}
	if c.Ctx.QueryArgs().GetBool("stream") {
		return c.streamResponse()
	}
	r, fault := c.findResponse()
	if fault != nil {
		return fault
	}
	c.Ctx.SetContentType("application/json")
	c.Ctx.SetBody(objectOf(r))
	return nil
}
