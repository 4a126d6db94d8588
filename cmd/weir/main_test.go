package main

import (
	"bytes"
	stdflag "flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/local"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "weir" { // a script's own variables stay
		_ = os.Unsetenv("STATE_DIRECTORY")                // the tester's own keys must not reach the tests
		_ = os.Setenv("XDG_STATE_HOME", "/dev/null/none") // where not even root makes a folder
	}
	local.CostsFolder = func() string { return "" } // nothing of the tester's is read, and processes keep nothing
	coldBytes, microRound = 1<<20, time.Millisecond
	_ = stdflag.Set("test.parallel", "4") // tests that run in parallel mostly wait, for leases; -parallel on the command line comes later
	testscript.Main(withCosts{m}, map[string]func(){"weir": main})
}

// rewrite has tests write what they would compare.
var rewrite = stdflag.Bool("rewrite", false, "write generated pages again")

// withCosts runs tests with a folder of what models' caches cost, which is measured at the first load of each.
type withCosts struct{ tests *testing.M }

func (w withCosts) Run() int {
	folder, err := os.MkdirTemp("", "weir-test-costs-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	local.CostsFolder = func() string { return folder }
	return w.tests.Run()
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Condition: func(name string) (bool, error) { // beside testscript's own: [quick] skip
			if name != "quick" {
				return false, fmt.Errorf("%q is no condition of these scripts, which know quick", name)
			}
			return reference.Quick(), nil
		},
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, "WEIR_CONFIG=", "STATE_DIRECTORY=", "XDG_STATE_HOME="+filepath.Join(e.WorkDir, "state")) // the tester's own must not reach the tests
			return nil
		},
	})
}

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"version"}, exitOK},
		{[]string{"no-such-verb"}, exitUsage},
		{[]string{"serve", "--no-such-flag"}, exitUsage},
		{[]string{"serve", "--host", "0.0.0.0"}, exitUsage},
		{[]string{"inspect", "no-such-file.gguf"}, exitFailure},
	} {
		var out, errs strings.Builder
		if got := execute(c.args, &out, &errs); got != c.want {
			t.Errorf("%v: exit status %d, want %d\n%s", c.args, got, c.want, errs.String())
		}
	}
}

// The page's table may leave settings out, but what it names must exist with
// the default it claims.
func TestPageOfSettingsNamesRealFlags(t *testing.T) {
	data, err := os.ReadFile("../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	defaults := make(map[string]string)
	for setting := range configs.New().All() {
		defaults[setting.Flag] = setting.Value()
	}
	rows := 0
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`--") {
			continue
		}
		for i, name := range strings.Split(cells[1], ",") {
			name = strings.TrimPrefix(strings.Trim(name, " `"), "--")
			if name == "config" {
				continue
			}
			value, known := defaults[name]
			if !known {
				t.Errorf("docs/settings.md names --%s, which does not exist", name)
				continue
			}
			rows++
			claimed := strings.TrimSpace(strings.Split(cells[2], ",")[min(i, strings.Count(cells[2], ","))])
			if value != "" && value != "0" && claimed != value {
				t.Errorf("docs/settings.md claims %q as the default of --%s, which is %q", claimed, name, value)
			}
		}
	}
	if rows < 10 {
		t.Errorf("found %d flags in docs/settings.md; the test no longer reads it", rows)
	}
}

// A first-day user reads in the help which values a setting takes.
func TestHelpListsChoicesAndUnits(t *testing.T) {
	var out, errs bytes.Buffer
	if status := execute([]string{"serve", "--help"}, &out, &errs); status != exitOK {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	for _, want := range []string{
		"(auto, avx512, avx2, portable) (default auto)", "(comment, chunk, off) (default comment)",
		"--kv-cache-memory-bytes bytes ", "--shutdown-timeout duration ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %q", want)
		}
	}
}

// No setting is without its flag: each section of the configuration is one of serve's.
func TestServeHasAFlagForEverySetting(t *testing.T) {
	serve := newServe()
	for setting := range configs.New().All() {
		if serve.Flags().Lookup(setting.Flag) == nil {
			t.Errorf("serve has no flag --%s, of %s", setting.Flag, setting.Key)
		}
	}
}
