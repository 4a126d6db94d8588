// Package configs is the configuration of a weir process: one tree composed
// of each part's own Config, the names of every value on the command line, in
// the environment and in a YAML file, and where each value came from.
//
// Values are applied from the weakest source to the strongest: defaults, the
// file, the environment (WEIR_MAX_NUM_SEQS), flags. Nothing is guessed: an
// unknown key, a value of the wrong type or out of range is an error that
// names place, key, value and what would be accepted. Only cmd/weir and
// internal/server import this package; no other part of weir sees the whole tree.
package configs

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/api/moderation"
	"weir/api/openai"
	"weir/api/openai/generation"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/replay"
	"weir/api/tenant"
	"weir/internal/inference"
	"weir/scheduler"
	"weir/scheduler/brownout"
	"weir/scheduler/quota"
	"weir/telemetry"
	"weir/telemetry/slo"
	"weir/telemetry/trace"
)

// Config is the whole tree. Default gives a complete one.
type Config struct {
	Server    Server
	HTTP      api.Config    // connections
	API       openai.Config // requests; its keys are set as server.api_key
	Tiktoken  Tiktoken
	Model     Model
	Engine    Engine
	Scheduler scheduler.Config // MaxModelLen 0 is the model's own context
	SLO       slo.Objectives
	Trace     trace.Config
	Log       telemetry.LogConfig

	Store Store
	Files Files
	Quota Quota

	Registry Registry

	Predict Predict
	Classic []Classic     // classical models, beside those of Predict.Models
	Models  []ServedModel // language models and encoders, beside that of Model

	Prices  map[string]quota.Price // of models' tokens, by id; what is not listed costs nothing
	Tenants []tenant.Tenant        // empty: every caller's name is a tenant without limits
	Issuers []tenant.Issuer        // of tokens that stand for callers

	Brownout []brownout.Step // mildest first; empty: quality is never lowered

	Policies []moderation.Spec // by their names, which records of models name
}

// Server says who listens where and who may call.
type Server struct {
	Host            string
	Port            int           // 0 takes a free one
	AdminAddress    string        // of the admin listener; "off" for none
	GRPCAddress     string        // of the predict protocol over gRPC; "off" for none
	PeerKeys        []string      // that weirs share which pass requests on to one another
	Region          string        // where this server is; empty: in none
	Labels          []string      // KEY=VALUE each, that deployments and routers on the store select servers by
	AdvertiseURL    string        // of the API, as routers on the store reach it; empty: by the address that is listened on
	Insecure        bool          // allow listeners that other machines reach and that ask for no key
	APIMetrics      bool          // metrics on the API's port, too
	OpenMetrics     bool          // these to everybody who reaches the port
	ShutdownTimeout time.Duration // for running requests after SIGTERM

	TLS      api.TLSFiles // of the API's listener
	TLSAdmin bool         // of the admin listener, too
}

// Tiktoken says where /tokenize finds the vocabularies of OpenAI's models.
type Tiktoken struct {
	Dir string // with files such as o200k_base.tiktoken; empty: those in the binary
}

// Model says what is served and under which names.
type Model struct {
	Path         string   // a GGUF file; empty is the embedded model
	Engine       string   // one of Engines
	ChatTemplate string   // a file or the name of a format; empty: the model's own
	TemplateArgs string   // what the template knows where a request's chat_template_kwargs do not say, a JSON object; empty: nothing
	Calls        string   // the form of tool calls by name; empty: as the template shows
	Thoughts     string   // the form of thoughts, the same
	HideTools    bool     // prompts of requests with tool_choice none do not list their tools
	ServedNames  []string // the first is the model's id, the rest are aliases; none: the file's name
	Prompts      []string // of a text encoder, each NAME=TEXT; see TaskPrompts
	Safety       string   // name of a policy, or NoPolicy; empty: that of the version, if it has one
	OwnSafety    string   // the policy that belongs to the version, as JSON; empty: none
	MemoryBytes  int64    // of all language models and encoders; 0: what is free at the start

	Adapters    []string // LoRA adapters, each NAME=PATH or a JSON object; see LoraModules
	EnableLora  bool     // callers with the scope admin may load and unload adapters
	MaxLoras    int      // adapters of a model that are loaded at once
	MaxLoraRank int      // of an adapter

	Calibration []string // of decisions, see models.ReadCalibration

	Defaults []ModelSetting // as ServedModel's
}

// Values of Model.Engine.
const (
	NativeEngine   = "native"
	LlamaCppEngine = "llamacpp" // in builds with the tag llamacpp
)

