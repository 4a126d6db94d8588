package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/store/storetest"

	"weir/bench"
)

// drilled runs weir drill to its end, as a person does. The regions share a pepper.
func drilled(t *testing.T, args ...string) (r bench.DrillResult) {
	t.Helper()
	weir := filepath.Join(t.TempDir(), "weir") // under this name the test binary runs main
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, weir); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	args = append([]string{"drill", "-o", "json", "--requests", "30", "--replicas", "1", "--output-len", "4", "--check-interval", "20ms", "--checks", "2", "--log", log,
		"--replica-flag=--threads=1", "--replica-flag=--kv-cache-memory-bytes=16MiB"}, args...)
	cmd := exec.CommandContext(t.Context(), weir, args...)
	cmd.Env = append(os.Environ(), "WEIR_KEY_PEPPER="+strings.Repeat("pepper of a test", 3))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(log)
		t.Fatalf("%v: %s\n%.4000s", err, errs.String(), said)
	}
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	return r
}

// A drill loses a region and measures: with backups what was written after the last one is lost, on one PostgreSQL nothing is but usage
// that the dead router had in memory.
func TestADrillOfTwoRegions(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a dozen processes")
	}
	t.Parallel() // most of it is waiting
	stores := map[string][]string{"backups": {"--backup-interval", "50ms"}}
	if os.Getenv("WEIR_TEST_POSTGRES") != "" {
		stores["postgres"] = []string{"--store", storetest.Postgres(t)}
	}
	for name, flags := range stores {
		t.Run(name, func(t *testing.T) {
			r := drilled(t, flags...)
			if r.RTO <= 0 || r.RTO < r.Detected+r.Restored || r.Attempts == 0 || r.Failed == 0 || (name == "backups") != (r.Backups > 0) {
				t.Errorf("%+v", r)
			}
			rows := map[string]bench.DrillRow{}
			for _, row := range r.Rows {
				rows[row.What] = row
				if row.Acknowledged == 0 || row.Lost > row.Acknowledged || row.Seconds > r.RPO {
					t.Errorf("%+v of an RPO of %v", row, r.RPO)
				}
				if name == "postgres" && row.Lost > 0 && !strings.HasPrefix(row.What, "usage") {
					t.Errorf("lost on one database: %+v", row)
				}
			}
			if len(rows) != 7 || rows["responses"].Acknowledged < 30 || rows["responses"].Acknowledged != rows["idempotency keys"].Acknowledged {
				t.Errorf("%+v", rows)
			}
			t.Logf("%+v", r)
		})
	}
}

// A store that restarts loses nothing but usage in memory; here it is asked to, and does not.
func TestADrillOfTheStore(t *testing.T) {
	if testing.Short() {
		t.Skip("starts several processes")
	}
	t.Parallel()
	r := drilled(t, "--fault", "store", "--store", storetest.Postgres(t), "--store-restart", "echo restarted")
	for _, row := range r.Rows {
		if row.Lost > 0 && !strings.HasPrefix(row.What, "usage") {
			t.Errorf("%+v", row)
		}
	}
	if r.Attempts == 0 || r.Restarted <= 0 {
		t.Errorf("%+v", r)
	}
}

func TestDrillsAreRefusedByName(t *testing.T) {
	for args, want := range map[string]string{
		"--fault earthquake": "it takes region, router, replica, store", "--fault store": "--store-restart with the command", "--store sqlite:x.db": "can share PostgreSQL alone", "--clients 0": "--clients 0: it takes 1 to 1024",
		"--fault replica --replicas 1": "two replicas or more", "--backup-interval 0": "a millisecond or more", "-o csv": "it takes md or json",
	} {
		var out, errs strings.Builder
		if code := execute(append([]string{"drill"}, strings.Fields(args)...), &out, &errs); code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: %d %s", args, code, errs.String())
		}
	}
}
