package stored

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/api/conversation"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/responses"
)

const mostAdded = 20 // items by one request, as with OpenAI

func noConversation(id string) *api.Error {
	return api.RefuseParam("conversation_not_found", "conversation_id", "no conversation %s is kept: it never was, was deleted, or was not used for too long", jsonbody.HeaderQuote(id))
}

// CreateConversation answers POST /v1/conversations.
func (c *Call) CreateConversation(o *jsonbody.Object, id string) *api.Error {
	if !c.keepsResponses() {
		return api.Refuse("unsupported_operation", "conversations are not kept: "+c.keepsNothing())
	}
	var fault *api.Error
	metadata := o.Metadata(&fault)
	items := readItems(o, "items", id, false, &fault)
	o.Finish(&fault)
	if fault != nil {
		return fault
	}
	r := &conversation.Response{Tenant: c.Tenant.Name, ID: ConversationPrefix + id, Input: joinItems(items), Object: conversationObject(ConversationPrefix+id, time.Now().Unix(), metadata)}
	if fault := c.Responses.replaceConversation(r, ""); fault != nil {
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
	switch string(c.Ctx.Method()) {
	case http.MethodDelete:
		return c.deleteConversation()
	case http.MethodPost:
		return c.describeConversation(body)
	}
	r, fault := c.findConversation(c.ID)
	if fault == nil {
		c.answer(r.Object)
	}
	return fault
}

// describeConversation gives a conversation other metadata.
func (c *Call) describeConversation(body func() (*jsonbody.Object, *api.Error)) *api.Error {
	o, fault := body()
	if fault != nil {
		return fault
	}
	if !o.Has("metadata") {
		fault = jsonbody.Missing("metadata", "an object of texts, which takes the place of the conversation's own")
	}
	metadata := o.Metadata(&fault)
	o.Finish(&fault)
	if fault != nil {
		return fault
	}
	r, fault := c.changeConversation(c.ID, func(r *conversation.Response) *api.Error {
		var old struct {
			Created int64 `json:"created_at"`
		}
		_ = json.Unmarshal(r.Object, &old) // it was written here
		r.Object = conversationObject(r.ID, old.Created, metadata)
		return nil
	})
	if fault == nil {
		c.answer(r.Object)
	}
	return fault
}

func (c *Call) deleteConversation() *api.Error {
	if !c.keepsResponses() || !strings.HasPrefix(c.ID, ConversationPrefix) {
		return noConversation(c.ID)
	}
	ctx, cancel := historyContext()
	defer cancel()
	err := c.Responses.config.Store.DeleteResponse(ctx, c.Tenant.Name, c.ID)
	switch {
	case errors.Is(err, conversation.ErrUnknown):
		return noConversation(c.ID)
	case err != nil:
		c.Responses.config.failed(err)
		return Unavailable()
	}
	api.WriteJSON(c.Ctx, http.StatusOK, map[string]any{"id": c.ID, "object": "conversation.deleted", "deleted": true})
	return nil
}

// ServeConversationItems answers for the items of a conversation: GET lists them, POST adds some, which are called by id.
func (c *Call) ServeConversationItems(id string, body func() (*jsonbody.Object, *api.Error)) *api.Error {
	if string(c.Ctx.Method()) != http.MethodPost {
		r, fault := c.findConversation(c.ID)
		if fault != nil {
			return fault
		}
		return c.listItems(r.Input, "desc")
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
	if _, fault = c.changeConversation(c.ID, adding(added)); fault != nil {
		return fault
	}
	api.WriteJSON(c.Ctx, http.StatusOK, pageOf(added, false))
	return nil
}

// ServeConversationItem answers for one item: GET, DELETE. The call's id has both ids, with /items/ between.
func (c *Call) ServeConversationItem() *api.Error {
	id, item, _ := strings.Cut(c.ID, "/items/")
	if string(c.Ctx.Method()) != http.MethodDelete {
		r, fault := c.findConversation(id)
		if fault != nil {
			return fault
		}
		items, at, fault := findItem(r, item)
		if fault == nil {
			c.answer(items[at])
		}
		return fault
	}
	r, fault := c.changeConversation(id, func(r *conversation.Response) *api.Error {
		items, at, fault := findItem(r, item)
		if fault == nil {
			r.Input = joinItems(slices.Delete(items, at, at+1))
		}
		return fault
	})
	if fault == nil {
		c.answer(r.Object)
	}
	return fault
}

// findItem finds an item among those of a conversation.
func findItem(r *conversation.Response, item string) (items []json.RawMessage, at int, fault *api.Error) {
	if items, fault = itemsOf(r); fault != nil {
		return nil, 0, fault
	}
	if at = slices.IndexFunc(items, func(raw json.RawMessage) bool { return itemID(raw) == item }); at < 0 {
		return nil, 0, api.RefuseParam("conversation_not_found", "item_id", "the conversation %s has no item %s", jsonbody.HeaderQuote(r.ID), jsonbody.HeaderQuote(item))
	}
	return items, at, nil
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
	c.Responses.settle(c.Tenant.Name, id)
	r, fault := c.findConversation(id)
	if fault != nil {
		fault.Param = "conversation"
		return fault
	}
	o.Conversation = id
	o.Earlier, fault = itemsOf(r)
	return fault
}
