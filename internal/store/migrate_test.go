package store_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/api/replay"
	"weir/api/usage"
	"weir/internal/reference"
	"weir/internal/store"
	"weir/internal/store/storetest"
	"weir/telemetry/audit"
)

// After a new migration: go test ./internal/store -run Migrat -rewrite adds the dump
// of its version. Dumps of versions that were released stay as they are.
var rewrite = flag.Bool("rewrite", false, "write the dumps of the versions that have none")

// samples are rows that a weir of a version has written, each beside the version that
// made its table. They are part of the dumps.
var samples = []struct {
	version   int
	statement string
	until     int // the last version whose table has these columns; 0: the newest
}{
	{1, `INSERT INTO weir_keys VALUES ('0123456789', 'acme', 'app', 'inference,admin', ` + `HASH, 1700000000000000, 0, 0, 1700000001000000)`, 12},
	{13, `INSERT INTO weir_keys VALUES ('0123456789', 'acme', 'app', 'inference,admin', ` + `HASH, 1700000000000000, 0, 0, 1700000001000000, '{"limits":{"daily_cost":"5"},"models":["m"]}', '')`, 0},
	{14, `INSERT INTO weir_key_changes VALUES (1, 3)`, 0},
	{2, `INSERT INTO weir_usage VALUES ('acme', 'm', 20000, 3, 30, 4, 5, 6000, 7)`, 0},
	{2, `INSERT INTO weir_usage_batches VALUES ('WRITER', 9, 1700000000000000)`, 0},
	{11, `INSERT INTO weir_usage_hours VALUES (480000, 'acme', 'm', '0123456789', 3, 30, 4, 5, 6000, 7)`, 0},
	{12, `INSERT INTO weir_tenants VALUES ('acme', '{"weight":2}', 3, 1700000000000000, 1700000001000000, 0)`, 0},
	{3, `INSERT INTO weir_replay VALUES ('acme', HASH, HASH, 'OWNER', 'CLAIM', 9000000000000000, HASH)`, 9},
	{10, `INSERT INTO weir_replay VALUES ('acme', HASH, HASH, 'OWNER', 'CLAIM', 9000000000000000, HASH, '')`, 0},
	{4, `INSERT INTO weir_audit VALUES (1, 1700000000000000, 'a', 'key.create', '0123456789', '{}', ZERO, FIRST)`, 8},
	{9, `INSERT INTO weir_audit VALUES (1, 1700000000000000, 'a', 'key.create', '0123456789', '{}', ZERO, FIRST, 0)`, 0},
	{5, `INSERT INTO weir_transcripts VALUES ('ID', 'acme', 1700000000000000, 'r', '/v1/completions', 'm', 200, '["p"]', '["a"]')`, 9},
	{10, `INSERT INTO weir_transcripts VALUES ('ID', 'acme', 1700000000000000, 'r', '/v1/completions', 'm', 200, '["p"]', '["a"]', '')`, 0},
	{6, `INSERT INTO weir_rollouts VALUES ('r1', 1700000000000000, '{"plan":{}}')`, 17},
	{18, `INSERT INTO weir_rollouts VALUES ('r1', 1700000000000000, '{"plan":{}}', 'OWNER')`, 0},
	{15, `INSERT INTO weir_deployments VALUES ('chat', '{"model":"chat"}', 3, 0)`, 0},
	{15, `INSERT INTO weir_deployments_observed VALUES ('chat', 'OWNER', '{"model":"chat"}', 1700000000000000)`, 0},
	{16, `INSERT INTO weir_rollout_answers VALUES ('KEY', 'r1', 1, 2, 1700000000000000)`, 0},
	{16, `INSERT INTO weir_rollout_outcomes VALUES ('KEY', 1, 'r1', 1, NULL, 1700000000000000)`, 0},
	{17, `INSERT INTO weir_servers VALUES ('OWNER', '{"instance":"10.0.0.1:8000","url":"http://10.0.0.1:8000","computes":true}')`, 0},
	{17, `INSERT INTO weir_deployment_parts VALUES ('chat', 1, 'OWNER')`, 0},
	{7, `INSERT INTO weir_files VALUES ('file-1', 'acme', 'here', 'batch', 'in.jsonl', 9, 1700000000000000, 0)`, 9},
	{10, `INSERT INTO weir_files VALUES ('file-1', 'acme', 'here', 'batch', 'in.jsonl', 9, 1700000000000000, 0, '')`, 0},
	{7, `INSERT INTO weir_batches VALUES ('batch_1', 'acme', 'here', 'file-1', 'in_progress', 1700000000000000, 0, 0, 'OWNER', '{"endpoint":"/v1/embeddings"}')`, 9},
	{10, `INSERT INTO weir_batches VALUES ('batch_1', 'acme', 'here', 'file-1', 'in_progress', 1700000000000000, 0, 0, 'OWNER', '{"endpoint":"/v1/embeddings"}', '')`, 0},
	{8, `INSERT INTO weir_responses VALUES ('acme', 'resp_1', '', 'completed', 'OWNER', 1700000000000000, 9000000000000000, HASH, HASH)`, 9},
	{10, `INSERT INTO weir_responses VALUES ('acme', 'resp_1', '', 'completed', 'OWNER', 1700000000000000, 9000000000000000, HASH, HASH, '')`, 0},
}

