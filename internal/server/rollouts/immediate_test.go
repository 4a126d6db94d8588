package rollouts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weir/api/admin"
	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/router/deployment"
)

// A language model in this process that writes fluent words which answer nothing does not take over at once; without the check it does.
func TestGarbageOfThisProcessDoesNotTakeOver(t *testing.T) {
	if testing.Short() {
		t.Skip("computes a real model for seconds")
	}
	smol, stories := reference.Model(t, "smollm2"), filepath.Join(reference.Path(t, "testdata/stories"), "stories260K.gguf")
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + t.TempDir() + "/weir.db"
		c.Engine.KVMemoryBytes = 32 << 20
		c.Models = []configs.ServedModel{
			{Name: "chat", Version: "1", Path: smol},
			{Name: "chat", Version: "2", Path: stories, Load: configs.LoadNever, Settings: []configs.ModelSetting{{Key: configs.ChatTemplateKey, Value: "chatml"}}},
			{Name: "chat", Version: "3", Path: stories, Load: configs.LoadNever},
		}
	})
	s.AwaitVersion("1")
	for version, why := range map[string]string{"2": "have no more to do with", "3": "none of"} {
		s.ApplyDeployment(fmt.Sprintf(`{"modelId": "chat", "version": %q}`, version))
		s.AwaitDeployment("chat", func(v *admin.DeploymentView) bool {
			return v.Version == version && v.State == deployment.Degraded && len(v.Why) == 1 && strings.Contains(v.Why[0], why) && v.Instances[0].Answers == "1"
		})
	}
	s.ApplyDeployment(`{"modelId": "chat", "version": "2", "rolloutPolicy": "unchecked"}`)
	s.AwaitDeployment("chat", func(v *admin.DeploymentView) bool {
		return v.State == deployment.Ready && v.Instances[0].Answers == "2"
	})
}

const vectorWidth = 64

// bagOfWords is a vector that texts with the same words have alike, otherwise for each seed.
func bagOfWords(seed byte) func(text string) []float64 {
	return func(text string) []float64 {
		v := make([]float64, vectorWidth)
		for word := range strings.FieldsSeq(strings.ToLower(text)) {
			h := fnv.New64a()
			_, _ = h.Write(append([]byte(word), seed))
			r := rand.New(rand.NewPCG(h.Sum64(), 0))
			for i := range v {
				v[i] += r.NormFloat64()
			}
		}
		return v
	}
}

// Vectors that have nothing to do with their texts do not take over at once, and those of another model do.
func TestGarbageVectorsDoNotTakeOver(t *testing.T) {
	reference.Slow(t)
	alike := func(string) []float64 { return bagOfWords(1)("all") }
	random := func(text string) []float64 { return bagOfWords(2)(strings.ReplaceAll(text, " ", "_")) }
	zeros := func(string) []float64 { return make([]float64, vectorWidth) }
	short := func(text string) []float64 { return bagOfWords(3)(text)[:vectorWidth/2] }
	var models []configs.ServedModel
	for i, vector := range []func(string) []float64{bagOfWords(1), alike, random, zeros, short, bagOfWords(2)} {
		m := servertest.ChatVersion(fmt.Sprint(i+1), servertest.EmbeddingUpstream(t, vector).URL, "m")
		if i > 0 {
			m.Load = configs.LoadNever
		}
		models = append(models, m)
	}
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + t.TempDir() + "/weir.db"
		c.Models = models
	})
	for i, why := range []string{"of 8 texts", "of 8 texts", "all zeros", "have 32 numbers", ""} {
		version := fmt.Sprint(i + 2)
		s.ApplyDeployment(fmt.Sprintf(`{"modelId": "chat", "version": %q}`, version))
		s.AwaitDeployment("chat", func(v *admin.DeploymentView) bool {
			if why == "" {
				return v.State == deployment.Ready && v.Instances[0].Answers == version
			}
			return v.Version == version && v.State == deployment.Degraded && len(v.Why) == 1 && strings.Contains(v.Why[0], why) && v.Instances[0].Answers == "1"
		})
	}
}

