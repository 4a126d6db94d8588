package rollouts_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/api/admin"
	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/router/deployment"
	"weir/router/rollout"
)

// speaking is an upstream that answers each chat with what it has to say to its last message.
func speaking(t *testing.T, say func(question string) string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Messages []struct{ Content string }
		}
		body, _ := io.ReadAll(r.Body)
		if json.Unmarshal(body, &asked) != nil || len(asked.Messages) == 0 {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
			return
		}
		text := say(asked.Messages[len(asked.Messages)-1].Content)
		n := len(strings.Fields(text))
		usage := fmt.Sprintf(`{"prompt_tokens":5,"completion_tokens":%d,"total_tokens":%d}`, n, n+5)
		if !strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":%s}`, text, usage)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, word := range strings.SplitAfter(text, " ") {
			fmt.Fprintf(w, "data: {\"id\":\"a\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", word)
		}
		fmt.Fprintf(w, "data: {\"id\":\"a\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"id\":\"a\",\"model\":\"m\",\"choices\":[],\"usage\":%s}\n\ndata: [DONE]\n\n", usage)
	}))
	t.Cleanup(s.Close)
	return s
}

// fluent are sentences that answer nothing.
var fluent = []string{
	"The train left the station before the rain stopped.", "A good recipe needs butter and some patience.", "Our office opens on the first of May.",
	"She bought a house close to the old river.", "The committee has moved its meeting once more.", "Most birds fly south when days get short.",
	"Take the second left behind the white church.",
}

// A fleet that writes fluent garbage as long as answers are does not take over at once, and another model in words of its own does.
func TestFluentGarbageDoesNotTakeOver(t *testing.T) {
	stable := speaking(t, func(q string) string { return "Here is what I know of it: " + q })
	other := speaking(t, func(q string) string { return q + " That is what you ask, so let me see." })
	garbage := speaking(t, func(q string) string { return fluent[len(q)%len(fluent)] })
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + t.TempDir() + "/weir.db"
		c.Models = []configs.ServedModel{servertest.ChatVersion("1", stable.URL, "m"), servertest.ChatVersion("2", garbage.URL, "m"), servertest.ChatVersion("3", other.URL, "m")}
		c.Models[1].Load, c.Models[2].Load = configs.LoadNever, configs.LoadNever
	})
	s.AwaitVersion("1")
	s.ApplyDeployment(`{"modelId": "chat", "version": "2"}`)
	s.AwaitDeployment("chat", func(v *admin.DeploymentView) bool {
		return v.State == deployment.Degraded && len(v.Why) == 1 && strings.Contains(v.Why[0], "have no more to do with") && strings.Contains(v.Why[0], `"rolloutPolicy": "unchecked"`) && v.Instances[0].Answers == "1"
	})
	s.ApplyDeployment(`{"modelId": "chat", "version": "3"}`)
	s.AwaitDeployment("chat", func(v *admin.DeploymentView) bool {
		return v.State == deployment.Ready && v.Instances[0].Answers == "3"
	})
}

// A candidate whose users convert twice as often, and of whose first words one in twenty comes a second late, is taken back for that tail.
func TestABetterOutcomeDoesNotExcuseAWorseTail(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	var asked atomic.Int64
	say := func(string) string { return "It is fine today." }
	stable := speaking(t, say)
	late := speaking(t, func(q string) string {
		if asked.Add(1)%20 == 0 {
			<-time.After(time.Second) // the tail that is measured
		}
		return say(q)
	})
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + t.TempDir() + "/weir.db"
		c.Models = []configs.ServedModel{servertest.ChatVersion("1", stable.URL, "m"), servertest.ChatVersion("2", late.URL, "m")}
		c.Models[1].Load = configs.LoadNever
	})
	s.AwaitVersion("1")
	if status, _, text := s.Rollout("", `{"model": "chat", "candidate": "2", "unchecked": true, "gates": {"ttft_ratio": -1, "itl_ratio": -1, "compute_ratio": -1},
		"steps": [{"percent": 50, "min_requests": 100000, "min_time": "10m"}]}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	var users, converted [2]atomic.Int64
	done := s.AwaitRollout(rollout.RolledBack, func(n int) {
		arm, status, id := s.AskChat(n, 8)
		if status != http.StatusOK || arm == "" {
			return
		}
		i, thumb := rollout.ArmOf(arm), "down"
		users[i].Add(1)
		if i == rollout.Candidate || n%2 == 0 {
			thumb = "up"
			converted[i].Add(1)
		}
		s.TellOutcome(id, fmt.Sprintf(`"thumbs": %q`, thumb))
	})
	t.Logf("taken back after %d answers of the candidate, %d of %d and %d of %d users pleased: %s", users[1].Load(), converted[0].Load(), users[0].Load(),
		converted[1].Load(), users[1].Load(), done.Reason)
	if !strings.Contains(done.Reason, "p99") {
		t.Errorf("it was taken back for %q", done.Reason)
	}
}
