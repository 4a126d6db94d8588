package server_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/telemetry/monitor/feature/online"
	"weir/telemetry/monitor/predictions"
)

const irisManifest = `
version: 1
project: %s
timeout: %s
cache: {entries: 0}
entities: [{name: plant, keys: [{input: plant_id, type: integer}]}]
features:
  - {name: sepal_length, source: request, type: number, required: true, min: 0, max: 20, on_violation: reject}
  - {name: sepal_width, source: request, type: number, default: 3}
  - {name: petal_length, source: store, entity: plant, view: petals, type: number, default: 4}
  - {name: petal_width, source: store, entity: plant, view: petals, type: number, default: 1.2, sensitive: true}
`

// serveIris starts a server of the built-in trees with files beside them.
func serveIris(t *testing.T, redis, manifest string, change func(*configs.Config, *configs.Classic)) (s *servertest.Server, log string) {
	t.Helper()
	folder := t.TempDir()
	log = filepath.Join(folder, "log")
	m := configs.NewClassic("iris", filepath.Join(folder, "iris.json"))
	model, _ := defaultmodel.Iris()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("iris.json", model)
	if manifest != "" {
		m.Manifest = write("iris.features.yml", manifest)
	}
	m.Profile = write("iris.profile.json", `{"weir_profile": 1, "rows": 100, "features": [
		{"name": "sepal_length", "edges": [5, 6], "counts": [30, 40, 30], "missing": 0, "min": 4, "max": 8},
		{"name": "petal_width", "edges": [1, 2], "counts": [30, 40, 30], "missing": 0, "min": 0, "max": 3}]}`)
	s = servertest.Start(t, func(c *configs.Config) {
		c.Predict.FeatureRedis, c.Predict.Log.Folder = redis, log
		c.Predict.Drift = configs.Drift{Window: time.Second, MinRows: 10, PSI: 0.2}
		c.Predict.Log.MaxAge = time.Second
		if change != nil {
			change(c, &m)
		}
		c.Classic = []configs.Classic{m}
	})
	return s, log
}

// inferV2 sends a V2 request and decodes its answer.
func inferV2(s *servertest.Server, body string, header ...string) (status int, notes map[string]any, text string, h http.Header) {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), http.MethodPost, s.API+"/v2/models/iris/infer", strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	var v struct{ Parameters map[string]any }
	if err := json.Unmarshal(data, &v); err != nil {
		s.T.Fatalf("%v in %s", err, data)
	}
	return answer.StatusCode, v.Parameters, string(data), answer.Header
}

func irisBody(inputs ...string) string {
	var list []string
	for i := 0; i+2 < len(inputs); i += 3 {
		list = append(list, fmt.Sprintf(`{"name": %q, "datatype": %q, "shape": [1], "data": [%s]}`, inputs[i], inputs[i+1], inputs[i+2]))
	}
	return `{"inputs": [` + strings.Join(list, ", ") + `]}`
}

