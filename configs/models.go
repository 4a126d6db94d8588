package configs

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v4"

	"weir/router/fleet"
)

// ServedModel is a version of a language model, or of a text encoder, that is served under
// a name. Several records may have one name: they are versions of it, and requests get
// the first that does not say load: never.
type ServedModel struct {
	Name    string
	Aliases []string // further names
	Version string   // label that tells versions of one name apart; empty: a piece of the weights' digest
	Path    string   // a GGUF file, or BuiltinPath

	Load       string        // of LoadTimes
	IdleUnload time.Duration // without a request, after which it leaves memory; 0: it stays
	Pinned     bool          // it is never evicted for another model

	ComputeWeight int // share of the compute threads' time among models that want them
	Check         ModelCheck
	Defaults      []ModelSetting // of requests that do not say, as JSON by field: what the version's record in the models folder has
	Settings      []ModelSetting // of the sections model, engine and scheduler, where they differ from those

	Safety    string   // name of a policy, or NoPolicy; empty: that of the version, if it has one
	OwnSafety string   // the policy that belongs to the version, as JSON; empty: none
	Policy    string   // of Policies: how a replica is picked
	Fallback  []string // names of models that answer when this one cannot, in order
	Tokenizer string   // GGUF file with the tokenizer of a model that is computed elsewhere

	Replicas []fleet.Source // servers that compute it; empty: it is computed here
	Routing  fleet.Routing  // how requests go to them
}

// ModelCheck is a question that a version must answer before requests get it: with
// greedy decoding the answer begins with Answer. Without a prompt there is none.
type ModelCheck struct{ Prompt, Answer string }

// ModelSetting is a setting of one model, by its key in the file's sections.
type ModelSetting struct{ Key, Value string }

// BuiltinPath stands for the model in the binary.
const BuiltinPath = "builtin"

// EmbeddedName is the name of the model in the binary.
const EmbeddedName = "weir-default"

// Values of ServedModel.Load.
const (
	LoadAtStartup = "startup"
	LoadLazily    = "lazy"  // at the first request
	LoadNever     = "never" // only as the candidate of a rollout, or by an operator
)

// LoadTimes are the values of ServedModel.Load.
var LoadTimes = []string{LoadAtStartup, LoadLazily, LoadNever}

// Policies are the values of ServedModel.Policy.
var Policies = []string{"prefix", "least_load", "power_of_two", "round_robin", "consistent_hash"}

// Keys of Model's settings that records of the list have, too.
const (
	ChatTemplateKey = "model.chat_template"
	TemplateArgsKey = "model.default_chat_template_kwargs"
	CallsKey        = "model.tool_call_parser"
	ThoughtsKey     = "model.reasoning_parser"
	HideToolsKey    = "model.exclude_tools_when_tool_choice_none"
	ModelEngineKey  = "model.engine"
	LoraModulesKey  = "model.lora_modules"
	CalibrationKey  = "model.decision_calibration"
)

// modelKeys are the settings that a record may have for itself, under the last part of
// their keys.
var modelKeys = []string{
	ModelEngineKey, ChatTemplateKey, TemplateArgsKey, CallsKey, ThoughtsKey, HideToolsKey, "model.embedding_prompts", LoraModulesKey, CalibrationKey,
	"engine.fine_activations", "engine.encoder_dtype", "engine.kv_cache_memory_bytes", "engine.kv_cache_dtype", "engine.block_size", "engine.check_tensors", "engine.speculative_ngram", "engine.speculative_model", "engine.speculative_mtp", "engine.speculative_config",
	"scheduler.max_model_len", "scheduler.max_num_seqs", "scheduler.max_num_batched_tokens", "scheduler.itl_target_ms",
	"scheduler.long_prefill_token_threshold", "scheduler.max_num_queued_reqs", "scheduler.max_num_queued_tokens",
	"scheduler.queue_timeout_ms", "scheduler.num_speculative_tokens",
}

