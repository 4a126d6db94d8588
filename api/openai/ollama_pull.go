package openai

import (
	"cmp"
	"context"
	"io"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/jsonbody"
	"weir/api/openai/ollama"
	"weir/api/tenant"
)

// serveOllamaPull answers POST /api/pull: programs pull a model before they use it, also one that is here. One that is not is the operator's to
// bring: a pull takes disk and memory of all tenants, and what it brings answers in the server's name. So it needs --allow-pull, and the scope
// admin.
func serveOllamaPull(c *call) *api.Error {
	o, fault := c.body()
	if fault != nil {
		return fault
	}
	name, _ := o.Text("model", &fault)
	older, _ := o.Text("name", &fault)
	streams := o.Flag("stream", true, &fault)
	if name = cmp.Or(name, older); name == "" && fault == nil {
		fault = jsonbody.Missing("model", "the name of a model")
	}
	if fault != nil {
		return fault
	}
	_, fault = c.named(name)
	switch {
	case fault == nil:
		return tellPull(c, streams, nil)
	case fault.Code != "model_not_found":
		return fault
	case !c.server.config.Pulls || c.server.config.Ollama == nil:
		return notOllamas(c)
	case !c.caller.Scope.Has(tenant.ScopeAdmin):
		return edge.LacksScope(tenant.ScopeAdmin)
	}
	select {
	case c.server.pulls <- struct{}{}:
	default:
		return api.Refuse("server_is_overloaded", "another model is being pulled; retry when it is there")
	}
	s, by := c.server, c.caller.Tenant.Name
	if !s.running.Enter() {
		<-s.pulls
		return edge.ShuttingDown()
	}
	return tellPull(c, streams, func(ctx context.Context, tell func(status string, done, total int64)) error {
		defer func() { <-s.pulls; s.running.Leave() }()
		return s.config.Ollama.Pull(ctx, name, by, tell)
	})
}

// pulling brings a model in and tells how far it is.
type pulling func(ctx context.Context, tell func(status string, done, total int64)) error

// tellPull answers with the progress of a pull; nil: there is nothing to do.
func tellPull(c *call, streams bool, pull pulling) *api.Error {
	if pull == nil {
		pull = func(_ context.Context, tell func(string, int64, int64)) error {
			tell("pulling manifest", 0, 0)
			return nil
		}
	}
	ctx, cancel := c.untilStopped()
	if !streams {
		defer cancel(nil)
		c.untilHangUp(ctx, cancel)
		if err := pull(ctx, func(string, int64, int64) {}); err != nil {
			return api.Refuse("upstream_unavailable", err.Error())
		}
		c.ctx.SetContentType("application/json")
		c.ctx.SetBody(ollama.AppendProgress(nil, "success", 0, 0))
		return nil
	}
	reader, writer := io.Pipe()
	go func() {
		p := progress{to: writer}
		err := pull(ctx, p.tell)
		if err != nil {
			_, _ = writer.Write(append(ollama.AppendFault(nil, api.Refuse("upstream_unavailable", err.Error()), ""), '\n')) // the client has gone, or reads it
		} else {
			p.tell("success", 0, 0)
		}
		_ = writer.Close() // never fails
	}()
	c.events(&pullBody{PipeReader: reader, cancel: cancel})
	return nil
}

// progress writes how far a pull is, of bytes no more often than people read.
type progress struct {
	to     io.Writer
	status string
	told   time.Time
}

const tellEvery = 200 * time.Millisecond

func (p *progress) tell(status string, done, total int64) {
	if now := time.Now(); status != p.status || done == total || now.Sub(p.told) >= tellEvery {
		p.status, p.told = status, now
		_, _ = p.to.Write(append(ollama.AppendProgress(nil, status, done, total), '\n')) // a client that has gone ends the pull
	}
}

// pullBody is the answer of a pull, which ends with it.
type pullBody struct {
	*io.PipeReader
	cancel context.CancelCauseFunc
}

// Close implements io.Closer.
func (b *pullBody) Close() error {
	b.cancel(edge.ErrHungUp)
	return b.PipeReader.Close()
}
