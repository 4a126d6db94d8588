package configs

import (
	"strings"
	"testing"
)

// Adapters are NAME=PATH or vLLM's object; two things do not have one name.
func TestLoraModules(t *testing.T) {
	m := Model{Adapters: []string{"sql=/a=b.gguf", `{"name": "mild", "path": "c.gguf", "base_model_name": "chat", "scale": 0.5}`}}
	if list := m.LoraModules(); len(list) != 2 || list[0] != (LoraModule{Name: "sql", Path: "/a=b.gguf"}) || list[1].Scale != 0.5 || list[1].Path != "c.gguf" {
		t.Errorf("%+v", list)
	}
	for _, text := range []string{"sql", "=a.gguf", "sql=", "a:b=c.gguf", "a@b=c.gguf", "a,b=c.gguf", `{"name": "a"}`, `{"name": "a", "path": "b", "rank": 3}`, `{"name": "a", "path": "b", "scale": -1}`} {
		if isLoraModule(text) {
			t.Errorf("%q is taken", text)
		}
	}
	for says, change := range map[string]func(c *Config){
		"the adapter \"a\" of \"chat\" has the name of another":    func(c *Config) { c.Model.Adapters = []string{"a=x", "a=y"} },
		"the adapter \"chat\" of \"chat\" has the name of another": func(c *Config) { c.Model.Adapters = []string{"chat=x"} },
		"max_loras is 1": func(c *Config) { c.Model.Adapters, c.Model.MaxLoras = []string{"a=x", "b=y"}, 1 },
	} {
		c := Default()
		c.Model.Path, c.Model.ServedNames = "x.gguf", []string{"chat"}
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