// NewServedModel is a record with the defaults.
func NewServedModel(name, path string) ServedModel {
	return ServedModel{Name: cmp.Or(name, fileModelName(path)), Path: path, Load: LoadAtStartup, ComputeWeight: 1, Policy: Policies[0],
		Routing: fleet.DefaultRouting()}
}

// Name is the id that the model is served under: the first configured one, or the
// file's name without ending and split number.
func (m Model) Name() string {
	if len(m.ServedNames) > 0 {
		return m.ServedNames[0]
	}
	return cmp.Or(fileModelName(m.Path), EmbeddedName)
}

// fileModelName is the name of a model whose file has this path.
func fileModelName(path string) string {
	switch path {
	case "":
		return ""
	case BuiltinPath:
		return EmbeddedName
	}
	name := strings.TrimSuffix(filepath.Base(path), ".gguf")
	if i := strings.LastIndex(name, "-00001-of-"); i > 0 {
		name = name[:i]
	}
	return name
}

// ServedModels are the records of the language models and encoders that are served: that
// of the section model, if it names one, and those of the list; without any model in the
// configuration, the built-in one.
func (c Config) ServedModels() []ServedModel {
	if !c.ServesLanguage() {
		return nil
	}
	var list []ServedModel
	if c.Model.Path != "" || !slices.ContainsFunc(c.Models, isLocal) {
		m := NewServedModel(c.Model.Name(), cmp.Or(c.Model.Path, BuiltinPath))
		m.Safety, m.OwnSafety = c.Model.Safety, c.Model.OwnSafety
		if len(c.Model.ServedNames) > 1 {
			m.Aliases = c.Model.ServedNames[1:]
		}
		m.Defaults = c.Model.Defaults
		if c.Model.Engine != NativeEngine {
			m.Settings = append(m.Settings, ModelSetting{ModelEngineKey, c.Model.Engine})
		}
		if c.Model.ChatTemplate != "" {
			m.Settings = append(m.Settings, ModelSetting{ChatTemplateKey, c.Model.ChatTemplate})
		}
		if c.Model.TemplateArgs != "" {
			m.Settings = append(m.Settings, ModelSetting{TemplateArgsKey, c.Model.TemplateArgs})
		}
		if c.Model.Calls != "" {
			m.Settings = append(m.Settings, ModelSetting{CallsKey, c.Model.Calls})
		}
		if c.Model.Thoughts != "" {
			m.Settings = append(m.Settings, ModelSetting{ThoughtsKey, c.Model.Thoughts})
		}
		if c.Model.HideTools {
			m.Settings = append(m.Settings, ModelSetting{HideToolsKey, "true"})
		}
		for _, p := range c.Model.Prompts {
			m.Settings = append(m.Settings, ModelSetting{"model.embedding_prompts", p})
		}
		for _, a := range c.Model.Adapters {
			m.Settings = append(m.Settings, ModelSetting{LoraModulesKey, a})
		}
		for _, item := range c.Model.Calibration {
			m.Settings = append(m.Settings, ModelSetting{CalibrationKey, item})
		}
		list = append(list, m)
	}
	for _, m := range c.Models {
		if isLocal(m) {
			list = append(list, m)
		}
	}
	return list
}

func isLocal(m ServedModel) bool { return len(m.Replicas) == 0 }

// RoutedModels are the records of the models that other servers compute.
func (c Config) RoutedModels() []ServedModel {
	return slices.DeleteFunc(slices.Clone(c.Models), isLocal)
}

