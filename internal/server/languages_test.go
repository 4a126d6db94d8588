package server_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/api/admin"
	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/servertest"
)

func lazily(m *configs.ServedModel) { m.Load = configs.LoadLazily }

// Several models and encoders answer from one process: some from the start on, others are
// loaded by their first request and leave memory by themselves; each under its names.
func TestSeveralModels(t *testing.T) {
	t.Parallel() // most of it is waiting
	encoder := servertest.TinyEncoder(t, 0)
	s := servertest.Start(t, func(c *configs.Config) {
		c.Engine.KVMemoryBytes = 0
		c.Models = []configs.ServedModel{
			servertest.Record("chat", configs.BuiltinPath, func(m *configs.ServedModel) { m.Aliases, m.Version = []string{"gpt-4o-mini"}, "1" }),
			servertest.Record("other", servertest.ChangedFile(t, "other", 1), func(m *configs.ServedModel) { lazily(m); m.IdleUnload = 2 * time.Second }),
			servertest.Record("vectors", encoder, lazily),
		}
	})
	if _, body := s.Get(s.API + "/v1/models"); !strings.Contains(body, `"state":"absent"`) || !strings.Contains(body, `"kind":"embedding"`) {
		t.Errorf("models: %s", body)
	}
	for key, m := range s.Models() { // those that are not in memory, too
		if f := m.Forecast; f == nil || f.Fits != admin.FitsNow || f.WeightBytes <= 0 || f.MaxModelLen <= 0 || f.Embeds != strings.HasPrefix(key, "vectors@") || f.Embeds == (f.Full > 0 && f.KVBytes > 0) {
			t.Errorf("of %s is forecast %+v", key, f)
		}
	}
	for _, model := range []string{"chat", "gpt-4o-mini", "chat@1", "other"} {
		if status, text, version := s.Said(model); status != http.StatusOK || text == "" || version == "" {
			t.Errorf("%s: %d %q version %q", model, status, text, version)
		}
	}
	if status, _, _ := s.Said("chat@2"); status != http.StatusNotFound {
		t.Errorf("a version that is not there: %d", status)
	}
	if r := s.Post("/v1/embeddings", `{"model":"vectors","input":"a fish"}`); r.StatusCode != http.StatusOK {
		t.Errorf("embeddings: %d", r.StatusCode)
	}
	if r := s.Post("/v1/embeddings", `{"model":"chat","input":"a fish"}`); r.StatusCode != http.StatusBadRequest {
		t.Errorf("a vector of a language model: %d", r.StatusCode)
	}
	if r := s.Post("/tokenize", `{"model":"other","prompt":"a fish"}`); r.StatusCode != http.StatusOK {
		t.Errorf("tokenize: %d", r.StatusCode)
	}
	if got := len(s.Models()); got != 3 {
		t.Errorf("%d models", got)
	}
	state := func(prefix string) string {
		for key, m := range s.Models() {
			if strings.HasPrefix(key, prefix) {
				return m.State
			}
		}
		return ""
	}
	for end := time.Now().Add(servertest.Patience); state("other@") != "absent"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("an idle model stays: %+v", s.Models())
		}
	}
	if state("vectors@") != "loaded" || state("chat@") != "loaded" {
		t.Errorf("models that stay: %+v", s.Models())
	}
	// On a slow machine the model may have left between two requests, too.
	if _, body := s.Get(s.Admin + "/metrics"); strings.Contains(body, `weir_model_changes_total{change="idle"} 0`) ||
		!strings.Contains(body, "weir_models_loaded 2") || !strings.Contains(body, `model_name="other"`) {
		t.Error("the metrics lack the models")
	}
	if status, _, _ := s.Said("other"); status != http.StatusOK {
		t.Errorf("a model that had left: %d", status)
	}
	if status, _, body := s.ChangeModel(admin.ModelUnload, "other", ""); status != http.StatusOK {
		t.Fatalf("unload: %d %s", status, body)
	}
	if status, _, _ := s.Said("other"); status != http.StatusServiceUnavailable {
		t.Errorf("an unloaded model: %d", status)
	}
	if status, _, body := s.ChangeModel(admin.ModelLoad, "other", ""); status != http.StatusOK {
		t.Fatalf("load: %d %s", status, body)
	}
	if status, _, _ := s.Said("other"); status != http.StatusOK {
		t.Errorf("a model that was loaded again: %d", status)
	}
	if status, _, body := s.ChangeModel(admin.ModelStop, "other", ""); status != http.StatusOK || state("other@") == "unloaded" {
		t.Errorf("stop: %d %s, and it is %s", status, body, state("other@"))
	}
	if status, _, _ := s.Said("other"); status != http.StatusOK {
		t.Errorf("a model that was stopped: %d", status)
	}
	for action, want := range map[string]int{"load": http.StatusNotFound, "explode": http.StatusBadRequest, "rollback": http.StatusNotFound} {
		if status, _, body := s.ChangeModel(action, "unknown", ""); status != want {
			t.Errorf("%s: %d %s, want %d", action, status, body, want)
		}
	}
}

