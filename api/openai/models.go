package openai

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/api"
	"weir/api/moderation"
	"weir/api/tenant"
	"weir/router"
	"weir/scheduler/quota"
	"weir/tokenizer"
	"weir/tokenizer/chat"
	"weir/tokenizer/family"
)

// Model is an entry of the model table: the names that requests may use, the
// version that they stand for, and the lane that computes for it. A lane is
// an engine here that generates text or pools it, with the tokenizer that feeds
// it, or an upstream that has its own. An entry is immutable once given to SetModels; a name moves to
// another version by another SetModels.
type Model struct {
	ID      string
	Aliases []string // further names; not listed
	Created int64    // Unix seconds; shown by /v1/models
	Version string   // names what answers, as the digest of its weights; "" is not known

	Price quota.Price // of its tokens, for budgets in money

	Versions Versions // what answers each request, in place of what follows; nil: this entry does

	Policy *moderation.Policy // what texts it may be asked and may say; nil: any

	Fallback []string // names of models that answer where the upstream cannot, in order

	Upstream router.Upstream // the servers that have it; nil: what follows is the engine here

	Tokenizer   *tokenizer.Tokenizer // of an upstream, where it is known here: prompts are counted and told apart by their tokens
	MaxModelLen int                  // prompt and output together, in tokens
	Pooler      *Pooler              // of a model that reads texts and writes none; nil: what follows generates text

	Fingerprint string         // system_fingerprint: changes when the same seed may give other text. "" sends null
	Template    *chat.Template // nil: chat is refused
	Family      *family.Family // how the model marks calls and thoughts; nil: everything it writes is text, and tools are refused
	Vocabulary  *Vocabulary    // for constrained answers; nil: they are refused
	Defaults    []Default      // of requests that do not say
	MaxLogprobs int            // most alternatives per token; 0 means DefaultMaxLogprobs
	Backend     router.Backend
}

// DefaultMaxLogprobs is the OpenAI API's own limit.
const DefaultMaxLogprobs = 20

func (m *Model) maxLogprobs() int { return cmp.Or(m.MaxLogprobs, DefaultMaxLogprobs) }

// modelSet is an immutable set of models.
type modelSet struct {
	list   []*Model // sorted by id
	byName map[string]*Model
}

func newModelSet(models []*Model) (*modelSet, error) {
	s := &modelSet{list: slices.Clone(models), byName: make(map[string]*Model)}
	slices.SortFunc(s.list, func(a, b *Model) int { return cmp.Compare(a.ID, b.ID) })
	for _, m := range s.list {
		if err := checkModel(m); err != nil {
			return nil, err
		}
		for _, name := range m.names() {
			if s.byName[name] != nil {
				return nil, fmt.Errorf("two models are called %q", name)
			}
			s.byName[name] = m
		}
	}
	return s, nil
}

func checkModel(m *Model) error {
	switch {
	case m.ID == "":
		return errors.New("a model has no id")
	case m.Versions != nil && m.lanes() == 0:
		return nil
	case m.lanes() > 1:
		return fmt.Errorf("model %q has more than one of an upstream, a pooler and a backend", m.ID)
	case m.Upstream != nil:
		return nil
	case m.Tokenizer == nil || m.lanes() == 0:
		return fmt.Errorf("model %q lacks a tokenizer, or both a pooler and a backend", m.ID)
	case m.MaxModelLen < 2:
		return fmt.Errorf("model %q has a context of %d tokens; 2 is the least", m.ID, m.MaxModelLen)
	case m.Pooler != nil:
		return m.Pooler.check(m)
	}
	return nil
}

func (m *Model) lanes() (n int) {
	for _, has := range []bool{m.Upstream != nil, m.Pooler != nil, m.Backend != nil} {
		if has {
			n++
		}
	}
	return n
}

// find resolves a request's model field; a missing one means the only model.
func (s *modelSet) find(name string) (*Model, bool) {
	if name == "" && len(s.list) == 1 {
		return s.list[0], true
	}
	m, ok := s.byName[name]
	if !ok {
		model, label := splitVersion(name)
		if m, ok = s.byName[model]; ok && (label == "" || m.Versions == nil) {
			return nil, false
		}
	}
	return m, ok
}

