package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/servertest"
)

// A store and files that an earlier weir has left in clear are encrypted, by the verb as at a server's start.
func TestStoresInClearAreEncrypted(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "weir.db")
	url := "sqlite:" + path
	key := makeKey(t, url, "open")
	s := servertest.Start(t, func(c *configs.Config) { servertest.TwoTenants(c, url) })
	status, file := s.Upload(key, servertest.Canary+"\n", "purpose", "user_data")
	if status != 200 {
		t.Fatal(status, file)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	// As an earlier weir has it.
	id := file["id"].(string)
	servertest.Tamper(t, path, `UPDATE weir_files SET data_key = '', name = '`+servertest.Canary+`.txt'`)
	bytesOf := filepath.Join(folder, "weir.db.files", "files", id)
	if err := os.Remove(bytesOf + ".age"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bytesOf, []byte(servertest.Canary+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := weir("store", "encrypt", "--store", url)
	if status != exitOK || !strings.Contains(out, "1 rows, 1 files") {
		t.Errorf("encrypt: %d %s%s", status, out, errs)
	}
	if found := servertest.FoundIn(t, folder, servertest.Canary); found != nil {
		t.Errorf("still in clear in %v", found)
	}
	s = servertest.Start(t, func(c *configs.Config) { servertest.TwoTenants(c, url) })
	if status, _, text := s.As(key, http.MethodGet, s.API+"/v1/files/"+id+"/content", ""); status != 200 || text != servertest.Canary+"\n" {
		t.Errorf("the file comes back as %d %q", status, text)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
}
