package openai

import (
	"strings"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/scheduler/quota"
)

// models are those that the caller may use.
func (c *call) models() (*models.Set, *api.Error) {
	set := c.server.models.Load()
	if set == nil {
		return nil, modelLoading(*c.server.loading.Load())
	}
	return set.Of(&c.caller), nil
}

// named looks a name up in the model table; "" is the only model.
func (c *call) named(name string) (*models.Model, *api.Error) {
	set, fault := c.models()
	if fault != nil {
		return nil, fault
	}
	m, ok := set.Find(name)
	switch {
	case !ok && c.server.hasClassical(&c.caller, name):
		return nil, api.RefuseParam("wrong_model_kind", "model", "the model %s is a classical model, which predicts: ask POST /v1/models/%[1]s:predict or POST /v2/models/%[1]s/infer", name)
	case ok:
		c.found = m
		if set.ByName[name] == nil {
			_, c.lease.label = models.SplitVersion(name)
		}
		return c.priced(m), nil
	case len(set.List) == 0:
		c.found, _ = c.server.models.Load().Find(name)
		return nil, api.RefuseParam("model_not_found", "model", "no language model or text encoder is served here, or none to this caller")
	case name == "":
		return nil, jsonbody.Missing("model", "one of: "+set.IDs())
	}
	c.found, _ = c.server.models.Load().Find(name) // one that the caller may not use is named to operators
	return nil, modelNotFound(name, set.IDs())
}

// resolve looks the model field up in the model table.
func (c *call) resolve(o *jsonbody.Object) (*models.Model, *api.Error) {
	var fault *api.Error
	name, _ := o.Text("model", &fault)
	if fault != nil {
		return nil, fault
	}
	return c.named(name)
}

// model resolves the model field to a model that has its tokenizer here.
func (c *call) model(o *job.Body) (*models.Model, *api.Error) {
	m, fault := c.resolve(o.Object)
	if fault == nil {
		fault = tokenizesHere(m)
	}
	if fault != nil {
		return nil, fault
	}
	return c.lease.take(m, o, nil, "")
}

// priced is a model at the prices that the call pays.
func (c *call) priced(m *models.Model) *models.Model {
	if c.internal == nil || c.internal.PricePercent == 100 || m.Price == (quota.Price{}) {
		return m
	}
	own := *m
	own.Price = m.Price.Percent(c.internal.PricePercent)
	return &own
}

func tokenizesHere(m *models.Model) *api.Error {
	if m.Upstream == nil {
		return nil
	}
	routes := []string{routeChat, routeCompletions, routeResponses, routeMessages, routeEmbeddings, routeRerank, routeScore, routeClassify, routeDecisions}
	return api.RefuseParam("model_is_relayed", "model", "the model %s is served by another server, which has its tokenizer; "+
		"here it takes %s and %s", m.ID, strings.Join(routes, ", "), routeSystemOne)
}
