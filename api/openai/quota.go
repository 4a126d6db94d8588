package openai

import (
	"errors"

	"weir/api"
	"weir/api/meter"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/scheduler/quota"
)

// holder is whom a request for a model counts for.
func (c *call) holder(m *models.Model) quota.Holder {
	if c.server.config.Meter == nil {
		return quota.Holder{Tenant: c.caller.Tenant.Name, Model: m.ID}
	}
	return c.caller.Holder(m.ID, m.Names()...)
}

// countRequest takes one request from the tenant's limits, for what is computed beside generations: tokens, templates.
// m is nil where no model of this server is asked.
func (c *call) countRequest(m *models.Model) *api.Error {
	if m == nil {
		m = &models.Model{}
	}
	paid, fault := c.reserve(c.holder(m), quota.Ask{}, 0)
	paid.Settle(quota.Use{Ran: true})
	return fault
}

// limitAnswer cuts the job's limit of output tokens to what the tenant's limits of
// one request allow, and refuses a prompt that leaves no room for an answer. A
// strict server refuses a limit that would be cut.
func (c *generating) limitAnswer(j *job.Job, who *quota.Holder) *api.Error {
	longest := int64(0)
	for i := range j.Prompts {
		longest = max(longest, int64(len(j.Prompts[i].IDs)))
	}
	p, most := j.Params, who.MaxAnswer(longest)
	if int64(j.MaxTokens) <= most {
		return nil
	}
	if asked := p.MaxTokens > 0 && int64(p.MaxTokens) > most; most < 1 || asked && p.Notes.Strict {
		return meter.Fault(who.Check(longest, max(int64(p.MaxTokens), 1)))
	} else if asked {
		p.Notes.Add("%s %d cut to %d by the tenant's limits", p.LengthName, p.MaxTokens, most)
	}
	j.MaxTokens = int(most)
	j.Params.MinTokens = min(p.MinTokens, j.MaxTokens)
	return nil
}

// reserve takes what a request is expected to use from the tenant's limits, and
// tells the client what is left.
func (c *call) reserve(who quota.Holder, ask quota.Ask, most int64) (*meter.Bill, *api.Error) {
	if who.Unlimited() {
		return nil, nil
	}
	m, h := c.server.config.Meter, &c.ctx.Response.Header
	g, err := m.Reserve(who, ask)
	if err != nil {
		if r, ok := errors.AsType[*quota.Refusal](err); ok {
			meter.WriteRemaining(h.Set, r.Remaining)
		}
		return nil, meter.Fault(err)
	}
	meter.WriteRemaining(h.Set, g.Remaining)
	if g.Degraded {
		h.Set("X-Weir-Quota", "local")
	}
	return meter.NewBill(m, g, most), nil
}

// pay reserves what a request is expected to use and takes its idempotency key: from here on the request is executed. over: it is not, since it
// is refused with a fault, or the key's answer is written.
func (c *call) pay(who quota.Holder, ask quota.Ask) (paid *meter.Bill, fault *api.Error, over bool) {
	if paid, fault = c.reserve(who, ask, 0); fault != nil {
		return nil, fault, true
	}
	if fault, over = c.key.take(); over {
		paid.Settle(quota.Use{})
		return nil, fault, true
	}
	c.started = true
	return paid, nil, false
}

// tellRemaining tells the client what is left, on an answer to a request that
// reserves nothing.
func (c *call) tellRemaining(m *models.Model) {
	if who := c.holder(m); !who.Unlimited() {
		if r, err := c.server.config.Meter.Remaining(who); err == nil {
			meter.WriteRemaining(c.ctx.Response.Header.Set, r)
		}
	}
}

// ask is what a job is expected to use, and what it may use at most. Strict limits
// reserve that where the client has set a limit of its own; of a request without one
// the most is the rest of the model's context, which hardly any answer needs.
func (s *Server) ask(j *job.Job) (ask quota.Ask, most int64) {
	ask = quota.Ask{Input: int64(j.PromptTokens()), Price: j.Price()}
	for i := range j.Prompts {
		ask.Output += int64(j.Params.N) * s.estimates.Expect(j.Model.ID, j.Tenant.Name, j.Room(i))
		most += int64(j.Params.N) * int64(j.Room(i))
	}
	if j.Params.MaxTokens > 0 {
		ask.Most = most
	}
	return ask, most
}
