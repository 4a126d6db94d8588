package openai

import (
	"encoding/json"
	"net/url"
	"slices"

	"weir/api"
	"weir/api/openai/messages"
	"weir/api/openai/models"
	"weir/api/tenant"
	"weir/scheduler/quota"
)

// SetModels replaces the served models at once; requests that run keep
// theirs. From the first call on the server is ready.
func (s *Server) SetModels(list ...*models.Model) error {
	set, err := models.NewSet(list)
	if err != nil {
		return err
	}
	s.models.Store(set)
	return nil
}

// Names are what requests may call the models that are served; nil while they are loading.
func (s *Server) Names() (names []string) {
	set := s.models.Load()
	if set == nil {
		return nil
	}
	for _, m := range set.List {
		names = append(names, m.Names()...)
	}
	return names
}

// SetPrices gives the served models new prices, by their ids; what has none costs
// nothing. Requests that run keep theirs.
func (s *Server) SetPrices(prices map[string]quota.Price) {
	for {
		set := s.models.Load()
		if set == nil {
			return // SetModels will bring them
		}
		list := make([]*models.Model, len(set.List))
		for i, m := range set.List {
			priced := *m
			priced.Price = prices[m.ID]
			list[i] = &priced
		}
		next, err := models.NewSet(list)
		if err != nil || s.models.CompareAndSwap(set, next) {
			return // the names are those of a set that was valid
		}
	}
}

// SetLoadProgress is shown by /health until SetModels.
func (s *Server) SetLoadProgress(p models.LoadProgress) { s.loading.Store(&p) }

// modelJSON has the OpenAI API's fields, vLLM's max_model_len and what the model is
// for: kind, and the dimensions of its vectors; of a model with versions, which one
// answers and whether it is in memory. What only an upstream knows is left
// out.
type modelJSON struct {
	ID          string      `json:"id"`
	Object      string      `json:"object"`
	Created     int64       `json:"created"`
	OwnedBy     string      `json:"owned_by"`
	Root        string      `json:"root,omitempty"`    // of an alias: the model that it names; of an adapter its file, as it was named when it was loaded
	Parent      *parentID   `json:"parent,omitempty"`  // vLLM's field, where a model has adapters: null, or of these their model
	Aliases     []string    `json:"aliases,omitempty"` // llama.cpp's field: its further names
	MaxModelLen int         `json:"max_model_len,omitempty"`
	Kind        models.Kind `json:"kind,omitempty"`
	Dimensions  int         `json:"dimensions,omitempty"`
	Version     string      `json:"version,omitempty"`
	State       string      `json:"state,omitempty"`
}

func modelJSONOf(m *models.Model) modelJSON {
	j := modelJSON{ID: m.ID, Object: "model", Created: m.Created, OwnedBy: "weir", MaxModelLen: m.MaxModelLen, Kind: m.Kind()}
	if m.Versions != nil {
		o := m.Outline()
		j.MaxModelLen, j.Dimensions, j.Version, j.State = o.MaxModelLen, o.Dimensions, o.Label, o.State
	}
	if m.Pooler != nil {
		j.Dimensions = m.Pooler.Dimensions
	}
	return j
}

// parentID is an ID, or null.
type parentID string

// MarshalJSON implements json.Marshaler.
func (p parentID) MarshalJSON() ([]byte, error) {
	if p == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(p))
}

// lineage tells which entries are adapters, and of what. Where a file lies is told to callers with the scope admin.
func lineage(c *call, set *models.Set, m *models.Model, j *modelJSON) {
	if a := m.Adapter; a != nil {
		p := parentID(a.Parent)
		if j.Parent, j.Root = &p, m.ID; c.caller.Scope.Has(tenant.ScopeAdmin) {
			j.Root = a.Root
		}
		return
	}
	if slices.ContainsFunc(set.List, func(o *models.Model) bool { return o.Adapter != nil && o.Adapter.Parent == m.ID }) {
		j.Parent, j.Root = new(parentID), m.ID
	}
}

// serveModels answers GET /v1/models.
func serveModels(c *call) *api.Error {
	set, fault := c.models()
	if fault != nil {
		return fault
	}
	if isAnthropics(c) {
		return listAnthropicModels(c, set)
	}
	list := make([]modelJSON, 0, len(set.List))
	for _, m := range set.List {
		j := modelJSONOf(m)
		j.Aliases = m.Aliases
		lineage(c, set, m, &j)
		list = append(list, j)
		for _, alias := range m.Aliases {
			j.ID, j.Root, j.Aliases = alias, m.ID, nil
			list = append(list, j)
		}
	}
	api.WriteJSON(c.ctx, statusOK, struct {
		Object string      `json:"object"`
		Data   []modelJSON `json:"data"`
	}{"list", list})
	return nil
}

// serveModel answers GET /v1/models/{id}; an alias answers as its model.
func serveModel(c *call) *api.Error {
	set, fault := c.models()
	if fault != nil {
		return fault
	}
	m, ok := set.Find(c.rest)
	if !ok {
		return modelNotFound(c.rest, set.IDs())
	}
	if isAnthropics(c) {
		api.WriteJSON(c.ctx, statusOK, messages.NewModel(m.ID, m.Created))
		return nil
	}
	j := modelJSONOf(m)
	lineage(c, set, m, &j)
	api.WriteJSON(c.ctx, statusOK, j)
	return nil
}

// listAnthropicModels answers GET /v1/models in the form of Anthropic's API.
func listAnthropicModels(c *call, set *models.Set) *api.Error {
	query, err := url.ParseQuery(string(c.ctx.QueryArgs().QueryString()))
	if err != nil {
		return api.RefuseParam("invalid_value", "", "the query of the path cannot be read: %v", err)
	}
	list := make([]messages.Model, len(set.List))
	for i, m := range set.List {
		list[i] = messages.NewModel(m.ID, m.Created)
	}
	page, fault := messages.PageOf(list, query)
	if fault != nil {
		return fault
	}
	api.WriteJSON(c.ctx, statusOK, page)
	return nil
}
