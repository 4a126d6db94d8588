//go:build unix

package registry

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// A named pipe in a blob's place is corrupt, and nothing waits for its writer.
func TestBlobsAreRegularFiles(t *testing.T) {
	r := open(t, t.TempDir())
	v := imported(t, r, "chat", "weights of a model")
	for _, d := range v.digests() {
		blob := r.blobPath(d)
		whole := blob + ".whole"
		if err := errors.Join(os.Rename(blob, whole), syscall.Mkfifo(blob, 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := r.Verify(t.Context(), v, nil); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("%s: %v", d, err)
		}
		if err := os.Rename(whole, blob); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Remove(r.path("index.json")), syscall.Mkfifo(r.path("index.json"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.List(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("index.json: %v", err)
	}
}

// An entry whose digest is none is an error that names it; it is not passed over, as if there were no models.
func TestIndexWithABadDigest(t *testing.T) {
	r := open(t, t.TempDir())
	imported(t, r, "chat", "weights of a model")
	index, err := os.ReadFile(r.path("index.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"sha256:../../../etc/passwd", "sha256:12", "", "md5:0123"} {
		i := strings.Index(string(index), `"sha256:`)
		text := string(index[:i]) + `"` + bad + string(index[i+len(`"sha256:`)+64:])
		if err := os.WriteFile(r.path("index.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := r.List(); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "manifests[0]") {
			t.Errorf("digest %q: %v", bad, err)
		}
	}
}