// ForModel is the configuration of one model alone: the section model describes it, and
// its own settings stand in place of the general ones.
func (c Config) ForModel(m ServedModel) Config {
	c.Model = Model{Path: m.Path, ServedNames: append([]string{m.Name}, m.Aliases...), MemoryBytes: c.Model.MemoryBytes,
		Engine: NativeEngine, EnableLora: c.Model.EnableLora, MaxLoras: c.Model.MaxLoras, MaxLoraRank: c.Model.MaxLoraRank}
	if m.Path == BuiltinPath {
		c.Model.Path = ""
	}
	c.Models = nil
	table := settings(&c)
	for _, s := range m.Settings {
		i := slices.IndexFunc(table, func(x Setting) bool { return x.Key == s.Key })
		_ = table[i].set(s.Value) // the decoder has set the same value before
	}
	return c
}

func (s *Sources) decodeModels(d *fileDecoder, n *yaml.Node) error {
	models := []ServedModel{}
	err := d.records(n, "models", func(n *yaml.Node, path string) error {
		m := NewServedModel("", "")
		if err := d.record(n, path, modelFields(&m)); err != nil {
			return err
		}
		switch {
		case m.Path != "" && len(m.Replicas) > 0:
			return d.errorf(n, "%s has a path and replicas; a model is computed here or elsewhere: remove one of them", path)
		case len(m.Replicas) > 0 && m.Name == "":
			return d.errorf(n, "%s has no name; give the one that requests use", path)
		case len(m.Replicas) == 0 && m.Routing != fleet.DefaultRouting():
			return d.errorf(n, "%s has a routing and no replicas; list its replicas, or remove the routing", path)
		case m.Path == "" && len(m.Replicas) == 0:
			return d.errorf(n, "%s has no path; give the model's GGUF file, or %s for the built-in model, or its replicas", path, BuiltinPath)
		case m.Tokenizer == "" && slices.ContainsFunc(m.Replicas, func(s fleet.Source) bool { return s.Events.Endpoint != "" }):
			return d.errorf(n, "%s has replicas with kv_events and no tokenizer; events name prompts by tokens: give a GGUF file with the model's tokenizer and chat template", path)
		}
		m.Name = cmp.Or(m.Name, fileModelName(m.Path))
		models = append(models, m)
		return nil
	})
	if err == nil {
		s.config.Models = models
	}
	return err
}

// modelFields binds the keys of an entry of models.
func modelFields(m *ServedModel) []field {
	fields := []field{
		{key: "name", binding: bindText(&m.Name, servedNameForm, isServedName)},
		{key: "aliases", binding: bindNames(&m.Aliases, servedNameForm, isServedName)},
		{key: "version", binding: bindText(&m.Version, servedNameForm, isServedName)},
		{key: "path", binding: bindText(&m.Path, "a path", anyText)},
		{key: "load", binding: bindChoice(&m.Load, LoadTimes)},
		{key: "idle_unload", binding: bindDuration(&m.IdleUnload, 0, 30*24*time.Hour)},
		{key: "pinned", binding: bindBool(&m.Pinned)},
		{key: "compute_weight", binding: bindInt(&m.ComputeWeight, 1, 1024, "")},
		{key: "check", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
			return d.record(n, path, checkFields(&m.Check))
		}},
		{key: "safety", binding: bindText(&m.Safety, "the name of a policy", anyText)},
		{key: "policy", binding: bindChoice(&m.Policy, Policies)},
		{key: "fallback", binding: bindNames(&m.Fallback, "the name of a model", isServedName)},
		{key: "tokenizer", binding: bindText(&m.Tokenizer, "a path", anyText)},
		{key: "replicas", nested: func(d *fileDecoder, n *yaml.Node, path string) error { return d.replicas(n, path, &m.Replicas) }},
		{key: "routing", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
			return d.record(n, path, routingFields(&m.Routing))
		}},
	}
	return append(fields, m.settingFields()...)
}

func checkFields(c *ModelCheck) []field {
	return []field{
		{key: "prompt", binding: bindText(&c.Prompt, "a text", anyText)},
		{key: "answer", binding: bindText(&c.Answer, "a text", anyText)},
	}
}

