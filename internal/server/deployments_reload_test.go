package server_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/api/admin"
	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/router/deployment"
)

// numbered are versions of a language model, the first of which answers.
func numbered(labels string, kvBytes int64) (list []configs.ServedModel) {
	for i, label := range labels {
		m := configs.NewServedModel("chat", configs.BuiltinPath)
		m.Version, m.Settings = string(label), []configs.ModelSetting{{Key: "engine.kv_cache_memory_bytes", Value: strconv.FormatInt(kvBytes, 10)}}
		if i > 0 {
			m.Load = configs.LoadNever
		}
		list = append(list, m)
	}
	return list
}

// trees are versions of a classical model. The newest answers that is no candidate.
func trees(t *testing.T, path string, labels string, rows int) (list []configs.Classic) {
	t.Helper()
	for _, label := range labels {
		m := configs.NewClassic("trees", path)
		m.Version, m.MaxRows = string(label), rows
		list = append(list, m)
	}
	return list
}

func treeFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trees.json")
	model, _ := defaultmodel.Iris()
	if err := os.WriteFile(path, []byte(model), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// scoredBy is the version of a classical model that answers.
func scoredBy(s *servertest.Server) string {
	s.T.Helper()
	var answer struct {
		Version string `json:"model_version"`
	}
	if status := s.PostInto("/v2/models/trees/infer", `{"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 4], "data": [5.1, 3.5, 1.4, 0.2]}]}`, &answer); status != http.StatusOK {
		s.T.Errorf("status %d", status)
	}
	return answer.Version
}

// Under a deployment no reload changes which version answers, not for a moment: neither one that puts another version in front, nor one
// with another record of a version, nor one that drops the version. That it is dropped is said, and after the end of the deployment the
// configuration's choice answers.
func TestReloadsUnderADeployment(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	path := treeFile(t)
	var from servertest.Source
	s := servertest.StartFrom(t, &from, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + t.TempDir() + "/weir.db"
		c.Models, c.Classic = numbered("12", 4<<20), trees(t, path, "12", 0)
	})
	s.ApplyDeployment(`{"modelId": "chat", "version": "2", "rolloutPolicy": "unchecked"}`)
	s.ApplyDeployment(`{"modelId": "trees", "version": "1", "rolloutPolicy": "unchecked"}`)
	is := func(state deployment.Summary, why string) func(v *admin.DeploymentView) bool {
		return func(v *admin.DeploymentView) bool {
			return v.State == state && strings.Contains(strings.Join(v.Why, " "), why) && v.Instances[0].Answers == v.Label
		}
	}
	await := func(state deployment.Summary, why string) {
		t.Helper()
		s.AwaitDeployment("chat", is(state, why))
		s.AwaitDeployment("trees", is(state, why))
	}
	await(deployment.Ready, "")

	stop := make(chan struct{})
	var clients sync.WaitGroup
	for n := range 2 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, version := s.Talk(n); version != "2" {
					t.Errorf("version %q answers a chat", version)
				}
				if version := scoredBy(s); version != "1" {
					t.Errorf("version %q answers a prediction", version)
				}
			}
		})
	}
	reload := func(chat []configs.ServedModel, list []configs.Classic) {
		t.Helper()
		from.Change(func(c *configs.Config) { c.Models, c.Classic = chat, list }, nil)
		if status, body := s.Reload(); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		for model, label := range map[string]string{"chat": "2", "trees": "1"} {
			_, text := s.ChangeDeployment(http.MethodGet, "/"+model, "")
			var v admin.DeploymentView
			if err := json.Unmarshal([]byte(text), &v); err != nil || v.Instances[0].Answers != label {
				t.Errorf("version %q answers %s, by %s", v.Instances[0].Answers, model, text)
			}
		}
	}
	listed := map[bool]string{true: "231", false: "23"}
	for i, order := range []string{"321", "12", "31", "3", "312", "213"} {
		reload(numbered(order, int64(4+i%2)<<20), trees(t, path, listed[strings.Contains(order, "2")], 1000+i))
		switch {
		case strings.Contains(order, "2"):
			await(deployment.Ready, "")
		default:
			await(deployment.Degraded, "until the server restarts")
		}
	}
	reload(numbered("13", 4<<20), trees(t, path, "23", 1000))
	close(stop)
	clients.Wait()
	for _, model := range []string{"chat", "trees"} {
		if status, text := s.ChangeDeployment(http.MethodDelete, "/"+model, ""); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
	}
	s.AwaitVersion("1")
	for end := time.Now().Add(servertest.Patience); scoredBy(s) != "3"; {
		if time.Now().After(end) {
			t.Fatalf("version %s answers a prediction after the end of the deployment", scoredBy(s))
		}
	}
}
