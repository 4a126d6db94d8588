package openai

import (
	"context"

	"weir/api"
	"weir/api/openai/relay"
	"weir/api/openai/responses"
	"weir/api/openai/stored"
	"weir/router"
)

// relayInBackground answers with the response as it is now, and has its answer computed without
// the client.
func (c *call) relayInBackground(ctx context.Context, p *relay.Passage, r *relay.Request, sent *router.Call) *api.Error {
	s, j := c.server, r.Job
	object, kept := responses.Begin(j)
	if !kept {
		s.responses.Runs.End(stored.KeyOf(j), p.Run)
		p.End()
		return stored.Unavailable()
	}
	var body *relay.TranslatedStream
	if j.Params.Stream {
		body = relay.NewTranslatedStream(p, j, len(sent.Tokens))
		c.stored().BeginEvents(p.Run, body.Encoder)
	} else {
		c.ctx.SetContentType("application/json")
		c.ctx.SetBody(object)
	}
	release := c.releaser()
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
			p.AskEvents(ctx, r, sent, body)
			return
		}
		if fault := p.AskWhole(ctx, r, sent); fault != nil {
			responses.KeepFault(j, fault)
		}
	}()
	if body != nil {
		c.stream(c.stored().Follow(p.Run.Events, 0))
	}
	return nil
}