// settingFields are the settings of the file's sections that a record may have for itself.
func (m *ServedModel) settingFields() []field {
	scratch := Default()
	var fields []field
	for _, s := range settings(&scratch) {
		if !slices.Contains(modelKeys, s.Key) {
			continue
		}
		set := s.set
		s.set = func(text string) error {
			err := set(text)
			if err == nil {
				m.Settings = append(m.Settings, ModelSetting{s.Key, text})
			}
			return err
		}
		_, key, _ := strings.Cut(s.Key, ".")
		fields = append(fields, field{key: key, binding: s.binding})
	}
	return fields
}

const servedNameForm = "a name without @ and control characters"

func isServedName(s string) bool {
	return s != "" && !strings.Contains(s, "@") && !strings.ContainsFunc(s, unicode.IsControl)
}

// validateModels checks what no single record can decide.
func (c Config) validateModels() error {
	var errs []error
	list := append(c.ServedModels(), c.RoutedModels()...)
	owner := make(map[string]string) // of names and aliases: the name
	answers := make(map[string]bool) // names with a version for requests
	seen := make(map[[2]string]bool)
	for _, m := range list {
		key := [2]string{m.Name, m.Version}
		if seen[key] {
			errs = append(errs, fmt.Errorf("check models: two records have the name %q and the version %q; give one of them another name or version",
				m.Name, m.Version))
		}
		seen[key] = true
		answers[m.Name] = answers[m.Name] || m.Load != LoadNever
		for _, name := range append([]string{m.Name}, m.Aliases...) {
			if other, taken := owner[name]; taken && other != m.Name {
				errs = append(errs, fmt.Errorf("check models: %q stands for %q and for %q; a name stands for one model", name, other, m.Name))
			}
			owner[name] = m.Name
		}
		errs = append(errs, c.ForModel(m).validateBatch(fmt.Sprintf("check models: %q: ", m.Name)))
		switch {
		case m.Pinned && m.IdleUnload > 0:
			errs = append(errs, fmt.Errorf("check models: %q is pinned and has idle_unload; a pinned model stays in memory: remove one of them", m.Name))
		case len(c.Server.PeerKeys) == 0 && slices.ContainsFunc(m.Replicas, func(s fleet.Source) bool { return s.Role == fleet.Prefill }):
			errs = append(errs, fmt.Errorf("check models: %q has replicas with the role prefill and there is no peer key, by which they believe this server; give all of them the same --peer-key", m.Name))
		case m.Check.Prompt == "" && m.Check.Answer != "":
			errs = append(errs, fmt.Errorf("check models: the check of %q has an answer and no prompt; give the prompt", m.Name))
		}
	}
	for _, m := range list {
		errs = append(errs, c.ForModel(m).Model.validateAdapters(owner))
		if !answers[m.Name] {
			errs = append(errs, fmt.Errorf("check models: all versions of %q say load: never, so none answers requests; let one say startup or lazy", m.Name))
			answers[m.Name] = true // said once
		}
		for _, f := range m.Fallback {
			if owner[f] == "" || owner[f] == m.Name {
				errs = append(errs, fmt.Errorf("check models: the fallback %q of %q is no other model of the list", f, m.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// modelsSample shows the list in the example file, commented out.
const modelsSample = `
# Language models and text encoders, beside that of the section model. Everything but
# the path may be left out. Records of one name are versions of it: requests get the
# first one that does not say load: never, and NAME@VERSION names one. What a record
# does not set of the sections engine and scheduler is as it is there.
# models:
#   - name: chat # default: the file's name
#     aliases: [gpt-4o-mini]
#     version: "2026-11" # default: a piece of the weights' digest
#     path: /models/chat.gguf # builtin is the model in the binary
#     load: startup # lazy: at the first request; never: only as the candidate of a rollout
#     idle_unload: 0s # time without a request after which it leaves memory; 0 keeps it
#     pinned: true # it is never evicted for another model
#     compute_weight: 1 # share of the threads' time beside other models
#     check: {prompt: "What is 2 + 2?", answer: "4"} # must come out, greedily, before requests get it
#     safety: default # policy of the list policies; none: none. Default: the one that the version was imported with
#     policy: prefix # how a replica is picked: least_load, power_of_two, round_robin, consistent_hash
#     fallback: [small] # models that answer when this one cannot, in order
#     tokenizer: /models/chat.gguf # of a model that replicas compute: its prompts are counted exactly and named by the replicas' block hashes
#     engine: native # llamacpp: for architectures that native does not know, in builds with llama.cpp
#     chat_template: llama3
#     default_chat_template_kwargs: '{"enable_thinking": false}' # of requests that do not say
#     tool_call_parser: llama3_json # default: as the template shows
#     reasoning_parser: none # default: as the template shows
#     exclude_tools_when_tool_choice_none: false
#     embedding_prompts: ["query=search_query: "]
#     lora_modules: ["sql=/models/sql.gguf"] # LoRA adapters, asked as sql or chat:sql
#     decision_calibration: [predicate=2.3, predicate.bias=-0.7, choice=1.4] # as weir bench quality --fit prints it
#     max_model_len: 8192
#     max_num_seqs: 32
#     max_num_batched_tokens: 512
#     max_num_queued_reqs: 256
#     max_num_queued_tokens: 0
#     queue_timeout_ms: 60000
#     itl_target_ms: 200
#     long_prefill_token_threshold: 512
#     num_speculative_tokens: 8
#     speculative_ngram: false
#     speculative_model: ""
#     speculative_mtp: false
#     speculative_config: ""
#     kv_cache_memory_bytes: 2GiB # default: a share of what the weights leave
#     fine_activations: false # true: the exact weights' answers, slower prompts
#     encoder_dtype: auto # of a text encoder: bfloat16 is faster, see docs/performance.md
#     kv_cache_dtype: auto
#     block_size: 16
#     check_tensors: false
#   - {name: small, path: builtin, load: lazy, idle_unload: 10m}
#   - name: large # computed by other servers
#     tokenizer: large.gguf
#     replicas: # each with one of url, dns and file
#       - url: http://10.0.0.7:8000/v1
#         kind: weir # vllm, sglang, llama-server, or openai for anything else with this API; anthropic, gemini and bedrock have their own
#         role: both # decode, and prefill: a weir that computes long prompts for those with decode
#         model: their-name # default: the name here
#         api_key: a-key # or api_key_file: a path, or api_key_env: the name of an environment variable
#         admin_url: http://10.0.0.7:9090 # a weir's admin listener: its metrics
#         zone: a
#         region: eu # tenants with a residency go to replicas of theirs only
#         apis: [responses, messages] # of other kinds than weir: what they serve beside chat completions
#       - url: http://10.0.0.8:8000/v1
#         kind: vllm
#         kv_events: # of vllm and sglang, where --kv-events-config publishes them: what is cached, by the tokenizer's ids
#           endpoint: tcp://*:5557 # the host * is the replica's
#           replay_endpoint: tcp://*:5558 # where events that were missed are asked for
#           topic: kv
#       - dns: http://weir-headless:8000/v1 # each address of the name is a replica
#       - file: replicas.txt # with a URL on each line; read again when it changes
#     routing:
#       answer_timeout: 10m # until an answer begins; of no stream, until its end
#       stall_timeout: 2m # without a byte of a stream that has begun
#       hold_time: 5s # from then on heartbeats pass before content does
#       retry_share: 0.1 # of the requests of 10 s may be retries after failures, and three; 0: none
#       breaker_failures: 5 # in a row open a replica's breaker
#       breaker_pause: 10s # from then on one request tries the replica
#       probe_interval: 2s # between the probes of a replica
#       discovery_interval: 5s # between the looks at names and files
#       zone: a # where this router is; replicas of other zones are farther
#       zone_distance: 50ms # how much sooner one of them must answer to be picked
`
