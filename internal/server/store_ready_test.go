package server_test

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
)

// ready starts a server as weir serve does without flags.
func ready(t *testing.T, change func(*configs.Config)) *servertest.Server {
	t.Helper()
	return servertest.StartFrom(t, &servertest.Source{MakesStore: true}, change)
}

// stateFolder is a user's state directory of the test's own, which is not made yet.
func stateFolder(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "home", "state")
	t.Setenv("STATE_DIRECTORY", "")
	t.Setenv("XDG_STATE_HOME", folder)
	return folder
}

const twoLines = `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"Hello"}],"max_tokens":3}}
{"custom_id":"b","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"Hello"}],"max_tokens":3}}
`

// Where no store is named one is made that only its user reads. Files, batches and responses work with it, keys that are made later are asked
// for, a second server on the directory has all of them, and so has the next process.
func TestAStoreIsReadyByDefault(t *testing.T) {
	folder := stateFolder(t)
	s := ready(t, nil)
	if place := filepath.Join(folder, "weir", "weir.db"); !strings.Contains(s.Out.String(), "store     "+place) {
		t.Errorf("the start does not tell the store's place %s:\n%s", place, s.Out.String())
	}
	id := s.Batch("", twoLines)
	done := s.AwaitBatch("", id, func(b map[string]any) bool { return b["status"] == "completed" })
	if got := s.BatchOutput("", done["output_file_id"]); len(got) != 2 {
		t.Errorf("the batch's output: %v", got)
	}
	status, response := s.CallJSON(http.MethodPost, "/v1/responses", "", "application/json", strings.NewReader(`{"input":"Hello","max_output_tokens":3}`))
	if status != http.StatusOK || response["store"] != true {
		t.Fatalf("a response: %d %v", status, response)
	}
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v: others may look into it", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}

	second := ready(t, nil)
	kept := "/v1/responses/" + response["id"].(string)
	for name, server := range map[string]*servertest.Server{"a second server": second, "the first server": s} {
		if status, got := server.CallJSON(http.MethodGet, kept, "", "", http.NoBody); status != http.StatusOK {
			t.Errorf("%s does not know the response: %d %v", name, status, got)
		}
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	if err := second.End(); err != nil {
		t.Fatal(err)
	}
	key := servertest.NewKey(t, "", keychain.Request{Tenant: "acme"})
	again := ready(t, nil)
	if status, _ := again.CallJSON(http.MethodGet, "/v1/files", "", "", http.NoBody); status != http.StatusUnauthorized {
		t.Errorf("without the key that was made: %d", status)
	}
	if status, list := again.CallJSON(http.MethodGet, "/v1/files", key, "", http.NoBody); status != http.StatusOK {
		t.Errorf("with the key: %d %v", status, list)
	}
}

// No store is made where it was switched off, where one is named, and where the process is not weir serve.
func TestNoStoreIsMadeUnasked(t *testing.T) {
	folder := stateFolder(t)
	named := "sqlite:" + filepath.Join(t.TempDir(), "own.db")
	for name, s := range map[string]*servertest.Server{
		"off":     ready(t, func(c *configs.Config) { c.Store.URL = configs.StoreOff }),
		"named":   ready(t, func(c *configs.Config) { c.Store.URL = named }),
		"library": servertest.Start(t, nil),
	} {
		want := map[string]int{"off": http.StatusNotImplemented, "named": http.StatusOK, "library": http.StatusNotImplemented}[name]
		status, answer := s.CallJSON(http.MethodGet, "/v1/files", "", "", http.NoBody)
		if status != want {
			t.Errorf("%s: %d %v", name, status, answer)
		}
		if strings.Contains(s.Out.String(), "store ") {
			t.Errorf("%s: the start tells of a store that nobody asked about:\n%s", name, s.Out.String())
		}
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the state directory was made: %v", err)
	}
}

// A directory that cannot be written is told, and all else is served. A store that is there and cannot be read ends the start: it may have
// keys, without which everybody would be let in.
func TestAStoreThatCannotBe(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "")
	t.Setenv("XDG_STATE_HOME", "/dev/null/none")
	s := ready(t, nil)
	if status, _ := s.CallJSON(http.MethodPost, "/v1/responses", "", "application/json", strings.NewReader(`{"input":"Hello","max_output_tokens":3}`)); status != http.StatusOK {
		t.Errorf("a response without a store: %d", status)
	}
	if status, answer := s.CallJSON(http.MethodGet, "/v1/files", "", "", http.NoBody); status != http.StatusNotImplemented {
		t.Errorf("files without a store: %d %v", status, answer)
	}
	if !strings.Contains(s.Out.String(), "store     none, so no files and batches: make the state directory") || !strings.Contains(s.Errs.String(), "--store off says that none is wanted") {
		t.Errorf("it is not told that there is no store:\n%s\n%s", s.Out.String(), s.Errs.String())
	}

	folder := filepath.Join(stateFolder(t), "weir")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "weir.db"), []byte(strings.Repeat("no database", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	c := configs.Default()
	c.Server.Port, c.Server.AdminAddress = 0, "off"
	if err := servertest.Run(t.Context(), c, new(servertest.Buffer)); err == nil || !strings.Contains(err.Error(), "--store off") {
		t.Errorf("on a damaged store: %v", err)
	}
}
