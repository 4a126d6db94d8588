package server_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/telemetry/monitor/feature/online"
	"weir/telemetry/monitor/predictions"
)

const plainManifest = `
version: 1
features:
  - {name: sepal_length, source: request, type: number, required: true}
  - {name: sepal_width, source: request, type: integer, default: 3}
  - {name: petal_length, source: request, type: integer}
  - {name: petal_width, source: request, type: number}
`

// V1's forms with a manifest: rows without names are the model's matrix, and null is a missing value of any type.
func TestV1RowsOfFeatures(t *testing.T) {
	s, _ := serveIris(t, "", plainManifest, func(_ *configs.Config, m *configs.Classic) { m.Profile = "" })
	row := `{"instances": [{"sepal_length": 5.1, "sepal_width": 3, "petal_length": 1, "petal_width": 0.2}]}`
	_, whole := s.Predict("iris", row)
	_, gap := s.Predict("iris", `{"instances": [{"sepal_length": 5.1, "sepal_width": 3, "petal_width": 0.2}]}`)
	predictions := func(answer string) string { return strings.Trim(answer[strings.Index(answer, "["):], "}") }
	for _, c := range []struct{ what, body, want string }{
		{"rows without names", `{"instances": [[5.1, 3, 1, 0.2]]}`, predictions(whole)},
		{"columns without names", `{"inputs": [[5.1, 3, 1, 0.2]]}`, predictions(whole)},
		{"a missing value in a row without names", `{"instances": [[5.1, 3, null, 0.2]]}`, predictions(gap)},
		{"null for an integer", `{"instances": [{"sepal_length": 5.1, "sepal_width": 3, "petal_length": null, "petal_width": 0.2}]}`, predictions(gap)},
		{"null for an integer with a default", `{"instances": [{"sepal_length": 5.1, "sepal_width": null, "petal_length": 1, "petal_width": 0.2}]}`, predictions(whole)},
		{"null in a column", `{"inputs": {"sepal_length": [5.1], "sepal_width": [null], "petal_length": [1], "petal_width": [0.2]}}`, predictions(whole)},
	} {
		if status, answer := s.Predict("iris", c.body); status != http.StatusOK || predictions(answer) != c.want {
			t.Errorf("%s: %d %s, want %s", c.what, status, answer, c.want)
		}
	}
	for body, want := range map[string]string{
		`{"instances": [[5.1, 3, 1]]}`:                     "all features of model iris in the manifest's order: shape [-1 4]; the request has [1 3]",
		`{"instances": [{"sepal_length": null}]}`:          "is required",
		`{"instances": [[5.1, "three", 1, 0.2]]}`:          "three",
		`{"instances": [[5.1, 3, 1, Infinity]]}`:           `row 0 has +Inf for feature \"petal_width\"`,
		`{"instances": [{"sepal_length": 5, "other": 1}]}`: "no feature of the model",
	} {
		if status, answer := s.Predict("iris", body); status != http.StatusBadRequest || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s, want %s", body, status, answer, want)
		}
	}
	// Below /v2 errors have the form that clients of V2 read; /v2/rerank is Cohere's.
	if _, text := s.Get(s.API + "/v2/trace/setting"); !strings.HasPrefix(text, `{"error":"there is no `) {
		t.Errorf("an unknown path below /v2: %s", text)
	}
	r := s.Post("/v2/rerank", `{}`)
	if text := servertest.Body(t, r); !strings.Contains(text, `"code"`) {
		t.Errorf("/v2/rerank: %s", text)
	}
}

// What a request brings is hashed or rounded in the log whatever source the manifest names; what the store has stands as it is.
func TestPrivacyGoesByWhereAValueCameFrom(t *testing.T) {
	redis := reference.Redis.Get(t)
	project := "weir-test-" + rand.Text()
	f, err := online.Open(redis)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table := online.Table{Project: project, Entity: "plant", View: "petals", Fields: []string{"petal_length", "petal_width"}, TTL: time.Minute}
	if err := f.Put(t.Context(), table, []online.Row{{Parts: []string{"7"}, Values: []string{"1.4375", "0.2"}}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[string][4]string{ // petal_length and its hash, of the request and of the store
		"full":    {"4.21234", "", "1.4375", ""},
		"summary": {"4.2", "", "1.4375", ""},
		"hash":    {"", "hashed", "1.4375", ""},
	} {
		t.Run(mode, func(t *testing.T) {
			s, log := serveIris(t, redis, fmt.Sprintf(irisManifest, project, "5s"), func(c *configs.Config, m *configs.Classic) {
				c.Predict.Log.Inputs, m.Profile = mode, ""
			})
			for _, body := range []string{
				irisBody("sepal_length", "FP64", "5.12345", "petal_length", "FP64", "4.21234", "plant_id", "INT64", "7"),
				irisBody("sepal_length", "FP64", "5.12345", "plant_id", "INT64", "7"),
			} {
				if status, _, text, _ := inferV2(s, body); status != http.StatusOK {
					t.Fatalf("%d %s", status, text)
				}
			}
			if err := s.End(); err != nil {
				t.Fatal(err)
			}
			logged, err := predictions.ReadTable(log)
			if err != nil {
				t.Fatal(err)
			}
			var got [4]string
			for row := range 2 {
				got[2*row] = logged.Text("feature.petal_length")[row]
				if h := logged.Texts["hash.petal_length"]; h != nil && len(h[row]) == 16 {
					got[2*row+1] = "hashed"
				}
			}
			if got != want {
				t.Errorf("the log has %q, want %q: %+v", got, want, logged)
			}
		})
	}
}
