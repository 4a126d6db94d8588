package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"weir/api/admin"
	"weir/configs"
	"weir/internal/reference"
	"weir/router/deployment"
)

// A language model in this process that writes fluent words which answer nothing does not take over at once; without the check it does.
func TestGarbageOfThisProcessDoesNotTakeOver(t *testing.T) {
	if testing.Short() {
		t.Skip("computes a real model for seconds")
	}
	smol, stories := reference.Model(t, "smollm2"), filepath.Join(reference.Path(t, "testdata/stories"), "stories260K.gguf")
	s := start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + t.TempDir() + "/weir.db"
		c.Engine.KVMemoryBytes = 32 << 20
		c.Models = []configs.ServedModel{
			{Name: "chat", Version: "1", Path: smol},
			{Name: "chat", Version: "2", Path: stories, Load: configs.LoadNever, Settings: []configs.ModelSetting{{Key: configs.ChatTemplateKey, Value: "chatml"}}},
			{Name: "chat", Version: "3", Path: stories, Load: configs.LoadNever},
		}
	})
	s.answersWith("1")
	for version, why := range map[string]string{"2": "have no more to do with", "3": "none of"} {
		s.applied(fmt.Sprintf(`{"modelId": "chat", "version": %q}`, version))
		s.untilDeployed("chat", func(v *admin.DeploymentView) bool {
			return v.Version == version && v.State == deployment.Degraded && len(v.Why) == 1 && strings.Contains(v.Why[0], why) && v.Instances[0].Answers == "1"
		})
	}
	s.applied(`{"modelId": "chat", "version": "2", "rolloutPolicy": "unchecked"}`)
	s.untilDeployed("chat", func(v *admin.DeploymentView) bool {
		return v.State == deployment.Ready && v.Instances[0].Answers == "2"
	})
}

// embedding is an upstream that gives each text a vector.
func embedding(t *testing.T, vector func(text string) []float64) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Input []string }
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch _ = json.Unmarshal(body, &asked); {
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
			return
		case !strings.HasSuffix(r.URL.Path, "/embeddings"):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"this model gives vectors"}}`)
			return
		}
		type one struct {
			Index     int       `json:"index"`
			Embedding []float64 `json:"embedding"`
		}
		var list []one
		for i, text := range asked.Input {
			list = append(list, one{i, vector(text)})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "model": "m", "data": list, "usage": map[string]int{"prompt_tokens": 9, "total_tokens": 9}})
	}))
	t.Cleanup(s.Close)
	return s
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
	alike := func(string) []float64 { return bagOfWords(1)("all") }
	random := func(text string) []float64 { return bagOfWords(2)(strings.ReplaceAll(text, " ", "_")) }
	zeros := func(string) []float64 { return make([]float64, vectorWidth) }
	short := func(text string) []float64 { return bagOfWords(3)(text)[:vectorWidth/2] }
	var models []configs.ServedModel
	for i, vector := range []func(string) []float64{bagOfWords(1), alike, random, zeros, short, bagOfWords(2)} {
		m := chatVersion(fmt.Sprint(i+1), &started{api: embedding(t, vector).URL}, "m")
		if i > 0 {
			m.Load = configs.LoadNever
		}
		models = append(models, m)
	}
	s := start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + t.TempDir() + "/weir.db"
		c.Models = models
	})
	for i, why := range []string{"of 8 texts", "of 8 texts", "all zeros", "have 32 numbers", ""} {
		version := fmt.Sprint(i + 2)
		s.applied(fmt.Sprintf(`{"modelId": "chat", "version": %q}`, version))
		s.untilDeployed("chat", func(v *admin.DeploymentView) bool {
			if why == "" {
				return v.State == deployment.Ready && v.Instances[0].Answers == version
			}
			return v.Version == version && v.State == deployment.Degraded && len(v.Why) == 1 && strings.Contains(v.Why[0], why) && v.Instances[0].Answers == "1"
		})
	}
}
