package openai

import (
	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/llamaserver"
	"weir/api/openai/models"
	"weir/api/openai/params"
)

// propsJSON has the fields of llama.cpp's /props that clients read.
type propsJSON struct {
	Default      slotJSON        `json:"default_generation_settings"`
	Slots        int             `json:"total_slots"`
	Alias        string          `json:"model_alias"`
	Path         string          `json:"model_path"` // the model's name as a file's: where it lies is not told
	Template     *string         `json:"chat_template"`
	BOS          string          `json:"bos_token"`
	EOS          string          `json:"eos_token"`
	Modalities   map[string]bool `json:"modalities"`
	Build        string          `json:"build_info"`
	SlotsEnabled bool            `json:"endpoint_slots"`
	PropsEnabled bool            `json:"endpoint_props"` // POST /props changes something
	Metrics      bool            `json:"endpoint_metrics"`
}

// slotJSON has the fields of a slot, as llama.cpp's server lists them, without what its request says.
type slotJSON struct {
	ID           int                   `json:"id"`
	Context      int                   `json:"n_ctx"`
	Speculative  bool                  `json:"speculative"`
	IsProcessing bool                  `json:"is_processing"`
	Params       *llamaserver.Settings `json:"params,omitempty"`
}

// anySeed is what llama.cpp's server has as the seed that each request draws.
const anySeed = 1<<32 - 1

// modelOfQuery is the model that the query names (?model=), or the only one, with its tokenizer here.
func modelOfQuery(c *call) (*models.Model, *api.Error) {
	m, fault := c.named(string(c.ctx.QueryArgs().Peek("model")))
	if fault == nil {
		fault = tokenizesHere(m)
	}
	if fault == nil {
		m, fault = c.lease.take(m, nil, nil, "")
	}
	if fault == nil && m.Kind() != models.KindGenerate {
		fault = wrongKind(m)
	}
	return m, fault
}

// serveProps answers GET /props.
func serveProps(c *call) *api.Error {
	m, fault := modelOfQuery(c)
	if fault != nil {
		return fault
	}
	o := &jsonbody.Object{Notes: &jsonbody.Notes{}}
	m.Fill(o)
	defaults := params.Read(o, m, c.server.config.reader().Rules, &fault)
	if fault != nil {
		return fault
	}
	if !defaults.Seeded {
		defaults.Sampling.Seed = anySeed
	}
	settings := llamaserver.SettingsOf(m, defaults, -1)
	p := propsJSON{
		Default: slotJSON{Context: m.MaxModelLen, Params: &settings},
		Slots:   c.server.config.Slots, Alias: m.ID, Path: m.ID + ".gguf", Modalities: map[string]bool{"vision": false, "audio": false}, Build: "weir " + c.server.config.Version,
		SlotsEnabled: c.server.config.Slots > 0, Metrics: c.server.config.Metrics != nil,
	}
	if m.Template != nil {
		source := m.Template.Source()
		p.Template = &source
	}
	if id, ok := m.Tokenizer.BOS(); ok {
		p.BOS = m.Tokenizer.TokenText(id)
	}
	if id, ok := m.Tokenizer.EOS(); ok {
		p.EOS = m.Tokenizer.TokenText(id)
	}
	api.WriteJSON(c.ctx, statusOK, p)
	return nil
}

// serveSlots answers GET /slots: which of them are at work, and not with what.
func serveSlots(c *call) *api.Error {
	m, fault := modelOfQuery(c)
	if fault != nil {
		return fault
	}
	n := c.server.config.Slots
	if n == 0 {
		return api.Refuse("unsupported_operation", "how many sequences this server generates at once is not known")
	}
	busy := m.Load().Running
	list := make([]slotJSON, n)
	for i := range list {
		list[i] = slotJSON{ID: i, Context: m.MaxModelLen, IsProcessing: i < busy}
	}
	api.WriteJSON(c.ctx, statusOK, list)
	return nil
}

// serveSlot answers what is done with the state of one slot, of which sequences have none: their blocks are shared.
func serveSlot(*call) *api.Error {
	return api.Refuse("unsupported_operation", "slots have no state that could be saved, restored or erased: prompts find their blocks in the prefix cache, whichever slot computed them")
}
