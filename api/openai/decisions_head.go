package openai

import (
	"time"

	"weir/api"
	"weir/api/openai/decision"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/api/openai/pooling"
	"weir/api/openai/priority"
	"weir/internal/inference"
)

// pair tokenises what a reranker reads of a request, as /v1/score does.
func (c *deciding) pair(p *decision.Request, o *job.Body, m *models.Model) *api.Error {
	queries, field, document := p.Pairs()
	if queries == nil {
		return nil
	}
	r, fault := c.server.config.pooling().ReadPairs(o, m, "questions", queries, field, document)
	if fault == nil {
		p.Paired(r.Texts, r.Types)
	}
	return fault
}

// byHead has the head of a text encoder answer the questions, all in one call.
func (c *deciding) byHead(p *decision.Request, t priority.Terms) ([][]float64, *api.Error) {
	asked := textsOf(c.call, p.ID, t)
	p.Fill(asked)
	submitted := time.Now()
	fault := embed(c.call, p.Model, asked)
	if c.computed = asked.Computed; asked.Computed > 0 {
		c.admitted = submitted.Add(asked.Waited)
	}
	if fault == nil {
		fault = pooling.Check(p.Model.Pooler, asked)
	}
	if fault != nil {
		return nil, fault
	}
	return p.Logs(asked.Vectors), nil
}

// textsOf is a call of an embedder without its texts. Its answer has one part, so that the deadline of the first token is one of the answer.
func textsOf(c *call, id string, t priority.Terms) *inference.Embedding {
	by := t.DoneBy
	if first := t.FirstTokenBy; by.IsZero() || !first.IsZero() && first.Before(by) {
		by = first
	}
	return &inference.Embedding{
		ID: id, Tenant: c.caller.Tenant.Name, Weight: c.caller.Tenant.Weight, Class: t.Class,
		DoneBy: by, WaitUntil: t.WaitUntil, Arrived: c.arrived, Retries: c.retries(),
	}
}