// pausing is an upstream with a chat model whose answers belong to their questions; from one request on it holds them while its callers wait.
type pausing struct {
	*httptest.Server
	mu   sync.Mutex
	left int // requests that are answered at once
	held chan struct{}
	gone chan struct{} // a held request's caller has hung up
}

func newPausing(t *testing.T) *pausing {
	g := &pausing{left: 1 << 20, held: make(chan struct{}, 64), gone: make(chan struct{}, 64)}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Messages []struct{ Content string } }
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet || json.Unmarshal(body, &asked) != nil || len(asked.Messages) == 0 {
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
			return
		}
		g.mu.Lock()
		g.left--
		hold := g.left < 0
		g.mu.Unlock()
		if hold {
			g.held <- struct{}{}
			<-r.Context().Done()
			g.gone <- struct{}{}
			return
		}
		answer, _ := json.Marshal("You ask: " + asked.Messages[0].Content)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, `data: {"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":%s},"finish_reason":"stop"}]}`+"\n\n"+
			`data: {"object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}`+"\n\ndata: [DONE]\n\n", answer)
	}))
	t.Cleanup(g.Close)
	return g
}

// holdAfter answers so many requests from now on, and no other one.
func (g *pausing) holdAfter(requests int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = requests
}

// A deployment shows how far the check of its version is. It ends where another version is wanted, and what was not answered by then,
// by either version, lets no candidate have users.
func TestAChecksProgressAndItsEnd(t *testing.T) {
	stable, candidate := newPausing(t), newPausing(t)
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + t.TempDir() + "/weir.db"
		one, two := servertest.ChatVersion("1", stable.URL, "m"), servertest.ChatVersion("2", candidate.URL, "m")
		two.Load = configs.LoadNever
		c.Models = []configs.ServedModel{one, two}
	})
	candidate.holdAfter(5)
	s.ApplyDeployment(`{"modelId": "chat", "version": "2"}`)
	s.AwaitDeployment("chat", func(v *admin.DeploymentView) bool {
		return len(v.Why) == 1 && strings.HasSuffix(v.Why[0], "loading: checking what version 2 answers (5 of at most 24 questions)") && v.Instances[0].Answered == 5 && v.Instances[0].Questions == 24
	})
	<-candidate.held // before the sixth question is asked, the end of the check has no request to hang up
	s.ApplyDeployment(`{"modelId": "chat", "version": "1"}`)
	<-candidate.gone
	ready := func(version string) func(v *admin.DeploymentView) bool {
		return func(v *admin.DeploymentView) bool {
			return v.State == deployment.Ready && v.Instances[0].Answers == version && v.Instances[0].Questions == 0
		}
	}
	s.AwaitDeployment("chat", ready("1"))
	if status, text := s.ChangeDeployment(http.MethodDelete, "/chat", ""); status != http.StatusOK {
		t.Fatal(status, text)
	}

	candidate.holdAfter(1 << 20)
	stable.holdAfter(4) // the stable version stops answering, and the client that asked for the rollout hangs up
	ctx, hangUp := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Admin+"/v1/deployments", strings.NewReader(`{"model": "chat", "candidate": "2"}`))
		if err != nil {
			t.Error(err)
			return
		}
		if res, err := http.DefaultClient.Do(r); err == nil {
			text, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			t.Errorf("a rollout whose check does not end: %d %s", res.StatusCode, text)
		}
	}()
	select {
	case <-stable.held:
	case <-over:
		t.FailNow()
	}
	hangUp()
	<-over
	<-stable.gone
	stable.holdAfter(1 << 20)
	status, text := s.ChangeDeployment(http.MethodPost, "", `{"model": "chat", "candidate": "2", "gates": {"ttft_ratio": -1, "itl_ratio": -1}}`)
	if status >= http.StatusBadRequest {
		t.Errorf("a rollout after one whose check was broken off: %d %s", status, text)
	}
}
