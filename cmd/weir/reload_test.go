package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"weir/api/admin"
	"weir/configs"
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
