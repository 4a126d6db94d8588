// Package configs is the configuration of a weir process: one tree composed
// of each part's own Config, the names of every value on the command line, in
// the environment and in a YAML file, and where each value came from.
//
// Values are applied from the weakest source to the strongest: defaults, the
// file, the environment (WEIR_MAX_NUM_SEQS), flags. Nothing is guessed: an
// unknown key, a value of the wrong type or out of range is an error that
// names place, key, value and what would be accepted. Only cmd imports this
// package; no part of weir sees the whole tree.
package configs

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/telemetry"
)

// Config is the whole tree. Default gives a complete one.
type Config struct {
	Server    Server
	HTTP      api.Config
	Model     Model
	Engine    Engine
	Scheduler Scheduler
	Log       telemetry.LogConfig
}

// Server says who listens where and who may call.
type Server struct {
	Host            string
	Port            int           // 0 takes a free one
	AdminAddress    string        // metrics and profiles; "off" for none
	APIKeys         []string      // none: everyone who reaches the port may call
	Insecure        bool          // allow everyone beyond loopback
	ShutdownTimeout time.Duration // for running requests after SIGTERM
}

// Model says what is served and under which names.
type Model struct {
	Path        string   // a GGUF file; empty is the embedded model
	ServedNames []string // the first is the model's id, the rest are aliases; none: the file's name
}

// Engine sizes the memory and the threads of a loaded model.
type Engine struct {
	Threads       int    // 0 takes every core the process may use
	BlockTokens   int    // tokens per KV block
	KVType        string // one of KVTypes
	KVMemoryBytes int64  // 0 takes a share of what is free
}

// KVTypes are the values of Engine.KVType; auto is f16.
var KVTypes = []string{"auto", "f16", "q8_0"}

// Address is host and port of the API's listener.
func (s Server) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// Default is what a process runs with when nobody says anything.
func Default() Config {
	return Config{
		Server: Server{
			Host: "127.0.0.1", Port: 8000, AdminAddress: "127.0.0.1:9090",
			ShutdownTimeout: 30 * time.Second,
		},
		HTTP:      api.DefaultConfig(),
		Engine:    Engine{BlockTokens: 16, KVType: "auto"},
		Scheduler: defaultScheduler(),
		Log:       telemetry.DefaultLogConfig(),
	}
}

