package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func temporary(t *testing.T, folder string) *os.File {
	t.Helper()
	f, err := CreateTemp(folder, "new-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// An exclusive lock keeps others out until its file is closed; shared ones stand beside one another.
func TestLocks(t *testing.T) {
	f := temporary(t, t.TempDir())
	open := func() *os.File {
		t.Helper()
		other, err := os.OpenFile(f.Name(), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = other.Close() })
		return other
	}
	want := func(f *os.File, exclusive, want bool) {
		t.Helper()
		if got, err := TryLock(f, exclusive); got != want || err != nil {
			t.Fatalf("exclusively %v: %v, %v, want %v", exclusive, got, err, want)
		}
	}
	second, third := open(), open()
	want(f, true, true)
	want(second, false, false)
	want(second, true, false)
	if _, err := second.WriteString("what is locked can be written"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	want(second, false, true)
	want(third, false, true)
	want(open(), true, false)
}

// A temporary file has a name of its own, and may be renamed and removed while it is open.
func TestCreateTemp(t *testing.T) {
	folder := t.TempDir()
	f, other := temporary(t, folder), temporary(t, folder)
	if f.Name() == other.Name() || filepath.Dir(f.Name()) != folder || !strings.HasPrefix(filepath.Base(f.Name()), "new-") {
		t.Fatal(f.Name(), other.Name())
	}
	to := filepath.Join(folder, "named")
	if err := os.Rename(f.Name(), to); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(other.Name()); err != nil {
		t.Fatal(err)
	}
	if err := SyncFolder(folder); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("still open"); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateTemp(filepath.Join(folder, "none"), "new-"); err == nil {
		t.Error("a file in no folder")
	}
}
