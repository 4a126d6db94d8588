package stored

import (
	"encoding/json"
	"errors"
	"hash/maphash"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/api"
	"weir/api/conversation"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/responses"
	"weir/api/openai/translation"
)

// A conversation of /v1/conversations is a record of the same store: its items are the record's input, what is told of it is the
// object. It changes by being replaced, by one request at a time.

// ConversationPrefix begins the ids of conversations.
const ConversationPrefix = "conv_"

const (
	mostConversationBytes = 8 << 20
	mostAdded             = 20 // items by one request, as with OpenAI
)

// locks let one request at a time change a conversation in this process.
type locks [64]sync.Mutex

var seed = maphash.MakeSeed()

func (l *locks) of(tenant, id string) *sync.Mutex {
	return &l[maphash.String(seed, tenant+"\x00"+id)%uint64(len(l))]
}

func noConversation(id string) *api.Error {
	return api.RefuseParam("conversation_not_found", "conversation_id", "no conversation %s is kept: it never was, was deleted, or was not used for too long", jsonbody.HeaderQuote(id))
}

// findConversation finds a conversation of the caller's tenant.
func (c *Call) findConversation(id string) (*conversation.Response, *api.Error) {
	if !c.keepsResponses() || !strings.HasPrefix(id, ConversationPrefix) {
		return nil, noConversation(id)
	}
	ctx, cancel := askContext()
	defer cancel()
	r, err := c.Responses.config.Store.FindResponse(ctx, c.Tenant.Name, id)
	switch {
	case errors.Is(err, conversation.ErrUnknown):
		return nil, noConversation(id)
	case err != nil:
		c.Responses.config.failed(err)
		return nil, Unavailable()
	}
	return r, nil
}

// keepConversation stores a conversation in the place of its earlier state.
func (s *Responses) keepConversation(r *conversation.Response, fresh bool) *api.Error {
	if r.Bytes() > mostConversationBytes {
		return api.RefuseParam("invalid_value", "items", "the conversation would have more than %d bytes; begin another one", mostConversationBytes)
	}
	ctx, cancel := historyContext()
	defer cancel()
	if !fresh {
		switch err := s.config.Store.DeleteResponse(ctx, r.Tenant, r.ID); {
		case errors.Is(err, conversation.ErrUnknown):
			return noConversation(r.ID)
		case err != nil:
			s.config.failed(err)
			return Unavailable()
		}
	}
	if err := s.config.Store.KeepResponse(ctx, r, s.config.TTL); err != nil {
		s.config.failed(err)
		return Unavailable()
	}
	return nil
}

// CreateConversation answers POST /v1/conversations.
func (c *Call) CreateConversation(o *jsonbody.Object, id string) *api.Error {
	if !c.keepsResponses() {
		return api.Refuse("unsupported_operation", "conversations are not kept: "+c.keepsNothing())
	}
	var fault *api.Error
	metadata := readMetadata(o, &fault)
	items := readItems(o, "items", id, false, &fault)
	o.Finish(&fault)
	if fault != nil {
		return fault
	}
	r := &conversation.Response{Tenant: c.Tenant.Name, ID: ConversationPrefix + id, Status: "completed", Input: joinItems(items), Object: conversationObject(ConversationPrefix+id, time.Now().Unix(), metadata)}
	if fault := c.Responses.keepConversation(r, true); fault != nil {
		return fault
	}
	c.answer(r.Object)
	return nil
}

// conversationObject is {"id","object","created_at","metadata"}.
func conversationObject(id string, created int64, metadata []byte) []byte {
	dst := api.AppendString([]byte(`{"id":`), id)
	dst = strconv.AppendInt(append(dst, `,"object":"conversation","created_at":`...), created, 10)
	return append(append(append(dst, `,"metadata":`...), metadata...), '}')
}

func (c *Call) answer(body []byte) {
	c.Ctx.SetContentType("application/json")
	c.Ctx.SetBody(body)
}

