package openai

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"io"
	"net/http"
	"strings"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/moderation"
	"weir/api/openai/jsonbody"
	"weir/internal/inference"
	"weir/router"
	"weir/scheduler/quota"
)

// Versions hold what answers for the names of the model table, where that is not the same
// for every request: a model that is loaded on demand, or several versions between which a
// rollout divides requests. Implementations are safe for concurrent use.
type Versions interface {
	// Outline says what requests to a name find, without loading anything.
	Outline(model string) Outline
	// Acquire chooses a version for a request and holds it. Errors wrap ErrNoVersion or
	// one of inference's sentinels.
	Acquire(a *Ask) (Held, error)
}

// ErrNoVersion says that a model has no version of the label that a request names.
var ErrNoVersion = errors.New("no such version")

// Outline is what is known of a model, in memory or not.
type Outline struct {
	Version     string // digest of what answers
	Label       string // its name among the versions
	State       string // "loaded", "absent", "loading" …
	MaxModelLen int
	Dimensions  int // of vectors; 0: it gives none
	Scores      int // of a reranker; 0: it scores nothing
	Policy      *moderation.Policy
	Load        router.Load
}

// Ask is what the choice of a version may depend on.
type Ask struct {
	Model        string // id of the table's entry
	Version      string // label behind the name's @; empty: any
	ID           string // of the request
	Tenant       string
	Conversation string // what the client says of it, or a digest of its beginning
	Endpoint     string
	Residency    []string // regions of the servers that may get the request; none: all
	Pinned       bool     // the request names its version
	Spare        bool     // the candidate of a rollout has failed it: the stable version answers in its place
}

// Held is a version that a request holds until Release. Model is nil where it is not in
// memory: then Load waits for it, as long as ctx.
type Held struct {
	Model   *Model
	Load    func(ctx context.Context) (*Model, error)
	Release func()
	Policy  *moderation.Policy // of the version; nil: it has none
	Label   string             // x-weir-version
	Price   quota.Price        // of the version; without one it is the model's
	Arm     router.Arm         // of the rollout that chose it
	Spare   func() bool        // the version is a rollout's candidate: reports whether the stable version may be asked in its place; nil: it may not
	Copy    func(*Copy)        // wants the request and its answer, once that is whole, and must not block; nil: it does not

	ask *Ask
}

func (o *Outline) kind() kind {
	switch {
	case o.Scores > 0:
		return kindRank
	case o.Dimensions > 0:
		return kindEmbedding
	}
	return kindGenerate
}

// splitVersion takes NAME@LABEL apart.
func splitVersion(name string) (model, label string) {
	if i := strings.LastIndexByte(name, '@'); i > 0 && i+1 < len(name) {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// serving gives the version that answers in the place of an entry of the table, and waits
// until it is in memory, at most until the time by. The call holds it until letGo.
func (c *call) serving(m *Model, o *request, t *terms, endpoint string) (*Model, *api.Error) {
	if m.Versions == nil {
		return m, nil
	}
	a := &Ask{Model: m.ID, Version: c.label, ID: c.id, Tenant: c.caller.Tenant.Name, Endpoint: endpoint, Pinned: c.label != "", Spare: c.spare, Residency: c.caller.Tenant.Residency}
	if o != nil {
		a.Conversation = conversationOf(o.Object)
	}
	held, err := m.Versions.Acquire(a)
	switch {
	case errors.Is(err, ErrNoVersion):
		return nil, &api.Error{Status: http.StatusNotFound, Type: api.TypeInvalidRequest, Code: "model_not_found", Param: "model", Message: err.Error()}
	case err != nil:
		return nil, edge.Fault(err)
	}
	held.ask = a
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
func (c *call) awaitVersion(m *Model, o *request, t *terms) (fault *api.Error) {
	had := c.turn != nil
	c.endTurn()
	var err error
	if c.held.Model, err = c.await(c.held.Load, t); err != nil {
		if fault = c.server.interrupted(m.ID, err); fault != nil {
			return fault
		}
		return edge.Fault(err)
	}
	if had {
		fault = c.takeTurn()
		o.turn = c.turn
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
func (c *call) await(load func(context.Context) (*Model, error), t *terms) (*Model, error) {
	ctx, cancel := c.context()
	defer cancel(nil)
	if t != nil {
		for _, by := range []struct {
			at  time.Time
			why error
		}{{t.firstTokenBy, inference.ErrDeadline}, {t.doneBy, inference.ErrDeadline}, {t.waitUntil, inference.ErrQueueTimeout}} {
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
		list, fault := jsonbody.Array(f.Name, f.Raw, maxInt32)
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

// outline is what an entry's Versions say of it.
func (m *Model) outline() Outline {
	if m.Versions == nil {
		return Outline{}
	}
	o := m.Versions.Outline(m.ID)
	o.State = cmp.Or(o.State, "loaded")
	return o
}
