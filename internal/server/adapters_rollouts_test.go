package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
	"weir/router/rollout"
	"weir/scheduler/quota"
)

// Rollouts of a model take its adapters with them: requests for one are divided between the versions that have it, each with the file that
// its version has, so that a new file of an adapter is a version of the model. An adapter of the stable version alone stays there.
func TestRolloutsOfAdapters(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	base := servertest.EmbeddedFile(t)
	first, second := servertest.AdapterFile(t, base, "first", 4, 0.2), servertest.AdapterFile(t, base, "second", 8, 0.4)
	version := func(label string, adapters ...string) configs.ServedModel {
		return servertest.Record("chat", base, func(m *configs.ServedModel) {
			m.Version = label
			for _, a := range adapters {
				m.Settings = append(m.Settings, configs.ModelSetting{Key: configs.LoraModulesKey, Value: a})
			}
			m.Settings = append(m.Settings, configs.ModelSetting{Key: "engine.kv_cache_memory_bytes", Value: "4MiB"})
			if label != "1" {
				m.Load = configs.LoadNever
			}
		})
	}
	url := "sqlite:" + t.TempDir() + "/weir.db"
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = url
		c.Models = []configs.ServedModel{version("1", "sql="+first, "old="+first), version("2", "sql="+second)}
	})
	say := func(model string, n int) (text, version, arm, fingerprint string) {
		status, h, body := s.As("", http.MethodPost, s.API+"/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"The river was","max_tokens":12,"temperature":0,"prompt_cache_key":"c%d"}`, model, n))
		var answer struct {
			Fingerprint string `json:"system_fingerprint"`
			Choices     []struct{ Text string }
		}
		if status != http.StatusOK || json.Unmarshal([]byte(body), &answer) != nil {
			t.Fatalf("%s: %d %s", model, status, body)
		}
		return answer.Choices[0].Text, h.Get("X-Weir-Version"), h.Get("X-Weir-Arm"), answer.Fingerprint
	}
	plain, _, _, _ := say("chat", 0)
	stable, v, _, before := say("sql", 0)
	if v != "1" || stable == plain {
		t.Fatalf("version %s of the adapter says %q, and the model %q", v, stable, plain)
	}
	if status, _, text := s.Rollout("", `{"model": "chat", "candidate": "2", "sticky": "request", "unchecked": true,
		"gates": {"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1, "compute_ratio": -1}, "steps": [{"percent": 50, "min_requests": 1000000, "min_time": "10m"}]}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	said, prints := map[string][]string{}, map[string]bool{before: true}
	for n := range 60 {
		text, version, arm, print := say("sql", n)
		if want := map[string]string{"1": rollout.Stable.String(), "2": rollout.Candidate.String()}[version]; arm != want {
			t.Fatalf("version %s is the arm %s", version, arm)
		}
		if prints[print] = true; !slices.Contains(said[version], text) {
			said[version] = append(said[version], text)
		}
		if text, version, _, _ := say("old", n); version != "1" || text != stable {
			t.Fatalf("an adapter that the candidate does not have: version %s says %q, not %q", version, text, stable)
		}
	}
	if len(said["1"]) != 1 || len(said["2"]) != 1 || said["1"][0] != stable || said["2"][0] == stable || said["2"][0] == plain || len(prints) != 2 {
		t.Errorf("the arms say %q under %d fingerprints; the model says %q, and the adapter said %q", said, len(prints), plain, stable)
	}
	if status, _, text := s.Rollout("/promote", `{"model": "chat"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if text, version, _, _ := say("sql", 0); version != "2" || text != said["2"][0] {
		t.Errorf("after the rollout version %s says %q, not %q", version, text, said["2"][0])
	}
}

// Limits by model and prices know adapters by their names; without an own price their tokens cost what the model's do.
func TestAdaptersHaveLimitsAndPrices(t *testing.T) {
	base := servertest.EmbeddedFile(t)
	file := servertest.AdapterFile(t, base, "a", 4, 0.2)
	s, key, _ := servertest.Limited(t, func(c *configs.Config) {
		c.Model.Path, c.Model.ServedNames, c.Model.Adapters = base, []string{"chat"}, []string{"dear=" + file, "cheap=" + file, "same=" + file}
		acme := tenant.New("acme")
		acme.ModelLimits = map[string]quota.Limits{"cheap": {RequestsPerMinute: 1}}
		narrow := tenant.New("narrow")
		narrow.Models = []string{"chat"}
		c.Tenants = []tenant.Tenant{acme, tenant.New("ops"), narrow}
		c.Prices = map[string]quota.Price{"chat": {Output: 1_000_000}, "dear": {Output: 7_000_000}, "chat:cheap": {Output: 500_000}}
	})
	ask := func(model string) int {
		status, _, _ := s.As(key, http.MethodPost, s.API+"/v1/completions", `{"model":"`+model+`","prompt":"The river was","max_tokens":10,"ignore_eos":true}`)
		return status
	}
	for _, c := range []struct {
		model  string
		status int
	}{{"chat", 200}, {"dear", 200}, {"same", 200}, {"cheap", 200}, {"chat:cheap", 429}, {"cheap", 429}, {"dear", 200}} {
		if got := ask(c.model); got != c.status {
			t.Errorf("%s: %d, not %d", c.model, got, c.status)
		}
	}
	costs := map[string]float64{}
	var usage struct {
		Rows []struct {
			Model string
			Cost  float64
		}
	}
	_, _, text := s.As(key, http.MethodGet, s.API+"/v1/usage", "")
	if err := json.Unmarshal([]byte(text), &usage); err != nil {
		t.Fatal(err, text)
	}
	for _, r := range usage.Rows {
		costs[r.Model] += r.Cost
	}
	if c := costs; c["chat"] == 0 || !near(c["same"], c["chat"]) || !near(c["dear"], 14*c["chat"]) || !near(c["cheap"], c["chat"]/2) {
		t.Errorf("%v of %s", costs, text)
	}
	none := servertest.NewKey(t, s.StoreURL, keychain.Request{Tenant: "narrow"})
	if status, _, _ := s.As(none, http.MethodPost, s.API+"/v1/completions", `{"model":"dear","prompt":"The","max_tokens":1}`); status == http.StatusOK {
		t.Error("a tenant with the model alone gets its adapter")
	}
}

func near(a, b float64) bool { return a > b-1e-9 && a < b+1e-9 }
