package reference

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWhatIsRequired(t *testing.T) {
	for _, tc := range []struct {
		ci, excused, name string
		want              bool
	}{
		{"", "", Data, false},
		{"true", "", Data, true},
		{"true", "avx512", Data, true},
		{"true", "avx512," + Data, Data, false},
		{"true", "avx", "avx512", true},
		{"1", "", Data, false},
		{"true", "redis", string(Postgres), true},
		{"true", "redis,postgres", string(Postgres), false},
	} {
		if got := required(tc.ci, tc.excused, tc.name); got != tc.want {
			t.Errorf("CI=%s, excused %q: %s is required: %v, want %v", tc.ci, tc.excused, tc.name, got, tc.want)
		}
	}
}

func TestModuleRoot(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "internal", "reference", "reference.go")); err != nil {
		t.Error(err)
	}
}

func TestServiceIsWhereTheVariableSays(t *testing.T) {
	for service, variable := range map[Service]string{
		Postgres: "WEIR_TEST_POSTGRES", Redis: "WEIR_TEST_REDIS", Promtool: "WEIR_TEST_PROMTOOL", Registry: "WEIR_TEST_REGISTRY",
	} {
		t.Setenv(variable, "here")
		if got := service.Get(t); got != "here" {
			t.Errorf("%s is at %q", service, got)
		}
	}
}

func TestModelIsWhereTheVariablesSay(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "weir", "test-models", "tiny.gguf")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEIR_TEST_MODELS", filepath.Dir(file))
	if got := Model(t, "tiny"); got != file {
		t.Errorf("%s, want %s", got, file)
	}
	t.Setenv("WEIR_TEST_MODELS", "")
	t.Setenv("XDG_CACHE_HOME", dir)
	if got := Model(t, "tiny"); got != file {
		t.Errorf("%s, want %s", got, file)
	}
}

// -short leaves slow tests out; the race detector's run, which is short, too, does not.
func TestSlow(t *testing.T) {
	ran := false
	t.Run("slow", func(t *testing.T) {
		Slow(t)
		ran = true
	})
	if ran != (raced || !testing.Short()) {
		t.Errorf("short %v, raced %v: it ran: %v", testing.Short(), raced, ran)
	}
}
