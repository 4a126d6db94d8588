package openai

import (
	"weir/api"
	"weir/api/edge"
	"weir/api/openai/generation"
	"weir/api/openai/job"
	"weir/api/openai/responses"
	"weir/api/openai/stored"
	"weir/scheduler/quota"
)

// run reserves, submits the job and answers. For a stream the generation goes over
// to the response's body, which ends it.
func (c *generating) run(j *job.Job, who quota.Holder) *api.Error {
	s := c.server
	if !s.running.Enter() {
		return edge.ShuttingDown()
	}
	handedOver := false
	defer func() {
		if !handedOver {
			s.running.Leave()
		}
	}()
	recalled := c.recall(j)
	ask, most := s.ask(j)
	if recalled.IsHit() {
		ask.Output, ask.Most, most = 0, 0, 0
	}
	paid, fault := c.reserve(who, ask, most)
	if fault != nil {
		return fault
	}
	submitted := false
	defer func() {
		if !submitted {
			paid.Settle(quota.Use{})
		}
	}()
	if fault, answered := c.key.take(); answered {
		return fault
	}
	c.started = true
	gone := c.watch()
	var run *stored.Run
	if j.Background {
		run = s.responses.Runs.Add(stored.KeyOf(j))
		gone = run.Cancel
		defer func() {
			if !handedOver {
				s.responses.Runs.End(stored.KeyOf(j), run)
			}
		}()
	}
	g, fault := s.runner.Start(j, paid, recalled, gone)
	if fault != nil {
		return fault
	}
	submitted = true
	returned := false
	defer func() {
		if handedOver {
			return
		}
		if !returned { // a panic is on its way to the boundary that answers it
			g.Fail(internalError("panic"))
		}
		g.End()
	}()
	if j.Params.Stream && run == nil {
		body := generation.NewEventStream(g, s.running.Leave)
		if fault = body.Await(); fault == nil {
			handedOver = true
			c.stream(body)
		}
		returned = true
		return fault
	}
	if run != nil {
		fault = c.runInBackground(g, run)
		handedOver, returned = fault == nil, true
		return fault
	}
	fault = g.Run()
	if fault == nil {
		if g.Result.Limit != "" {
			j.Params.Notes.Add("the answer ended at %s %s", g.Bill.Whose(), g.Result.Limit)
			warn(c.ctx, j.Params.Notes)
		}
		c.ctx.SetContentType("application/json")
		c.ctx.SetBody(g.Answer())
		c.warnUnkept(j)
	}
	returned = true
	return fault
}

// runInBackground leaves a generation to a goroutine of its own, and answers with its response as it is now, or with its events.
func (c *generating) runInBackground(g *generation.Generation, run *stored.Run) *api.Error {
	body, fault := c.stored().Run(g, run, c.lease.handOver())
	if body != nil {
		c.stream(body)
	}
	return fault
}

// warnUnkept tells the client of a whole answer that it cannot come back to it.
func (c *generating) warnUnkept(j *job.Job) {
	if r := responses.RequestOf(j); r != nil && r.Keeper != nil && !r.Store {
		j.Params.Notes.Add("the response is not kept so far: the store of responses fails or is slow")
		warn(c.ctx, j.Params.Notes)
	}
}
