package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"weir/api/edge"
	"weir/api/openai/generation"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/relay"
	"weir/internal/inference"
	"weir/router"
)

// shadowElsewhere has a copy answered by the servers behind a model: as a stream, whose times are
// what is compared, of a chat where the API of the copy is another.
func (s *Server) shadowElsewhere(ctx context.Context, e *endpoint, m *models.Model, o *job.Body, residency []string) (generation.Shadowed, error) {
	sent, path := o.Object, e.upstream
	if e.reword != nil {
		w, fault := e.reword(o)
		if fault != nil {
			return generation.Shadowed{}, fault
		}
		w.Finish(o.Object)
		sent, path = w.ForServers(&params.Params{}), relay.PathChat
	}
	sent = sent.Without("stream", "stream_options")
	sent.Add("stream", []byte("true"))
	sent.Add("stream_options", []byte(`{"include_usage":true}`))
	if !s.running.Enter() {
		return generation.Shadowed{}, edge.ShuttingDown()
	}
	defer s.running.Leave()
	caller := shadows
	caller.Residency = residency
	c := &router.Call{
		Path: path, Stream: true, Domain: shadows.CacheDomain(), Residency: residency,
		Head: router.Head{RequestID: "shadow", Class: inference.Batch.String(), Caller: s.callers.SignerFor(&caller)},
	}
	c.Body, c.Prompt = relay.WithoutModel(sent)
	began := time.Now()
	a, err := m.Upstream.Send(ctx, c)
	defer a.Release()
	switch {
	case errors.Is(err, router.ErrNoReplica):
		return generation.Shadowed{}, fmt.Errorf("%w: %w", inference.ErrQueueFull, err)
	case err != nil:
		return generation.Shadowed{}, err
	case a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable:
		return generation.Shadowed{}, fmt.Errorf("%w: status %d: %.200q", inference.ErrQueueFull, a.Status, a.Whole)
	case a.Status != http.StatusOK:
		return generation.Shadowed{}, fmt.Errorf("status %d: %.200q", a.Status, a.Whole)
	}
	p := &relay.Exchange{
		Relay: &relay.Relay{Hooks: &edge.Hooks{}, Running: s.running}, Answer: a, Texts: &relay.Texts{}, Name: []byte(`""`),
		Cancel: func(error) {}, Cause: func() error { return context.Cause(ctx) },
	}
	if a.Events == nil {
		p.Read(a.Whole, p.Account.Chunk(a.Whole))
		p.Texts.Read(relay.ChatForm, a.Whole)
	} else {
		defer func() { _ = a.Events.Close() }() // all that was wanted of it was read
		stream := relay.NewUnseenStream(p)
		if _, err := io.Copy(io.Discard, stream); err != nil {
			return generation.Shadowed{}, err
		}
		if fault := stream.Failure(); fault != nil {
			return generation.Shadowed{}, errors.Join(fault, p.Result.Cause)
		}
	}
	f := &p.Result
	got := generation.Shadowed{Texts: p.Texts.Said(), Output: f.OutputTokens, TTFT: generation.Since(began, f.FirstToken)}
	if gaps := f.OutputTokens - len(got.Texts); gaps > 0 && !f.FirstToken.IsZero() {
		got.ITL = f.LastToken.Sub(f.FirstToken) * time.Duration(len(got.Texts)) / time.Duration(gaps)
	}
	return got, nil
}
