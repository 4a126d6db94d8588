package openai

import (
	"fmt"
	"net/http"
	"time"

	"weir/api/edge"
	"weir/api/meter"
	"weir/api/openai/completion"
	"weir/api/openai/generation"
	"weir/api/openai/models"
	"weir/api/openai/ollama"
	"weir/api/openai/params"
	"weir/api/openai/pooling"
	"weir/api/openai/stored"
	"weir/api/replay"
	"weir/api/tenant"
	ledger "weir/api/usage" // usage is a type of this package
	"weir/router"
	"weir/scheduler/brownout"
	"weir/tokenizer"
)

// Config is what an operator sets.
type Config struct {
	APIKeys []string              // each a tenant of its own; empty: no key asked
	Callers *tenant.Authenticator // says who calls; nil: APIKeys do
	// ClientTimeouts: what clients say of how long they wait is a deadline, see edge.ClientTimeout.
	ClientTimeouts bool

	Strict bool // refuse what is otherwise ignored and named in x-weir-warnings

	Heartbeat        generation.Heartbeat // what a quiet stream sends
	HeartbeatEvery   time.Duration        // after this long without a byte
	ProgressEvery    time.Duration        // how often a stream that asked for progress looks for news
	Reasoning        params.Reasoning     // the names under which chats tell a thought
	MaxChoices       int                  // prompts x n of one request
	MaxMessages      int                  // messages of one chat
	MaxStopTokens    int                  // stop_token_ids of one request
	MaxTokenizeBytes int                  // body of /tokenize and /apply-template
	AnyOrder         bool                 // default of any_order: properties of JSON objects come in any order
	ParseSpecial     bool                 // default of parse_special: control tokens in the text of completions are parsed
	DrainRetries     bool                 // clients refused while the server drains should try again
	CompressMinBytes int                  // smaller responses go as they are
	AbortTimeout     time.Duration        // at shutdown, what cancelled requests get to say goodbye

	Meter meter.Meter   // counts what tenants use; nil counts nothing, and no limit holds
	Usage ledger.Ledger // what tenants read of their own at GET /v1/usage; nil: it is not kept

	Idempotency   Idempotency
	Responses     stored.Config
	ResponseCache replay.CacheConfig // off without Bytes
	GrammarBytes  int64              // of compiled grammars, of all tenants together

	Predict   Predict                    // of classical models, for policies' classifiers; nil: there are none
	Classical func() []router.ModelState // what answers for their names, for /ready; nil: there are none

	Brownout func() *brownout.Step // what is lowered now, nil for nothing; nil: never anything

	Outcomes edge.OutcomeFunc // POST /v1/outcomes; nil: not served

	Version string             // of the program, for /version
	Slots   int                // sequences that a model generates at once, for /slots; 0 is not known
	Counter *tokenizer.Counter // counts for OpenAI-family model names in /tokenize; nil: none
	Hooks   edge.Hooks
	Metrics http.Handler // GET /metrics, with the scope of metrics; nil: not served

	OpenMetrics bool // GET /metrics asks for no key

	Ollama   ollama.Catalog      // of the models' files, for Ollama's API; nil: nothing is known of them
	Adapters models.AdapterTable // loads and unloads adapters for callers with the scope admin; nil: none does

	Pulls bool // callers with the scope admin may have models pulled
}

// reader reads requests that generate, by these rules.
func (c *Config) reader() completion.Reader {
	return completion.Reader{MaxMessages: c.MaxMessages, ParseSpecial: c.ParseSpecial,
		Rules: &params.Rules{MaxChoices: c.MaxChoices, MaxStopTokens: c.MaxStopTokens, AnyOrder: c.AnyOrder, Reasoning: c.Reasoning}}
}

// pooling are the rules by which requests to pooling models are read.
func (c *Config) pooling() pooling.Rules { return pooling.Rules{ParseSpecial: c.ParseSpecial} }

// DefaultConfig asks for no key, ignores unknown fields with a warning, and sends
// a heartbeat after 10 seconds without a byte.
func DefaultConfig() Config {
	return Config{
		Heartbeat:        generation.HeartbeatComment,
		HeartbeatEvery:   10 * time.Second,
		ProgressEvery:    200 * time.Millisecond,
		Reasoning:        params.ReasoningBoth,
		MaxChoices:       128,
		MaxMessages:      4096,
		MaxStopTokens:    256,
		MaxTokenizeBytes: 1 << 20,
		DrainRetries:     true,
		CompressMinBytes: 1 << 10,
		AbortTimeout:     2 * time.Second,
		Idempotency:      Idempotency{TTL: 24 * time.Hour, MaxAnswerBytes: 4 << 20, TenantBytes: 64 << 20},
		Responses:        stored.Config{TTL: 24 * time.Hour, TenantBytes: 64 << 20},
		ResponseCache:    replay.CacheConfig{MaxAge: time.Hour},
		GrammarBytes:     64 << 20,
	}
}

// Validate reports the first setting that makes no sense.
func (c Config) Validate() error {
	switch c.Heartbeat {
	case generation.HeartbeatComment, generation.HeartbeatChunk, generation.HeartbeatOff:
	default:
		return fmt.Errorf("heartbeat is %q; it must be comment, chunk or off", c.Heartbeat)
	}
	if c.Reasoning.Names() == nil {
		return fmt.Errorf("reasoning is %q; it must be both, reasoning_content or reasoning", c.Reasoning)
	}
	for _, f := range []struct {
		name  string
		wrong bool
		must  string
	}{
		{"heartbeat_every", c.HeartbeatEvery < 100*time.Millisecond, "at least 100ms"},
		{"progress_every", c.ProgressEvery < 10*time.Millisecond, "at least 10ms"},
		{"max_choices", c.MaxChoices < 1, "at least 1"},
		{"max_messages", c.MaxMessages < 1, "at least 1"},
		{"max_stop_tokens", c.MaxStopTokens < 0, "at least 0"},
		{"max_tokenize_bytes", c.MaxTokenizeBytes < 1, "at least 1"},
		{"compress_min_bytes", c.CompressMinBytes < 0, "at least 0"},
		{"idempotency.ttl", c.Idempotency.TTL < 0, "at least 0"},
		{"idempotency.max_answer_bytes", c.Idempotency.MaxAnswerBytes < 0 || c.Idempotency.MaxAnswerBytes > replay.MaxAnswerBytes,
			fmt.Sprintf("at most %d", replay.MaxAnswerBytes)},
		{"idempotency.tenant_bytes", c.Idempotency.TenantBytes < 0, "at least 0"},
		{"grammar_bytes", c.GrammarBytes < 0, "at least 0"},
		{"responses.ttl", c.Responses.TTL < 0, "at least 0"},
		{"responses.tenant_bytes", c.Responses.TenantBytes < 0, "at least 0"},
		{"response_cache.max_age", c.ResponseCache.Bytes > 0 && c.ResponseCache.MaxAge <= 0, "above 0"},
		{"abort_timeout", c.AbortTimeout <= 0, "above 0"},
	} {
		if f.wrong {
			return fmt.Errorf("%s must be %s", f.name, f.must)
		}
	}
	for i, k := range c.APIKeys {
		if len(k) < tenant.MinStaticKeyBytes {
			return fmt.Errorf("api_keys[%d] has %d bytes; a key needs at least %d", i, len(k), tenant.MinStaticKeyBytes)
		}
	}
	return nil
}
