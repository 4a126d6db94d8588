package archtest

// folder is a row of the import table. The row with the longest matching path
// rules a package, and every package needs one. A folder may always import its
// own subfolders.
type folder struct {
	path  string   // "api" rules api, api/openai …
	own   []string // folders of ours that it may import, with all below them
	third []string // module paths of third parties that it may import
}

// The arrows point down this list only.
var table = []folder{
	// Verbs: flags, help, printing. Serving is internal/server's; what else is here is what a verb shows or measures by itself.
	{path: "cmd/weir", own: []string{
		"api/admin", "api/batch", "api/tenant", "api/usage", // the words of the admin listener, of which verbs are clients, and of the store
		"bench", "configs", "internal", "telemetry",
		"engine/classic", "engine/gbdt", "engine/gguf", "engine/kernel/attend", "engine/kernel/isa", "engine/llm", "tokenizer", // inspect, doctor, score, bench
		"router/balance", "router/deployment", "router/registry", "router/rollout", // bench cluster, deploy, models, rollout
	}, third: []string{cobra, compress, pflag, progressbar, xterm, xtext, prometheusText, prometheusModel}},
	{path: "internal/server", own: []string{
		"api", "configs", "engine", "internal", "kvcache", "router", "scheduler", "telemetry", "tokenizer",
	}, third: []string{zap, grpc}},
	{path: "internal/server/classical", own: []string{"engine/classic", "internal/inference", "router/versions"}},
	{path: "internal/server/deployed", own: []string{"configs", "router/deployment", "router/registry"}},
	{path: "internal/server/folder", own: []string{"configs", "engine/gguf", "internal/console", "internal/unit", "internal/server/state", "internal/store", "router/registry", "telemetry/audit"}},
	{path: "internal/server/hooks", own: []string{
		"api", "configs", "internal/inference", "internal/server/state", "internal/store", "router", "scheduler/admission", "telemetry",
	}, third: []string{zap}},
	{path: "internal/server/keychain", own: []string{"api/tenant", "configs", "internal/console", "internal/server/state", "internal/store", "telemetry/audit"}},
	{path: "internal/server/local", own: []string{"configs", "engine", "internal", "router", "tokenizer"}},
	{path: "internal/server/rollouts", own: []string{
		"api/admin", "api/edge", "api/openai/generation", "api/openai/models", "api/tenant", "internal/inference", "internal/server/state", "internal/tensor",
		"router", "router/deployment", "router/rollout", "telemetry", "telemetry/slo",
	}, third: []string{zap}},
	{path: "internal/server/servertest", own: []string{"api/admin", "api/tenant", "configs", "engine/gguf", "internal", "router/fleet", "router/rollout", "telemetry"}},
	{path: "internal/server/state", own: []string{"api/batch", "api/tenant", "configs", "internal/envelope", "internal/store", "telemetry/audit"}},
	// What the database's tables hold, by subject, with the types of those that use it.
	{path: "internal/store/answers", own: []string{"api/conversation", "api/replay", "internal/envelope", "internal/store", "telemetry/transcript"}},
	{path: "internal/store/auditlog", own: []string{"internal/store", "telemetry/audit"}},
	{path: "internal/store/batches", own: []string{"api/batch", "internal/envelope", "internal/store"}},
	{path: "internal/store/deployments", own: []string{"internal/store", "router/deployment", "router/rollout", "telemetry/audit"}},
	{path: "internal/store/ledger", own: []string{"api/usage", "internal/store"}, third: []string{sqlite, pgx}}, // which errors are about values
	{path: "internal/store/tenants", own: []string{"api/tenant", "internal/store"}},
	{path: "internal/store/ratelimit", own: []string{"internal/redis", "scheduler/quota"}},
	{path: "internal/store/storetest", own: []string{"internal/reference", "internal/store"}},
	{path: "bench", own: []string{"api/predict/oip", "engine", "internal", "kvcache", "router/balance", "router/prefix", "scheduler"}, third: []string{grpc}},
	{path: "bench/capacity", own: []string{"bench", "internal/unit", "scheduler"}, third: []string{yaml}},
	{path: "configs", own: []string{"api", "engine/llm", "internal/envelope", "internal/inference", "internal/unit", "kvcache", "router/balance", "router/deployment", "router/fleet", "router/rollout", "scheduler",
		"telemetry"}, third: []string{yaml}},
	{path: "telemetry", third: []string{zap, prometheus, compress}},
	{path: "telemetry/audit", own: []string{"internal/outfile"}},
	{path: "telemetry/scrub", own: []string{"internal/pii"}},
	{path: "telemetry/transcript", own: []string{"telemetry/scrub"}},
	{path: "telemetry/trace"},
	{path: "telemetry/trace/otlp", own: []string{"telemetry/trace"}, third: []string{otlp, otlpProto}},
	{path: "telemetry/trace/tracetest", third: []string{otlpProto, protobuf}},
	{path: "telemetry/slo", own: []string{"telemetry"}},
	// What classical models get and give.
	{path: "telemetry/monitor/feature", own: []string{"internal/inference", "internal/tensor", "router"}, third: []string{lru, yaml, breaker}},
	{path: "telemetry/monitor/feature/online", own: []string{"internal/redis", "telemetry/monitor/feature"}, third: []string{protobuf}},
	{path: "telemetry/monitor/drift"},
	{path: "telemetry/monitor/predictions", own: []string{"internal/disk", "internal/table"}, third: []string{parquet}},
	{path: "telemetry/monitor/quality"},

	{path: "api", own: []string{
		"internal/coding", "internal/inference", "internal/jsonfault", "internal/memory", "internal/socket", "internal/tensor", "internal/semaphore", "internal/work", "router", "scheduler/outputlen", "scheduler/brownout", "scheduler/cost", "scheduler/quota",
		"tokenizer",
	}, third: []string{fasthttp, compress, lru}},
	{path: "api/openapi", own: []string{"api", "api/edge", "api/web"}},
	{path: "api/messagebatch", own: []string{"api", "api/batch", "api/openai/jsonbody", "api/openai/messages"}, third: []string{fasthttp}},
	{path: "api/batch", own: []string{"api", "internal/disk", "internal/jsonfault", "internal/semaphore"}, third: []string{fasthttp}},
	{path: "api/predict", own: []string{"api", "internal/inference", "internal/tensor", "router", "scheduler/quota"},
		third: []string{fasthttp, grpc, protobuf}},
	{path: "api/predict/oip", third: []string{grpc, protobuf}},
	{path: "api/usage"},
	{path: "api/admin/feed"},
	{path: "api/web", own: []string{"api"}, third: []string{compress}},
	{path: "api/signin", own: []string{"api", "api/tenant"}, third: []string{oidc, oauth2}},
	{path: "api/moderation", own: []string{"internal/jsonfault", "internal/pii"}},
	{path: "api/conversation"},
	{path: "api/replay", third: []string{compress, lru}},
	{path: "api/tenant", own: []string{"internal/inference", "scheduler/quota"}, third: []string{lru, oidc, jose}},
	{path: "router", own: []string{"internal/inference", "internal/memory", "internal/tensor", "kvcache", "scheduler/admission"}, third: []string{lru}},
	{path: "router/fleet", own: []string{"internal/coding", "internal/inference", "internal/memory", "internal/socket", "internal/tensor", "internal/zmtp", "kvcache", "router"}, third: []string{breaker}},
	{path: "router/chunk"},
	{path: "router/provider", own: []string{"internal/sse", "router/chunk"}, third: []string{amazon, amazonEvents}},
	{path: "router/versions", own: []string{"internal/inference", "internal/unit"}},
	{path: "router/deployment", own: []string{"internal/unit", "router/rollout"}},
	{path: "router/rollout", own: []string{"internal/unit"}, third: []string{jsonschema}},
	{path: "router/balance", own: []string{"router/prefix"}},
	{path: "router/prefix", own: []string{"internal/heap", "kvcache"}},
	{path: "router/transfer", own: []string{"internal/inference", "kvcache", "router"}},
	{path: "router/kvevent", own: []string{"kvcache", "router/prefix"}, third: []string{msgpack}},
	{path: "router/registry", own: []string{"internal/disk"}, third: []string{oras, ociSpec, ociDigest}},
	{path: "router/registry/hub"},
	{path: "router/registry/catalog"},
	{path: "tokenizer", third: []string{tiktoken, tiktokenLoader, lru, xtext}},
	{path: "tokenizer/chat", own: []string{"tokenizer"}},
	{path: "tokenizer/grammar", own: []string{"internal/work"}},
	{path: "tokenizer/grammar/regex", own: []string{"internal/work"}},
	{path: "tokenizer/grammar/notation", own: []string{"tokenizer/grammar"}},
	{path: "tokenizer/grammar/tag", own: []string{"tokenizer/grammar"}},
	{path: "tokenizer/family", own: []string{"tokenizer"}},

	{path: "engine/classic", own: []string{"engine/gbdt", "engine/kernel/pool", "engine/onnx", "internal", "scheduler"}},
	{path: "engine/llamacpp", own: []string{"internal/inference", "scheduler/admission"}, third: []string{llamaCpp}},
	{path: "engine/llm", own: []string{"engine", "internal", "kvcache", "scheduler"}},
	{path: "engine/sample", own: []string{"engine/kernel/isa", "engine/kernel/vector", "internal"}},
	{path: "engine/kernel", own: []string{"engine/gguf", "internal", "kvcache"}},
	{path: "engine/kernel/weight", own: []string{"engine/gguf", "engine/kernel/isa", "engine/kernel/pool",
		"engine/kernel/vector", "internal/arena"}},
	{path: "engine/kernel/attend", own: []string{"engine/kernel/isa", "engine/kernel/pool", "engine/kernel/vector",
		"internal/arena", "kvcache"}},
	{path: "engine/kernel/recurrence", own: []string{"engine/kernel/isa", "engine/kernel/pool", "engine/kernel/vector"}},
	{path: "engine/kernel/vector", own: []string{"engine/kernel/isa"}},
	{path: "engine/kernel/pool", own: []string{"internal/cpu"}},
	{path: "engine/kernel/isa", third: []string{xsys}},
	{path: "engine/gguf"},
	{path: "engine/onnx", own: []string{"engine/gbdt", "engine/kernel", "internal"}, third: []string{protobuf, onnxruntime}},
	{path: "engine/gbdt", own: []string{"engine/kernel/isa", "engine/kernel/vector", "internal"}},

	{path: "scheduler", own: []string{"internal/inference", "internal/invariants", "kvcache"}},
	{path: "scheduler/admission", own: []string{"internal/heap", "internal/inference", "internal/invariants"}},
	{path: "scheduler/batch", own: []string{"internal/inference", "scheduler/admission"}},
	{path: "scheduler/brownout", own: []string{"internal/inference"}},
	{path: "scheduler/cost"},
	{path: "scheduler/quota", own: []string{"internal/inference"}},
	{path: "scheduler/outputlen"},
	{path: "kvcache", own: []string{"internal/invariants"}},

	{path: "internal/inference", own: []string{"internal/tensor", "internal/work"}},
	{path: "internal/tensor"},
	{path: "internal/invariants"},
	{path: "internal/heap"},
	{path: "internal/unit"},
	{path: "internal/work"},
	{path: "internal/semaphore"},
	{path: "internal/memory"},
	{path: "internal/redis", own: []string{"internal/socket"}, third: []string{redis}},
	{path: "internal/socket"},
	{path: "internal/sse"},
	{path: "internal/zmtp"},
	{path: "internal/pii"},
	{path: "internal/store", own: []string{"internal/envelope"}, third: []string{sqlite, pgx}},
	{path: "internal/envelope", third: []string{age, xcrypto}},
	{path: "internal/coding", third: []string{compress}},
	{path: "internal/table", own: []string{"internal/tensor"}, third: []string{compress, parquet}},
	{path: "internal/arena", third: []string{xsys}},
	{path: "internal/disk", third: []string{xsys}},
	{path: "internal/guard", third: []string{xsys}},
	{path: "internal/cpu", third: []string{xsys}},
	{path: "internal/roofline", own: []string{"internal/cpu"}, third: []string{xsys}},
	{path: "internal/defaultmodel"},
	{path: "internal/jsonfault"},
	{path: "internal/prose"},
	{path: "internal/outfile", own: []string{"internal/disk"}},
	{path: "internal/markdown"},
	{path: "internal/console", own: []string{"internal/unit"}, third: []string{progressbar, xsys, xterm}},
	{path: "internal/reference"},
	{path: "internal/archtest"},
}

