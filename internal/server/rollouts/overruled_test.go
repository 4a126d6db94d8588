package rollouts_test

import (
	"net/http"
	"strings"
	"testing"

	"weir/api/admin"
	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/router/deployment"
)

// A rollout that an operator has started before there was a deployment of the model ends with it: the deployment does not say that
// it is ready while the rollout's versions answer.
func TestADeploymentEndsAnOperatorsRollout(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + t.TempDir() + "/weir.db"
		c.Engine.KVMemoryBytes = 4 << 20
		c.Models = []configs.ServedModel{{Name: "chat", Version: "1", Path: "builtin"}}
		for _, version := range []string{"2", "3"} {
			c.Models = append(c.Models, configs.ServedModel{Name: "chat", Version: version, Path: "builtin", Load: configs.LoadNever})
		}
	})
	const rollout = `{"model": "chat", "candidate": "2", "unchecked": true, "steps": [{"percent": 50, "min_requests": 1000, "min_time": "1h"}]}`
	for i, want := range []struct{ version, policy string }{
		{"3", `"unchecked"`}, {"1", `{"steps": [{"percent": 100, "min_requests": 1000, "min_time": "1h"}]}`},
	} {
		if status, text := s.ChangeDeployment(http.MethodPost, "", rollout); status != http.StatusOK {
			t.Fatalf("a rollout before the deployment: %d %s", status, text)
		}
		s.ApplyDeployment(`{"modelId": "chat", "version": "` + want.version + `", "rolloutPolicy": ` + want.policy + `}`)
		s.AwaitDeployment("chat", func(v *admin.DeploymentView) bool {
			return v.State == deployment.Ready || i > 0 && v.Instances[0].State == deployment.RollingOut
		})
		for range 8 {
			if _, version := s.Talk(1); version != want.version {
				t.Fatalf("version %s answers beside the deployment of %s", version, want.version)
			}
		}
		if status, text := s.ChangeDeployment(http.MethodGet, "", ""); strings.Count(text, `"state": "aborted"`) != i+1 {
			t.Errorf("the operator's rollout goes on: %d %s", status, text)
		}
		if status, text := s.ChangeDeployment(http.MethodDelete, "/chat", ""); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
	}
}
