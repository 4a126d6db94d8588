package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
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

// source is a configuration that a test changes while the server runs.
type source struct {
	mu  sync.Mutex
	c   configs.Config
	err error
}

func (s *source) read() (configs.Config, []string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c, nil, s.err
}

func (s *source) change(f func(c *configs.Config), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.c)
	s.err = err
}

func reload(t *testing.T, s *started) (status int, body string) {
	t.Helper()
	answer, err := http.Post(s.metrics+"/admin/reload", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// A price that a reload brings counts from the next request on.
func TestReloadedPricesCount(t *testing.T) {
	var from source
	s := startFrom(t, &from, nil)
	spend := func() string {
		s.post("/v1/completions", `{"prompt":"a b c","max_tokens":2,"temperature":0}`).Body.Close()
		_, text := s.get(s.metrics + "/metrics")
		return regexp.MustCompile(`weir_class_cost_total{[^}]*} (\S+)`).FindStringSubmatch(text)[1]
	}
	if cost := spend(); cost != "0" {
		t.Errorf("without a price the cost is %s", cost)
	}
	from.change(func(c *configs.Config) {
		c.Prices = map[string]quota.Price{configs.EmbeddedName: {Input: 1e6, Output: 1e6}}
	}, nil)
	if status, body := reload(t, s); status != http.StatusOK || !strings.Contains(body, `"prices"`) || strings.Contains(body, `needs_restart": ["prices`) {
		t.Fatalf("%d %s", status, body)
	}
	if cost := spend(); cost == "0" {
		t.Error("with a price the cost is still 0")
	}
}

// A reload applies what a running process can change, names what needs a restart, and
// keeps the last good configuration where the new one is not valid.
func TestReload(t *testing.T) {
	var from source
	s := startFrom(t, &from, nil)
	from.change(func(c *configs.Config) { c.Log.Level, c.Scheduler.MaxSeqs = "debug", 3 }, nil)
	status, body := reload(t, s)
	var report admin.Reloaded
	if err := json.Unmarshal([]byte(body), &report); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	if strings.Join(report.Applied, " ") != "log.level" || strings.Join(report.NeedsRestart, " ") != "scheduler.max_num_seqs" {
		t.Errorf("the report is %+v", report)
	}
	if _, body = reload(t, s); !strings.Contains(body, `"applied": []`) || !strings.Contains(body, "scheduler.max_num_seqs") {
		t.Errorf("the second report is %s", body)
	}
	s.post("/v1/completions", `{"prompt":"a","max_tokens":1}`).Body.Close()
	s.find(`(request finished)`, &s.errs)

	from.change(func(*configs.Config) {}, errors.New("line 7: nonsense"))
	status, body = reload(t, s)
	if status != http.StatusUnprocessableEntity || !strings.Contains(body, "line 7: nonsense") || !strings.Contains(body, "last good") {
		t.Errorf("an invalid configuration: %d %s", status, body)
	}
	if _, text := s.get(s.metrics + "/metrics"); !strings.Contains(text, "weir_config_last_reload_successful 0") {
		t.Error("the failed reload is not in the metrics")
	}
	from.change(func(c *configs.Config) { c.Log.Level = "info" }, nil)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.find(`configuration reloaded.*(SIGHUP)`, &s.errs)
	if _, text := s.get(s.metrics + "/metrics"); !strings.Contains(text, "weir_config_last_reload_successful 1") {
		t.Error("the reload by signal is not in the metrics")
	}
}

// Steps of a brown-out, objectives and what quotas do without Redis are live; the address
// of Redis is not, and is named.
func TestReloadOfRules(t *testing.T) {
	var from source
	s := startFrom(t, &from, nil)
	from.change(func(c *configs.Config) {
		c.Brownout = []brownout.Step{{Name: "short", Enter: brownout.Load{KVPercent: 90}, MaxTokens: [inference.NumClasses]int{1, 1, 1}}}
		c.SLO.FirstToken.Target = time.Second
		c.Quota.Failure, c.Quota.Timeout = configs.QuotaClosed, time.Second
		c.Quota.Redis = "redis://127.0.0.1:1"
	}, nil)
	status, body := reload(t, s)
	var report admin.Reloaded
	if err := json.Unmarshal([]byte(body), &report); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	slices.Sort(report.Applied)
	if got := strings.Join(report.Applied, " "); got != "brownout quota.failure quota.timeout slo.ttft_ms" || strings.Join(report.NeedsRestart, " ") != "quota.redis" {
		t.Errorf("the report is %+v", report)
	}
	from.change(func(c *configs.Config) { c.Brownout = []brownout.Step{{Name: "Never"}} }, nil)
	if status, body := reload(t, s); status != http.StatusUnprocessableEntity || !strings.Contains(body, "Never") {
		t.Errorf("a step that is none: %d %s", status, body)
	}
}

// A budget that a reload brings counts what the tenant has used of the day before.
func TestReloadedBudgets(t *testing.T) {
	var from source
	const key = "sk-a-key-of-a-tenant"
	s := startFrom(t, &from, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
		c.API.APIKeys = []string{key}
	})
	complete := func() (int, string) {
		req, err := http.NewRequest(http.MethodPost, s.api+"/v1/completions", strings.NewReader(`{"prompt":"a b c","max_tokens":8,"ignore_eos":true}`))
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
		status, body := s.get(s.metrics + "/admin/usage")
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
		from.change(func(c *configs.Config) {
			all := tenant.New(tenant.Rest)
			all.Limits.DailyTokens = tokens
			c.Tenants = []tenant.Tenant{all}
		}, nil)
		if status, body := reload(t, s); status != http.StatusOK || !strings.Contains(body, `"tenants"`) {
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
	var from source
	s := startFrom(t, &from, nil)
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			from.change(func(c *configs.Config) { c.Log.Level = []string{"info", "debug"}[i%2] }, nil)
			if status, body := reload(t, s); status != http.StatusOK {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	wait.Wait()
}
