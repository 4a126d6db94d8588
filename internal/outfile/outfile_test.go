package outfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantContent(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	must(t, err)
	if string(got) != want {
		t.Errorf("%s holds %q, want %q", filepath.Base(path), got, want)
	}
}

func wantAlone(t *testing.T, folder string, want int) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	must(t, err)
	if len(entries) != want {
		t.Errorf("the folder has %v, want %d files", entries, want)
	}
}

func TestModeAndOwnerStay(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o755, 0o666} {
		path := filepath.Join(t.TempDir(), "out.csv")
		must(t, os.WriteFile(path, []byte("old"), 0o600))
		must(t, os.Chmod(path, mode))
		if os.Geteuid() == 0 {
			must(t, os.Chown(path, 12345, 54321))
		}
		must(t, Write(path, Public, text("new")))
		wantContent(t, path, "new")
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode() != mode {
			t.Errorf("a file of mode %v has %v afterwards", mode, info.Mode())
		}
		if owner := info.Sys().(*syscall.Stat_t); os.Geteuid() == 0 && (owner.Uid != 12345 || owner.Gid != 54321) {
			t.Errorf("it belongs to %d:%d afterwards", owner.Uid, owner.Gid)
		}
		wantAlone(t, filepath.Dir(path), 1)
	}
}

// A new file has the mode that any program's would have: it is the umask's to say who reads it.
func TestNewFilesFollowTheUmask(t *testing.T) {
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "theirs"), nil, Public))
	must(t, Write(filepath.Join(folder, "ours"), Public, text("x")))
	must(t, WriteBytes(filepath.Join(folder, "private"), Private, []byte("x")))
	theirs, _ := os.Stat(filepath.Join(folder, "theirs"))
	ours, _ := os.Stat(filepath.Join(folder, "ours"))
	private, _ := os.Stat(filepath.Join(folder, "private"))
	if ours.Mode() != theirs.Mode() || private.Mode().Perm() != 0o600 {
		t.Errorf("modes %v, private %v; want %v, 0600", ours.Mode(), private.Mode(), theirs.Mode())
	}
}

func TestLinksAreWrittenThrough(t *testing.T) {
	top := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(top, "data", "deep"), 0o755))
	must(t, os.MkdirAll(filepath.Join(top, "links"), 0o755))
	must(t, os.Symlink(filepath.Join(top, "data", "deep"), filepath.Join(top, "links", "folder")))
	// Through a folder that is a link, .. is that of what it points at.
	must(t, os.Symlink("../there", filepath.Join(top, "data", "deep", "second")))
	must(t, os.Symlink("folder/second", filepath.Join(top, "links", "first")))
	for _, content := range []string{"of a target that is not there yet", "of one that is"} {
		must(t, Write(filepath.Join(top, "links", "first"), Public, text(content)))
		wantContent(t, filepath.Join(top, "data", "there"), content)
	}
	for _, link := range []string{"links/first", "data/deep/second", "links/folder"} {
		if info, err := os.Lstat(filepath.Join(top, link)); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s is no link any more: %v %v", link, info, err)
		}
	}
	wantAlone(t, filepath.Join(top, "links"), 2)
	must(t, os.Symlink("circle", filepath.Join(top, "circle")))
	if err := Write(filepath.Join(top, "circle"), Public, text("x")); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a circle of links: %v", err)
	}
}

func TestAFileWithTwoNamesKeepsBoth(t *testing.T) {
	folder := t.TempDir()
	one, two := filepath.Join(folder, "one"), filepath.Join(folder, "two")
	must(t, os.WriteFile(one, []byte("a long old content"), 0o600))
	must(t, os.Link(one, two))
	must(t, Write(one, Public, text("new")))
	wantContent(t, two, "new")
	wantAlone(t, folder, 2)
}

func TestWhatFailsChangesNothing(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "out")
	must(t, os.WriteFile(path, []byte("old"), 0o600))
	stop := errors.New("stop")
	if err := Write(path, Public, func(w io.Writer) error { _ = text("half")(w); return stop }); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	wantContent(t, path, "old")
	if err := Write(folder, Public, text("x")); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a folder: %v", err)
	}
	wantAlone(t, folder, 1)
}

func TestPipesAndDevicesAreWrittenTo(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	got := make(chan string, 1)
	go func() {
		data, _ := os.ReadFile(pipe)
		got <- string(data)
	}()
	must(t, Write(pipe, Public, text("through the pipe")))
	if read := <-got; read != "through the pipe" {
		t.Errorf("the reader of the pipe got %q", read)
	}
	must(t, Write(os.DevNull, Public, text("x")))
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode()&fs.ModeDevice == 0 {
		t.Errorf("%s is %v, %v", os.DevNull, info, err)
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		if err := Write("/dev/full", Public, text("x")); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("/dev/full: %v", err)
		}
	}
}
