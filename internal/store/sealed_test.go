package store_test

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/api/batch"
	"weir/api/conversation"
	"weir/api/replay"
	"weir/internal/envelope"
	"weir/internal/reference"
	"weir/internal/store"
	"weir/internal/store/storetest"
	"weir/telemetry/transcript"
)

// marker is what clients asked and were answered: nothing that is kept may show it.
const marker = "4012-8888-8888-1881-is-my-card"

func secret(t testing.TB, text string) *envelope.Master {
	t.Helper()
	m, err := envelope.NewSecret([]byte(strings.Repeat(text, envelope.MinSecretBytes)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// eachSealed runs a test against both databases, with the data keys in another one.
func eachSealed(t *testing.T, test func(t *testing.T, url string, keys store.Keys)) {
	t.Helper()
	storetest.Each(t, func(t *testing.T, url string) {
		keys := store.Keys{Masters: envelope.Masters{secret(t, "m")}}
		if strings.HasPrefix(url, "postgres") {
			keys.URL = storetest.Postgres(t)
		} else {
			keys.URL = url + ".keys"
		}
		test(t, url, keys)
	})
}

// keepEverything writes each kind of text of a tenant.
func keepEverything(t *testing.T, s *Store, tenant string) {
	t.Helper()
	ctx := t.Context()
	keepMarked(t, s, tenant, "resp_1", "completed")
	r := replay.Request{Tenant: tenant, Key: "k", TTL: time.Hour}
	claim := begin(t, s, r, replay.Begun)
	if err := s.Finish(ctx, claim.Claim, []byte("an answer with "+marker)); err != nil {
		t.Fatal(err)
	}
	record := transcript.Record{Time: time.Now(), Tenant: tenant, Request: "r", Endpoint: "/v1/completions", Model: "m", Status: 200,
		Prompts: []string{marker}, Answers: []string{marker}}
	if err := s.KeepTranscripts(ctx, []transcript.Record{record}); err != nil {
		t.Fatal(err)
	}
	f := batch.File{ID: "file-" + tenant, Tenant: tenant, Place: "here", Purpose: batch.PurposeBatch, Name: marker + ".jsonl", Created: time.Now()}
	b := batch.Batch{ID: "batch_" + tenant, Tenant: tenant, Place: "here", Input: f.ID, Status: batch.StatusValidating, Created: time.Now(),
		Metadata: map[string]string{"about": marker}}
	if err := errors.Join(s.AddFile(ctx, f, 0), s.AddBatch(ctx, b, 9)); err != nil {
		t.Fatal(err)
	}
}

func keepMarked(t *testing.T, s *Store, tenant, id, status string) {
	t.Helper()
	r := &conversation.Response{Tenant: tenant, ID: id, Status: status, Input: []byte(`["` + marker + `"]`), Object: []byte(`{"text":"` + marker + `"}`)}
	if err := s.KeepResponse(t.Context(), r, time.Hour); err != nil {
		t.Fatal(err)
	}
}

// readEverything counts the texts that can still be read, of five.
func readEverything(t *testing.T, s *Store, tenant string) (count int) {
	t.Helper()
	ctx := t.Context()
	has := func(text string) {
		if strings.Contains(text, marker) {
			count++
		}
	}
	if r, err := s.FindResponse(ctx, tenant, "resp_1"); err == nil {
		has(string(r.Input))
	} else if !errors.Is(err, conversation.ErrUnknown) {
		t.Error(err)
	}
	if got, err := s.Look(ctx, replay.Request{Tenant: tenant, Key: "k", TTL: time.Hour}); err != nil {
		t.Error(err)
	} else {
		has(string(got.Answer))
	}
	for r, err := range s.Transcripts(ctx, tenant) {
		if err != nil {
			t.Fatal(err)
		}
		has(strings.Join(r.Prompts, ""))
	}
	files, _, err := s.Files(ctx, tenant, batch.Page{Limit: 9}, time.Now())
	if err != nil {
		t.Error(err)
	}
	for _, f := range files {
		has(f.Name)
	}
	batches, _, err := s.Batches(ctx, tenant, batch.Page{Limit: 9})
	if err != nil {
		t.Error(err)
	}
	for _, b := range batches {
		has(b.Metadata["about"])
	}
	return count
}

// everyByte is all that a database holds.
func everyByte(t *testing.T, s *Store, address string) string {
	t.Helper()
	var all strings.Builder
	if path, found := strings.CutPrefix(address, "sqlite:"); found {
		files, err := filepath.Glob(path + "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(data)
		}
		return all.String()
	}
	for _, column := range store.SealedColumns() {
		for _, row := range storetest.Texts(t, s.DB, `SELECT r::text FROM `+column.Table+` r`) {
			all.WriteString(row)
		}
		if column.Binary { // bytes are hexadecimal above
			for _, row := range storetest.Texts(t, s.DB, `SELECT encode(`+column.Column+`, 'escape') FROM `+column.Table) {
				all.WriteString(row)
			}
		}
	}
	return all.String()
}

// What lies on the disk shows nothing of what clients asked and were answered; two processes read it.
func TestNothingIsKeptInClear(t *testing.T) {
	eachSealed(t, func(t *testing.T, url string, keys store.Keys) {
		s := openStore(t, url, opts{Keys: keys})
		keepEverything(t, s, "acme")
		if strings.Contains(everyByte(t, s, url), marker) {
			t.Error("a text is in the store in clear")
		}
		other := openStore(t, url, opts{Keys: keys})
		if n := readEverything(t, other, "acme"); n != 5 {
			t.Errorf("%d of 5 texts can be read", n)
		}
		keepMarked(t, other, "acme", "resp_2", "completed")
		if ids, err := s.DataKeys().IDs(t.Context()); err != nil || len(ids) != 1 {
			t.Errorf("two processes have keys of their own: %v, %v", ids, err)
		}
	})
}

// Many processes that bring a tenant's first text at once agree on one key.
func TestFirstKeyOfATenantIsOne(t *testing.T) {
	eachSealed(t, func(t *testing.T, url string, keys store.Keys) {
		var wait sync.WaitGroup
		for range 6 {
			s := openStore(t, url, opts{Keys: keys})
			wait.Go(func() {
				if _, err := s.KeyOf(t.Context(), "acme"); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		s := openStore(t, url, opts{Keys: keys})
		if ids, err := s.DataKeys().IDs(t.Context()); err != nil || len(ids) != 1 {
			t.Errorf("%v, %v", ids, err)
		}
	})
}

// After a tenant was forgotten nothing of it can be read: not what is left where the process died in between, and not
// a copy of the store from before, together with the keys of now.
func TestForgottenIsUnreadable(t *testing.T) {
	eachSealed(t, func(t *testing.T, address string, keys store.Keys) {
		s := openStore(t, address, opts{Keys: keys})
		keepEverything(t, s, "acme")
		keepEverything(t, s, "zeta")
		copied := copyStore(t, s, address)
		other := openStore(t, address, opts{Keys: keys}) // has read, and so remembers the key
		if n := readEverything(t, other, "acme"); n != 5 {
			t.Fatalf("%d of 5 texts can be read before", n)
		}
		if err := s.ForgetKeys(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		if n := readEverything(t, s, "acme"); n != 0 {
			t.Errorf("%d texts are readable though their key is destroyed", n)
		}
		if got, err := s.Begin(t.Context(), replay.Request{Tenant: "acme", Key: "k", TTL: time.Hour}); err != nil || got.State != replay.Begun {
			t.Errorf("a repetition does not execute again: %+v, %v", got, err)
		}
		if _, found, err := s.LeaseBatch(t.Context(), "here", nil, nil); err != nil || !found { // zeta's, not acme's forgotten one
			t.Errorf("%v, %v", found, err)
		}
		before := openStore(t, copied, opts{Keys: keys})
		if n := readEverything(t, before, "acme"); n != 0 {
			t.Errorf("%d texts can be read in a copy from before", n)
		}
		if n := readEverything(t, before, "zeta"); n != 5 {
			t.Errorf("%d of 5 texts of another tenant can be read in the copy", n)
		}
		keepMarked(t, other, "acme", "resp_9", "completed") // whose key was destroyed by another process
		if _, err := s.FindResponse(t.Context(), "acme", "resp_9"); err != nil {
			t.Errorf("what came later is not readable: %v", err)
		}
		if err := other.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := readEverything(t, other, "acme"); n != 0 {
			t.Errorf("%d texts are readable in a process that remembers", n)
		}
	})
}

// copyStore is a copy of a store that stays as it is now.
func copyStore(t *testing.T, s *Store, address string) (copied string) {
	t.Helper()
	if _, found := strings.CutPrefix(address, "sqlite:"); found {
		path := filepath.Join(t.TempDir(), "copy.db")
		storetest.Exec(t, s.DB, `VACUUM INTO '`+path+`'`)
		return "sqlite:" + path
	}
	copied = storetest.Postgres(t)
	u, err := url.Parse(copied)
	if err != nil {
		t.Fatal(err)
	}
	to := openStore(t, copied, opts{})
	from := storetest.Texts(t, s.DB, `SELECT current_schema()`)[0]
	for _, table := range []string{"weir_replay", "weir_responses", "weir_transcripts", "weir_files", "weir_batches", "weir_key_store"} {
		storetest.Exec(t, to.DB, `INSERT INTO `+u.Query().Get("search_path")+`.`+table+` SELECT * FROM `+from+`.`+table)
	}
	return copied
}

// The files of a store show no destroyed key either.
func TestDestroyedKeysAreOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db")
	keys := store.Keys{Masters: envelope.Masters{secret(t, "m")}, URL: "sqlite:" + path + ".keys"}
	s := openStore(t, "sqlite:"+path, opts{Keys: keys})
	keepMarked(t, s, "acme", "resp_1", "completed")
	all, err := s.DataKeys().Wrapped(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	if !strings.Contains(everyByte(t, s, "sqlite:"+path), string(all[0])) {
		t.Fatal("the key is not where the test looks for it")
	}
	if err := s.ForgetKeys(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(everyByte(t, s, "sqlite:"+path), string(all[0])) {
		t.Error("the destroyed key is still in a file")
	}
}

// Rows cannot be moved from one tenant to another, nor from one record to another.
func TestRowsAreBoundToTheirTenant(t *testing.T) {
	eachSealed(t, func(t *testing.T, url string, keys store.Keys) {
		s := openStore(t, url, opts{Keys: keys})
		keepMarked(t, s, "acme", "resp_1", "completed")
		keepMarked(t, s, "acme", "resp_2", "completed")
		keepMarked(t, s, "zeta", "resp_3", "completed")
		storetest.Exec(t, s.DB, `UPDATE weir_responses SET tenant = 'zeta' WHERE id = 'resp_1'`)
		if r, err := s.FindResponse(t.Context(), "zeta", "resp_1"); err == nil {
			t.Errorf("another tenant reads it: %s", r.Object)
		}
		storetest.Exec(t, s.DB, `UPDATE weir_responses SET object = (SELECT input FROM weir_responses WHERE id = 'resp_2') WHERE id = 'resp_2'`)
		if _, err := s.FindResponse(t.Context(), "acme", "resp_2"); !errors.Is(err, envelope.ErrSealed) {
			t.Errorf("an input reads as an object: %v", err)
		}
	})
}

// Rows that an earlier weir has left in clear stay readable, and are encrypted.
func TestClearRowsAreEncrypted(t *testing.T) {
	eachSealed(t, func(t *testing.T, url string, keys store.Keys) {
		old := openStore(t, url, opts{})
		keepEverything(t, old, "acme")
		for i := range 2 * store.ResealRows {
			keepMarked(t, old, "acme", "more_"+strings.Repeat("x", i), "completed")
		}
		keepMarked(t, old, "acme", "unfinished", conversation.InProgress)
		storetest.Exec(t, old.DB, `UPDATE weir_batches SET ended = 1`)
		storetest.Close(t, old.DB)
		s := openStore(t, url, opts{Keys: keys})
		if n := readEverything(t, s, "acme"); n != 5 {
			t.Errorf("%d of 5 texts in clear can be read", n)
		}
		rows, err := s.EncryptClear(t.Context())
		if err != nil || rows != 5+2*store.ResealRows {
			t.Errorf("%d rows, %v", rows, err)
		}
		keepMarked(t, s, "acme", "unfinished", "completed") // its end is encrypted
		if err := s.Wipe(t.Context()); err != nil {         // what SQLite's log has goes into the file
			t.Fatal(err)
		}
		if strings.Contains(everyByte(t, s, url), marker) {
			t.Error("a text is still in clear")
		}
		if n := readEverything(t, s, "acme"); n != 5 {
			t.Errorf("%d of 5 texts can be read", n)
		}
		if rows, err := s.EncryptClear(t.Context()); err != nil || rows != 0 {
			t.Errorf("again: %d rows, %v", rows, err)
		}
	})
}

// A tenant's key is rotated while it is used; the old one stays as long as something needs it.
func TestDataKeysAreRotatedWhileTheyAreUsed(t *testing.T) {
	reference.Slow(t)
	eachSealed(t, func(t *testing.T, url string, keys store.Keys) {
		s := openStore(t, url, opts{Keys: keys})
		keepEverything(t, s, "acme")
		storetest.Exec(t, s.DB, `UPDATE weir_batches SET ended = 1`)
		over := make(chan struct{})
		var wait sync.WaitGroup
		wait.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				id := "resp_w" + strings.Repeat("x", i%50)
				if i < 50 {
					keepMarked(t, s, "acme", id, "completed")
				}
				if _, err := s.FindResponse(t.Context(), "acme", id); err != nil {
					t.Error(err)
					return
				}
			}
		})
		other := openStore(t, url, opts{Keys: keys})
		for range 3 {
			if _, err := other.RotateKey(t.Context(), "acme"); err != nil {
				t.Error(err)
			}
		}
		close(over)
		wait.Wait()
		if n := readEverything(t, s, "acme"); n != 5 {
			t.Errorf("%d of 5 texts can be read", n)
		}
		if rows, err := other.RotateKey(t.Context(), "acme"); err != nil || rows == 0 {
			t.Errorf("%d rows, %v", rows, err)
		}
		if _, err := s.DataKeys().Write.Exec(`UPDATE weir_data_keys SET created = created - $1`, 2*store.KeyRest.Microseconds()); err != nil {
			t.Fatal(err)
		}
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The newest, and that of the file.
		if ids, err := s.DataKeys().IDs(t.Context()); err != nil || len(ids) != 2 {
			t.Errorf("%d keys are left, %v", len(ids), err)
		}
		if n := readEverything(t, s, "acme"); n != 5 {
			t.Errorf("%d of 5 texts can be read after old keys went", n)
		}
	})
}

// The master key is rotated: with the new one before the old one first, then alone, while another process serves.
func TestMasterKeyIsRotatedWhileItIsUsed(t *testing.T) {
	eachSealed(t, func(t *testing.T, url string, keys store.Keys) {
		first, second := keys.Masters[0], secret(t, "n")
		with := func(masters ...*envelope.Master) store.Keys { return store.Keys{masters, keys.URL} }
		s := openStore(t, url, opts{Keys: with(first, second)}) // goes on serving
		keepEverything(t, s, "acme")
		openStore(t, url, opts{Keys: with(second, first)})
		keepMarked(t, s, "zeta", "resp_1", "completed") // still with the first
		openStore(t, url, opts{Keys: with(second, first)})
		last := openStore(t, url, opts{Keys: with(second)})
		if n := readEverything(t, last, "acme"); n != 5 {
			t.Errorf("%d of 5 texts can be read", n)
		}
		if _, err := last.FindResponse(t.Context(), "zeta", "resp_1"); err != nil {
			t.Error(err)
		}
		if n := readEverything(t, s, "acme"); n != 5 {
			t.Errorf("the process that serves reads %d of 5 texts", n)
		}
	})
}

// Without its keys a store does not open, says what is missing, and loses nothing.
func TestStoresWithoutTheirKeysDoNotOpen(t *testing.T) {
	eachSealed(t, func(t *testing.T, url string, keys store.Keys) {
		s := openStore(t, url, opts{Keys: keys})
		keepEverything(t, s, "acme")
		storetest.Close(t, s.DB)
		empty := keys
		if strings.HasPrefix(url, "postgres") {
			empty.URL = storetest.Postgres(t)
		} else {
			empty.URL = "sqlite:" + filepath.Join(t.TempDir(), "other.keys")
			openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "x.db"), opts{Keys: empty})
		}
		wrong := keys
		wrong.Masters = envelope.Masters{secret(t, "w")}
		for name, c := range map[string]struct {
			keys store.Keys
			want string
		}{
			"another master key": {wrong, "is encrypted with the master key secret-"},
			"no master key":      {store.Keys{}, "no master key is set"},
			"other keys":         {empty, "are those of another store, or were lost"},
		} {
			opened, err := open(t.Context(), url, opts{Keys: c.keys})
			if err == nil {
				storetest.Close(t, opened.DB)
			}
			if !errors.Is(err, store.ErrKeys) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if path, found := strings.CutPrefix(keys.URL, "sqlite:"); found {
			if err := os.Rename(path, path+".away"); err != nil {
				t.Fatal(err)
			}
			if _, err := open(t.Context(), url, opts{Keys: keys}); !errors.Is(err, store.ErrKeys) || !strings.Contains(err.Error(), path) {
				t.Errorf("no file of keys: %v", err)
			}
			if err := os.Rename(path+".away", path); err != nil {
				t.Fatal(err)
			}
		}
		if n := readEverything(t, openStore(t, url, opts{Keys: keys}), "acme"); n != 5 {
			t.Errorf("%d of 5 texts can be read afterwards", n)
		}
	})
}

// A process that dies between any two statements of an encryption or a rotation leaves rows that can be read.
func TestBrokenOffEncryptionsLeaveReadableRows(t *testing.T) {
	eachSealed(t, func(t *testing.T, url string, keys store.Keys) {
		old := openStore(t, url, opts{})
		for i := range 3 * store.ResealRows {
			keepMarked(t, old, "acme", "resp_"+strings.Repeat("x", i), "completed")
		}
		storetest.Close(t, old.DB)
		s := openStore(t, url, opts{Keys: keys})
		for statements := 1; ; statements++ {
			ctx := &dying{Context: t.Context(), left: statements}
			_, err := s.EncryptClear(ctx)
			for i := range 3 * store.ResealRows {
				if _, err := s.FindResponse(t.Context(), "acme", "resp_"+strings.Repeat("x", i)); err != nil {
					t.Fatalf("after %d statements: %v", statements, err)
				}
			}
			if err == nil {
				break
			}
		}
		if clear := storetest.Texts(t, s.DB, `SELECT id FROM weir_responses WHERE data_key = ''`); len(clear) != 0 {
			t.Errorf("%d rows are in clear", len(clear))
		}
	})
}

// dying is a context that ends when it is asked for the nth time.
type dying struct {
	context.Context //nolint:containedctx // it is one
	left            int
}

func (d *dying) Err() error {
	if d.left--; d.left < 0 {
		return context.Canceled
	}
	return nil
}

func (d *dying) Done() <-chan struct{} { return nil }

func BenchmarkKeepResponse(b *testing.B) {
	object := bytes.Repeat([]byte("an answer of some length "), 160) // 4 KB
	for _, sealed := range []bool{false, true} {
		b.Run(map[bool]string{false: "clear", true: "sealed"}[sealed], func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "weir.db")
			o := opts{}
			if sealed {
				o.Keys = store.Keys{Masters: envelope.Masters{secret(b, "m")}, URL: "sqlite:" + path + ".keys"}
			}
			s, err := open(b.Context(), "sqlite:"+path, o)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close(context.Background())
			r := &conversation.Response{Tenant: "acme", Status: "completed", Input: object, Object: object}
			for i := 0; b.Loop(); i++ {
				r.ID = time.Now().Format(time.RFC3339Nano) + string(rune('a'+i%26))
				if err := s.KeepResponse(b.Context(), r, time.Hour); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
