package configs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// speculation is vLLM's --speculative-config: a JSON object that says in one setting what several say here.
type speculation struct {
	Method    *string `json:"method"`
	Model     *string `json:"model"`
	Tokens    *int    `json:"num_speculative_tokens"`
	LookupMax *int    `json:"prompt_lookup_max"`
	LookupMin *int    `json:"prompt_lookup_min"`

	// What these say, weir decides by itself or has no use for; they change no answer.
	ByBatchSize  json.RawMessage `json:"disable_by_batch_size"`
	Parallel     json.RawMessage `json:"draft_tensor_parallel_size"`
	ParallelSize json.RawMessage `json:"tensor_parallel_size"`
	Eager        json.RawMessage `json:"enforce_eager"`
	Padded       json.RawMessage `json:"disable_padded_drafter_batch"`
	Logprobs     json.RawMessage `json:"disable_logprobs"`
	Attention    json.RawMessage `json:"attention_backend"`
	Experts      json.RawMessage `json:"moe_backend"`
}

// Keys of the settings that a speculative_config sets.
const (
	ngramKey     = "engine.speculative_ngram"
	draftKey     = "engine.speculative_model"
	mtpKey       = "engine.speculative_mtp"
	draftsKey    = "scheduler.num_speculative_tokens"
	lookupMaxKey = "scheduler.prompt_lookup_max"
	lookupMinKey = "scheduler.prompt_lookup_min"
)

// readSpeculation is what a speculative_config sets; nothing, where it is empty.
func readSpeculation(text string) ([]ModelSetting, error) {
	if text == "" {
		return nil, nil
	}
	var c speculation
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return nil, invalidValue("has a field " + name + ", which weir does not have")
		}
		return nil, invalidValue("is no JSON object with such fields (" + strings.TrimPrefix(err.Error(), "json: ") + ")")
	}
	if d.More() {
		return nil, invalidValue("has something behind the JSON object")
	}
	list, err := c.source()
	if err != nil {
		return nil, err
	}
	for _, n := range []struct {
		key   string
		value *int
		least int
	}{{draftsKey, c.Tokens, 0}, {lookupMaxKey, c.LookupMax, 1}, {lookupMinKey, c.LookupMin, 1}} {
		if n.value == nil {
			continue
		}
		if *n.value < n.least || *n.value > 1024 {
			_, name, _ := strings.Cut(n.key, ".")
			return nil, invalidValue(fmt.Sprintf("has %s %d, which is out of range (%d to 1024)", name, *n.value, n.least))
		}
		list = append(list, ModelSetting{n.key, strconv.Itoa(*n.value)})
	}
	return list, nil
}

// source is what proposes draft tokens.
func (c *speculation) source() ([]ModelSetting, error) {
	method, model := "", ""
	if c.Method != nil {
		method = *c.Method
	}
	if c.Model != nil {
		model = *c.Model
	}
	switch {
	case method == "" && (model == "ngram" || model == "[ngram]"):
		method, model = "ngram", ""
	case method == "" && model != "":
		method = "draft_model"
	case method == "ngram" && (model == "ngram" || model == "[ngram]"):
		model = ""
	}
	switch {
	case method == "":
		return nil, invalidValue("has neither a method nor a model")
	case method == "ngram", method == "ngram_gpu":
		if model != "" {
			return nil, invalidValue("has the method ngram and a model; leave one of them out")
		}
		return []ModelSetting{{ngramKey, "true"}}, nil
	case method == "draft_model":
		if model == "" {
			return nil, invalidValue("has the method draft_model and no model; give a GGUF file")
		}
		return []ModelSetting{{draftKey, model}}, nil
	case method == "mtp", strings.HasSuffix(method, "_mtp"):
		if model != "" {
			return nil, invalidValue("has the method mtp and a model; the head is the one in the model's own file: leave model out")
		}
		return []ModelSetting{{mtpKey, "true"}}, nil
	}
	return nil, invalidValue(fmt.Sprintf("has the method %.40q, which weir does not have; ngram, draft_model and mtp are there", method))
}

// speculativeSetting sets several others of c.
func speculativeSetting(c *Config) Setting {
	set := func(text string) error {
		list, err := readSpeculation(text)
		if err != nil {
			return err
		}
		table := slices.Concat(engineSettings(&c.Engine), schedulerSettings(c))
		var errs []error
		for _, s := range list {
			i := slices.IndexFunc(table, func(x Setting) bool { return x.Key == s.Key })
			errs = append(errs, table[i].set(s.Value))
		}
		c.Scheduler.LookupMin, c.Scheduler.LookupMax = lookups(list, c.Scheduler.LookupMin, c.Scheduler.LookupMax)
		return errors.Join(errs...)
	}
	return Setting{
		Key: "engine.speculative_config", Flag: "speculative-config",
		Usage: `vLLM's: what proposes draft tokens, as {"method": "ngram"}, {"model": "small.gguf"} or {"method": "mtp"}, with num_speculative_tokens, ` +
			"prompt_lookup_max and prompt_lookup_min; it sets the settings of these names",
		binding: binding{
			kind: text, set: set, show: func() string { return "" },
			accepts: `a JSON object such as {"method": "ngram", "num_speculative_tokens": 5}, {"model": "small.gguf"} or {"method": "mtp"}, or nothing`,
		},
		expands: func(text string) []ModelSetting {
			list, _ := readSpeculation(text)
			return list
		},
	}
}

// lookups are the lengths of n-grams where one of them alone was given, which the other one is not to contradict.
func lookups(given []ModelSetting, shortest, longest int) (int, int) {
	has := func(key string) bool {
		return slices.ContainsFunc(given, func(s ModelSetting) bool { return s.Key == key })
	}
	switch {
	case has(lookupMaxKey) && !has(lookupMinKey):
		return min(shortest, longest), longest
	case has(lookupMinKey) && !has(lookupMaxKey):
		return shortest, max(shortest, longest)
	}
	return shortest, longest
}