// Engines are the values of Model.Engine.
var Engines = []string{NativeEngine, LlamaCppEngine}

// TaskPrompts are the texts that go before those of requests to a text encoder, by the
// name of a task or by an alias of the model.
func (m Model) TaskPrompts() map[string]string {
	prompts := make(map[string]string, len(m.Prompts))
	for _, p := range m.Prompts {
		name, text, _ := strings.Cut(p, "=")
		prompts[name] = text
	}
	return prompts
}

func isPrompt(s string) bool {
	name, text, ok := strings.Cut(s, "=")
	return ok && name != "" && text != ""
}

// Engine sizes the memory and the threads of a loaded model.
type Engine struct {
	Threads       int    // 0 takes every core the process may use, less a fraction of a quota
	CPULevel      string // one of CPULevels
	BlockTokens   int    // tokens per KV block, a multiple of 16
	Fine          bool   // what rounding takes from activations is multiplied, too
	EncoderDType  string // one of EncoderDTypes
	KVType        string // one of KVTypes
	KVMemoryBytes int64  // 0 takes a share of the free memory
	CheckTensors  bool   // refuse weights that are not finite
	DraftPath     string // a GGUF file of a model that proposes draft tokens; empty: none
	MTP           bool   // the model's own MTP head proposes draft tokens
	Speculate     bool   // speculative decoding for requests that do not set speculative_ngram

	PrefixCacheKey string // what block hashes are rooted in, beside the model; empty: random
}

// KVTypes are the values of Engine.KVType; auto is q8_0 where the heads allow it, else f16; f32 is for reference runs.
var KVTypes = []string{"auto", "f16", "q8_0", "q4_0", "f32"}

// EncoderDTypes are the values of Engine.EncoderDType.
var EncoderDTypes = []string{"auto", "float32", "bfloat16"}

// CPULevels are the values of Engine.CPULevel; auto is the best of the machine.
var CPULevels = []string{"auto", "avx512", "avx2", "portable"}

// Address is host and port of the API's listener.
func (s Server) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// Default is the configuration of a process without file, environment and flags.
func Default() Config {
	return Config{
		Server: Server{
			Host: "127.0.0.1", Port: 8000, AdminAddress: "127.0.0.1:9090", GRPCAddress: "off",
			ShutdownTimeout: 30 * time.Second,
		},
		HTTP:      api.DefaultConfig(),
		API:       openai.DefaultConfig(),
		Model:     Model{Engine: NativeEngine, MaxLoras: 16, MaxLoraRank: mostLoraRank},
		Engine:    Engine{BlockTokens: 16, CPULevel: "auto", EncoderDType: "auto", KVType: "auto"},
		Scheduler: defaultScheduler(),
		Predict:   defaultPredict(),
		SLO:       slo.Default(),
		Quota:     Quota{Failure: QuotaOpen, Lease: 30 * time.Second, Timeout: 250 * time.Millisecond},
		Store:     Store{PromptRetention: 30 * 24 * time.Hour},
		Files:     defaultFiles(),
		Log:       telemetry.DefaultLogConfig(),
	}
}

// defaultScheduler spells out what the scheduler would choose itself, so that
// every value can be shown.
func defaultScheduler() scheduler.Config {
	return scheduler.Config{
		MaxSeqs: 64, MaxBatchTokens: 512, PrefillChunk: 512, MaxPrefills: 2,
		MaxWaiting: 1024, OvertakeLimit: 64, PreemptLimit: 3, MinRunTokens: 8,
		MaxWait: 10 * time.Minute, SharePercent: [inference.NumClasses]int{inference.Default: 10, inference.Batch: 5},
		ITLTarget: 200 * time.Millisecond, MaxDrafts: 8, LookupMax: 4, LookupMin: 2,
		CapOutput: true,
	}
}

// reasoningNames are the values of openai.Config.Reasoning.
var reasoningNames = []string{string(params.ReasoningBoth), string(params.ReasoningContent), string(params.ReasoningOnly)}

// heartbeats are the values of openai.Config.Heartbeat.
var heartbeats = []string{string(generation.HeartbeatComment), string(generation.HeartbeatChunk), string(generation.HeartbeatOff)}