// firstEntry is the entry of the samples.
func firstEntry() audit.Entry {
	return (audit.Key{}).Next(audit.Head{}, audit.Change{
		Time: time.UnixMicro(1700000000000000), Actor: "a", Action: "key.create", Object: "0123456789", Details: "{}",
	})
}

func sample(d *store.Dialect, statement string) string {
	literal := func(b []byte) string {
		if d == store.PostgresDialect {
			return fmt.Sprintf(`'\x%x'`, b)
		}
		return fmt.Sprintf(`x'%x'`, b)
	}
	hash := firstEntry().Hash
	return strings.NewReplacer("HASH", literal([]byte(strings.Repeat("h", 32))), "ZERO", literal(make([]byte, 32)),
		"FIRST", literal(hash[:])).Replace(statement)
}

// unmigrated opens a store without bringing its tables up to date.
func unmigrated(t *testing.T, url string) *store.DB {
	t.Helper()
	s, err := store.Connected(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.ClosePools() })
	return s
}

// schema reads the statements that make the tables of a store, out of its catalog.
func schema(t *testing.T, s *store.DB) string {
	t.Helper()
	query := `SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type = 'trigger', type = 'index', name`
	if s.IsPostgres() {
		query = `SELECT text FROM (
			SELECT 1 AS step, p.proname::text AS name, pg_get_functiondef(p.oid) AS text
			FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace
			UNION ALL SELECT 2, c.relname::text, format('CREATE TABLE %s (%s)', c.relname, (
				SELECT string_agg(format('%s %s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
					CASE WHEN a.attcollation = '"C"'::regcollation THEN ' COLLATE "C"' ELSE '' END,
					CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END), ', ' ORDER BY a.attnum)
				FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped))
			FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
			UNION ALL SELECT 3, o.conname::text, format('ALTER TABLE %s ADD CONSTRAINT %s %s', c.relname, o.conname, pg_get_constraintdef(o.oid))
			FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid
			WHERE o.connamespace = current_schema()::regnamespace AND o.contype <> 't' AND o.contype <> 'n'
			UNION ALL SELECT 4, c.relname::text, pg_get_indexdef(i.indexrelid)
			FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
			WHERE c.relnamespace = current_schema()::regnamespace AND NOT EXISTS (SELECT 1 FROM pg_constraint o WHERE o.conindid = c.oid)
			UNION ALL SELECT 5, g.tgname::text, pg_get_triggerdef(g.oid)
			FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
			WHERE c.relnamespace = current_schema()::regnamespace AND NOT g.tgisinternal
		) AS statements ORDER BY step, name COLLATE "C"`
	}
	var b strings.Builder
	for _, statement := range storetest.Texts(t, s, query) {
		if s.IsPostgres() { // the schema's name is the test's own
			statement = strings.ReplaceAll(statement, storetest.Texts(t, s, `SELECT current_schema()`)[0]+".", "")
		}
		b.WriteString(statement + ";\n\n")
	}
	return b.String()
}

// dump is a store at a version, as statements: tables, then rows.
func dump(t *testing.T, s *store.DB, version int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(schema(t, s))
	for _, row := range storetest.Texts(t, s, `SELECT '(' || version || ', ''' || name || ''', ''' || digest || ''', 0)' FROM weir_schema ORDER BY version`) {
		b.WriteString("INSERT INTO weir_schema VALUES " + row + ";\n")
	}
	for _, row := range samples {
		if row.version <= version && (row.until == 0 || version <= row.until) {
			b.WriteString(sample(s.Dialect(), row.statement) + ";\n")
		}
	}
	return b.String()
}

func dumpPath(d *store.Dialect, version int) string {
	return filepath.Join("testdata", d.Folder(), fmt.Sprintf("version%04d.sql", version))
}

// Each version's migrations give the tables of its dump; a dump is never rewritten.
func TestMigrationsMakeTheDumpedTables(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := unmigrated(t, url)
		steps, err := store.Migrations(s.Dialect().Folder())
		if err != nil {
			t.Fatal(err)
		}
		for n := range steps {
			if err := s.Migrate(t.Context(), steps[:n+1]); err != nil {
				t.Fatal(err)
			}
			got, path := dump(t, s, n+1), dumpPath(s.Dialect(), n+1)
			want, err := os.ReadFile(path)
			if errors.Is(err, os.ErrNotExist) && *rewrite {
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err != nil || got != string(want) {
				t.Errorf("version %d differs from %s (%v); a migration that was released is never edited:\n%s", n+1, path, err, got)
			}
		}
	})
}

