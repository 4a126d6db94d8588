package store_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/api/replay"
	"weir/api/tenant"
	"weir/internal/envelope"
	"weir/internal/reference"
	"weir/internal/store"
	"weir/internal/store/auditlog"
	"weir/internal/store/storetest"
	"weir/telemetry/audit"
)

func opener(b []byte) store.Opener {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}

// A store is backed up while another process writes and is killed right after it: all that was acknowledged before is in
// the backup, in the database that it came from and in the other one.
func TestBackupOfAStoreInUse(t *testing.T) {
	reference.Slow(t)
	storetest.Each(t, func(t *testing.T, url string) {
		wrote := make(map[string]bool)
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), crashURL+"="+url)
		out, err := child.StdoutPipe()
		if err := errors.Join(err, child.Start()); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		audited := false // what the backup has of the audit log is compared
		for len(wrote) < 150 || !audited {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "wrote "); ok {
				wrote[name] = true
				audited = audited || strings.Contains(name, auditedWrite)
			}
		}
		rest := make(chan int)
		go func() {
			n := 0
			for s := bufio.NewScanner(lines); s.Scan(); n++ {
			}
			rest <- n
		}()
		s := openStore(t, url, opts{})
		var b bytes.Buffer
		backed, err := s.Backup(t.Context(), &b)
		if killed := child.Process.Kill(); err != nil || killed != nil {
			t.Fatal(err, killed)
		}
		t.Logf("%d rows, %d bytes, %d lines were written meanwhile", backed.Rows, b.Len(), <-rest)
		if err := child.Wait(); err == nil {
			t.Error("the process ended by itself")
		}
		for _, to := range []string{"sqlite:" + filepath.Join(t.TempDir(), "weir.db"), storetest.Postgres(t)} {
			got, err := restore(t.Context(), to, opts{}, store.Restoring{Store: opener(b.Bytes())})
			if err != nil || got != backed {
				t.Fatalf("%+v instead of %+v: %v", got, backed, err)
			}
			again := openStore(t, to, opts{})
			if head, err := again.Head(t.Context()); err != nil || head.String() != backed.Audit {
				t.Errorf("the head is %v, %v", head, err)
			}
			checkWrites(t, again, wrote)
			if findings, err := again.Verify(t.Context()); err != nil || len(findings) > 0 {
				t.Error(findings, err)
			}
		}
	})
}

// What is written after a backup's first read is not in it, in whatever table.
func TestBackupIsOfOneMoment(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{})
		tx, err := s.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := s.BackupTables(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		if err := s.Create(t.Context(), tenant.Key{ID: "late", Tenant: "acme", Scope: tenant.ScopeAdmin, Created: time.Now()}); err != nil {
			t.Fatal(err)
		}
		var keys int
		if err := tx.QueryRow(`SELECT count(*) FROM weir_keys`).Scan(&keys); err != nil || keys != 0 {
			t.Errorf("%d keys, made after the backup began: %v", keys, err)
		}
	})
}

// Encrypted texts come back with the data keys, and a store that is there is not overwritten without force.
func TestRestoreWithDataKeys(t *testing.T) {
	reference.Slow(t)
	storetest.Each(t, func(t *testing.T, url string) {
		masters := envelope.Masters{secret(t, "m")}
		optionsAt := func(url string) opts {
			o := opts{Keys: store.Keys{Masters: masters}}
			if strings.HasPrefix(url, "sqlite:") {
				o.Keys.URL = url + ".keys"
			}
			return o
		}
		s := openStore(t, url, optionsAt(url))
		if err := s.Create(t.Context(), tenant.Key{ID: "one", Tenant: "acme", Scope: tenant.ScopeAdmin, Created: time.Now()}); err != nil {
			t.Fatal(err)
		}
		got, err := s.Begin(t.Context(), request("k", 1))
		if err == nil {
			err = s.Finish(t.Context(), got.Claim, []byte("an answer"))
		}
		var b, keys bytes.Buffer
		_, failed := s.Backup(t.Context(), &b)
		if err := errors.Join(err, failed, s.BackupKeys(t.Context(), &keys)); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "an answer") || strings.Contains(b.String(), "wrapped") {
			t.Error("the backup has texts or keys in clear")
		}
		for _, to := range []string{"sqlite:" + filepath.Join(t.TempDir(), "weir.db"), storetest.Postgres(t)} {
			restore := func(r store.Restoring) error {
				_, err := restore(t.Context(), to, optionsAt(to), r)
				return err
			}
			if err := restore(store.Restoring{Store: opener(b.Bytes())}); !errors.Is(err, store.ErrKeys) {
				t.Errorf("without keys: %v", err)
			}
			whole := store.Restoring{Store: opener(b.Bytes()), Keys: opener(keys.Bytes())}
			if err := restore(whole); err != nil {
				t.Fatal(err)
			}
			if err := restore(whole); !errors.Is(err, store.ErrNotEmpty) {
				t.Errorf("over a store: %v", err)
			}
			whole.Force = true
			if err := restore(whole); err != nil {
				t.Errorf("by force: %v", err)
			}
			again := openStore(t, to, optionsAt(to))
			if got, err := again.Begin(t.Context(), request("k", 1)); err != nil || string(got.Answer) != "an answer" {
				t.Errorf("%s: %+v %v", to, got, err)
			}
			if list, err := again.List(t.Context(), ""); err != nil || len(list) != 1 {
				t.Errorf("%v %v", list, err)
			}
			if findings, err := again.Verify(t.Context()); err != nil || len(findings) > 0 {
				t.Error(findings, err)
			}
		}
	})
}

