package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/internal/server/state"
)

// A store is backed up while its server answers, and restored in another place with the pepper: keys, usage and audit log agree.
func TestBackupVerbs(t *testing.T) {
	reference.Slow(t)
	path := filepath.Join(t.TempDir(), "weir.db")
	url := "sqlite:" + path
	key := makeKey(t, url, "open")
	s := servertest.Start(t, func(c *configs.Config) { servertest.TwoTenants(c, url) })
	ask := func() int {
		status, _, _ := s.As(key, http.MethodPost, s.API+"/v1/completions", `{"prompt":"a b","max_tokens":1}`)
		return status
	}
	for range 3 {
		if status := ask(); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	var stop atomic.Bool
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for !stop.Load() {
			if status := ask(); status != http.StatusOK {
				t.Error(status)
				return
			}
		}
	}()
	file := filepath.Join(t.TempDir(), "backup.zst")
	status, out, errs := weir("store", "backup", file, "--store", url)
	stop.Store(true)
	<-asked
	if status != exitOK || !strings.Contains(out, "The master key and the pepper are in neither") {
		t.Fatalf("%d %s%s", status, out, errs)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{file, file + keysSuffix} {
		info, err := os.Stat(f)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, info, err)
		}
	}
	pepper, err := os.ReadFile(path + ".pepper")
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "weir.db")
	to := "sqlite:" + other
	if status, _, errs := weir("store", "restore", file, "--store", to); status == exitOK || !strings.Contains(errs, "pepper") {
		t.Errorf("with another pepper: %d %s", status, errs)
	}
	if err := os.WriteFile(other+".pepper", pepper, 0o600); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := weir("store", "restore", file, "--store", to); status != exitOK {
		t.Fatalf("%d %s%s", status, out, errs)
	}
	if status, _, errs := weir("store", "restore", file, "--store", to); status == exitOK || !strings.Contains(errs, "--force") {
		t.Errorf("over a store: %d %s", status, errs)
	}
	if status, _, errs := weir("store", "restore", file, "--store", to, "--force"); status != exitOK {
		t.Errorf("by force: %d %s", status, errs)
	}
	for _, verb := range [][]string{{"audit", "verify"}, {"store", "verify"}} {
		if status, out, errs := weir(append(verb, "--store", to)...); status != exitOK {
			t.Errorf("%v: %d %s%s", verb, status, out, errs)
		}
	}
	_, before, _ := weir("keys", "list", "--store", url)
	if _, after, _ := weir("keys", "list", "--store", to); !strings.Contains(after, key[5:15]) || strings.Count(after, "\n") != strings.Count(before, "\n") {
		t.Errorf("keys before\n%s\nafter\n%s", before, after)
	}
	if _, list, _ := weir("audit", "list", "--store", to); !strings.Contains(list, state.ActionStoreBackup) || !strings.Contains(list, state.ActionStoreRestore) {
		t.Errorf("the audit log says\n%s", list)
	}
	s = servertest.Start(t, func(c *configs.Config) { servertest.TwoTenants(c, to) })
	if status := ask(); status != http.StatusOK {
		t.Errorf("the key is worth nothing at the restored store: %d", status)
	}
	damaged, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damaged = bytes.Clone(damaged)
	damaged[len(damaged)/2] ^= 1
	if err := os.WriteFile(file, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	third := filepath.Join(t.TempDir(), "weir.db")
	if err := os.WriteFile(third+".pepper", pepper, 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := weir("store", "restore", file, "--store", "sqlite:"+third); status == exitOK {
		t.Errorf("a damaged backup was restored: %s", errs)
	}
	if _, err := os.Stat(third); err == nil {
		t.Error("a damaged backup has made a store")
	}
}
