package configs

import (
	"strings"
	"testing"
)

// What vLLM's users write in --speculative-config sets the settings that say the same here, by flag, environment, file and in a model's record.
func TestSpeculativeConfig(t *testing.T) {
	for text, want := range map[string]string{
		`{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4}`:              "ngram 5 2-4",
		`{"model": "[ngram]", "num_speculative_tokens": 5}`:                                     "ngram 5 2-4",
		`{"method": "ngram", "prompt_lookup_min": 6}`:                                           "ngram 8 6-6",
		`{"method": "ngram", "prompt_lookup_max": 1}`:                                           "ngram 8 1-1",
		`{"method": "ngram", "prompt_lookup_max": 5, "prompt_lookup_min": 3}`:                   "ngram 8 3-5",
		`{"model": "small.gguf", "num_speculative_tokens": 3, "draft_tensor_parallel_size": 1}`: "small.gguf 3 2-4",
		`{"method": "draft_model", "model": "small.gguf", "enforce_eager": true}`:               "small.gguf 8 2-4",
		`{"method": "mtp", "num_speculative_tokens": 2}`:                                        "mtp 2 2-4",
		`{"method":"qwen3_next_mtp","num_speculative_tokens":0,"disable_by_batch_size":8}`:      "mtp 0 2-4",
		"": " 8 2-4",
	} {
		flag := New()
		if err := flag.SetFlag("speculative-config", text); err != nil {
			t.Error(err)
			continue
		}
		env := New()
		if _, err := env.ReadEnv([]string{"WEIR_SPECULATIVE_CONFIG=" + text}); err != nil {
			t.Error(err)
		}
		file := New()
		if err := file.Decode("weir.yml", []byte("engine:\n  speculative_config: '"+text+"'\n")); err != nil {
			t.Error(err)
		}
		for source, s := range map[string]*Sources{"flag": flag, "environment": env, "file": file} {
			c, err := s.Config()
			if got := spelled(c); err != nil || got != want {
				t.Errorf("%s by %s: %q, %v, want %q", text, source, got, err, want)
			}
		}
		record := New()
		if err := record.Decode("weir.yml", []byte("models:\n- path: big.gguf\n  speculative_config: '"+text+"'\n- path: other.gguf\n")); err != nil {
			t.Error(err)
			continue
		}
		c, err := record.Config()
		if err != nil {
			t.Error(err)
			continue
		}
		if got := spelled(c.ForModel(c.Models[0])); got != want {
			t.Errorf("%s in a record: %q, want %q", text, got, want)
		}
		if got := spelled(c.ForModel(c.Models[1])); got != " 8 2-4" {
			t.Errorf("%s in another model's record: %q", text, got)
		}
	}
}

// spelled is what a configuration drafts by.
func spelled(c Config) string {
	s := c.Engine.DraftPath
	if c.Engine.Speculate {
		s += "ngram"
	}
	if c.Engine.MTP {
		s += "mtp"
	}
	n := func(i int) string { return string(rune('0' + i)) }
	return s + " " + n(c.Scheduler.MaxDrafts) + " " + n(c.Scheduler.LookupMin) + "-" + n(c.Scheduler.LookupMax)
}

// The settings that it sets say where their values are from.
func TestSpeculativeConfigIsTheOriginOfWhatItSets(t *testing.T) {
	s := New()
	if err := s.SetFlag("speculative-config", `{"method": "mtp", "num_speculative_tokens": 2}`); err != nil {
		t.Fatal(err)
	}
	for setting, origin := range s.All() {
		switch setting.Key {
		case "engine.speculative_mtp", "scheduler.num_speculative_tokens":
			if origin != (Origin{FromFlag, "--speculative-config"}) {
				t.Errorf("%s is %s from %v", setting.Key, setting.Value(), origin)
			}
		case "engine.speculative_ngram", "scheduler.prompt_lookup_max":
			if origin.Kind != FromDefault {
				t.Errorf("%s is from %v", setting.Key, origin)
			}
		}
	}
}

func TestWrongSpeculativeConfigs(t *testing.T) {
	for text, says := range map[string]string{
		`{"method": "eagle3", "model": "x"}`:                  `the method "eagle3", which weir does not have; ngram, draft_model and mtp are there`,
		`{"method": "draft_model"}`:                           "no model; give a GGUF file",
		`{"method": "mtp", "model": "big.gguf"}`:              "leave model out",
		`{"method": "ngram", "model": "small.gguf"}`:          "leave one of them out",
		`{"num_speculative_tokens": 3}`:                       "neither a method nor a model",
		`{"method": "ngram", "num_speculative": 3}`:           `a field "num_speculative"`,
		`{"method": "ngram", "prompt_lookup_max": 0}`:         "prompt_lookup_max 0, which is out of range",
		`{"method": "ngram", "num_speculative_tokens": 2000}`: "num_speculative_tokens 2000, which is out of range (0 to 1024)",
		`{"method": "ngram", "num_speculative_tokens": "5"}`:  "no JSON object with such fields",
		`{"method": "ngram"} {}`:                              "something behind",
		`ngram`:                                               "no JSON object",
		`["ngram"]`:                                           "no JSON object",
		`{}`:                                                  "neither a method nor a model",
	} {
		s := New()
		if err := s.SetFlag("speculative-config", text); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "it takes a JSON object such as") {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
