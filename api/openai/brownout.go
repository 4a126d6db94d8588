package openai

import (
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/scheduler/brownout"
)

// A brown-out lowers the quality of answers while the server has more to do than it
// can, so that it need not refuse requests. What was changed is said in the headers
// x-weir-brownout, which names the step that is in force, and x-weir-warnings.

// degradation is what a brown-out changes of one request. Without a step in force its methods
// do nothing.
type degradation struct {
	call *call
	step *brownout.Step // nil: none
}

func brownoutOf(c *call) degradation {
	d := degradation{call: c}
	if f := c.server.config.Brownout; f != nil {
		d.step = f()
	}
	return d
}

// mark names the step on the answer.
func (d degradation) mark() { d.call.ctx.Response.Header.Set("X-Weir-Brownout", d.step.Name) }

// model is the smaller model that answers in m's place, where the step has one that
// is served and that the tenant may use; otherwise m.
func (d degradation) model(m *models.Model, n *jsonbody.Notes) *models.Model {
	if d.step == nil || len(d.step.Models) == 0 {
		return m
	}
	for _, name := range m.Names() {
		instead, ok := d.step.Models[name]
		if !ok {
			continue
		}
		set, fault := d.call.models()
		if fault != nil {
			return m
		}
		smaller, served := set.Find(instead)
		if !served || smaller == m || smaller.Kind() != m.Kind() && smaller.Upstream == nil && m.Upstream == nil {
			return m
		}
		d.mark()
		n.Add("model %s answers instead of %s in brown-out step %s", jsonbody.HeaderQuote(smaller.ID), jsonbody.HeaderQuote(m.ID), d.step.Name)
		return smaller
	}
	return m
}

// job caps the output of a request by its class, and switches speculation.
func (d degradation) job(j *job.Job) {
	if d.step == nil {
		return
	}
	if s := d.step.Speculation; s != 0 && s != j.Params.Speculation {
		j.Params.Speculation = s
		d.mark()
	}
	most := d.step.MaxTokens[j.Terms.Class]
	if most == 0 || j.MaxTokens <= most {
		return
	}
	j.MaxTokens = most
	j.Params.MinTokens = min(j.Params.MinTokens, most)
	d.mark()
	j.Params.Notes.Add("at most %d output tokens in brown-out step %s", most, d.step.Name)
}