// settings binds every setting to its field of c. The order is that of help
// texts, of `weir config print` and of the example file.
func settings(c *Config) []Setting {
	const anySize = math.MaxInt32
	list := []Setting{
		{Key: "server.host", Flag: "host", Usage: "address to listen on; 0.0.0.0 is every interface",
			binding: bindText(&c.Server.Host, "a host name or an address", isHost)},
		{Key: "server.port", Flag: "port", Usage: "port of the API; 0 takes a free one",
			binding: bindInt(&c.Server.Port, 0, 65535, "")},
		{Key: "server.admin_address", Flag: "admin-address",
			Usage:   "address of the admin listener, for operators: metrics, profiles, reset of the prefix cache; off for none",
			binding: bindText(&c.Server.AdminAddress, "host:port, or off", isAddressOrOff)},
		{Key: "server.grpc_address", Flag: "grpc-address",
			Usage:   "address of classical models over gRPC, for callers, and over TLS, as the API has; 127.0.0.1:8001 is usual, off for none",
			binding: bindText(&c.Server.GRPCAddress, "host:port, or off", isAddressOrOff)},
		{Key: "server.api_key", Flag: "api-key", Secret: true,
			Usage:   "key of at least 8 bytes that clients send as a bearer token; repeat for several",
			binding: bindList(&c.API.APIKeys, "a key of at least 8 bytes")},
		{Key: "server.peer_key", Flag: "peer-key", Secret: true,
			Usage: "shared secret of at least 32 bytes between routers and replicas, by which replicas trust the tenant that a router names; " +
				"best from the environment or the file; repeat to rotate: the first signs, all are accepted",
			binding: bindList(&c.Server.PeerKeys, "a key of at least 32 bytes")},
		{Key: "server.region", Flag: "region",
			Usage:   "region of this server: tenants whose residency names others are refused",
			binding: bindText(&c.Server.Region, tenant.NameForm+", or nothing", func(s string) bool { return s == "" || tenant.IsName(s) })},
		{Key: "server.labels", Flag: "label",
			Usage: "KEY=VALUE that deployments and routers on the store select this server by, such as role=decode; repeat for several; " +
				"region, arch, isa and memory-mib are labels by themselves",
			binding: bindLabels(&c.Server.Labels)},
		{Key: "server.advertise_url", Flag: "advertise-url",
			Usage: "URL of the API as routers on the store reach this server, such as http://10.0.0.7:8000; empty is the address " +
				"that it listens on, or the host's name where that is every interface",
			binding: bindText(&c.Server.AdvertiseURL, "a URL like http://10.0.0.7:8000, or nothing", func(s string) bool { return s == "" || isBaseURL(s) })},
		{Key: "server.insecure", Flag: "insecure", Usage: "allow listeners that other machines reach and that ask for no key",
			binding: bindBool(&c.Server.Insecure)},
		{Key: "server.allowed_hosts", Flag: "allowed-hosts",
			Usage: "host name that requests may name, beside localhost and IP addresses; repeat for several, * for every " +
				"name (default: every name; on loopback none)",
			binding: bindNames(&c.HTTP.Access.Hosts, "a host name, or *", isHostName)},
		{Key: "server.allowed_origins", Flag: "allowed-origins",
			Usage: "origin whose web pages may call, such as https://chat.example; repeat for several, * for every " +
				"origin, none for no page (default: on loopback this machine's own, such as http://localhost:3000; else none)",
			binding: bindNames(&c.HTTP.Access.Origins, "an origin (scheme://host, and :port if it is not the scheme's own), none, or *",
				isOrigin)},
		{Key: "server.tls_certificate", Flag: "tls-certificate",
			Usage:   "PEM file with the certificate that the API is served with over TLS, and its chain; empty is plain HTTP",
			binding: bindText(&c.Server.TLS.Certificate, "a path", anyText)},
		{Key: "server.tls_key", Flag: "tls-key", Usage: "PEM file with the key of --tls-certificate",
			binding: bindText(&c.Server.TLS.Key, "a path", anyText)},
		{Key: "server.tls_client_ca", Flag: "tls-client-ca",
			Usage:   "PEM file with the authorities whose client certificates stand for tenants; empty asks clients for none",
			binding: bindText(&c.Server.TLS.ClientCA, "a path", anyText)},
		{Key: "server.tls_admin", Flag: "tls-admin", Usage: "serve the admin listener over TLS too, with the same certificate",
			binding: bindBool(&c.Server.TLSAdmin)},
		{Key: "server.api_metrics", Flag: "api-metrics",
			Usage:   "serve GET /metrics on the API's port too, to clients that have the API key",
			binding: bindBool(&c.Server.APIMetrics)},
		{Key: "server.open_metrics", Flag: "open-metrics",
			Usage:   "with --api-metrics, answer GET /metrics without a key: for scrapers that send none, as an inference gateway's endpoint picker",
			binding: bindBool(&c.Server.OpenMetrics)},
		{Key: "server.shutdown_timeout", Flag: "shutdown-timeout",
			Usage:   "time that running requests get to end after SIGTERM",
			binding: bindDuration(&c.Server.ShutdownTimeout, 0, 24*time.Hour)},

		{Key: "server.retry_while_draining", Flag: "retry-while-draining",
			Usage: "tell clients that are refused while the server drains to try again: another server takes their requests, " +
				"or this one is back soon",
			binding: bindBool(&c.API.DrainRetries)},

		{Key: "http.read_timeout", Flag: "http-read-timeout", Usage: "time for a whole request to arrive",
			binding: bindDuration(&c.HTTP.ReadTimeout, time.Millisecond, time.Hour)},
		{Key: "http.idle_timeout", Flag: "http-idle-timeout", Usage: "time that a connection may stay open without a request",
			binding: bindDuration(&c.HTTP.IdleTimeout, time.Millisecond, 24*time.Hour)},
		{Key: "http.write_timeout", Flag: "http-write-timeout",
			Usage:   "time for one write to a client; streams may run longer",
			binding: bindDuration(&c.HTTP.WriteTimeout, time.Millisecond, time.Hour)},
		{Key: "http.max_header_bytes", Flag: "http-max-header-bytes", Usage: "size of the largest request header",
			binding: bindInt(&c.HTTP.MaxHeaderBytes, 1<<10, 1<<20, "")},
		{Key: "http.max_request_bytes", Flag: "http-max-request-bytes", Usage: "size of the largest request body",
			binding: bindInt(&c.HTTP.MaxRequestBytes, 1<<10, 1<<30, "")},
		{Key: "http.body_memory_bytes", Flag: "http-body-memory-bytes",
			Usage: "memory for the request bodies of all connections and for whole answers of replicas, at least twice --http-max-request-bytes; further " +
				"requests get 503",
			binding: bindBytes(&c.HTTP.BodyMemoryBytes, "")},
		{Key: "http.max_connections", Flag: "http-max-connections",
			Usage: "open connections at most, fewer where the limit on open files is lower; further connections replace " +
				"one without a request, or get 503",
			binding: bindInt(&c.HTTP.MaxConnections, 1, 1<<20, "")},

		{Key: "api.strict", Flag: "strict",
			Usage: "refuse requests with unknown or ineffective parameters, or with a max_tokens beyond the context; " +
				"otherwise the header x-weir-warnings names these",
			binding: bindBool(&c.API.Strict)},
		{Key: "api.client_timeouts", Flag: "client-timeouts",
			Usage: "take what clients say of how long they wait (x-stainless-timeout, grpc-timeout, " +
				"x-envoy-expected-rq-timeout-ms) as deadlines: of a stream for its first token, else for the whole answer",
			binding: bindBool(&c.API.ClientTimeouts)},
		{Key: "api.heartbeat", Flag: "heartbeat",
			Usage:   "what a stream sends while no token is generated: an SSE comment, an empty chunk, or nothing",
			binding: bindChoice(&c.API.Heartbeat, heartbeats)},
		{Key: "api.heartbeat_every", Flag: "heartbeat-every",
			Usage:   "time without a byte after which a stream sends a heartbeat",
			binding: bindDuration(&c.API.HeartbeatEvery, 100*time.Millisecond, time.Hour)},
		{Key: "api.progress_every", Flag: "progress-every",
			Usage: "time between progress comments of a stream whose request asked for them " +
				"(stream_options.include_progress)",
			binding: bindDuration(&c.API.ProgressEvery, 10*time.Millisecond, time.Hour)},
		{Key: "api.reasoning", Flag: "reasoning-fields",
			Usage:   "the fields of chat answers that tell a thought: both of them, reasoning_content or reasoning",
			binding: bindChoice(&c.API.Reasoning, reasoningNames)},
		{Key: "api.max_choices", Flag: "max-choices", Usage: "choices of one request at most: its prompts times n",
			binding: bindInt(&c.API.MaxChoices, 1, anySize, "")},
		{Key: "api.max_messages", Flag: "max-messages", Usage: "messages of one chat request at most",
			binding: bindInt(&c.API.MaxMessages, 1, anySize, "")},
		{Key: "api.max_stop_tokens", Flag: "max-stop-tokens", Usage: "stop_token_ids of one request at most",
			binding: bindInt(&c.API.MaxStopTokens, 0, anySize, "")},
		{Key: "api.max_tokenize_bytes", Flag: "max-tokenize-bytes",
			Usage:   "size of the largest request body of /tokenize and /apply-template",
			binding: bindInt(&c.API.MaxTokenizeBytes, 1, 1<<30, "")},
		{Key: "api.any_order", Flag: "any-order",
			Usage:   "let the properties of JSON objects of a schema come in any order, for requests that do not set any_order",
			binding: bindBool(&c.API.AnyOrder)},
		{Key: "api.parse_special", Flag: "parse-special",
			Usage: "parse control tokens in the text of /v1/completions and /tokenize, for requests that do not set " +
				"parse_special",
			binding: bindBool(&c.API.ParseSpecial)},
		{Key: "api.compress_min_bytes", Flag: "compress-min-bytes", Usage: "size of the smallest response that is compressed",
			binding: bindInt(&c.API.CompressMinBytes, 0, anySize, "")},
		{Key: "api.abort_timeout", Flag: "abort-timeout",
			Usage:   "time that cancelled requests get at shutdown to send their last event",
			binding: bindDuration(&c.API.AbortTimeout, time.Millisecond, time.Minute)},
		{Key: "api.tiktoken_dir", Flag: "tiktoken-dir",
			Usage: "folder of .tiktoken files with which /tokenize counts tokens of OpenAI's models; empty takes the " +
				"built-in ones",
			binding: bindText(&c.Tiktoken.Dir, "a path", anyText)},

		{Key: "idempotency.ttl", Flag: "idempotency-ttl",
			Usage:   "time that an Idempotency-Key stands for the answer of its first request; 0 ignores keys",
			binding: bindDuration(&c.API.Idempotency.TTL, 0, 366*24*time.Hour)},
		{Key: "idempotency.max_answer_bytes", Flag: "idempotency-max-answer-bytes",
			Usage:   "size of the largest answer that is kept for an Idempotency-Key; a larger one frees its key",
			binding: bindInt(&c.API.Idempotency.MaxAnswerBytes, 0, replay.MaxAnswerBytes, "")},
		{Key: "idempotency.tenant_bytes", Flag: "idempotency-tenant-bytes",
			Usage:   "memory or storage for the kept answers of one tenant, compressed; the oldest go first",
			binding: bindBytes(&c.API.Idempotency.TenantBytes, "")},

		{Key: "responses.ttl", Flag: "responses-ttl",
			Usage:   "time that a response of /v1/responses is kept after its last use, unless its request says store: false; 0 keeps none",
			binding: bindDuration(&c.API.Responses.TTL, 0, 366*24*time.Hour)},
		{Key: "responses.tenant_bytes", Flag: "responses-tenant-bytes",
			Usage:   "memory or storage for the kept responses of one tenant; the longest unused go first",
			binding: bindBytes(&c.API.Responses.TenantBytes, "")},

		{Key: "response_cache.bytes", Flag: "response-cache-bytes",
			Usage:   "memory for answers to requests of temperature 0, or with a seed, that are asked again; 0 keeps none",
			binding: bindBytes(&c.API.ResponseCache.Bytes, "")},
		{Key: "response_cache.max_age", Flag: "response-cache-max-age",
			Usage:   "time after which an answer leaves the response cache",
			binding: bindDuration(&c.API.ResponseCache.MaxAge, time.Second, 366*24*time.Hour)},
	}
	return slices.Concat(list, modelSettings(&c.Model), engineSettings(&c.Engine), []Setting{speculativeSetting(c)}, registrySettings(c), predictSettings(c), schedulerSettings(c), storeSettings(c), filesSettings(c), quotaSettings(c), telemetrySettings(c))
}

