package openai

import (
	"bytes"
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

// lease is a call's hold on the version that answers it.
type lease struct {
	*call
	label  string               // of the version that the request names
	held   *models.VersionLease // the version that answers; nil: none is held
	chosen router.Arm           // of the version that answers, also when it is held no more

	again  bool // a request that generates or pools, which another version may be asked
	failed bool // the candidate of a rollout has failed the request
	stable bool // so that the stable version answers

	loadBegan, loaded time.Time // when the call waited for the version to be in memory; zero: it did not
}

// take gives the version that answers in the place of an entry of the table, and waits
// until it is in memory, at most until the time by. The call holds it until release.
func (l *lease) take(m *models.Model, o *job.Body, t *priority.Terms, endpoint string) (*models.Model, *api.Error) {
	if m.Versions == nil {
		return m, nil
	}
	a := &models.VersionRequest{Model: m.ID, Version: l.label, ID: l.id, Tenant: l.caller.Tenant.Name, Endpoint: endpoint, Pinned: l.label != "", Spare: l.stable, Residency: l.caller.Tenant.Residency}
	if o != nil {
		a.Conversation = conversationOf(o.Object)
	}
	held, err := m.Versions.Acquire(a)
	if err != nil {
		return nil, versionFault(err)
	}
	held.Request = a
	l.held, l.chosen = &held, held.Arm
	if held.Model == nil {
		if fault := l.awaitVersion(m, o, t); fault != nil {
			return nil, fault
		}
	}
	if held.Label != "" {
		l.ctx.Response.Header.Set("X-Weir-Version", headerText(held.Label))
	}
	if held.Arm.Name != "" {
		l.ctx.Response.Header.Set("X-Weir-Arm", held.Arm.Name)
	}
	own := *held.Model
	own.ID, own.Aliases, own.Adapter, own.Price, own.Policy = m.ID, m.Aliases, m.Adapter, m.Price, held.Policy
	if held.Price != (quota.Price{}) {
		own.Price = held.Price
		return l.priced(&own), nil
	}
	return &own, nil
}

// versionFault is what a client is told that no version answers.
func versionFault(err error) *api.Error {
	if errors.Is(err, models.ErrNoVersion) {
		return &api.Error{Status: http.StatusNotFound, Type: api.TypeInvalidRequest, Code: "model_not_found", Param: "model", Message: err.Error()}
	}
	return edge.Fault(err)
}

// awaitVersion waits for the held version to be in memory. Meanwhile others have the
// call's permit.
func (l *lease) awaitVersion(m *models.Model, o *job.Body, t *priority.Terms) (fault *api.Error) {
	had := l.permit != nil
	l.releasePermit()
	l.loadBegan = time.Now()
	defer func() { l.loaded = time.Now() }()
	var err error
	if l.held.Model, err = l.await(l.held.Load, t); err != nil {
		if fault = l.server.config.Hooks.Interrupted(m.ID, err); fault != nil {
			return fault
		}
		return versionFault(err)
	}
	if had {
		fault = l.acquirePermit()
		o.Permit = l.permit
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
func (l *lease) await(load func(context.Context) (*models.Model, error), t *priority.Terms) (*models.Model, error) {
	ctx, cancel := l.context()
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

// release ends the call's hold on its version, unless a stream has taken it over.
func (l *lease) release() {
	if l.held != nil {
		l.held.Release()
		l.held = nil
	}
}

// holding lets a stream keep the call's version until it is closed.
func (l *lease) holding(body answerStream) answerStream {
	if l.held == nil {
		return body
	}
	h := &heldStream{answerStream: body, release: l.held.Release}
	l.held = nil
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

// handOver lets go of the call's version where something else ends later than the call.
func (l *lease) handOver() func() {
	held := l.held
	l.held = nil
	return func() {
		if held != nil {
			held.Release()
		}
	}
}

// copied keeps what a copy of the call's request needs; nil: no copy is wanted, or the body does not
// have all that the model reads.
func (l *lease) copied() func(texts []string, f *edge.RequestFinish) {
	if l.held == nil || l.held.Copy == nil || bytes.Contains(l.ctx.PostBody(), []byte(`"previous_response_id"`)) {
		return nil
	}
	kept := &models.Copy{Request: *l.held.Request, Body: bytes.Clone(l.ctx.PostBody()), Residency: l.caller.Tenant.Residency}
	want := l.held.Copy
	return func(texts []string, f *edge.RequestFinish) {
		kept.Texts, kept.Finish = texts, *f
		want(kept)
	}
}