// readMetadata reads an object of texts.
func readMetadata(o *jsonbody.Object, fault **api.Error) []byte {
	raw, ok := o.Take("metadata")
	if !ok {
		return []byte("{}")
	}
	var m map[string]string
	if err := json.Unmarshal(raw, &m); err != nil || len(m) > 16 {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "metadata", "metadata must be an object of at most 16 texts"))
	}
	return slices.Clone(raw)
}

// readItems reads items that are added to a conversation; each gets a type and an id.
func readItems(o *jsonbody.Object, name, id string, needed bool, fault **api.Error) []json.RawMessage {
	raw, ok := o.Take(name)
	if !ok {
		if needed {
			jsonbody.Keep(fault, jsonbody.Missing(name, "an array of items"))
		}
		return nil
	}
	list, err := jsonbody.Array(name, raw, mostAdded)
	if jsonbody.Keep(fault, err); err == nil {
		jsonbody.Keep(fault, responses.CheckItems(o, name, list))
	}
	if *fault != nil {
		return nil
	}
	items, err := jsonbody.Array(name, responses.StoredItems(raw, id), mostAdded)
	jsonbody.Keep(fault, err)
	return items
}

func joinItems(items []json.RawMessage) []byte {
	dst := []byte{'['}
	for i, item := range items {
		dst = append(api.AppendComma(dst, i), item...)
	}
	return append(dst, ']')
}

// ServeConversation answers for one conversation: GET, POST with metadata, DELETE.
func (c *Call) ServeConversation(body func() (*jsonbody.Object, *api.Error)) *api.Error {
	defer c.lockConversation(c.ID)()
	r, fault := c.findConversation(c.ID)
	if fault != nil {
		return fault
	}
	switch string(c.Ctx.Method()) {
	case http.MethodDelete:
		ctx, cancel := historyContext()
		defer cancel()
		if err := c.Responses.config.Store.DeleteResponse(ctx, c.Tenant.Name, c.ID); err != nil && !errors.Is(err, conversation.ErrUnknown) {
			c.Responses.config.failed(err)
			return Unavailable()
		}
		api.WriteJSON(c.Ctx, http.StatusOK, map[string]any{"id": c.ID, "object": "conversation.deleted", "deleted": true})
		return nil
	case http.MethodPost:
		o, fault := body()
		if fault != nil {
			return fault
		}
		metadata := readMetadata(o, &fault)
		o.Finish(&fault)
		if fault != nil {
			return fault
		}
		var old struct {
			Created int64 `json:"created_at"`
		}
		_ = json.Unmarshal(r.Object, &old) // it was written here
		r.Object = conversationObject(r.ID, old.Created, metadata)
		if fault := c.Responses.keepConversation(r, false); fault != nil {
			return fault
		}
	}
	c.answer(r.Object)
	return nil
}

func (c *Call) lockConversation(id string) (unlock func()) {
	l := c.Responses.conversations.of(c.Tenant.Name, id)
	l.Lock()
	return l.Unlock
}

// ServeConversationItems answers for the items of a conversation: GET lists them, POST adds some, which are called by id.
func (c *Call) ServeConversationItems(id string, body func() (*jsonbody.Object, *api.Error)) *api.Error {
	defer c.lockConversation(c.ID)()
	r, fault := c.findConversation(c.ID)
	if fault != nil {
		return fault
	}
	if string(c.Ctx.Method()) == http.MethodGet || string(c.Ctx.Method()) == http.MethodHead {
		return c.listItems(r.Input)
	}
	o, fault := body()
	if fault != nil {
		return fault
	}
	added := readItems(o, "items", id, true, &fault)
	o.Finish(&fault)
	if fault != nil {
		return fault
	}
	if fault := c.Responses.addItems(r, added); fault != nil {
		return fault
	}
	api.WriteJSON(c.Ctx, http.StatusOK, pageOf(added, false))
	return nil
}

