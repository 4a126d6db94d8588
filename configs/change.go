package configs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
)

// Change is a setting, or a list of the file, whose value differs between two
// configurations.
type Change struct {
	Key  string // "log.level", "tenants"
	Live bool   // a running process takes the new value when it reloads
}

// liveKeys are the settings and lists that a running process can change. All others
// need a restart, because memory, ports or threads were made from them.
var liveKeys = map[string]bool{
	"log.level": true, "log.access_per_second": true, "server.api_key": true, "tenants": true, "issuers": true, "prices": true,
	"predict.models": true, "classic": true, "models": true, "policies": true, "model.safety": true,
	"model.path": true, "model.chat_template": true, TemplateArgsKey: true, CallsKey: true, ThoughtsKey: true, HideToolsKey: true, "model.served_model_name": true, "model.embedding_prompts": true,
	LoraModulesKey: true, CalibrationKey: true, "model.max_loras": true, "model.max_lora_rank": true,
	"server.tls_certificate": true, "server.tls_key": true, "server.tls_client_ca": true,
	"brownout": true, "quota.failure": true, "quota.lease": true, "quota.timeout": true,
	"slo.availability": true, "slo.ttft_ms": true, "slo.ttft": true, "slo.itl_ms": true, "slo.itl": true, "slo.streams": true,
}

// switchesTLS reports whether TLS would be switched on or off, which a listener that
// runs cannot.
func switchesTLS(before, after Config) bool { return before.Server.TLS.On() != after.Server.TLS.On() }

// Changes lists what differs between two configurations, in the order of help
// texts, lists last. Values are not part of the result: some are secrets.
func Changes(before, after Config) []Change {
	var changes []Change
	add := func(key string) {
		stays := strings.HasPrefix(key, "server.tls_") && switchesTLS(before, after)
		changes = append(changes, Change{key, liveKeys[key] && !stays})
	}
	old, now := settings(&before), settings(&after)
	for i := range old {
		if old[i].show() != now[i].show() {
			add(old[i].Key)
		}
	}
	if !reflect.DeepEqual(before.Tenants, after.Tenants) {
		add("tenants")
	}
	if !reflect.DeepEqual(before.Issuers, after.Issuers) {
		add("issuers")
	}
	if !maps.Equal(before.Prices, after.Prices) {
		add("prices")
	}
	if !reflect.DeepEqual(before.Brownout, after.Brownout) {
		add("brownout")
	}
	if !reflect.DeepEqual(before.Classic, after.Classic) {
		add("classic")
	}
	if !reflect.DeepEqual(before.Models, after.Models) {
		add("models")
	}
	if !reflect.DeepEqual(before.Policies, after.Policies) {
		add("policies")
	}
	return changes
}

// Digest tells configurations apart: SHA-256, in hexadecimal, of all settings and lists.
// Secrets are left out, so that they cannot be tried against it.
func (c Config) Digest() string {
	h := sha256.New()
	list := settings(&c)
	for i := range list {
		fmt.Fprintf(h, "%s\x00%s\x00", list[i].Key, list[i].Value())
	}
	for _, list := range []any{c.Tenants, c.Issuers, c.Prices, c.Brownout, c.Classic, c.Models} {
		fmt.Fprintf(h, "%#v\x00", list)
	}
	policies, _ := json.Marshal(c.Policies) //nolint:errchkjson // plain fields
	fmt.Fprintf(h, "%s\x00", policies)
	return hex.EncodeToString(h.Sum(nil))
}

// TakeLive takes over what a running process can change.
func (c *Config) TakeLive(from Config) {
	if !switchesTLS(*c, from) {
		c.Server.TLS = from.Server.TLS
	}
	c.Log.Level, c.Log.AccessPerSecond = from.Log.Level, from.Log.AccessPerSecond
	c.API.APIKeys = from.API.APIKeys
	c.Tenants, c.Issuers, c.Prices = from.Tenants, from.Issuers, from.Prices
	c.Predict.Models, c.Classic, c.Models, c.Policies = from.Predict.Models, from.Classic, from.Models, from.Policies
	c.Brownout, c.SLO = from.Brownout, from.SLO
	c.Quota.Failure, c.Quota.Lease, c.Quota.Timeout = from.Quota.Failure, from.Quota.Lease, from.Quota.Timeout
	limit := c.Model.MemoryBytes
	c.Model = from.Model
	c.Model.MemoryBytes = limit
}