// Module paths of third parties.
const (
	cobra       = "github.com/spf13/cobra"
	pflag       = "github.com/spf13/pflag"
	progressbar = "github.com/schollz/progressbar/v3"
	xterm       = "golang.org/x/term"
	xsys        = "golang.org/x/sys"
	xcrypto     = "golang.org/x/crypto"
	age         = "filippo.io/age"
	onnxruntime = "github.com/yalue/onnxruntime_go"   // behind the build tag ort
	llamaCpp    = "github.com/go-skynet/go-llama.cpp" // behind the build tag llamacpp
	xtext       = "golang.org/x/text"
	zap         = "go.uber.org/zap"
	prometheus  = "github.com/prometheus/client_golang"
	// What reads the Prometheus text format, for weir top; client_golang needs both anyway.
	prometheusText  = "github.com/prometheus/common"
	prometheusModel = "github.com/prometheus/client_model"
	otlp            = "go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	otlpProto       = "go.opentelemetry.io/proto/otlp"
	yaml            = "go.yaml.in/yaml/v4"
	fasthttp        = "github.com/valyala/fasthttp"
	compress        = "github.com/klauspost/compress"
	jsonschema      = "github.com/santhosh-tekuri/jsonschema/v6"
	breaker         = "github.com/sony/gobreaker/v2"
	msgpack         = "github.com/tinylib/msgp"
	amazon          = "github.com/aws/aws-sdk-go-v2"
	amazonEvents    = "github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	oras            = "oras.land/oras-go/v2"
	ociSpec         = "github.com/opencontainers/image-spec"
	ociDigest       = "github.com/opencontainers/go-digest"
	lru             = "github.com/hashicorp/golang-lru/v2"
	protobuf        = "google.golang.org/protobuf"
	parquet         = "github.com/parquet-go/parquet-go"
	sqlite          = "modernc.org/sqlite"
	pgx             = "github.com/jackc/pgx/v5"
	redis           = "github.com/gomodule/redigo"
	oidc            = "github.com/coreos/go-oidc/v3"
	oauth2          = "golang.org/x/oauth2"
	grpc            = "google.golang.org/grpc"
	jose            = "github.com/go-jose/go-jose/v4"
	tiktoken        = "github.com/pkoukk/tiktoken-go"
	tiktokenLoader  = "github.com/pkoukk/tiktoken-go-loader"
)

