package servertest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/server/keychain"
)

// Bodies of chats, and where they go. Hello is not closed, so that tests add fields.
const (
	ChatPath = "/v1/chat/completions"
	Hello    = `{"messages":[{"role":"user","content":"Hello"}],"temperature":0`
	OneToken = Hello + `,"max_tokens":1}`
	// LongAnswer runs for many steps, whatever the model would say.
	LongAnswer = `{"messages":[{"role":"user","content":"Hello"}],"temperature":0,"stream":true,"ignore_eos":true,"max_tokens":`
)

// Canary is a text that is looked for where it must not be.
const Canary = "zephyrcanary7731"

// FoundIn are the files of a folder, those of sub-folders too, that have a text.
func FoundIn(t *testing.T, folder, text string) (found []string) {
	t.Helper()
	for _, path := range FilesUnder(t, folder) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte(text)) {
			found = append(found, path)
		}
	}
	return found
}

// Limited is a server with a tenant acme of two requests a minute, its key, and that of an operator.
func Limited(t *testing.T, change func(*configs.Config)) (s *Server, key, operator string) {
	t.Helper()
	url := "sqlite:" + t.TempDir() + "/weir.db"
	key, operator = NewKey(t, url, keychain.Request{Tenant: "acme"}), NewKey(t, url, keychain.Request{Tenant: "ops", Scope: "admin,metrics"})
	s = Start(t, func(c *configs.Config) {
		c.Store.URL = url
		acme := tenant.New("acme")
		acme.Limits.RequestsPerMinute = 2
		c.Tenants = []tenant.Tenant{acme, tenant.New("ops")}
		if change != nil {
			change(c)
		}
	})
	s.StoreURL = url
	return s, key, operator
}

// FilesUnder lists the files of a folder and of those in it.
func FilesUnder(t *testing.T, folder string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return files
}

// TwoTenants gives a server two tenants, of which one agreed that prompts are kept.
func TwoTenants(c *configs.Config, url string) {
	open, shut := tenant.New("open"), tenant.New("shut")
	open.LogPrompts = true
	c.Store.URL, c.Tenants = url, []tenant.Tenant{open, shut, tenant.New("ops")}
	c.Log.Level = "debug"
}
