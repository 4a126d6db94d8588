package openai

import (
	"weir/api"
	"weir/api/edge"
)

// takeOutcomes takes in what came of an answer: what a rollout compares its versions by, beside what is measured here.
func takeOutcomes(c *call) *api.Error {
	if err := edge.IsJSON(&c.ctx.Request.Header); err != nil {
		return err
	}
	list, fault := edge.ReadOutcomes(c.ctx.PostBody(), c.caller.Tenant.Name)
	if fault != nil {
		return fault
	}
	for i := range list {
		if err := c.server.config.Outcomes(&list[i]); err != nil {
			return edge.OutcomeFault(err)
		}
	}
	api.WriteJSON(c.ctx, statusOK, map[string]any{"object": "outcome", "id": list[0].ID, "counted": true})
	return nil
}
