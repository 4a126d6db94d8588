//go:build unix

package gguf

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Only regular files are opened: to open a pipe waits for its writer.
func TestOpenRefusesWhatIsNotARegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.gguf")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "named pipe", dir: "folder", "/dev/null": "device"} {
		failed := make(chan error, 1)
		go func() {
			_, err := Open(path)
			failed <- err
		}()
		select {
		case err := <-failed:
			if !errors.Is(err, ErrNotRegular) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v, want %s and %q", err, path, want)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: Open waits", path)
		}
	}
}
