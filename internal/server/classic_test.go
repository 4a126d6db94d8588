package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
)

// The README shows this call and its answer.
func TestTheBuiltInTreesAnswerBesideTheLanguageModel(t *testing.T) {
	s := servertest.Start(t, nil)
	status, answer := s.Predict("weir-iris", `{"instances": [[5.1, 3.5, 1.4, 0.2]]}`)
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if status != http.StatusOK || !strings.Contains(string(readme), strings.TrimSpace(answer)) {
		t.Errorf("%d %s; the README has another answer", status, answer)
	}
	if status, answer := s.Predict("weir-iris", `{"instances": [[1, 2]]}`); status != http.StatusBadRequest {
		t.Errorf("a row of two numbers: %d %s", status, answer)
	}
	if r := s.Post("/v1/chat/completions", `{"messages":[{"role":"user","content":"Hello"}],"max_tokens":3}`); r.StatusCode != http.StatusOK {
		t.Errorf("chat beside predictions: %d", r.StatusCode)
	}
	_, scrape := s.Get(s.Admin + "/metrics")
	for _, want := range []string{
		`weir_predict_requests_total{model_name="weir-iris",outcome="complete",version="1"} 1`,
		`weir_predict_refusals_total{model_name="weir-iris",reason="invalid",version="1"} 1`,
		`weir_predict_rows_total{model_name="weir-iris",version="1"} 1`, `weir_predict_loaded_versions 1`,
	} {
		if !strings.Contains(scrape, want) {
			t.Errorf("the scrape lacks %s", want)
		}
	}
	if _, page := s.Get(s.Admin + "/admin/requests?model=weir-iris"); strings.Count(page, `"route": "/v1/models/{model}:predict"`) != 2 {
		t.Errorf("the page of requests:\n%s", page)
	}
}

// Classical models alone: no language model is loaded. A reload loads and unloads models,
// and one that names a broken file changes nothing. Changes by the API are audited, and
// rows are in the ledger.
func TestClassicalModelsAlone(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "iris.json")
	model, golden := defaultmodel.Iris()
	for path, text := range map[string]string{file: model, filepath.Join(folder, "iris.golden.json"): golden, filepath.Join(folder, "bad.json"): "{}"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	from := new(servertest.Source)
	s := servertest.StartFrom(t, from, func(c *configs.Config) {
		c.Predict.Models = []string{file}
		c.Store.URL = "sqlite:" + filepath.Join(folder, "weir.db")
	})
	const row = `{"instances": [[6, 3, 5, 2]]}`
	status, want := s.Predict("iris", row)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, want)
	}
	if status, _ := s.Predict("weir-iris", row); status != http.StatusNotFound {
		t.Errorf("the built-in model beside one that is named: %d", status)
	}
	if r := s.Post("/v1/chat/completions", `{"model":"weir-default","messages":[{"role":"user","content":"Hello"}]}`); r.StatusCode != http.StatusNotFound {
		t.Errorf("chat without a language model: %d", r.StatusCode)
	}
	if status, body := s.Get(s.API + "/ready"); status != http.StatusOK {
		t.Errorf("ready: %d %s", status, body)
	}

	second := configs.NewClassic("flowers", file)
	second.Labels = []string{"a", "b", "c"}
	from.Change(func(c *configs.Config) { c.Classic = []configs.Classic{second} }, nil)
	if status, body := s.Reload(); status != http.StatusOK || !strings.Contains(body, "classic") {
		t.Fatalf("reload: %d %s", status, body)
	}
	if status, got := s.Predict("flowers", row); status != http.StatusOK || got != want {
		t.Errorf("a model that a reload added: %d %s, want %s", status, got, want)
	}
	from.Change(func(c *configs.Config) {
		c.Classic, c.Predict.Models = []configs.Classic{second, configs.NewClassic("bad", filepath.Join(folder, "bad.json"))}, nil
	}, nil)
	if status, body := s.Reload(); status == http.StatusOK || !strings.Contains(body, "bad.json") {
		t.Errorf("a reload with a broken file: %d %s", status, body)
	}
	if status, _ := s.Predict("iris", row); status != http.StatusOK {
		t.Errorf("after a reload that failed: %d", status)
	}
	from.Change(func(c *configs.Config) { c.Classic = []configs.Classic{second} }, nil)
	if status, body := s.Reload(); status != http.StatusOK {
		t.Fatalf("reload: %d %s", status, body)
	}
	if status, _ := s.Predict("iris", row); status != http.StatusNotFound {
		t.Errorf("a model that a reload took away: %d", status)
	}

	if r := s.Post("/v2/repository/models/flowers/unload", ""); r.StatusCode != http.StatusOK {
		t.Errorf("unload: %d", r.StatusCode)
	}
	if status, _ := s.Predict("flowers", row); status != http.StatusServiceUnavailable {
		t.Errorf("an unloaded model: %d", status)
	}
	if r := s.Post("/v2/repository/models/flowers/load", ""); r.StatusCode != http.StatusOK {
		t.Errorf("load: %d", r.StatusCode)
	}
	if status, _ := s.Predict("flowers", row); status != http.StatusOK {
		t.Errorf("a model that was loaded again: %d", status)
	}
	if status, usage := s.Get(s.Admin + "/admin/usage"); status != http.StatusOK || !strings.Contains(usage, "flowers") {
		t.Errorf("the report of usage: %d\n%s", status, usage)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	list := servertest.AuditLog(t, "sqlite:"+filepath.Join(folder, "weir.db"))
	for _, want := range []string{"model.load", "model.unload", "flowers"} {
		if !strings.Contains(list, want) {
			t.Errorf("the audit log lacks %s:\n%s", want, list)
		}
	}
}