// modelSettings are those of what is served and under which names.
func modelSettings(m *Model) []Setting {
	return []Setting{
		{Key: "model.path", Flag: "model", Usage: "GGUF file, instead of the argument; empty is the built-in model",
			binding: bindText(&m.Path, "a path", anyText)},
		{Key: ModelEngineKey, Flag: "engine",
			Usage: "what computes the model: native, or llamacpp for architectures that native does not know, one request at a " +
				"time and only in builds with llama.cpp",
			binding: bindChoice(&m.Engine, Engines)},
		{Key: "model.chat_template", Flag: "chat-template",
			Usage:   "chat template: a file, or chatml, gemma, gemma4, llama2, llama3 or zephyr; empty is the model's own",
			binding: bindText(&m.ChatTemplate, "a path or a name", anyText)},
		{Key: TemplateArgsKey, Flag: "default-chat-template-kwargs",
			Usage:   `variables of the chat template where a request's chat_template_kwargs do not say, as {"enable_thinking": false}`,
			binding: bindText(&m.TemplateArgs, "a JSON object", isJSONObject)},
		{Key: CallsKey, Flag: "tool-call-parser",
			Usage:   "how the model writes tool calls: hermes, llama3_json, qwen3_coder, … (a wrong name lists all); empty is as the chat template shows",
			binding: bindText(&m.Calls, "a name", anyText)},
		{Key: ThoughtsKey, Flag: "reasoning-parser",
			Usage:   "how the model marks its thoughts: deepseek_r1, qwen3, mistral, … or none (a wrong name lists all); empty is as the chat template shows",
			binding: bindText(&m.Thoughts, "a name", anyText)},
		{Key: HideToolsKey, Flag: "exclude-tools-when-tool-choice-none",
			Usage:   "leave the tools of requests with tool_choice none out of the prompt; by default they stay, so that the prompt begins as those of the turns before",
			binding: bindBool(&m.HideTools)},
		{Key: "model.served_model_name", Flag: "served-model-name",
			Usage:   "model id in the API; repeat for aliases (default: the file's name)",
			binding: bindList(&m.ServedNames, "a name")},
		{Key: "model.embedding_prompts", Flag: "embedding-prompt",
			Usage:   "NAME=TEXT: what a text encoder reads before texts of requests with prompt_name NAME, or to the alias NAME; repeat for several",
			binding: bindNames(&m.Prompts, "a name, = and a text", isPrompt)},

		{Key: CalibrationKey, Flag: "decision-calibration",
			Usage:   "TYPE=TEMPERATURE: how decisions are calibrated, of the type predicate, choice or score, and predicate.bias=BIAS; repeat for several; weir bench quality --fit prints them",
			binding: bindNames(&m.Calibration, "TYPE=TEMPERATURE with 0.01 to 100, or predicate.bias=BIAS with -100 to 100", isCalibration)},

		{Key: LoraModulesKey, Flag: "lora-modules",
			Usage:   `NAME=FILE: a LoRA adapter in GGUF that requests get by NAME or MODEL:NAME, or {"name": …, "path": …, "scale": …}; repeat for several`,
			binding: bindNames(&m.Adapters, "a name, = and a GGUF file, or a JSON object", isLoraModule)},
		{Key: "model.enable_lora", Flag: "enable-lora",
			Usage:   "POST /v1/load_lora_adapter and /v1/unload_lora_adapter load and unload adapters, for callers with the scope admin, who without keys are all callers",
			binding: bindBool(&m.EnableLora)},
		{Key: "model.max_loras", Flag: "max-loras", Usage: "adapters of a model that are loaded at once",
			binding: bindInt(&m.MaxLoras, 1, 1024, "")},
		{Key: "model.max_lora_rank", Flag: "max-lora-rank", Usage: "largest rank of an adapter",
			binding: bindInt(&m.MaxLoraRank, 1, mostLoraRank, "")},

		{Key: "model.safety", Flag: "safety",
			Usage:   "safety policy for requests and answers, by its name in the list policies; none turns it off; empty is the one that the version was imported with, if any",
			binding: bindText(&m.Safety, "the name of a policy", anyText)},

		{Key: "model.memory_bytes", Flag: "model-memory-bytes",
			Usage: "memory for the weights and KV caches of all language models and encoders; those that are loaded on demand " +
				"make room for each other; 0 is what is free at the start",
			binding: bindBytes(&m.MemoryBytes, "")},
	}
}

