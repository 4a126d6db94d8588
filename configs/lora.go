package configs

import (
	"encoding/json"
	"fmt"
	"strings"
)

// mostLoraRank is llm.MostAdapterRank.
const mostLoraRank = 512

// LoraModule is a LoRA adapter of a model.
type LoraModule struct {
	Name  string  `json:"name"`
	Path  string  `json:"path"`
	Scale float32 `json:"scale"` // by which all that it adds is multiplied; 0 is 1

	BaseModel string `json:"base_model_name"` // as vLLM has it; the model whose setting it is
}

// LoraModules are the adapters of the setting lora_modules: NAME=PATH, or vLLM's JSON object.
func (m Model) LoraModules() []LoraModule {
	list := make([]LoraModule, 0, len(m.Adapters))
	for _, text := range m.Adapters {
		if module, ok := readLoraModule(text); ok {
			list = append(list, module)
		}
	}
	return list
}

func readLoraModule(text string) (m LoraModule, ok bool) {
	if strings.HasPrefix(text, "{") {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		ok = d.Decode(&m) == nil && m.Scale >= 0
	} else {
		m.Name, m.Path, ok = strings.Cut(text, "=")
	}
	return m, ok && isServedName(m.Name) && !strings.ContainsAny(m.Name, ":,") && m.Path != ""
}

func isLoraModule(s string) bool {
	_, ok := readLoraModule(s)
	return ok
}

// validateAdapters checks the names of a model's adapters against each other and the names of models, which it adds them to.
func (m Model) validateAdapters(owner map[string]string) error {
	name := m.Name()
	if n := len(m.Adapters); n > m.MaxLoras {
		return fmt.Errorf("check models: %q has %d adapters in lora_modules, and max_loras is %d; raise --max-loras", name, n, m.MaxLoras)
	}
	seen := make(map[string]bool)
	for _, a := range m.LoraModules() {
		key := name + ":" + a.Name
		if other, taken := owner[a.Name]; seen[a.Name] || taken && other != key {
			return fmt.Errorf("check models: the adapter %q of %q has the name of another model or adapter; give it another one", a.Name, name)
		}
		seen[a.Name], owner[a.Name] = true, key
	}
	return nil
}