// ban gives the reason for an import that the table leaves out (or, for the
// standard library, that only a ban can forbid).
type ban struct {
	from string // folder, with all below it; "" is everywhere
	to   string // import path or the beginning of one; ours without "weir/"
	why  string
}

var bans = []ban{
	{"", "cmd", "the composition root is not imported"},
	{"cmd/weir", "api/openai", "a verb serves nothing: internal/server is the process"},
	{"cmd/weir", "api/edge", "a verb serves nothing: internal/server is the process"},
	{"cmd/weir", "api/predict", "a verb serves nothing: internal/server is the process"},
	{"cmd/weir", "scheduler", "a verb plans nothing: the engine does, and bench simulates it"},
	{"cmd/weir", "router/fleet", "a verb routes nothing: internal/server is the process"},
	{"cmd/weir", "go.uber.org/zap", "verbs print; the log is the serving process's"},
	{"api", "internal/server", "the serving process connects the others and is imported by cmd alone"},
	{"engine", "internal/server", "the serving process connects the others and is imported by cmd alone"},
	{"router", "internal/server", "the serving process connects the others and is imported by cmd alone"},
	{"bench", "internal/server", "the serving process connects the others and is imported by cmd alone"},
	{"api", "internal/store", "the state that outlives the process is reached through interfaces that its users declare"},
	{"bench", "internal/store", "the state that outlives the process is reached through interfaces that its users declare"},
	{"engine", "internal/store", "the state that outlives the process is reached through interfaces that its users declare"},
	{"", "github.com/stretchr/testify", "tests use the standard library only"},
	{"api", "engine", "the edge hands token ids to a router.Backend; tensors stay behind it"},
	{"api", "kvcache", "the edge hands token ids to a router.Backend; tensors stay behind it"},
	{"api", "telemetry", "the edge calls hooks; internal/server joins them to metrics and logs"},
	{"api/openai/completion", "api/openai/responses", "no API of generations knows another; what they share is translation, job and answer"},
	{"api/openai/completion", "api/openai/messages", "no API of generations knows another; what they share is translation, job and answer"},
	{"api/openai/responses", "api/openai/completion", "no API of generations knows another; what they share is translation, job and answer"},
	{"api/openai/responses", "api/openai/messages", "no API of generations knows another; what they share is translation, job and answer"},
	{"api/openai/messages", "api/openai/completion", "no API of generations knows another; what they share is translation, job and answer"},
	{"api/openai/messages", "api/openai/responses", "no API of generations knows another; what they share is translation, job and answer"},
	{"api/openai/completion", "api/openai/ollama", "no API of generations knows another; what they share is translation, job and answer"},
	{"api/openai/responses", "api/openai/ollama", "no API of generations knows another; what they share is translation, job and answer"},
	{"api/openai/messages", "api/openai/ollama", "no API of generations knows another; what they share is translation, job and answer"},
	{"api/openai/ollama", "api/openai/completion", "no API of generations knows another; what they share is translation, job and answer"},
	{"api/openai/ollama", "api/openai/responses", "no API of generations knows another; what they share is translation, job and answer"},
	{"api/openai/ollama", "api/openai/messages", "no API of generations knows another; what they share is translation, job and answer"},
	{"api/openai/llamaserver", "api/openai/completion", "no API of generations knows another; what they share is translation, job and answer"},
	{"api/openai/llamaserver", "api/openai/messages", "no API of generations knows another; what they share is translation, job and answer"},
	{"api/openai/relay", "api/openai/completion", "what passes through is not read as a request"},
	{"api/openai/pooling", "api/openai/completion", "what text encoders are asked is no generation"},
	{"api/openai/decision", "api/openai/completion", "decisions are no generation"},
	{"router", "api", "routing must serve other edges than HTTP"},
	{"router", "engine", "an engine is one of several backends, known by the interface alone"},
	{"router", fasthttp, "upstream calls need contexts and cancellation, which net/http has"},
	{"engine", "api", "the engine knows token ids only; text and HTTP belong to the edge"},
	{"engine", "router", "the consumer declares the interface; the engine does not know who calls"},
	{"engine", "tokenizer", "the engine knows token ids only; text and HTTP belong to the edge"},
	{"engine", "telemetry", "the engine exposes Stats and hooks; internal/server joins them to metrics and logs"},
	{"engine", "net", "nothing that computes talks to a network"},
	{"router/prefix", "math/rand", "the same calls must give the same holdings"},
	{"router/prefix", "net", "the index is told of events; router/fleet fetches them"},
	{"router/balance", "math/rand", "the same calls must give the same picks; the seed is an argument"},
	{"router/balance", "net", "picking is pure; router/fleet talks to replicas"},
	{"scheduler", "engine", "the engine, the simulator and the fuzzer run the same scheduler"},
	{"scheduler", "telemetry", "the scheduler exposes Stats; internal/server joins them to metrics"},
	{"scheduler", "math/rand", "the same calls must give the same plans; randomness enters as an argument"},
	{"scheduler", "net", "planning is pure"},
	{"scheduler", "os", "planning is pure"},
	{"kvcache", "engine", "blocks are ids and counts; tensors live in the engine"},
	{"kvcache", "scheduler", "the cache does not know who asks for blocks"},
	{"kvcache", "math/rand", "the same calls must give the same blocks"},
	{"kvcache", "time", "the cache has no clock; its order of use is a list"},
	{"kvcache", "os", "bookkeeping touches no files"},
	{"tokenizer", "net", "vocabularies come from the model or a file, never from a network at run time"},
	{"telemetry", "engine", "domain packages expose Stats and hooks; internal/server joins them"},
	{"telemetry", "api", "domain packages expose Stats and hooks; internal/server joins them"},
	{"internal", "C", "the default build has no cgo"},
	{"engine/llm", "C", "the default build has no cgo"},
	{"engine/kernel", "C", "the default build has no cgo"},
	{"engine/onnx", "C", "the default build has no cgo; with the tag ort the binding has it"},
}

// deterministic folders take time and randomness as arguments, run on their
// caller's goroutine and report what is wrong as errors.
var deterministic = []string{"scheduler", "kvcache", "router/balance", "router/prefix", "router/kvevent", "tokenizer/grammar", "internal/work"}

// clockFuncs are the functions of package time that read or wait for a clock.
var clockFuncs = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
