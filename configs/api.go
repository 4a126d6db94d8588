package configs

import (
	"math"
	"time"

	"weir/api/openai/generation"
	"weir/api/openai/params"
	"weir/api/replay"
)

// Tiktoken says where /tokenize finds the vocabularies of OpenAI's models.
type Tiktoken struct {
	Dir string // with files such as o200k_base.tiktoken; empty: those in the binary
}

// reasoningNames are the values of openai.Config.Reasoning.
var reasoningNames = []string{string(params.ReasoningBoth), string(params.ReasoningContent), string(params.ReasoningOnly)}

// heartbeats are the values of openai.Config.Heartbeat.
var heartbeats = []string{string(generation.HeartbeatComment), string(generation.HeartbeatChunk), string(generation.HeartbeatOff)}

// apiSettings are those of requests and of what is kept of their answers.
func apiSettings(c *Config) []Setting {
	const anySize = math.MaxInt32
	return []Setting{
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
}
