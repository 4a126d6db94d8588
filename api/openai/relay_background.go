package openai

import (
	"context"

	"weir/api"
	"weir/api/openai/relay"
	"weir/api/openai/responses"
	"weir/api/openai/stored"
	"weir/router"
)

// inBackground answers with the response as it is now, and has its answer computed without
// the client.
func (r *relaying) inBackground(ctx context.Context, p *relay.Exchange, sent *router.Call) *api.Error {
	s, j := r.server, r.Job
	object, kept := responses.Begin(j)
	if !kept {
		s.responses.Runs.End(stored.KeyOf(j), p.Run)
		p.End()
		return stored.Unavailable()
	}
	var body *relay.TranslatedStream
	if j.Params.Stream {
		body = relay.NewTranslatedStream(p, j, len(sent.Tokens))
		r.stored().BeginEvents(p.Run, body.Encoder)
	} else {
		r.ctx.SetContentType("application/json")
		r.ctx.SetBody(object)
	}
	release := r.lease.handOver()
	go func() {
		defer func() {
			release()
			s.responses.Runs.End(stored.KeyOf(j), p.Run)
		}()
		defer p.End()
		over := make(chan struct{})
		defer close(over)
		go s.responses.LookForCancel(stored.KeyOf(j), p.Run, over)
		if body != nil {
			p.AskEvents(ctx, r.Request, sent, body)
			return
		}
		if fault := p.AskWhole(ctx, r.Request, sent); fault != nil {
			responses.KeepFault(j, fault)
		}
	}()
	if body != nil {
		r.stream(r.stored().Follow(p.Run.Events, 0))
	}
	return nil
}
