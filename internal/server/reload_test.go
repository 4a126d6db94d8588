package server_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/api/admin"
	"weir/api/tenant"
	"weir/configs"
	"weir/internal/inference"
	"weir/internal/server/servertest"
	"weir/scheduler/brownout"
	"weir/scheduler/quota"
)

// A price that a reload brings counts from the next request on.
func TestReloadedPricesCount(t *testing.T) {
	var from servertest.Source
	s := servertest.StartFrom(t, &from, nil)
	spend := func() string {
		s.Post("/v1/completions", `{"prompt":"a b c","max_tokens":2,"temperature":0}`).Body.Close()
		_, text := s.Get(s.Admin + "/metrics")
		return regexp.MustCompile(`weir_class_cost_total{[^}]*} (\S+)`).FindStringSubmatch(text)[1]
	}
	if cost := spend(); cost != "0" {
		t.Errorf("without a price the cost is %s", cost)
	}
	from.Change(func(c *configs.Config) {
		c.Prices = map[string]quota.Price{configs.EmbeddedName: {Input: 1e6, Output: 1e6}}
	}, nil)
	if status, body := s.Reload(); status != http.StatusOK || !strings.Contains(body, `"prices"`) || strings.Contains(body, `needs_restart": ["prices`) {
		t.Fatalf("%d %s", status, body)
	}
	if cost := spend(); cost == "0" {
		t.Error("with a price the cost is still 0")
	}
}

// A reload applies what a running process can change, names what needs a restart, and
// keeps the last good configuration where the new one is not valid.
func TestReload(t *testing.T) {
	var from servertest.Source
	s := servertest.StartFrom(t, &from, nil)
	from.Change(func(c *configs.Config) { c.Log.Level, c.Scheduler.MaxSeqs = "debug", 3 }, nil)
	status, body := s.Reload()
	var report admin.Reloaded
	if err := json.Unmarshal([]byte(body), &report); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	if strings.Join(report.Applied, " ") != "log.level" || strings.Join(report.NeedsRestart, " ") != "scheduler.max_num_seqs" {
		t.Errorf("the report is %+v", report)
	}
	if _, body = s.Reload(); !strings.Contains(body, `"applied": []`) || !strings.Contains(body, "scheduler.max_num_seqs") {
		t.Errorf("the second report is %s", body)
	}
	s.Post("/v1/completions", `{"prompt":"a","max_tokens":1}`).Body.Close()
	s.Find(`(request finished)`, &s.Errs)

	from.Change(func(*configs.Config) {}, errors.New("line 7: nonsense"))
	status, body = s.Reload()
	if status != http.StatusUnprocessableEntity || !strings.Contains(body, "line 7: nonsense") || !strings.Contains(body, "last good") {
		t.Errorf("an invalid configuration: %d %s", status, body)
	}
	if _, text := s.Get(s.Admin + "/metrics"); !strings.Contains(text, "weir_config_last_reload_successful 0") {
		t.Error("the failed reload is not in the metrics")
	}
	from.Change(func(c *configs.Config) { c.Log.Level = "info" }, nil)
	if status, body = s.Reload(); status != http.StatusOK {
		t.Errorf("a valid configuration again: %d %s", status, body)
	}
	if _, text := s.Get(s.Admin + "/metrics"); !strings.Contains(text, "weir_config_last_reload_successful 1") {
		t.Error("the reload that succeeds is not in the metrics")
	}
}

// Steps of a brown-out, objectives and what quotas do without Redis are live; the address
// of Redis is not, and is named.
func TestReloadOfRules(t *testing.T) {
	var from servertest.Source
	s := servertest.StartFrom(t, &from, nil)
	from.Change(func(c *configs.Config) {
		c.Brownout = []brownout.Step{{Name: "short", Enter: brownout.Load{KVPercent: 90}, MaxTokens: [inference.NumClasses]int{1, 1, 1}}}
		c.SLO.FirstToken.Target = time.Second
		c.Quota.Failure, c.Quota.Timeout = configs.QuotaClosed, time.Second
		c.Quota.Redis = "redis://127.0.0.1:1"
	}, nil)
	status, body := s.Reload()
	var report admin.Reloaded
	if err := json.Unmarshal([]byte(body), &report); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	slices.Sort(report.Applied)
	if got := strings.Join(report.Applied, " "); got != "brownout quota.failure quota.timeout slo.ttft_ms" || strings.Join(report.NeedsRestart, " ") != "quota.redis" {
		t.Errorf("the report is %+v", report)
	}
	from.Change(func(c *configs.Config) { c.Brownout = []brownout.Step{{Name: "Never"}} }, nil)
	if status, body := s.Reload(); status != http.StatusUnprocessableEntity || !strings.Contains(body, "Never") {
		t.Errorf("a step that is none: %d %s", status, body)
	}
}

// A budget that a reload brings counts what the tenant has used of the day before.
func TestReloadedBudgets(t *testing.T) {
	var from servertest.Source
	const key = "sk-a-key-of-a-tenant"
	s := servertest.StartFrom(t, &from, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
		c.API.APIKeys = []string{key}
	})
	complete := func() (int, string) {
		req, err := http.NewRequest(http.MethodPost, s.API+"/v1/completions", strings.NewReader(`{"prompt":"a b c","max_tokens":8,"ignore_eos":true}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	for range 3 {
		if status, text := complete(); status != http.StatusOK {
			t.Fatal(status, text)
		}
	}
	used := func() int64 { // a report writes what is pending
		var report struct {
			Total struct {
				Requests int64 `json:"requests"`
			} `json:"total"`
		}
		status, body := s.Get(s.Admin + "/admin/usage")
		if err := json.Unmarshal([]byte(body), &report); err != nil || status != http.StatusOK {
			t.Fatal(status, body)
		}
		return report.Total.Requests
	}
	for end := time.Now().Add(servertest.Patience); used() < 3; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the usage has %d of 3 requests", used())
		}
	}
	limit := func(tokens int64) {
		from.Change(func(c *configs.Config) {
			all := tenant.New(tenant.Rest)
			all.Limits.DailyTokens = tokens
			c.Tenants = []tenant.Tenant{all}
		}, nil)
		if status, body := s.Reload(); status != http.StatusOK || !strings.Contains(body, `"tenants"`) {
			t.Fatalf("%d %s", status, body)
		}
	}
	limit(24) // what the three answers had without their prompts
	if status, text := complete(); status != http.StatusTooManyRequests || !strings.Contains(text, "daily_tokens") {
		t.Errorf("beyond the new budget: %d %s", status, text)
	}
	limit(1000)
	if status, text := complete(); status != http.StatusOK {
		t.Errorf("within a larger budget: %d %s", status, text)
	}
}

// Many reloads at once are one after the other.
func TestReloadsDoNotRace(t *testing.T) {
	var from servertest.Source
	s := servertest.StartFrom(t, &from, nil)
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			from.Change(func(c *configs.Config) { c.Log.Level = []string{"info", "debug"}[i%2] }, nil)
			if status, body := s.Reload(); status != http.StatusOK {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	wait.Wait()
}