// addItems adds items to a conversation, whose lock is held.
func (s *Responses) addItems(r *conversation.Response, added []json.RawMessage) *api.Error {
	items, fault := jsonbody.Array("", r.Input, math.MaxInt32)
	if fault != nil {
		return api.Refuse("internal_error", "a stored conversation cannot be read")
	}
	if len(items)+len(added) > translation.MaxItems {
		return api.RefuseParam("invalid_value", "items", "the conversation would have more than %d items; begin another one", translation.MaxItems)
	}
	r.Input = joinItems(append(items, added...))
	return s.keepConversation(r, false)
}

// ServeConversationItem answers for one item: GET, DELETE. The call's id has both ids, with /items/ between.
func (c *Call) ServeConversationItem() *api.Error {
	id, item, _ := strings.Cut(c.ID, "/items/")
	defer c.lockConversation(id)()
	r, fault := c.findConversation(id)
	if fault != nil {
		return fault
	}
	items, fault := jsonbody.Array("", r.Input, math.MaxInt32)
	if fault != nil {
		return api.Refuse("internal_error", "a stored conversation cannot be read")
	}
	at := slices.IndexFunc(items, func(raw json.RawMessage) bool { return itemID(raw) == item })
	switch {
	case at < 0:
		return api.RefuseParam("conversation_not_found", "item_id", "the conversation %s has no item %s", jsonbody.HeaderQuote(id), jsonbody.HeaderQuote(item))
	case string(c.Ctx.Method()) != http.MethodDelete:
		c.answer(items[at])
		return nil
	}
	r.Input = joinItems(slices.Delete(items, at, at+1))
	if fault := c.Responses.keepConversation(r, false); fault != nil {
		return fault
	}
	c.answer(r.Object)
	return nil
}

// recallConversation finds the items of the conversation that a request names; "" is none.
func (c *Call) recallConversation(o *job.Body) (fault *api.Error) {
	raw, ok := o.Take("conversation")
	if !ok {
		return nil
	}
	id := ""
	if raw[0] == '{' {
		var named *jsonbody.Object
		if named, fault = o.Parse("conversation", raw, jsonbody.MaxFields); fault == nil {
			id = named.Need("id", &fault)
			named.Finish(&fault)
		}
	} else {
		id, fault = jsonbody.String("conversation", raw)
	}
	switch {
	case fault != nil:
		return fault
	case o.Has("previous_response_id"):
		return api.RefuseParam("invalid_value", "conversation", "conversation and previous_response_id exclude each other; send one of them")
	}
	r, fault := c.findConversation(id)
	if fault != nil {
		fault.Param = "conversation"
		return fault
	}
	if o.Earlier, fault = jsonbody.Array("", r.Input, math.MaxInt32); fault != nil {
		return api.Refuse("internal_error", "a stored conversation cannot be read")
	}
	o.Conversation = id
	return nil
}

// InConversation is a keeper that adds what a request and its answer say to a conversation, where the answer has come to its end. inner keeps
// the response itself; nil: it is not kept.
func (s *Responses) InConversation(tenant, id string, input []byte, inner responses.Keeper) responses.Keeper {
	return &conversationKeeper{responses: s, tenant: tenant, id: id, input: input, inner: inner}
}

type conversationKeeper struct {
	responses  *Responses
	tenant, id string
	input      []byte
	inner      responses.Keeper
}

// Keep implements responses.Keeper.
func (k *conversationKeeper) Keep(status string, object []byte) bool {
	kept := k.inner == nil || k.inner.Keep(status, object)
	if status != "completed" && status != "incomplete" {
		return kept
	}
	l := k.responses.conversations.of(k.tenant, k.id)
	l.Lock()
	defer l.Unlock()
	ctx, cancel := historyContext()
	defer cancel()
	r, err := k.responses.config.Store.FindResponse(ctx, k.tenant, k.id)
	if err != nil {
		return kept // it was deleted meanwhile, or the store tells of itself
	}
	items, fault := jsonbody.Array("", k.input, math.MaxInt32)
	output, unread := outputOf(object)
	if fault == nil && unread == nil {
		_ = k.responses.addItems(r, append(items, output...)) // a conversation that is full stays as it is
	}
	return kept
}