// Keys that are in place stay, so that who was forgotten since the backup stays forgotten; and keys of another store are
// not overwritten.
func TestRestoreLeavesKeysInPlace(t *testing.T) {
	folder := t.TempDir()
	options := opts{Keys: store.Keys{Masters: envelope.Masters{secret(t, "m")}, URL: "sqlite:" + filepath.Join(folder, "keys")}}
	s := openStore(t, "sqlite:"+filepath.Join(folder, "weir.db"), options)
	got := begin(t, s, request("k", 1), replay.Begun)
	var b, keys bytes.Buffer
	err := s.Finish(t.Context(), got.Claim, []byte("an answer"))
	_, failed := s.Backup(t.Context(), &b)
	if err := errors.Join(err, failed, s.BackupKeys(t.Context(), &keys), s.DataKeys().Destroy(t.Context(), "acme")); err != nil {
		t.Fatal(err)
	}
	r := store.Restoring{Store: opener(b.Bytes()), Keys: opener(keys.Bytes()), Force: true}
	if _, err := restore(t.Context(), "sqlite:"+filepath.Join(folder, "again.db"), options, r); err != nil {
		t.Fatal(err)
	}
	if ids, err := s.DataKeys().IDs(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("the forgotten tenant's keys are back: %v %v", ids, err)
	}
	other := options
	other.Keys.URL = "sqlite:" + filepath.Join(folder, "other.keys")
	openStore(t, "sqlite:"+filepath.Join(folder, "other.db"), other)
	r.Force = false
	if _, err := restore(t.Context(), "sqlite:"+filepath.Join(folder, "third.db"), other, r); !errors.Is(err, store.ErrNotEmpty) {
		t.Errorf("over the keys of another store: %v", err)
	}
}

// A backup of an earlier version is restored as that and migrated.
func TestRestoreOfAnEarlierVersion(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		old := unmigrated(t, url)
		steps, err := store.Migrations(old.Dialect().Folder())
		if err == nil {
			err = old.Migrate(t.Context(), steps[:len(steps)-2])
		}
		var b bytes.Buffer
		if err == nil {
			_, err = old.Backup(t.Context(), &b, auditlog.Options{})
		}
		if err := errors.Join(err, old.ClosePools()); err != nil {
			t.Fatal(err)
		}
		to := "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
		if _, err := restore(t.Context(), to, opts{}, store.Restoring{Store: opener(b.Bytes())}); err != nil {
			t.Fatal(err)
		}
		s := openStore(t, to, opts{})
		var version int
		if err := s.Read.QueryRow(`SELECT max(version) FROM weir_schema`).Scan(&version); err != nil || version != len(steps) {
			t.Errorf("version %d of %d: %v", version, len(steps), err)
		}
		newer := strings.Replace(b.String(), `"schema":`, `"schema":9`, 1)
		if _, err := restore(t.Context(), to+"2", opts{}, store.Restoring{Store: opener([]byte(newer))}); err == nil {
			t.Error("a backup of a newer version was restored")
		}
	})
}

// What is damaged, cut off or tampered with is refused before anything is changed.
func TestDamagedBackups(t *testing.T) {
	s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "weir.db"), opts{})
	for _, object := range []string{"object-1", "object-2"} {
		if _, err := s.Append(t.Context(), audit.Change{Actor: "a", Action: "b", Object: object}); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := s.Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	good := b.String()
	to := filepath.Join(t.TempDir(), "weir.db")
	for name, text := range map[string]string{
		"empty": "", "cut": good[:len(good)/2], "without its end": good[:strings.LastIndex(good, `{"rows"`)], "more": good + good,
		"altered": strings.Replace(good, "object-1", "object-9", 1), "of another kind": strings.Replace(good, `"store"`, `"data keys"`, 1),
		"another table": strings.Replace(good, `"weir_audit"`, `"weir_schema"`, 1), "another form": strings.Replace(good, `"weir_backup":1`, `"weir_backup":2`, 1),
	} {
		if text == good {
			t.Fatal(name)
		}
		if _, err := restore(t.Context(), "sqlite:"+to, opts{}, store.Restoring{Store: opener([]byte(text))}); err == nil {
			t.Errorf("%s: restored", name)
		}
		if _, err := os.Stat(to); err == nil {
			t.Errorf("%s: the store was made", name)
		}
	}
}

func FuzzReadBackup(f *testing.F) {
	s, err := open(context.Background(), "sqlite:"+filepath.Join(f.TempDir(), "weir.db"), opts{})
	if err != nil {
		f.Fatal(err)
	}
	var b bytes.Buffer
	_, err = s.Backup(context.Background(), &b)
	if err := errors.Join(err, s.Close(context.Background())); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("{\"weir_backup\":1,\"kind\":\"store\"}\n{\"table\":\"weir_a\",\"columns\":[\"b\"]}\n[{\"kind\":\"bytes\"}]\n[null]\n"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		_ = store.CheckBackup(opener(text), auditlog.Options{}) // it must not panic
	})
}