// A model with a manifest: features from Redis, defaults that the answer and the metrics
// name, a range that refuses, a schema that must match; drift and log see what the model
// saw.
func TestModelWithFeatures(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	redis := reference.Redis.Get(t)
	project := "weir-test-" + rand.Text()
	f, err := online.Open(redis)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table := online.Table{Project: project, Entity: "plant", View: "petals", Fields: []string{"petal_length", "petal_width"}, TTL: time.Minute}
	if err := f.Put(t.Context(), table, []online.Row{{Parts: []string{"7"}, Values: []string{"1.4", "0.2"}}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	s, log := serveIris(t, redis, fmt.Sprintf(irisManifest, project, "5s"), nil) // the machine may be busy

	_, metadata := s.Get(s.API + "/v2/models/iris")
	for _, want := range []string{"sepal_length", "plant_id", "petal_width"} {
		if !strings.Contains(metadata, want) {
			t.Errorf("the metadata lack %s: %s", want, metadata)
		}
	}
	known := irisBody("sepal_length", "FP64", "5.1", "sepal_width", "FP64", "3.5", "plant_id", "INT64", "7")
	status, notes, joined, _ := inferV2(s, known)
	if status != http.StatusOK || notes["features-defaulted"] != nil {
		t.Fatalf("%d %s", status, joined)
	}
	status, _, whole, _ := inferV2(s, `{"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 4], "data": [5.1, 3.5, 1.4, 0.2]}]}`)
	if status != http.StatusOK || outputsOf(t, whole) != outputsOf(t, joined) {
		t.Errorf("the matrix gives %s, its features one by one %s", whole, joined)
	}
	status, notes, text, header := inferV2(s, irisBody("sepal_length", "FP64", "5.1", "plant_id", "INT64", "8"))
	want := "sepal_width:absent, petal_length:absent, petal_width:absent"
	if status != http.StatusOK || notes["features-defaulted"] != want || header.Get("x-weir-features-defaulted") != want {
		t.Errorf("%d %s, %v", status, text, header)
	}
	for body, code := range map[string]int{
		irisBody("sepal_length", "FP64", "55", "plant_id", "INT64", "7"): http.StatusBadRequest,
		irisBody("plant_id", "INT64", "7"):                               http.StatusBadRequest,
		irisBody("sepal_length", "FP64", "5", "colour", "FP64", "7"):     http.StatusBadRequest,
	} {
		if status, _, text, _ := inferV2(s, body); status != code {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, _, text, _ := inferV2(s, known, "x-weir-schema", "sha256:00"); status != http.StatusConflict {
		t.Errorf("another schema: %d %s", status, text)
	}

	// Drift judges its window, the log finishes its file, the metrics say all of it.
	for range 12 {
		inferV2(s, known)
	}
	var page, scrape string
	for until := time.Now().Add(20 * time.Second); ; {
		_, page = s.Get(s.Admin + "/admin/drift")
		_, scrape = s.Get(s.Admin + "/metrics")
		if strings.Contains(page, `"state": "steady"`) && strings.Contains(scrape, `outcome="written",version="1"} 15`) {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%s\n%s", page, scrape)
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, want := range []string{
		`weir_feature_values_total{model="iris",outcome="store",version="1",view="petals"} 30`,
		`weir_feature_values_total{model="iris",outcome="absent",version="1",view="petals"} `,
		`weir_feature_store_breaker{state="closed"} 1`, "weir_feature_store_seconds_count ",
		`weir_feature_out_of_range_total{feature="sepal_length",model="iris",version="1"} 1`,
		`weir_drift_psi{column="petal_width",kind="feature",model="iris",version="1"} `,
	} {
		if !strings.Contains(scrape, want) {
			t.Errorf("the scrape lacks %s", want)
		}
	}
	logged, err := predictions.ReadTable(log)
	if err != nil {
		t.Fatal(err)
	}
	if logged.Rows != 15 || logged.Numbers["feature.petal_length"][0] != 1.4 || len(logged.Texts["feature.petal_width"][0]) != 16 ||
		logged.Texts["defaulted"][2] != "sepal_width petal_length petal_width" || math.IsNaN(logged.Numbers[scoreName(logged)][0]) {
		t.Errorf("%+v", logged)
	}
	if id := logged.Texts["id"][2]; id != header.Get("x-request-id") {
		t.Errorf("the log has the id %q, the client %q", id, header.Get("x-request-id"))
	}
}

// scoreName is the name of a column of scores.
func scoreName(t *predictions.Table) string {
	for _, name := range t.Names {
		if strings.HasPrefix(name, predictions.OutputPrefix) {
			return name
		}
	}
	return ""
}

func outputsOf(t *testing.T, answer string) string {
	t.Helper()
	var v struct{ Outputs json.RawMessage }
	if err := json.Unmarshal([]byte(answer), &v); err != nil {
		t.Fatal(err)
	}
	return string(v.Outputs)
}

// With a Redis that takes connections and never answers, requests are answered all the same:
// some wait for their features as long as the manifest lets them, the others not at all.
func TestServedFeaturesOfAStalledRedis(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, _ := serveIris(t, "redis://"+l.Addr().String()+"/0", fmt.Sprintf(irisManifest, "p", "5ms"), nil)
	body := irisBody("sepal_length", "FP64", "5.1", "plant_id", "INT64", "7")
	reasons := map[string]int{}
	for range 40 {
		status, notes, text, _ := inferV2(s, body)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		reasons[fmt.Sprint(notes["features-defaulted"])]++
	}
	if len(reasons) < 2 || reasons["sepal_width:absent, petal_length:unavailable, petal_width:unavailable"] < 20 {
		t.Errorf("%v", reasons)
	}
	if _, scrape := s.Get(s.Admin + "/metrics"); !strings.Contains(scrape, `weir_feature_store_breaker{state="open"} 1`) {
		t.Error("the scrape does not say that the breaker is open")
	}
}

// A manifest of another model's features stops the start; a model without a manifest is
// watched and logged by its own matrix.
func TestModelWithoutManifestIsLogged(t *testing.T) {
	s, log := serveIris(t, "", "", func(_ *configs.Config, m *configs.Classic) { m.Profile = "" })
	if status, answer := s.Predict("iris", `{"instances": [[5.1, 3.5, 1.4, 0.2], [6, 3, 5, 2]]}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	logged, err := predictions.ReadTable(log)
	if err != nil {
		t.Fatal(err)
	}
	if logged.Rows != 2 || logged.Numbers["feature.input.2"][1] != 5 || logged.Numbers["feature.input.0"][0] != 5.1 {
		t.Errorf("%+v", logged)
	}
}