// settings binds every setting to its field of c. The order is that of help
// texts, of `weir config print` and of the example file.
func settings(c *Config) []Setting {
	const anySize = math.MaxInt32
	return []Setting{
		{Key: "server.host", Flag: "host", Usage: "address to listen on; 0.0.0.0 is every interface",
			binding: bindText(&c.Server.Host, "a host name or an address", isHost)},
		{Key: "server.port", Flag: "port", Usage: "port of the API; 0 takes a free one",
			binding: bindInt(&c.Server.Port, 0, 65535, "")},
		{Key: "server.admin_address", Flag: "admin-address", Usage: "second listener with metrics and profiles; off for none",
			binding: bindText(&c.Server.AdminAddress, "host:port, or off", isAdminAddress)},
		{Key: "server.api_key", Flag: "api-key", Usage: "key that clients send as a bearer token; repeat for several", Secret: true,
			binding: bindList(&c.Server.APIKeys, "a key")},
		{Key: "server.insecure", Flag: "insecure", Usage: "allow a listener beyond loopback that asks for no key",
			binding: bindBool(&c.Server.Insecure)},
		{Key: "server.shutdown_timeout", Flag: "shutdown-timeout", Usage: "time that running requests get after SIGTERM",
			binding: bindDuration(&c.Server.ShutdownTimeout, 0, 24*time.Hour)},

		{Key: "http.read_timeout", Flag: "http-read-timeout", Usage: "time for a whole request to arrive",
			binding: bindDuration(&c.HTTP.ReadTimeout, time.Millisecond, time.Hour)},
		{Key: "http.idle_timeout", Flag: "http-idle-timeout", Usage: "time that a kept-alive connection may rest",
			binding: bindDuration(&c.HTTP.IdleTimeout, time.Millisecond, 24*time.Hour)},
		{Key: "http.write_timeout", Flag: "http-write-timeout", Usage: "time for one write to a client; streams may run longer",
			binding: bindDuration(&c.HTTP.WriteTimeout, time.Millisecond, time.Hour)},
		{Key: "http.max_header_bytes", Flag: "http-max-header-bytes", Usage: "largest request header",
			binding: bindInt(&c.HTTP.MaxHeaderBytes, 1<<10, 1<<20, "")},
		{Key: "http.max_request_bytes", Flag: "http-max-request-bytes", Usage: "largest request body",
			binding: bindInt(&c.HTTP.MaxRequestBytes, 1<<10, 1<<30, "")},
		{Key: "http.max_connections", Flag: "http-max-connections", Usage: "connections at once; further ones get 503",
			binding: bindInt(&c.HTTP.MaxConnections, 1, 1<<20, "")},

		{Key: "model.path", Flag: "model", Usage: "GGUF file to serve, instead of the argument; empty is the embedded model",
			binding: bindText(&c.Model.Path, "a path", anyText)},
		{Key: "model.served_model_name", Flag: "served-model-name", Usage: "model id in the API; repeat for aliases (default: the file's name)",
			binding: bindList(&c.Model.ServedNames, "a name")},

		{Key: "engine.threads", Flag: "threads", Usage: "compute threads; 0 takes every core",
			binding: bindInt(&c.Engine.Threads, 0, 1024, "")},
		{Key: "engine.block_size", Flag: "block-size", Usage: "tokens per block of the KV cache",
			binding: bindInt(&c.Engine.BlockTokens, 1, 256, "")},
		{Key: "engine.kv_cache_dtype", Flag: "kv-cache-dtype", Usage: "type of the KV cache; auto is f16",
			binding: bindChoice(&c.Engine.KVType, KVTypes)},
		{Key: "engine.kv_cache_memory_bytes", Flag: "kv-cache-memory-bytes", Usage: "memory of the KV cache; 0 derives it from what is free",
			binding: bindBytes(&c.Engine.KVMemoryBytes, "")},

		{Key: "scheduler.max_model_len", Flag: "max-model-len", Usage: "longest sequence in tokens; 0 is the model's own context",
			binding: bindInt(&c.Scheduler.MaxModelLen, 0, anySize, "")},
		{Key: "scheduler.max_num_seqs", Flag: "max-num-seqs", Usage: "sequences that run at once",
			binding: bindInt(&c.Scheduler.MaxSeqs, 1, 65536, "")},
		{Key: "scheduler.max_num_batched_tokens", Flag: "max-num-batched-tokens", Usage: "rows of one step: decoded tokens and prompt tokens together",
			binding: bindInt(&c.Scheduler.MaxBatchTokens, 1, 1<<20, "")},

		{Key: "log.level", Flag: "log-level", Usage: "least severe level that is logged",
			binding: bindChoice(&c.Log.Level, telemetry.LogLevels)},
		{Key: "log.format", Flag: "log-format", Usage: "auto is console on a terminal and json elsewhere",
			binding: bindChoice(&c.Log.Format, telemetry.LogFormats)},
	}
}

func anyText(string) bool { return true }

func isHost(s string) bool { return s != "" && !strings.ContainsAny(s, " /\t\r\n") }

func isAdminAddress(s string) bool {
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
	if c.Server.Insecure {
		return nil
	}
	if len(c.Server.APIKeys) == 0 && !isLoopback(c.Server.Host) {
		return fmt.Errorf("server.host: %q is reachable from other machines and no API key is set; "+
			"set --api-key (or WEIR_API_KEY), or --insecure if a proxy in front checks callers", c.Server.Host)
	}
	if host, _, err := net.SplitHostPort(c.Server.AdminAddress); err == nil && !isLoopback(host) {
		return fmt.Errorf("server.admin_address: %q is reachable from other machines and that listener asks for no key; "+
			"keep it on 127.0.0.1, switch it off, or set --insecure", c.Server.AdminAddress)
	}
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}
