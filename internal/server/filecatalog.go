package server

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"weir/api/openai/ollama"
	"weir/engine/gguf"
	"weir/internal/server/folder"
	"weir/internal/server/local"
	"weir/router/versions"
	"weir/tokenizer"
)

// fileCatalog is what Ollama's API tells of the files of language models and text encoders.
type fileCatalog struct {
	models *languages

	mu    sync.Mutex
	known map[string]fileFacts // by digest
}

// fileFacts are what has to be read from a file.
type fileFacts struct {
	quantization string
	capabilities []string
}

func newFileCatalog(l *languages) *fileCatalog {
	return &fileCatalog{models: l, known: make(map[string]fileFacts)}
}

// planned is the version that answers for a name; nil: there is no such name.
func (c *fileCatalog) planned(name string) *planned {
	n := (*c.models.table.Load())[name]
	if n == nil {
		return nil
	}
	st, _, _ := c.models.versions.Answer(name)
	i := slices.IndexFunc(n.planned, func(p *planned) bool { return p.label == st.Label })
	return n.planned[max(i, 0)]
}

// Details implements ollama.Catalog.
func (c *fileCatalog) Details(name string) (ollama.Details, bool) {
	p := c.planned(name)
	if p == nil {
		return ollama.Details{}, false
	}
	info := &p.info
	d := ollama.Details{Digest: info.Digest, Bytes: info.FileBytes, Architecture: info.Architecture, Parameters: info.Params,
		ContextLength: info.ContextLength, EmbeddingLength: info.Width}
	if st, err := os.Stat(p.config.Model.Path); err == nil {
		d.Modified = st.ModTime()
	}
	facts, err := c.facts(p)
	if err != nil {
		return d, true // what the configuration has read of the file
	}
	d.Quantization, d.Capabilities = facts.quantization, facts.capabilities
	return d, true
}

// facts reads a file once.
func (c *fileCatalog) facts(p *planned) (fileFacts, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.known[p.info.Digest]; ok {
		return known, nil
	}
	f, err := local.Open(p.config.Model.Path)
	if err != nil {
		return fileFacts{}, err
	}
	defer f.Close()
	facts := fileFacts{quantization: quantizationOf(f)}
	if facts.capabilities, err = capabilitiesOf(p, f); err != nil {
		return fileFacts{}, err
	}
	c.known[p.info.Digest] = facts
	return facts, nil
}

// capabilitiesOf says what requests a model answers.
func capabilitiesOf(p *planned, f *gguf.File) ([]string, error) {
	switch {
	case p.info.Embeds && p.info.Dimensions == 0: // Ollama has no word for what heads give
		return nil, nil
	case p.info.Embeds:
		return []string{ollama.CanEmbed}, nil
	}
	list := []string{ollama.CanComplete}
	tok, err := tokenizer.New(f.Value)
	if err != nil {
		return nil, err
	}
	template, err := local.ChooseTemplate(p.config.Model, f, tok)
	if err != nil {
		return nil, err
	}
	if template.Family != nil {
		list = append(list, ollama.CanCall)
		if template.Family.Thinks {
			list = append(list, ollama.CanThink)
		}
	}
	if _, fills := tok.FillIn(); fills {
		list = append(list, ollama.CanInsert)
	}
	return list, nil
}

// fileTypes are llama.cpp's names of general.file_type.
var fileTypes = map[uint32]string{
	0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M",
	16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M",
	28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4",
}

// quantizationOf is what the file says of its types, or else the type of most of it.
func quantizationOf(f *gguf.File) string {
	said := ""
	if kind, ok := f.Value("general.file_type"); ok {
		if n, ok := kind.(uint32); ok {
			said = fileTypes[n]
		}
	}
	return cmp.Or(said, folder.FactsOf(f).Quantization)
}

// File implements ollama.Catalog.
func (c *fileCatalog) File(name string) (*ollama.File, error) {
	p := c.planned(name)
	if p == nil {
		return nil, fmt.Errorf("%w: %q", versions.ErrUnknown, name)
	}
	f, err := local.Open(p.config.Model.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	shown := &ollama.File{Metadata: make(map[string]any, len(f.KV))}
	for _, kv := range f.KV {
		shown.Metadata[kv.Key] = kv.Value
	}
	shown.License, _, _ = f.String("general.license")
	shown.Template, _, _ = f.String("tokenizer.chat_template")
	for i := range f.Tensors {
		t := &f.Tensors[i]
		shown.Tensors = append(shown.Tensors, ollama.Tensor{Name: t.Name, Type: t.Type.String(), Shape: t.Dims})
	}
	for _, d := range p.record.Defaults {
		if d.Key == "system" {
			shown.System = d.Value
			continue
		}
		shown.Defaults = append(shown.Defaults, ollama.Setting{Name: d.Key, Value: d.Value})
	}
	return shown, nil
}

// Running implements ollama.Catalog.
func (c *fileCatalog) Running() (list []ollama.Running) {
	for _, st := range c.models.versions.List() {
		if st.State == versions.Loaded && st.Answers {
			list = append(list, ollama.Running{Name: st.Name, Bytes: st.Bytes, Context: c.models.current(st.Name).MaxModelLen, Leaves: st.Leaves})
		}
	}
	return list
}

// Keep implements ollama.Catalog.
func (c *fileCatalog) Keep(name, label string, idle time.Duration) error {
	lease, err := c.models.versions.Acquire(name, label)
	if err != nil {
		return err
	}
	err = lease.SetIdle(idle)
	if lease.Release(); err == nil && idle == 0 {
		c.models.versions.Sweep(time.Now())
	}
	return err
}

var (
	_ ollama.Catalog = (*fileCatalog)(nil)
)
