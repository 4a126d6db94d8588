package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"weir/configs"
	"weir/internal/server/servertest"
)

// Only approved versions are located where the configuration requires that; what the record of one says of sampling counts
// for requests that do not.
func TestRecordsAreApplied(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "models")
	t.Setenv("WEIR_MODELS_DIR", folder)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	file := defaultFile(t)
	sampling := filepath.Join(t.TempDir(), "sampling.json")
	if err := os.WriteFile(sampling, []byte(`{"temperature":0,"max_tokens":3,"stop":["zzz"],"system":"Be brief."}`), 0o600); err != nil {
		t.Fatal(err)
	}
	onFolder(t, exitOK, "models", "import", file, "chat:good", "--sampling", sampling, "--approved-by", "board")
	onFolder(t, exitOK, "models", "import", file, "chat:new")
	locate := func(change func(*configs.Config)) (configs.Config, error) {
		c := configs.Default()
		c.Registry.Dir, c.Registry.RequireApproval = folder, true
		change(&c)
		cmd := &cobra.Command{}
		cmd.SetErr(&strings.Builder{})
		err := newLocator(cmd).locate(t.Context(), &c)
		return c, err
	}
	named := func(path string) func(*configs.Config) {
		return func(c *configs.Config) { c.Models = []configs.ServedModel{configs.NewServedModel("chat", path)} }
	}
	for path, want := range map[string]string{"chat:new": "has no approval", file: "is a file"} {
		if _, err := locate(named(path)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := locate(func(c *configs.Config) { c.Model.Path = path }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s alone: %v", path, err)
		}
		if _, err := locate(func(c *configs.Config) { named(path)(c); c.Registry.RequireApproval = false }); err != nil {
			t.Errorf("%s, where no approval is required: %v", path, err)
		}
	}
	if _, err := locate(named(configs.BuiltinPath)); err != nil {
		t.Error(err)
	}
	located, err := locate(named("chat:good"))
	if err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t, func(c *configs.Config) { c.Models = located.Models })
	usage := func(fields string) (prompt, output int) {
		t.Helper()
		r := s.Post("/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":"What is weir?"}]`+fields+`}`)
		var answer struct {
			Usage struct {
				Prompt int `json:"prompt_tokens"`
				Output int `json:"completion_tokens"`
			}
		}
		if text := servertest.Body(t, r); r.StatusCode != http.StatusOK || json.Unmarshal([]byte(text), &answer) != nil {
			t.Fatalf("%d %s", r.StatusCode, text)
		}
		return answer.Usage.Prompt, answer.Usage.Output
	}
	silent, short := usage("")
	_, long := usage(`,"max_tokens":6`)
	plain := servertest.Start(t, nil)
	r := plain.Post("/v1/chat/completions", `{"messages":[{"role":"user","content":"What is weir?"}],"max_tokens":1}`)
	if text := servertest.Body(t, r); strings.Contains(text, `"prompt_tokens":`+jsonNumber(silent)+`,`) {
		t.Errorf("the record's system message is not in the prompt: %s", text)
	}
	if short != 3 || long != 6 {
		t.Errorf("%d tokens by the record, %d by the request", short, long)
	}
}

func jsonNumber(n int) string {
	text, _ := json.Marshal(n) //nolint:errchkjson // a number
	return string(text)
}

// A process holds the versions of the configuration in force and of the one before, and lets others go: what reloads that
// failed have found stays until one succeeds.
func TestLocatorLetsGo(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "models")
	t.Setenv("WEIR_MODELS_DIR", folder)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	file := defaultFile(t)
	for i, name := range []string{"chat:a", "chat:b", "chat:c"} {
		onFolder(t, exitOK, "models", "import", file, name, "--metric", "n="+jsonNumber(i))
	}
	cmd := &cobra.Command{}
	cmd.SetErr(&strings.Builder{})
	l := newLocator(cmd)
	for _, step := range []struct {
		name    string
		applied bool
		held    int
	}{{"chat:a", true, 1}, {"chat:b", false, 2}, {"chat:c", true, 2}, {"chat:c", true, 1}, {"chat:a", true, 2}} {
		c := configs.Default()
		c.Registry.Dir = folder
		c.Models = []configs.ServedModel{configs.NewServedModel("chat", step.name)}
		if err := l.locate(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		if step.applied {
			l.applied()
		}
		if len(l.held) != step.held {
			t.Errorf("after %+v %d versions are held", step, len(l.held))
		}
	}
}