// engineSettings are those of what computes it.
func engineSettings(e *Engine) []Setting {
	return []Setting{
		{Key: "engine.threads", Flag: "threads",
			Usage:   "compute threads; 0 takes every core that affinity and the cgroup's quota allow",
			binding: bindInt(&e.Threads, 0, 1024, "")},
		{Key: "engine.cpu_level", Flag: "cpu-level",
			Usage:   "instruction set of the kernels; auto is the best that the machine has",
			binding: bindChoice(&e.CPULevel, CPULevels)},
		{Key: "engine.fine_activations", Flag: "fine-activations",
			Usage:   "correct the rounding of activations: answers are those of the exact weights, and prompts take nearly twice as long",
			binding: bindBool(&e.Fine)},
		{Key: "engine.encoder_dtype", Flag: "encoder-dtype",
			Usage: "what text encoders multiply float matrices in: bfloat16 takes half the time of float32 on processors with " +
				"AVX512_BF16 and keeps a cosine of 0.9999, elsewhere it is float32; auto is bfloat16 for BF16 files alone",
			binding: bindChoice(&e.EncoderDType, EncoderDTypes)},
		{Key: "engine.block_size", Flag: "block-size", Usage: "tokens per block of the KV cache",
			binding: bindMultiple(&e.BlockTokens, 16, 256)},
		{Key: "engine.kv_cache_dtype", Flag: "kv-cache-dtype",
			Usage:   "type of the KV cache; auto is q8_0 where the model's heads allow it and answers stay near those with f16, else f16, which takes twice the memory; q4_0 takes half of q8_0's and costs answers, f32 is for reference runs",
			binding: bindChoice(&e.KVType, KVTypes)},
		{Key: "engine.kv_cache_memory_bytes", Flag: "kv-cache-memory-bytes",
			Usage:   "memory of the KV cache, states of recurrent layers and draft models' caches included; 0 derives it from the memory that is free",
			binding: bindBytes(&e.KVMemoryBytes, "")},
		{Key: "engine.check_tensors", Flag: "check-tensors",
			Usage:   "read every weight once and refuse values that are not finite",
			binding: bindBool(&e.CheckTensors)},
		{Key: "engine.speculative_ngram", Flag: "speculative-ngram",
			Usage: "propose draft tokens by n-gram lookup in the prompt and output, for requests that do not set " +
				"speculative_ngram",
			binding: bindBool(&e.Speculate)},
		{Key: "engine.speculative_model", Flag: "speculative-model",
			Usage: "GGUF file of a small model with the same vocabulary that proposes draft tokens where n-gram lookup finds none; the answers " +
				"stay the same, and it is asked only where that saves time",
			binding: bindText(&e.DraftPath, "a path", anyText)},
		{Key: "engine.speculative_mtp", Flag: "speculative-mtp",
			Usage: "the model's own MTP head proposes draft tokens where n-gram lookup finds none, of files that have one " +
				"(nextn_predict_layers); the answers stay the same, and it is asked only where that saves time",
			binding: bindBool(&e.MTP)},
		{Key: "engine.prefix_cache_key", Flag: "prefix-cache-key", Secret: true,
			Usage: "secret that all replicas of a model share, so that they hash KV blocks alike; empty is a random one " +
				"for each process",
			binding: bindText(&e.PrefixCacheKey,
				"a key of at least 16 bytes, best from the environment or the file, or nothing", isPrefixCacheKey)},
	}
}