// of is the part of the set that a caller may use. What is left out does not exist
// for the caller.
func (s *modelSet) of(c *tenant.Caller) *modelSet {
	if c.UsesAll() {
		return s
	}
	part := &modelSet{byName: make(map[string]*Model)}
	for name, m := range s.byName {
		if c.MayUse(m.names()...) {
			part.byName[name] = m
		}
	}
	for _, m := range s.list {
		if part.byName[m.ID] != nil {
			part.list = append(part.list, m)
		}
	}
	return part
}

// load is the state of a lane here.
func (m *Model) load() router.Load {
	if m.Versions != nil {
		return m.outline().Load
	}
	if m.Pooler != nil {
		return m.Pooler.Embedder.Load()
	}
	return m.Backend.Load()
}

// names are all that requests may call the model.
func (m *Model) names() []string { return append([]string{m.ID}, m.Aliases...) }

func (s *modelSet) ids() string {
	ids := make([]string, len(s.list))
	for i, m := range s.list {
		ids[i] = m.ID
	}
	return strings.Join(ids, ", ")
}

// LoadProgress is how far the loading of models has come.
type LoadProgress struct {
	Model      string // being loaded; "" when unknown
	DoneBytes  int64
	TotalBytes int64
}

// fraction is in [0, 1].
func (p LoadProgress) fraction() float64 {
	if p.TotalBytes <= 0 {
		return 0
	}
	return min(1, max(0, float64(p.DoneBytes)/float64(p.TotalBytes)))
}

// SetModels replaces the served models at once; requests that run keep
// theirs. From the first call on the server is ready.
func (s *Server) SetModels(models ...*Model) error {
	set, err := newModelSet(models)
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
	for _, m := range set.list {
		names = append(names, m.names()...)
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
		models := make([]*Model, len(set.list))
		for i, m := range set.list {
			priced := *m
			priced.Price = prices[m.ID]
			models[i] = &priced
		}
		next, err := newModelSet(models)
		if err != nil || s.models.CompareAndSwap(set, next) {
			return // the names are those of a set that was valid
		}
	}
}

// SetLoadProgress is shown by /health until SetModels.
func (s *Server) SetLoadProgress(p LoadProgress) { s.loading.Store(&p) }

// modelJSON has the OpenAI API's fields, vLLM's max_model_len and what the model is
// for: kind, and the dimensions of its vectors; of a model with versions, which one
// answers and whether it is in memory. What only an upstream knows is left
// out.
type modelJSON struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	MaxModelLen int    `json:"max_model_len,omitempty"`
	Kind        kind   `json:"kind,omitempty"`
	Dimensions  int    `json:"dimensions,omitempty"`
	Version     string `json:"version,omitempty"`
	State       string `json:"state,omitempty"`
}

func (m *Model) json() modelJSON {
	j := modelJSON{ID: m.ID, Object: "model", Created: m.Created, OwnedBy: "weir", MaxModelLen: m.MaxModelLen, Kind: m.kind()}
	if m.Versions != nil {
		o := m.outline()
		j.MaxModelLen, j.Dimensions, j.Version, j.State = o.MaxModelLen, o.Dimensions, o.Label, o.State
	}
	if m.Pooler != nil {
		j.Dimensions = m.Pooler.Dimensions
	}
	return j
}

// listModels answers GET /v1/models.
func (c *call) listModels() *api.Error {
	set, fault := c.models()
	if fault != nil {
		return fault
	}
	list := make([]modelJSON, len(set.list))
	for i, m := range set.list {
		list[i] = m.json()
	}
	api.WriteJSON(c.ctx, statusOK, struct {
		Object string      `json:"object"`
		Data   []modelJSON `json:"data"`
	}{"list", list})
	return nil
}

// showModel answers GET /v1/models/{id}; an alias answers as its model.
func (c *call) showModel() *api.Error {
	set, fault := c.models()
	if fault != nil {
		return fault
	}
	m, ok := set.find(c.rest)
	if !ok {
		return modelNotFound(c.rest, set.ids())
	}
	api.WriteJSON(c.ctx, statusOK, m.json())
	return nil
}
