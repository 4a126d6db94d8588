package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// ErrChecksum says that what was downloaded is not what its name promises.
var ErrChecksum = errors.New("wrong checksum")

// Downloader transfers files.
type Downloader struct {
	// Do sends a request; it follows redirects.
	Do func(*http.Request) (*http.Response, error)
	// Parallel is how many ranges of a file are transferred at once; 0 is 4.
	Parallel int
	// ChunkBytes is the size of a range; 0 is 32 MiB.
	ChunkBytes int64
	// Pause is how long the first retry waits; each further one waits twice as long, unless the server says how long. 0 is a second.
	Pause time.Duration
}

const (
	defaultParallel = 4
	defaultChunk    = 32 << 20
	saveEvery       = 2 * time.Second
	copyBytes       = 256 << 10
)

// stateSuffix is that of the file beside a partial download that says what of it is there.
const stateSuffix = ".state"

// state is what a download has, beside the bytes.
type state struct {
	URL    string  `json:"url"`
	ETag   string  `json:"etag"`
	SHA256 string  `json:"sha256"`
	Size   int64   `json:"size"`
	Chunk  int64   `json:"chunk"`
	Have   []int64 `json:"have"` // bytes of each chunk, from its beginning
}

// Get downloads a file to a path, going on with what an earlier call has left there, and gives its SHA-256. Cuts, 429
// and 5xx are tried again as long as bytes arrive between them. The bytes are on disk when it returns; progress is told
// how many of how many there are, 0 of an unknown number.
func (d *Downloader) Get(ctx context.Context, f File, path string, progress func(done, total int64)) (string, error) {
	for again := 0; ; again++ {
		err := d.transfer(ctx, f, path, progress)
		if errors.Is(err, errChanged) && again < 2 {
			if err := discard(path); err != nil {
				return "", err
			}
			continue
		}
		if err != nil {
			return "", fmt.Errorf("download %s: %w", f.Name, err)
		}
		break
	}
	sum, err := sumOf(ctx, path)
	if err != nil {
		return "", err
	}
	if f.SHA256 != "" && sum != f.SHA256 {
		return "", errors.Join(fmt.Errorf("download %s: %w: its bytes have the SHA-256 %s, and %s is promised; what was transferred is discarded", f.Name, ErrChecksum, sum, f.SHA256), discard(path))
	}
	if err := os.Remove(path + stateSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return sum, nil
}

// discard removes a partial download.
func discard(path string) error {
	for _, name := range []string{path + stateSuffix, path} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func sumOf(ctx context.Context, path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // the caller's own path
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	buf := make([]byte, copyBytes)
	for {
		n, err := file.Read(buf)
		h.Write(buf[:n])
		switch {
		case errors.Is(err, io.EOF):
			return hex.EncodeToString(h.Sum(nil)), nil
		case err != nil:
			return "", err
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		}
	}
}

func (d *Downloader) transfer(ctx context.Context, f File, path string, progress func(done, total int64)) error {
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644) //nolint:gosec // the caller's own path
	if err != nil {
		return err
	}
	t := &transfer{Downloader: d, file: f, out: out, progress: progress, saved: time.Now()}
	err = t.run(ctx)
	return errors.Join(err, t.save(), out.Close())
}