// A model that needs more memory than all may take is refused before its weights are
// read, with the sums.
func TestMemoryOfModels(t *testing.T) {
	c := configs.Default()
	c.Model.MemoryBytes = 8 << 20
	c.Models = []configs.ServedModel{
		servertest.Record("a", configs.BuiltinPath, nil),
		servertest.Record("b", configs.BuiltinPath, func(m *configs.ServedModel) {
			m.Settings = []configs.ModelSetting{{Key: "engine.kv_cache_memory_bytes", Value: "64MiB"}}
		}),
	}
	c.Server.Port, c.Server.AdminAddress = 0, "off"
	err := servertest.Run(t.Context(), c, new(servertest.Buffer))
	for _, want := range []string{`model "b"`, "of 8.0 MiB are free (a version", "--model-memory-bytes"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}

// A reload moves a name to another file while streams run: all of them end whole, each
// from one version, and so with the way back, which reads no file (router/versions tests that).
// A version that fails its check changes nothing.
func TestSwitchUnderStreams(t *testing.T) {
	reference.Slow(t)
	from := &servertest.Source{}
	good, other, garbage := configs.BuiltinPath, servertest.ChangedFile(t, "other", 1), servertest.ChangedFile(t, "garbage", 200_000)
	check := configs.ModelCheck{Prompt: "Hello"}
	chat := func(path string) configs.ServedModel {
		return servertest.Record("chat", path, func(m *configs.ServedModel) { m.Check = check })
	}
	s := servertest.StartFrom(t, from, servertest.Records(chat(good)))
	_, want, _ := s.Said("chat")
	check.Answer = want
	from.Change(servertest.Records(chat(good)), nil)
	if status, body := s.Reload(); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	_, _, first := s.Said("chat")

	stop := make(chan struct{})
	var streams, broken atomic.Int64
	var clients sync.WaitGroup
	for range 6 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				text, ended := s.Stream(`{"model":"chat","messages":[{"role":"user","content":"Hello"}],"temperature":0,"stream":true}`)
				streams.Add(1)
				if !ended || text != want {
					broken.Add(1)
				}
			}
		})
	}
	waitFor := func(n int64) {
		for more := streams.Load() + n; streams.Load() < more; time.Sleep(time.Millisecond) {
		}
	}
	waitFor(10)
	from.Change(servertest.Records(chat(garbage)), nil)
	if status, body := s.Reload(); status == http.StatusOK || !strings.Contains(body, "the file is damaged") {
		t.Errorf("a damaged version: %d %s", status, body)
	}
	check.Answer = "No answer of this model"
	from.Change(servertest.Records(chat(other)), nil)
	if status, body := s.Reload(); status == http.StatusOK || !strings.Contains(body, "the check wants") {
		t.Errorf("a version that fails its check: %d %s", status, body)
	}
	check.Answer = want
	if _, _, version := s.Said("chat"); version != first {
		t.Errorf("version %s answers after a reload that failed, not %s", version, first)
	}
	for range 3 {
		for _, path := range []string{other, good} {
			from.Change(servertest.Records(chat(path)), nil)
			if status, body := s.Reload(); status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
			waitFor(10)
		}
	}
	_, _, before := s.Said("chat")
	begun := time.Now()
	status, done, body := s.ChangeModel(admin.ModelRollback, "chat", "")
	took := time.Since(begun)
	if status != http.StatusOK || done.Before != before || done.Version == before {
		t.Errorf("rollback: %d %s within %v", status, body, took)
	}
	if _, _, version := s.Said("chat"); version != done.Version {
		t.Errorf("after a rollback version %q answers, not %q", version, done.Version)
	}
	waitFor(10)
	close(stop)
	clients.Wait()
	t.Logf("%d streams, %d broken; rollback within %v", streams.Load(), broken.Load(), took)
	if broken.Load() > 0 {
		t.Errorf("%d of %d streams were broken", broken.Load(), streams.Load())
	}
}
