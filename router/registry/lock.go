package registry

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/opencontainers/go-digest"

	"weir/internal/disk"
)

// lockEvery is how often a lock that somebody else has is tried again.
const lockEvery = 10 * time.Millisecond

// lockPath waits for the lock on a file, which is made if there is none. Closing the file releases the lock.
func lockPath(ctx context.Context, path string, exclusive bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		locked, err := disk.TryLock(f, exclusive)
		if err == nil && locked {
			return f, nil
		}
		if err == nil {
			err = pause(ctx, lockEvery)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// blobs are files by their content, with what is known of them and which processes use them.
type blobs struct{ *layout }

// lease keeps blobs from being collected as long as this process lives and has not closed it.
type lease struct {
	layout *layout
	file   *os.File
}

func (b *blobs) newLease(ctx context.Context, digests ...digest.Digest) (*lease, error) {
	unlock, err := b.lock(ctx, false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	f, err := disk.CreateTemp(b.path(leasesFolder), "lease-")
	if err != nil {
		return nil, fmt.Errorf("announce which models are used: %w", err)
	}
	l := &lease{b.layout, f}
	locked, err := disk.TryLock(f, true)
	if err == nil && !locked {
		err = errors.New("somebody else has locked a new file")
	}
	if err == nil {
		err = l.write(digests)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// add announces more blobs. Once it returns, none that exists now will be collected.
func (l *lease) add(ctx context.Context, digests ...digest.Digest) error {
	unlock, err := l.layout.lock(ctx, false)
	if err != nil {
		return err
	}
	defer unlock()
	return l.write(digests)
}

func (l *lease) write(digests []digest.Digest) error {
	for _, d := range digests {
		if _, err := fmt.Fprintln(l.file, d); err != nil {
			return fmt.Errorf("announce which models are used: %w", err)
		}
	}
	return nil
}

// Close ends the lease.
func (l *lease) Close() error { return errors.Join(os.Remove(l.file.Name()), l.file.Close()) }

// leased are the blobs that living processes use. The caller has the registry's lock exclusively, so no lease begins or
// grows meanwhile; leases of dead processes are removed.
func (b *blobs) leased() (map[digest.Digest]bool, error) {
	used := make(map[digest.Digest]bool)
	entries, err := os.ReadDir(b.path(leasesFolder))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := readLease(b.path(leasesFolder, e.Name()), used); err != nil {
			return nil, err
		}
	}
	return used, nil
}

func readLease(path string, used map[digest.Digest]bool) error {
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has just ended
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if dead, err := disk.TryLock(f, false); err != nil || dead {
		if err == nil {
			_ = f.Close() // Windows removes no file that this function has open
			err = os.Remove(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		used[digest.Digest(lines.Text())] = true
	}
	return lines.Err()
}

// verifiedMark is the state of a file in which its digest was found right.
type verifiedMark struct {
	Size    int64  `json:"size"`
	ModTime int64  `json:"mtime_ns"`
	Inode   uint64 `json:"inode"`
}

func markOf(info os.FileInfo) verifiedMark {
	return verifiedMark{info.Size(), info.ModTime().UnixNano(), disk.Inode(info)}
}

// remember notes that a blob's digest was found right. A note that is lost costs another check, so it is not synced.
func (b *blobs) remember(d digest.Digest, info os.FileInfo) {
	data, err := json.Marshal(markOf(info))
	if err != nil {
		return
	}
	f, err := disk.CreateTemp(b.path(verifiedFolder), newPrefix)
	if err != nil {
		return // a folder that is read only
	}
	_, err = f.Write(data)
	if errors.Join(err, f.Close()) != nil || os.Rename(f.Name(), b.path(verifiedFolder, d.Encoded())) != nil {
		_ = os.Remove(f.Name())
	}
}

// remembered reports whether a blob's digest was found right in the state in which the blob is.
func (b *blobs) remembered(d digest.Digest, info os.FileInfo) bool {
	data, err := readSmall(b.path(verifiedFolder, d.Encoded()), 4<<10)
	var mark verifiedMark
	return err == nil && json.Unmarshal(data, &mark) == nil && mark == markOf(info)
}

// Progress is told how many bytes of how many are done; total is 0 where it is not known.
type Progress func(done, total int64)

// checkBlob reads a blob and compares its digest, unless it was found right and has not changed since; force reads in
// any case. done is told the bytes that are read.
func (b *blobs) checkBlob(ctx context.Context, d digest.Digest, size int64, force bool, done func(int64)) error {
	f, err := openRegular(b.blobPath(d))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing", ErrCorrupt, d)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != size {
		return fmt.Errorf("%w: %s has %d bytes, and its manifest says %d", ErrCorrupt, d, info.Size(), size)
	}
	if !force && b.remembered(d, info) {
		done(size)
		return nil
	}
	verifier := digest.SHA256.Digester()
	if err := copyCounted(ctx, verifier.Hash(), f, done); err != nil {
		return fmt.Errorf("check %s: %w", d, err)
	}
	if got := verifier.Digest(); got != d {
		_ = os.Remove(b.path(verifiedFolder, d.Encoded()))
		return fmt.Errorf("%w: the bytes of %s have the digest %s", ErrCorrupt, d, got)
	}
	b.remember(d, info)
	return nil
}

// copyBytes is how much is copied between two looks at the context.
const copyBytes = 1 << 20

// copyCounted copies until the end, an error, or the end of the context, and tells how many bytes more are copied.
func copyCounted(ctx context.Context, dst io.Writer, src io.Reader, done func(int64)) error {
	buf := make([]byte, copyBytes)
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
			done(int64(n))
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