// Who loads and unloads over the repository API stands in the audit log by the key.
func TestChangesOfModelsNameTheCaller(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
	operator := servertest.NewKey(t, url, keychain.Request{Tenant: "ops", Scope: "inference,admin"})
	s := servertest.Start(t, func(c *configs.Config) { c.Store.URL = url })
	for _, what := range []string{"unload", "load"} {
		if status, text := s.Call(http.MethodPost, "/v2/repository/models/weir-iris/"+what, operator, ""); status != http.StatusOK {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	list := servertest.AuditLog(t, url)
	id := strings.Split(operator, "_")[1]
	for _, action := range []string{"model.unload", "model.load"} {
		if !regexp.MustCompile(`(?m)^.*key `+id+` from 127\.0\.0\.1:\d+.*`+action).MatchString(list) &&
			!regexp.MustCompile(`(?m)^.*`+action+`.*key `+id+` from 127\.0\.0\.1:\d+`).MatchString(list) {
			t.Errorf("%s does not name the key %s:\n%s", action, id, list)
		}
	}
}

// What early stopping chose is in the log of a load, and best_iteration serves it.
func TestEarlyStoppingIsShown(t *testing.T) {
	file := servertest.StoppedEarly(t)
	const chosen = "early stopping chose the first 5 of 12 iterations"
	s := servertest.Start(t, func(c *configs.Config) {
		all, best := configs.NewClassic("all", file), configs.NewClassic("best", file)
		best.BestIteration = true
		c.Classic = []configs.Classic{all, best}
	})
	for _, want := range []string{chosen, "the first 5 of 12 iterations predict"} {
		if !strings.Contains(s.Errs.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, s.Errs.String())
		}
	}
	const row = `{"instances": [[6, 3, 5, 2]]}`
	_, all := s.Predict("all", row)
	if status, best := s.Predict("best", row); status != http.StatusOK || best == all {
		t.Errorf("%d: with the best iterations %s, with all %s", status, best, all)
	}
}

// Operators move, load and unload classical models by the calls that language models have. What they have moved stays through reloads, also
// with another record of its version.
func TestOperatorsMoveClassicalModels(t *testing.T) {
	t.Parallel()
	path := treeFile(t)
	var from servertest.Source
	s := servertest.StartFrom(t, &from, func(c *configs.Config) { c.Classic = trees(t, path, "12", 0) })
	for i, c := range []struct {
		action, version string
		status          int
		want            string // what answers, or the error has
	}{
		{"rollback", "", http.StatusServiceUnavailable, "one version only"},
		{"alias", "1", http.StatusOK, "1"},
		{"alias", "9", http.StatusNotFound, "it has"},
		{"rollback", "", http.StatusOK, "2"},
		{"alias", "1", http.StatusOK, "1"},
		{"unload", "1", http.StatusOK, "2"},
		{"load", "1", http.StatusOK, "1"},
	} {
		status, _, text := s.ChangeModel(c.action, "trees", c.version)
		if status != c.status || status != http.StatusOK && !strings.Contains(text, c.want) {
			t.Errorf("%d, %s %s: %d %s, want %d %s", i, c.action, c.version, status, text, c.status, c.want)
		}
		if status == http.StatusOK {
			if answers := scoredBy(s); answers != c.want || !strings.Contains(text, `"version": "`+c.want+`"`) {
				t.Errorf("%d, %s %s: version %s answers, want %s: %s", i, c.action, c.version, answers, c.want, text)
			}
		}
	}
	for rows := range 3 {
		from.Change(func(c *configs.Config) { c.Classic = trees(t, path, "12", 1000+rows) }, nil)
		if status, body := s.Reload(); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		if answers := scoredBy(s); answers != "1" {
			t.Errorf("after reload %d version %s answers, and the name was given to 1", rows, answers)
		}
	}
	if status, _, text := s.ChangeModel("load", "tres", ""); status != http.StatusNotFound || !strings.Contains(text, "trees") {
		t.Errorf("a name that is not there: %d %s", status, text)
	}
}
