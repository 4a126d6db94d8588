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
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"weir/api"
	"weir/api/moderation"
	"weir/api/openai"
	"weir/api/tenant"
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

// settings binds every setting to its field of c. The order is that of help
// texts, of `weir config print` and of the example file.
func settings(c *Config) []Setting {
	return slices.Concat(serverSettings(c), httpSettings(c), apiSettings(c),
		modelSettings(&c.Model), engineSettings(&c.Engine), []Setting{speculativeSetting(c)}, registrySettings(c), predictSettings(c),
		schedulerSettings(c), storeSettings(c), filesSettings(c), quotaSettings(c), telemetrySettings(c))
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
