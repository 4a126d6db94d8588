package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/internal/reference"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
	"weir/router/fleet"
	"weir/router/rollout"
)

// A tenant whose residency keeps its requests off a candidate takes no rollout back: the stable version answers them, they count for no
// arm, and those of others are divided as before. Neither do they use up how many requests the stable version answers in a failing
// candidate's place, where the candidate has a replica in the tenant's region that is down.
func TestResidencyTakesNoRolloutBack(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	home := servertest.Start(t, nil)
	near := servertest.Upstream(t, new(atomic.Bool), 0)
	far, strayed, _ := abroad(t, near.URL)
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(down.Close)
	store := "sqlite:" + t.TempDir() + "/weir.db"
	acme, other, operator := servertest.NewKey(t, store, keychain.Request{Tenant: "acme"}), servertest.NewKey(t, store, keychain.Request{Tenant: "other"}), servertest.NewKey(t, store, keychain.Request{Tenant: "ops", Scope: "admin"})
	s := servertest.Start(t, func(c *configs.Config) {
		residents(c, "eu", "eu")
		c.Store.URL = store
		version := func(name, version string, replicas ...fleet.Source) configs.ServedModel {
			m := configs.NewServedModel(name, "")
			m.Version, m.Policy, m.Replicas = version, "round_robin", replicas
			if version != "1" {
				m.Load = configs.LoadNever
			}
			return m
		}
		at := func(url, region string) fleet.Source {
			return fleet.Source{URL: url + "/v1", Model: "m", Region: region}
		}
		c.Models = []configs.ServedModel{
			version("chat", "1", at(near.URL, "eu")), version("chat", "2", at(far, "us")),
			version("half", "1", at(near.URL, "eu")), version("half", "2", at(far, "us"), at(down.URL, "eu")),
		}
		for version, region := range map[string]string{"1": "eu", "2": "us"} {
			trees := configs.NewClassic("flowers", "")
			trees.Version, trees.Candidate = version, version != "1"
			trees.Replicas = []fleet.Source{{URL: home.API, Kind: fleet.Weir, Model: defaultmodel.IrisName, Region: region}}
			c.Classic = append(c.Classic, trees)
		}
	})
	ask := func(key, model string) (status int, h http.Header) {
		path, body := "/v1/chat/completions", `{"model":"`+model+`","max_tokens":8,"messages":[{"role":"user","content":"`+secretWord+`"}]}`
		if key != acme {
			body = `{"model":"` + model + `","max_tokens":8,"messages":[{"role":"user","content":"Hello"}]}`
		}
		if model == "flowers" {
			path, body = "/v1/models/flowers:predict", `{"instances": [[5.1, 3.5, 1.4, 0.2]]}`
		}
		status, h, _ = s.As(key, http.MethodPost, s.API+path, body)
		return status, h
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(servertest.Patience); !done(); {
			if time.Now().After(end) {
				t.Fatalf("%s: not within %v\n%s", what, servertest.Patience, s.Errs.String())
			}
		}
	}
	until("the replica in the region is down", func() bool {
		_, h := ask(acme, "half@2")
		return h.Get("X-Weir-Reason") == "no_replica_in_region"
	})
	until("flowers is ready", func() bool { status, _ := ask(acme, "flowers"); return status == http.StatusOK })

	for model, asked := range map[string]int{"chat": 60, "half": 200, "flowers": 60} {
		status, _, text := s.As(operator, http.MethodPost, s.Admin+"/v1/deployments", `{"model": "`+model+`", "candidate": "2", "sticky": "request", "unchecked": true,
			"gates": {"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1, "compute_ratio": -1}, "steps": [{"percent": 90, "min_requests": 1000000, "min_time": "10m"}]}`)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", model, status, text)
		}
		for n := range asked {
			status, h := ask(acme, model)
			if status != http.StatusOK || h.Get("X-Weir-Version") != "1" || h.Get("X-Weir-Arm") != rollout.Stable.String() {
				t.Fatalf("%s, request %d of the tenant with a residency: %d %v", model, n, status, h)
			}
		}
		var candidates int
		const others = 40
		for range others {
			status, h := ask(other, model)
			if status != http.StatusOK {
				t.Errorf("%s, another tenant: %d %v", model, status, h)
			}
			if h.Get("X-Weir-Arm") == rollout.Candidate.String() {
				candidates++
			}
		}
		var got rollout.Status
		until(model+" has counted", func() bool {
			var list struct{ Rollouts []rollout.Status }
			if _, _, text := s.As(operator, http.MethodGet, s.Admin+"/v1/deployments", ""); json.Unmarshal([]byte(text), &list) != nil {
				t.Fatal(text)
			}
			got = list.Rollouts[slices.IndexFunc(list.Rollouts, func(st rollout.Status) bool { return st.Plan.Model == model })]
			return got.Arms[1].Requests >= candidates && got.Arms[0].Requests+got.Arms[1].Requests >= others
		})
		if arms := got.Arms; got.State != rollout.Running || arms[1].Requests != candidates || candidates < others/2 || arms[1].Failed+arms[1].Throttled+arms[1].Denied > 0 {
			t.Errorf("%s is %s (%s): %d of %d requests of others had the candidate: %+v", model, got.State, got.Reason, candidates, others, arms)
		}
		if model != "half" && got.Arms[0].Requests != others-candidates {
			t.Errorf("%s: the stable arm counts %d requests, want the %d of others", model, got.Arms[0].Requests, others-candidates)
		}
	}
	if n := strayed.Load(); n > 0 {
		t.Errorf("%d requests left their region", n)
	}
}
