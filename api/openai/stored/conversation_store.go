package stored

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"hash/maphash"
	"math"
	"strings"
	"sync"

	"weir/api"
	"weir/api/conversation"
	"weir/api/openai/jsonbody"
	"weir/api/openai/responses"
	"weir/api/openai/translation"
)

// A conversation of /v1/conversations is a record of the same store as responses: its items are the record's input, what is told of it is the
// object, and its status is another word with each change. It changes by being replaced, where nothing has changed it meanwhile.

// ConversationPrefix begins the ids of conversations.
const ConversationPrefix = "conv_"

const mostConversationBytes = 8 << 20

// locks let one request at a time change a conversation in this process.
type locks [64]sync.Mutex

var seed = maphash.MakeSeed()

func (l *locks) of(tenant, id string) *sync.Mutex {
	return &l[maphash.String(seed, tenant+"\x00"+id)%uint64(len(l))]
}

// findConversation finds a conversation of the caller's tenant.
func (c *Call) findConversation(id string) (*conversation.Response, *api.Error) {
	if !c.keepsResponses() {
		return nil, noConversation(id)
	}
	return c.Responses.findConversation(c.Tenant.Name, id)
}

func (s *Responses) findConversation(tenant, id string) (*conversation.Response, *api.Error) {
	if !strings.HasPrefix(id, ConversationPrefix) {
		return nil, noConversation(id)
	}
	ctx, cancel := askContext()
	defer cancel()
	r, err := s.config.Store.FindResponse(ctx, tenant, id)
	switch {
	case errors.Is(err, conversation.ErrUnknown):
		return nil, noConversation(id)
	case err != nil:
		s.config.failed(err)
		return nil, Unavailable()
	}
	return r, nil
}

// itemsOf are the items of a conversation.
func itemsOf(r *conversation.Response) ([]json.RawMessage, *api.Error) {
	items, fault := jsonbody.Array("", r.Input, math.MaxInt32)
	if fault != nil {
		return nil, api.Refuse("internal_error", "a stored conversation cannot be read")
	}
	return items, nil
}

// errChanged says that a change has to be made to a newer state.
var errChanged = &api.Error{}

// replaceConversation stores a conversation in the place of a state; "": it is new.
func (s *Responses) replaceConversation(r *conversation.Response, state string) *api.Error {
	if r.Bytes() > mostConversationBytes {
		return api.RefuseParam("invalid_value", "items", "the conversation would have more than %d bytes; begin another one", mostConversationBytes)
	}
	ctx, cancel := historyContext()
	defer cancel()
	r.Replaces, r.Status = state, rand.Text()
	err := s.config.Store.KeepResponse(ctx, r, s.config.TTL)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, conversation.ErrChanged):
		return errChanged
	case errors.Is(err, conversation.ErrUnknown):
		return noConversation(r.ID)
	}
	s.config.failed(err)
	return Unavailable()
}

// changeConversation changes a conversation of the caller's tenant.
func (c *Call) changeConversation(id string, change func(*conversation.Response) *api.Error) (*conversation.Response, *api.Error) {
	if !c.keepsResponses() {
		return nil, noConversation(id)
	}
	return c.Responses.changeConversation(c.Tenant.Name, id, change)
}

// mostTries is how often a change is tried where other processes change a conversation at the same time.
const mostTries = 16

// changeConversation changes a conversation, which stays what it was where that fails. change may be called again, with a newer state.
func (s *Responses) changeConversation(tenant, id string, change func(*conversation.Response) *api.Error) (*conversation.Response, *api.Error) {
	l := s.conversations.of(tenant, id)
	l.Lock()
	defer l.Unlock()
	for range mostTries {
		r, fault := s.findConversation(tenant, id)
		if fault == nil {
			fault = change(r)
		}
		if fault == nil {
			fault = s.replaceConversation(r, r.Status)
		}
		if fault != errChanged {
			return r, fault
		}
	}
	return nil, Unavailable()
}

// adding is the change that adds items.
func adding(added []json.RawMessage) func(*conversation.Response) *api.Error {
	return func(r *conversation.Response) *api.Error {
		items, fault := itemsOf(r)
		if fault != nil {
			return fault
		}
		if len(items)+len(added) > translation.MaxItems {
			return api.RefuseParam("invalid_value", "items", "the conversation would have more than %d items; begin another one", translation.MaxItems)
		}
		r.Input = joinItems(append(items, added...))
		return nil
	}
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
	items, fault := jsonbody.Array("", k.input, math.MaxInt32)
	output, unread := outputOf(object)
	if fault == nil && unread == nil { // a conversation that is full, or was deleted meanwhile, stays as it is
		_, _ = k.responses.changeConversation(k.tenant, k.id, adding(append(items, output...)))
	}
	return kept
}
