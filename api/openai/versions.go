package openai

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/priority"
	"weir/internal/inference"
	"weir/router"
	"weir/scheduler/quota"
)

// serving gives the version that answers in the place of an entry of the table, and waits
// until it is in memory, at most until the time by. The call holds it until letGo.
func (c *call) serving(m *models.Model, o *job.Body, t *priority.Terms, endpoint string) (*models.Model, *api.Error) {
	if m.Versions == nil {
		return m, nil
	}
	a := &models.Ask{Model: m.ID, Version: c.label, ID: c.id, Tenant: c.caller.Tenant.Name, Endpoint: endpoint, Pinned: c.label != "", Spare: c.spare, Residency: c.caller.Tenant.Residency}
	if o != nil {
		a.Conversation = conversationOf(o.Object)
	}
	held, err := m.Versions.Acquire(a)
	switch {
	case errors.Is(err, models.ErrNoVersion):
		return nil, &api.Error{Status: http.StatusNotFound, Type: api.TypeInvalidRequest, Code: "model_not_found", Param: "model", Message: err.Error()}
	case err != nil:
		return nil, edge.Fault(err)
	}
	held.Ask = a
	c.held, c.chosen = &held, held.Arm
	if held.Model == nil {
		if fault := c.awaitVersion(m, o, t); fault != nil {
			return nil, fault
		}
	}
	if held.Label != "" {
		c.ctx.Response.Header.Set("X-Weir-Version", headerText(held.Label))
	}
	if held.Arm.Name != "" {
		c.ctx.Response.Header.Set("X-Weir-Arm", held.Arm.Name)
	}
	own := *held.Model
	own.ID, own.Aliases, own.Price, own.Policy = m.ID, m.Aliases, m.Price, held.Policy
	if held.Price != (quota.Price{}) {
		own.Price = held.Price
		return c.priced(&own), nil
	}
	return &own, nil
}

// awaitVersion waits for the held version to be in memory. Meanwhile others have the
// call's turn.
func (c *call) awaitVersion(m *models.Model, o *job.Body, t *priority.Terms) (fault *api.Error) {
	had := c.turn != nil
	c.endTurn()
	var err error
	if c.held.Model, err = c.await(c.held.Load, t); err != nil {
		if fault = c.server.config.Hooks.Interrupted(m.ID, err); fault != nil {
			return fault
		}
		return edge.Fault(err)
	}
	if had {
		fault = c.takeTurn()
		o.Turn = c.turn
	}
	return fault
}

// headerText keeps what no header may have out of it.
func headerText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '_'
		}
		return r
	}, s)
}

// await waits for a load until the client hangs up, the server stops, or the request's
// time is over.
func (c *call) await(load func(context.Context) (*models.Model, error), t *priority.Terms) (*models.Model, error) {
	ctx, cancel := c.context()
	defer cancel(nil)
	if t != nil {
		for _, by := range []struct {
			at  time.Time
			why error
		}{{t.FirstTokenBy, inference.ErrDeadline}, {t.DoneBy, inference.ErrDeadline}, {t.WaitUntil, inference.ErrQueueTimeout}} {
			if !by.at.IsZero() {
				var stop context.CancelFunc
				ctx, stop = context.WithDeadlineCause(ctx, by.at, by.why) //nolint:fatcontext // three deadlines at most
				defer stop()
			}
		}
	}
	return load(ctx)
}

// letGo ends the call's hold on its version, unless a stream has taken it over.
func (c *call) letGo() {
	if c.held != nil {
		c.held.Release()
		c.held = nil
	}
}

// holding lets a stream keep the call's version until it is closed.
func (c *call) holding(body answerStream) answerStream {
	if c.held == nil {
		return body
	}
	h := &heldStream{answerStream: body, release: c.held.Release}
	c.held = nil
	return h
}

// heldStream is a stream of a version that leaves memory no earlier than the stream ends.
type heldStream struct {
	answerStream
	release func() // nil: called
}

// Close implements io.Closer.
func (h *heldStream) Close() error {
	err := h.answerStream.Close()
	if h.release != nil {
		h.release()
		h.release = nil
	}
	return err
}

var _ io.ReadCloser = (*heldStream)(nil)

// conversationOf is the same for all requests of a conversation: the client's own key, or
// else a digest of how it begins. "" is not known.
func conversationOf(o *jsonbody.Object) string {
	for i := range o.Fields {
		if f := &o.Fields[i]; f.Name == "prompt_cache_key" && len(f.Raw) > 2 && f.Raw[0] == '"' {
			return string(f.Raw)
		}
	}
	for i := range o.Fields {
		f := &o.Fields[i]
		if f.Name != "messages" {
			continue
		}
		list, fault := jsonbody.Array(f.Name, f.Raw, math.MaxInt32)
		if fault != nil {
			return ""
		}
		h := fnv.New128a()
		for _, message := range list[:min(2, len(list))] { // the system's and the user's first, or the user's and an answer
			_, _ = h.Write(message) // never fails
			if strings.Contains(string(message[:min(len(message), 4096)]), `"user"`) {
				break
			}
		}
		return string(h.Sum(nil))
	}
	return ""
}

// arm is that of the rollout that chose the call's version.
func (c *call) arm() router.Arm {
	return c.chosen
}
