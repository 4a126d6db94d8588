package configs

import (
	"slices"
	"strings"
	"testing"
)

// A record's own settings stand in place of the general ones, whatever the order in
// which file and flags are read; the others are as they are in general.
func TestForModel(t *testing.T) {
	s := New()
	const text = `
models:
  - {path: a/chat-00001-of-00003.gguf, max_num_seqs: 4, kv_cache_memory_bytes: 1GiB, chat_template: llama3}
  - {path: builtin, load: lazy, idle_unload: 10m}
scheduler: {max_num_seqs: 32}
`
	if err := s.Decode("a.yml", []byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := s.SetFlag("max-model-len", "777"); err != nil {
		t.Fatal(err)
	}
	c, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	list := c.ServedModels()
	if len(list) != 2 || list[0].Name != "chat" || list[1].Name != EmbeddedName {
		t.Fatalf("models are %+v", list)
	}
	chat, builtin := c.ForModel(list[0]), c.ForModel(list[1])
	if chat.Scheduler.MaxSeqs != 4 || chat.Scheduler.MaxModelLen != 777 || chat.Engine.KVMemoryBytes != 1<<30 ||
		chat.Model.ChatTemplate != "llama3" || chat.Model.Path != list[0].Path {
		t.Errorf("chat has %+v %+v %+v", chat.Scheduler, chat.Engine, chat.Model)
	}
	if builtin.Scheduler.MaxSeqs != 32 || builtin.Scheduler.MaxModelLen != 777 || builtin.Engine.KVMemoryBytes != 0 || builtin.Model.Path != "" {
		t.Errorf("the built-in model has %+v %+v %+v", builtin.Scheduler, builtin.Engine, builtin.Model)
	}
	if c.Scheduler.MaxSeqs != 32 || c.Model.ChatTemplate != "" {
		t.Error("a record's setting changed the general one")
	}
}

// The section model is the record of one model.
func TestServedModelsOfSection(t *testing.T) {
	c := Default()
	c.Model = Model{Path: "x.gguf", ServedNames: []string{"big", "alias"}, ChatTemplate: "zephyr", Prompts: []string{"q=query: ", "d=doc: "}}
	c.Models = []ServedModel{NewServedModel("", "y.gguf")}
	list := c.ServedModels()
	if len(list) != 2 || list[0].Name != "big" || !slices.Equal(list[0].Aliases, []string{"alias"}) || list[1].Name != "y" {
		t.Fatalf("models are %+v", list)
	}
	if got := c.ForModel(list[0]).Model; got.Name() != "big" || got.ChatTemplate != "zephyr" || len(got.TaskPrompts()) != 2 || got.Path != "x.gguf" {
		t.Errorf("the section's model is %+v", got)
	}
	c = Default()
	if list := c.ServedModels(); len(list) != 1 || list[0].Path != BuiltinPath || !c.NamesNone() {
		t.Errorf("without any model %+v is served", list)
	}
	c.Classic = []Classic{NewClassic("churn", "churn.json")}
	if list := c.ServedModels(); list != nil || c.NamesNone() {
		t.Errorf("beside a classical model %+v is served", list)
	}
}

func TestModelsTogether(t *testing.T) {
	for text, want := range map[string]string{
		"models: [{path: a.gguf}, {path: b/a.gguf}]":                                `two records have the name "a" and the version ""`,
		"models: [{path: a.gguf, aliases: [x]}, {path: b.gguf, aliases: [x]}]":      `"x" stands for "a" and for "b"`,
		"models: [{path: a.gguf, load: never}]":                                     "none answers requests",
		"models: [{path: a.gguf, pinned: true, idle_unload: 1m}]":                   "remove one of them",
		"models: [{path: a.gguf, fallback: [c]}]":                                   `fallback "c" of "a"`,
		"models: [{path: a.gguf, fallback: [a]}]":                                   `fallback "a" of "a"`,
		"models: [{path: a.gguf, check: {answer: x}}]":                              "give the prompt",
		"models: [{path: a.gguf, max_num_seqs: 600}]":                               `"a": scheduler.max_num_batched_tokens: 512 is less`,
		"{model: {path: b.gguf}, models: [{path: a.gguf, name: b}]}":                `two records have the name "b"`,
		"models: [{path: a.gguf, version: x}, {path: b.gguf, name: a, version: y}]": "",
	} {
		s := New()
		err := s.Decode("a.yml", []byte(text))
		if err == nil {
			_, err = s.Config()
		}
		if want == "" && err == nil {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