// A store that an earlier weir has left opens, has the newest tables and its old rows.
func TestMigrateFromEveryVersion(t *testing.T) {
	reference.Slow(t)
	for _, d := range []*store.Dialect{store.SqliteDialect, store.PostgresDialect} {
		steps, err := store.Migrations(d.Folder())
		if err != nil {
			t.Fatal(err)
		}
		for version := 1; version <= len(steps); version++ {
			t.Run(fmt.Sprintf("%s from %d", d.Folder(), version), func(t *testing.T) {
				text, err := os.ReadFile(dumpPath(d, version))
				if err != nil {
					t.Fatal(err)
				}
				url := "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
				if d == store.PostgresDialect {
					url = storetest.Postgres(t)
				}
				old := unmigrated(t, url)
				storetest.Exec(t, old, string(text))
				if err := old.ClosePools(); err != nil {
					t.Fatal(err)
				}
				s := openStore(t, url, opts{})
				want, err := os.ReadFile(dumpPath(d, len(steps)))
				if err != nil {
					t.Fatal(err)
				}
				if got := dump(t, s.DB, len(steps)); got != string(want) {
					t.Errorf("after the migration:\n%s", got)
				}
				checkSamples(t, s, version)
			})
		}
	}
}

// checkSamples reads the rows of a dump through the store's own methods.
func checkSamples(t *testing.T, s *Store, version int) {
	t.Helper()
	ctx := t.Context()
	if k, err := s.Find(ctx, "0123456789"); err != nil || k.Tenant != "acme" || k.Label != "app" || k.Hash[31] != 'h' || !k.Expires.IsZero() {
		t.Errorf("the key: %+v, %v", k, err)
	}
	wantRequests := int64(0)
	if version >= 2 {
		wantRequests = 3
	}
	if report := wholeReport(t, s); report.Total.Requests != wantRequests {
		t.Errorf("usage: %+v", report)
	}
	var keys int
	if err := s.Read.QueryRow(`SELECT count(*) FROM weir_replay WHERE answer IS NOT NULL`).Scan(&keys); err != nil || (keys == 1) != (version >= 3) {
		t.Errorf("%d idempotency keys, %v", keys, err)
	}
	head, err := s.Log.Verify(ctx)
	if want := firstEntry(); err != nil || version >= 4 && head != want.Head() {
		t.Errorf("audit log: %v, %v", head, err)
	}
	if kept, err := s.Rollouts(ctx); err != nil || (len(kept) == 1) != (version >= 6) {
		t.Errorf("rollouts: %q, %v", kept, err)
	}
	if b, err := s.FindBatch(ctx, "acme", "batch_1"); (err == nil && b.Endpoint == "/v1/embeddings") != (version >= 7) {
		t.Errorf("batches: %+v, %v", b, err)
	}
	if kept := transcripts(t, s, "acme"); (len(kept) == 1) != (version >= 5) {
		t.Errorf("transcripts: %v", kept)
	}
	s.Record(usage.Record{Ended: ledgerDay})
	begin(t, s, request("new", 1), replay.Begun)
	if _, err := s.Append(ctx, audit.Change{Actor: "a", Action: "b"}); err != nil {
		t.Error(err)
	}
}

func TestOtherStoresAreRefused(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, err := open(t.Context(), url, opts{})
		if err != nil {
			t.Fatal(err)
		}
		storetest.Exec(t, s.DB, `INSERT INTO weir_schema VALUES (1000, '1000_future.sql', 'digest', 0)`)
		if _, err := open(t.Context(), url, opts{}); !errors.Is(err, store.ErrNewer) || !strings.Contains(err.Error(), "1000_future") {
			t.Errorf("a newer store: %v", err)
		}
		storetest.Exec(t, s.DB, `DELETE FROM weir_schema WHERE version = 1000`)
		storetest.Exec(t, s.DB, `UPDATE weir_schema SET digest = 'edited' WHERE version = 1`)
		if _, err := open(t.Context(), url, opts{}); err == nil || !strings.Contains(err.Error(), "0001_keys.sql") {
			t.Errorf("an edited migration: %v", err)
		}
		storetest.Close(t, s.DB)
	})
}

// A step that fails leaves nothing behind, and the next start tries it again.
func TestFailedMigrationLeavesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := unmigrated(t, url)
		steps, err := store.Migrations(s.Dialect().Folder())
		if err != nil {
			t.Fatal(err)
		}
		broken := append(slices.Clone(steps[:1]), store.NewMigration(2, "0002_broken.sql", "CREATE TABLE weir_half (a TEXT); CREATE TABLE weir_half (a TEXT);"))
		if err := s.Migrate(context.Background(), broken); err == nil || !strings.Contains(err.Error(), "0002_broken.sql") {
			t.Fatalf("a broken step: %v", err)
		}
		if strings.Contains(schema(t, s), "weir_half") {
			t.Error("half of a step stayed")
		}
		if err := s.Migrate(t.Context(), steps); err != nil {
			t.Error(err)
		}
	})
}
