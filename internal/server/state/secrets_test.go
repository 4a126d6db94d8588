package state_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/state"
)

// TestThePepperOfAStoreThatIsThere: beside a store that has lost its pepper none is made, which would only seem to be it.
func TestThePepperOfAStoreThatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db")
	c := configs.Store{URL: state.SqliteScheme + path}
	s, err := state.Open(t.Context(), c, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := state.Close(s); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + ".pepper"); err != nil {
		t.Fatal(err)
	}
	if _, err := state.Open(t.Context(), c, state.Options{}); err == nil || !strings.Contains(err.Error(), path+".pepper") || !strings.Contains(err.Error(), "from its copy") {
		t.Errorf("a store without its pepper: %v", err)
	}
	if _, err := os.Stat(path + ".pepper"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another pepper was made: %v", err)
	}
}
