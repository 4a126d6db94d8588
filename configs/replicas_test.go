package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/router/fleet"
)

// A replica's key may lie in a file of its own, such as a mounted secret, which is no place
// for anything else.
func TestReplicaKeyFile(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"key": " sk-of-the-replica\n", "empty": "\n", "long": strings.Repeat("x", maxKeyBytes+1)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("WEIR_TEST_KEY", "sk-of-the-replica")
	t.Setenv("WEIR_TEST_NO_KEY", "")
	for _, c := range []struct{ fields, wrong string }{
		{"api_key_file: key", ""},
		{"api_key_file: empty", "must hold the key alone"},
		{"api_key_file: long", "must hold the key alone"},
		{"api_key_file: none", "no such file"},
		{"api_key_file: key, api_key: sk-another-key", "set one of both"},
		{"kind: anthropic, api_key_env: WEIR_TEST_KEY", ""},
		{"kind: gemini, api_key_env: WEIR_TEST_NO_KEY", "WEIR_TEST_NO_KEY is empty"},
		{"kind: bedrock, api_key_env: WEIR_TEST_KEY, api_key: sk-another-key", "set one of them"},
	} {
		fields := strings.Replace(c.fields, "api_key_file: ", "api_key_file: "+folder+"/", 1)
		s := New()
		err := s.Decode("a.yml", []byte("models: [{name: m, replicas: [{url: \"http://10.0.0.7/v1\", "+fields+"}]}]\n"))
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "sk-") {
				t.Errorf("%s: %v", c.fields, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := s.config.Models[0].Replicas[0].APIKey; got != "sk-of-the-replica" {
			t.Errorf("the key is %q", string(got))
		}
	}
}

// What a model's routing leaves out is as everywhere; a share of 0 is no retries, not the
// default; and a model that is computed here has none.
func TestRoutingOfAModel(t *testing.T) {
	read := func(text string) (fleet.Routing, error) {
		s := New()
		err := s.Decode("a.yml", []byte(text))
		if err != nil {
			return fleet.Routing{}, err
		}
		return s.config.Models[0].Routing, nil
	}
	const replicas = "models: [{name: m, replicas: [{url: \"http://10.0.0.7/v1\"}]"
	want := fleet.DefaultRouting()
	if got, err := read(replicas + "}]"); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	want.RetryShare, want.AnswerTimeout, want.Zone, want.BreakerFailures = -1, time.Minute, "a", 9
	if got, err := read(replicas + ", routing: {retry_share: 0, answer_timeout: 1m, zone: a, breaker_failures: 9}}]"); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for text, wrong := range map[string]string{
		replicas + ", routing: {answer_timeout: 0}}]":           "answer_timeout",
		replicas + ", routing: {retry_share: 1.5}}]":            "retry_share",
		replicas + ", routing: {timeout: 1s}}]":                 "unknown key",
		"models: [{name: m, path: m.gguf, routing: {zone: a}}]": "no replicas",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, want %q", text, err, wrong)
		}
	}
}

// Roles are for weirs that give one another their KV blocks, and believe the router.
func TestRolesOfReplicas(t *testing.T) {
	for fields, wrong := range map[string]string{
		"role: decode, admin_url: \"http://10.0.0.7:9090\"":      "",
		"role: kv_producer, admin_url: \"http://10.0.0.7:9090\"": "both, decode, prefill",
		"role: prefill": "no admin_url",
		"role: prefill, kind: vllm, admin_url: \"http://10.0.0.7:9090\"":  "only weirs",
		"role: decode, kind: sglang, admin_url: \"http://10.0.0.7:9090\"": "only weirs",
	} {
		s := New()
		err := s.Decode("a.yml", []byte("models: [{name: m, replicas: [{url: \"http://10.0.0.7/v1\", "+fields+"}]}]\n"))
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%s: %v", fields, err)
		}
	}
	c := Default()
	c.Models = []ServedModel{NewServedModel("m", "")}
	c.Models[0].Replicas = []fleet.Source{{URL: "http://10.0.0.7/v1", Role: fleet.Prefill}}
	if err := c.validateModels(); err == nil || !strings.Contains(err.Error(), "--peer-key") {
		t.Errorf("without a peer key: %v", err)
	}
}

// What a router would refuse at its start is refused where the file is read, so that weir config print, which says whether a file is good, and weir route agree.
func TestPoolsAreCheckedWithTheFile(t *testing.T) {
	const admin = `admin_url: "http://10.0.0.7:9090"`
	both := func(model string) string {
		return `{server: {peer_key: "0123456789abcdef0123456789abcdef"}, engine: {prefix_cache_key: "0123456789abcdef"}, models: [{name: m, ` + model +
			`, replicas: [{url: "http://10.0.0.7/v1", role: prefill, ` + admin + `}, {url: "http://10.0.0.8/v1", role: decode, ` + admin + `}]}]}`
	}
	for text, want := range map[string]string{
		both("policy: prefix, tokenizer: builtin"):     "",
		both("policy: least_load, tokenizer: builtin"): "only the policy prefix",
		both("policy: prefix"):                         "give the model a tokenizer",
		`models: [{name: m, replicas: [{url: "http://10.0.0.7/v1", role: decode, ` + admin + `}]}]`: "none with prefill",
		`models: [{name: m, replicas: [{discover: store}]}]`:                                        "set store.url",
		`{store: {url: "sqlite:weir.db"}, models: [{name: m, replicas: [{discover: store}]}]}`:      "",
		`classic: [{name: m, replicas: [{url: "http://10.0.0.7", role: decode, ` + admin + `}]}]`:   "none with prefill",
		`classic: [{name: m, replicas: [{url: "http://10.0.0.7", kind: oip}]}]`:                     "",
	} {
		s := New()
		err := s.Decode("a.yml", []byte(text))
		if err == nil {
			_, err = s.Config()
		}
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