// isJSONObject reports whether a text is a JSON object, or empty.
func isJSONObject(s string) bool {
	var o map[string]json.RawMessage
	return s == "" || json.Unmarshal([]byte(s), &o) == nil && o != nil
}

func isCalibration(s string) bool {
	_, err := models.ReadCalibration([]string{s})
	return err == nil
}

func anyText(string) bool { return true }

func isPrefixCacheKey(s string) bool { return s == "" || len(s) >= 16 }

func isHost(s string) bool { return s != "" && !strings.ContainsAny(s, " /\t\r\n") }

// isHostName takes what a Host header may name, without a port.
func isHostName(s string) bool { return s == "*" || isHost(s) && !strings.ContainsAny(s, ":*@") }

// isOrigin takes what a browser sends as an Origin header.
func isOrigin(s string) bool {
	if s == "*" || s == "null" || s == api.NoPage {
		return true
	}
	scheme, authority, found := strings.Cut(s, "://")
	return found && scheme != "" && isHost(authority) && !strings.ContainsAny(authority, "*@?#")
}

func isAddressOrOff(s string) bool {
	if s == "off" {
		return true
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || !isHost(host) {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// Validate checks what no single setting can decide.
func (c Config) Validate() error {
	if err := c.HTTP.Validate(); err != nil {
		return fmt.Errorf("check http: %w", err)
	}
	if err := c.API.Validate(); err != nil {
		return fmt.Errorf("check api: %w", err)
	}
	if err := c.Server.validateTLS(); err != nil {
		return err
	}
	if len(c.Server.PeerKeys) > 0 {
		if _, err := tenant.NewPeers(c.Server.PeerKeys); err != nil {
			return fmt.Errorf("server.peer_key: %w", err)
		}
	}
	directory, err := tenant.NewDirectory(c.Tenants)
	if err != nil {
		return fmt.Errorf("check tenants: %w", err)
	}
	if err := c.validateResidency(); err != nil {
		return err
	}
	if directory.HasCertificates() && c.Server.TLS.ClientCA == "" {
		return errors.New("check tenants: tenants have certificates, and no client can show one; " +
			"set server.tls_client_ca (--tls-client-ca) to the file of the authorities that sign them, or remove them")
	}
	if err := tenant.ValidateIssuers(c.Issuers, directory); err != nil {
		return fmt.Errorf("check issuers: %w", err)
	}
	if err := c.SLO.Validate(); err != nil {
		return fmt.Errorf("check slo: %w", err)
	}
	if n := len(c.Model.TaskPrompts()); n < len(c.Model.Prompts) {
		return fmt.Errorf("model.embedding_prompts: there are %d prompts of %d names; give each name one", len(c.Model.Prompts), n)
	}
	if err := c.Trace.Validate(); err != nil {
		return fmt.Errorf("check trace: %w", err)
	}
	if err := c.validateClassic(); err != nil {
		return err
	}
	if err := c.validateBatch(""); err != nil {
		return err
	}
	if err := c.validateModels(); err != nil {
		return err
	}
	if err := c.validateFleets(); err != nil {
		return err
	}
	if err := c.validatePolicies(); err != nil {
		return err
	}
	if s := c.Scheduler; s.LookupMin > s.LookupMax {
		return fmt.Errorf("scheduler.prompt_lookup_min: %d is more than prompt_lookup_max %d", s.LookupMin, s.LookupMax)
	}
	return nil
}

// validateBatch checks the sizes of batches; where says of what.
func (c Config) validateBatch(where string) error {
	if s := c.Scheduler; s.MaxSeqs > s.MaxBatchTokens {
		return fmt.Errorf("%sscheduler.max_num_batched_tokens: %d is less than max_num_seqs %d; "+
			"every running sequence needs a row per step", where, s.MaxBatchTokens, s.MaxSeqs)
	}
	return nil
}

// validateTLS checks which files are named; the files themselves are read by who
// serves.
func (s Server) validateTLS() error {
	switch on := s.TLS.On(); {
	case on && s.TLS.Key == "":
		return errors.New("server.tls_key: server.tls_certificate is set and its key is not; set --tls-key to the PEM file of the key")
	case !on && s.TLS.Key != "":
		return errors.New("server.tls_certificate: server.tls_key is set and its certificate is not; set --tls-certificate to the PEM file of the chain")
	case !on && s.TLS.ClientCA != "":
		return errors.New("server.tls_client_ca: clients show certificates over TLS only; set --tls-certificate and --tls-key, too")
	case !on && s.TLSAdmin:
		return errors.New("server.tls_admin: there is no certificate to serve with; set --tls-certificate and --tls-key, too")
	}
	return nil
}

// CheckExposure refuses listeners that other machines reach and that ask for
// no key, unless that was asked for. It concerns a process that listens. issued
// says that the store has keys.
func (c Config) CheckExposure(issued bool) error {
	if c.Server.Insecure {
		return nil
	}
	if !issued && !c.asksCallers() && !isLoopback(c.Server.Host) {
		return fmt.Errorf("server.host: %q is reachable from other machines and no API key is set; "+
			"set --api-key (or WEIR_API_KEY), make a key with weir keys create, or set --insecure if a proxy in front checks callers", c.Server.Host)
	}
	host, _, err := net.SplitHostPort(c.Server.GRPCAddress)
	if err == nil && !issued && !c.asksCallers() && !isLoopback(host) {
		return fmt.Errorf("server.grpc_address: %q is reachable from other machines and no API key is set; "+
			"set --api-key (or WEIR_API_KEY), make a key with weir keys create, or set --insecure if a proxy in front checks callers", c.Server.GRPCAddress)
	}
	host, _, err = net.SplitHostPort(c.Server.AdminAddress)
	if err == nil && !issued && !c.asksCallers() && !isLoopback(host) {
		return fmt.Errorf("server.admin_address: %q is reachable from other machines and that listener has no key to ask for; "+
			"set --api-key, whose callers read its metrics, make a key with weir keys create, keep it on 127.0.0.1, switch it off, or set --insecure", c.Server.AdminAddress)
	}
	return nil
}

// ExposesAdmin reports whether other machines reach the admin listener, which asks for keys of all kinds then.
func (c Config) ExposesAdmin() bool {
	host, _, err := net.SplitHostPort(c.Server.AdminAddress)
	return err == nil && !isLoopback(host)
}

// asksCallers reports whether the configuration alone makes the API ask who calls.
func (c Config) asksCallers() bool {
	return len(c.API.APIKeys) > 0 || len(c.Issuers) > 0 ||
		slices.ContainsFunc(c.Tenants, func(t tenant.Tenant) bool { return len(t.Certificates) > 0 })
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}
