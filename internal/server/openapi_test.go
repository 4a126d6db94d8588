package server_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"weir/api/openapi"
	"weir/configs"
	"weir/internal/server/servertest"
)

// TestEveryRouteIsTold: a path of the API listener that package openapi has no entry for fails here, and an entry without a path.
func TestEveryRouteIsTold(t *testing.T) {
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
		c.Server.APIMetrics = true
	})
	status, text := s.Call(http.MethodGet, "/openapi.json", "", "")
	var d struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	served := map[string]bool{}
	for path, item := range d.Paths {
		for method, raw := range item {
			var o struct{ Summary string }
			if method == "parameters" {
				continue
			}
			if err := json.Unmarshal(raw, &o); err != nil || o.Summary == "" {
				t.Errorf("%s %s has no entry in package openapi", strings.ToUpper(method), path)
			}
			served[strings.ToUpper(method)+" "+path] = true
		}
	}
	for _, key := range openapi.Keys() {
		if !served[key] && key != "POST /v1/outcomes" { // which is there with rollouts
			t.Errorf("package openapi tells of %s, which is not served", key)
		}
	}
	if status, page := s.Call(http.MethodGet, "/docs/", "", ""); status != 200 || !strings.Contains(page, "weir API") {
		t.Errorf("the page: %d %s", status, page)
	}
}
