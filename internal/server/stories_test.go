package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weir/configs"
	"weir/engine/kernel/isa"
	"weir/internal/reference"
)

// story is a prompt and llama.cpp's greedy continuation.
type story struct {
	Prompt     string `json:"prompt"`
	MaxTokens  int    `json:"max_tokens"`
	Completion string `json:"completion"`
}

// startServer serves a model in this process, on free ports, until the test
// ends.
func startServer(t *testing.T, edit func(c *configs.Config)) *Server {
	t.Helper()
	c := configs.Default()
	c.Server.Port, c.Server.AdminAddress = 0, "127.0.0.1:0"
	c.Log.Level = "error"
	edit(&c)
	s, err := New(Config{Settings: c, Errs: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	s.listen()
	if err := s.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	engine := s.languages.engines()[0]
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.Server.ShutdownTimeout)
		defer cancel()
		if err := s.closing.close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if used := engine.Stats().Cache.Referenced; used != 0 {
			t.Errorf("%d blocks left in use", used)
		}
	})
	return s
}

// complete asks for a greedy completion and returns its text.
func complete(base string, st story, stream bool) (string, error) {
	body, err := json.Marshal(map[string]any{
		"model": "stories", "prompt": st.Prompt, "max_tokens": st.MaxTokens, "temperature": 0, "stream": stream,
	})
	if err != nil {
		return "", err
	}
	resp, err := http.Post(base+"/v1/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return "", fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	type reply struct{ Choices []struct{ Text string } }
	if !stream {
		var r reply
		if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
			return "", err
		}
		return r.Choices[0].Text, nil
	}
	var text strings.Builder
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			return text.String(), nil
		default:
			var r reply
			if err := json.Unmarshal([]byte(data), &r); err != nil {
				return "", fmt.Errorf("event %q: %w", data, err)
			}
			for _, c := range r.Choices {
				text.WriteString(c.Text)
			}
		}
	}
	return "", fmt.Errorf("stream ended without [DONE] after %q", text.String())
}

// The same text to the character, through HTTP: streaming and not, alone and
// eight at once, whatever the blocks and chunks, at every level, and where the
// cache is so small that sequences are preempted.
func TestStoriesEqualTheReferenceThroughHTTP(t *testing.T) {
	stories := reference.Path(t, "testdata/stories")
	raw, err := os.ReadFile(filepath.Join(stories, "greedy.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []story
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	for i := range list { // the tool that wrote the references ended each with an empty line
		list[i].Completion = strings.TrimSuffix(list[i].Completion, "\n\n")
	}
	type run struct {
		block, chunk int
		tight        bool
		level        string
	}
	runs := []run{
		{16, 16, true, "auto"}, {64, 512, true, "auto"}, {16, 16, false, "auto"},
		{16, 512, false, "auto"}, {64, 16, false, "auto"}, {64, 512, false, "auto"},
	}
	for _, level := range isa.Levels() {
		runs = append(runs, run{16, 512, false, level.String()})
	}
	if testing.Short() {
		runs, list = runs[:1], list[:4]
	}
	for _, c := range runs {
		t.Run(fmt.Sprintf("block=%d,chunk=%d,tight=%v,level=%s", c.block, c.chunk, c.tight, c.level), func(t *testing.T) {
			s := startServer(t, func(conf *configs.Config) {
				conf.Model.Path, conf.Model.ServedNames = filepath.Join(stories, "stories260K.gguf"), []string{"stories"}
				conf.Engine.CPULevel = c.level
				conf.Engine.KVType = "f32"       // as the reference's
				conf.Scheduler.MaxModelLen = 192 // the file says 128, the reference went beyond
				conf.Engine.BlockTokens, conf.Scheduler.PrefillChunk = c.block, c.chunk
				if c.tight { // room for two or three sequences, and an optimist at the door
					conf.Scheduler.OutputEstimate = 1
					conf.Engine.KVMemoryBytes = 384 * 1280
				}
			})
			base := s.ports.apiURL()
			for _, stream := range []bool{false, true} {
				for i := range list {
					check(t, list[i], base, stream)
				}
				var wg sync.WaitGroup
				for i := range 8 {
					wg.Go(func() { check(t, list[i%len(list)], base, stream) })
				}
				wg.Wait()
			}
			n := s.languages.engines()[0].Stats().Scheduler.Preemptions
			if c.tight && n == 0 {
				t.Error("nothing was preempted; the cache is not tight")
			}
			t.Logf("%d preemptions", n)
		})
	}
}

func check(t *testing.T, st story, base string, stream bool) {
	t.Helper()
	got, err := complete(base, st, stream)
	if err != nil {
		t.Errorf("%q: %v", st.Prompt, err)
	} else if got != st.Completion {
		t.Errorf("%q, streaming %v:\n%q\nwant\n%q", st.Prompt, stream, got, st.Completion)
	}
}
