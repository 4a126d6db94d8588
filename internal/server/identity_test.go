package server_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/internal/server/servertest"
	"weir/telemetry/monitor/predictions"
)

// Labels find their predictions by the ids that clients gave their requests, in the header or in V2's body; a user has one version
// during a rollout, and answers and log say the same version and arm.
func TestPredictionsKeepTheirIdentity(t *testing.T) {
	folder := t.TempDir()
	model, _ := defaultmodel.Iris()
	path, log := filepath.Join(folder, "iris.json"), filepath.Join(folder, "log")
	if err := os.WriteFile(path, []byte(model), 0o600); err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t, func(c *configs.Config) {
		c.Model.Path = servertest.EmbeddedFile(t)
		c.Predict.Log.Folder = log
		for _, v := range []string{"1", "2"} {
			m := configs.NewClassic("iris", path)
			m.Version, m.Candidate = v, v == "2"
			c.Classic = append(c.Classic, m)
		}
	})
	status, _, text := s.Rollout("", `{"model": "iris", "candidate": "2", "steps": [{"percent": 40, "min_requests": 100000, "min_time": "1h"}]}`)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	const requests, users = 60, 20
	ofUser, ofRequest := map[string]string{}, map[string]string{}
	for i := range requests {
		id, user := fmt.Sprint("mine-", i), fmt.Sprint("user-", i%users)
		target, body := "/v1/models/iris:predict", `{"instances": [[5.1, 3.5, 1.4, 0.2]]}`
		header := []string{"X-Request-Id", id, "X-Weir-User", user}
		if i%2 == 1 {
			target = "/v2/models/iris/infer"
			body = fmt.Sprintf(`{"id": %q, "parameters": {"user": %q}, "inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 4], "data": [5.1, 3.5, 1.4, 0.2]}]}`, id, user)
			header = nil
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.API+target, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for f := 0; f < len(header); f += 2 {
			r.Header.Set(header[f], header[f+1])
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		servertest.Body(t, answer)
		chosen := answer.Header.Get("X-Weir-Version") + " " + answer.Header.Get("X-Weir-Arm")
		if got := answer.Header.Get("X-Request-Id"); answer.StatusCode != http.StatusOK || got != id || chosen != "1 stable" && chosen != "2 candidate" {
			t.Fatalf("%d: the answer to %q has the id %q, version and arm %q", answer.StatusCode, id, got, chosen)
		}
		if before := ofUser[user]; before != "" && before != chosen {
			t.Errorf("%s had %q and then %q", user, before, chosen)
		}
		ofUser[user], ofRequest[id] = chosen, chosen
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	logged, err := predictions.ReadTable(log)
	if err != nil {
		t.Fatal(err)
	}
	arms := map[string]int{}
	ids := map[string]bool{}
	for i, id := range logged.Texts["id"] {
		ids[id] = true
		got := logged.Texts["version"][i] + " " + logged.Texts["arm"][i]
		if arms[got]++; got != ofRequest[id] {
			t.Errorf("the log says %q of the request %q, its answer %q", got, id, ofRequest[id])
		}
	}
	if logged.Rows != requests || len(arms) != 2 {
		t.Errorf("%d rows, arms %v", logged.Rows, arms)
	}
	if len(ids) != requests {
		t.Errorf("the log has %d different ids of %d requests", len(ids), requests)
	}
}
