package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// transfer is one download under way.
type transfer struct {
	*Downloader
	file     File
	out      *os.File
	progress func(done, total int64)

	mu    sync.Mutex // guards what follows
	state state
	done  int64
	saved time.Time
	next  int // chunk that is not taken yet
}

func (t *transfer) run(ctx context.Context) error {
	first, err := t.probe(ctx)
	if err != nil {
		return err
	}
	if first != nil { // a server without ranges: its whole answer is the file
		return t.sequential(ctx, first)
	}
	t.restore()
	if err := t.out.Truncate(t.state.Size); err != nil {
		return err
	}
	if err := t.tell(0); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range min(cmp.Or(t.Parallel, defaultParallel), max(len(t.state.Have), 1)) {
		wg.Go(func() {
			if err := t.work(ctx); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return t.out.Sync()
}

// probe asks for the first byte: whether there are ranges, and which file it is. A body comes back where there are none.
func (t *transfer) probe(ctx context.Context) (*http.Response, error) {
	retry := retries{pause: t.Pause}
	for {
		resp, err := t.send(ctx, 0, 0, "")
		if err == nil && resp.StatusCode == http.StatusPartialContent {
			r, parseErr := ParseContentRange(resp.Header.Get("Content-Range"))
			resp.Body.Close()
			if err = parseErr; err == nil {
				err = t.identify(resp, r.Size)
			}
			return nil, err
		}
		if err == nil && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && t.file.Size == 0 {
			resp.Body.Close()
			return nil, t.identify(resp, 0) // an empty file has no first byte
		}
		if err == nil && resp.StatusCode == http.StatusOK {
			if t.file.Size > 0 && resp.ContentLength >= 0 && resp.ContentLength != t.file.Size {
				resp.Body.Close()
				return nil, fmt.Errorf("%w: it has %d bytes, and %d are promised", ErrChecksum, resp.ContentLength, t.file.Size)
			}
			return resp, nil
		}
		if err == nil {
			err = newStatusError(resp)
			resp.Body.Close()
		}
		if !retry.again(ctx, err) {
			return nil, err
		}
	}
}

func (t *transfer) identify(resp *http.Response, size int64) error {
	if t.file.Size > 0 && size != t.file.Size {
		return fmt.Errorf("%w: it has %d bytes, and %d are promised", ErrChecksum, size, t.file.Size)
	}
	chunk := cmp.Or(t.ChunkBytes, defaultChunk)
	t.state = state{URL: t.file.URL, ETag: strongETag(resp.Header), SHA256: t.file.SHA256, Size: size, Chunk: chunk, Have: make([]int64, (size+chunk-1)/chunk)}
	return nil
}

// strongETag is a name of the file's bytes. A weak one is none.
func strongETag(h http.Header) string {
	if tag := h.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	return ""
}

// restore takes up what an earlier call has left, if that is of the same bytes: those of the same checksum, or of the
// same address and entity tag.
func (t *transfer) restore() {
	data, err := os.ReadFile(t.out.Name() + stateSuffix)
	var old state
	if err != nil || json.Unmarshal(data, &old) != nil {
		return
	}
	same := old.SHA256 != "" && old.SHA256 == t.state.SHA256 ||
		old.SHA256 == "" && t.state.SHA256 == "" && old.URL == t.state.URL && old.ETag != "" && old.ETag == t.state.ETag
	if !same || old.Size != t.state.Size || old.Chunk <= 0 || int64(len(old.Have)) != (old.Size+old.Chunk-1)/old.Chunk {
		return
	}
	for i, have := range old.Have {
		if have < 0 || have > min(old.Chunk, old.Size-int64(i)*old.Chunk) {
			return
		}
	}
	t.state.Chunk, t.state.Have = old.Chunk, old.Have
	for _, have := range old.Have {
		t.done += have
	}
}

// work transfers chunks until there are none, or one fails.
func (t *transfer) work(ctx context.Context) error {
	for {
		t.mu.Lock()
		i := t.next
		t.next++
		t.mu.Unlock()
		if i >= len(t.state.Have) {
			return nil
		}
		if err := t.chunk(ctx, i); err != nil {
			return err
		}
	}
}

// chunk transfers a range, going on where it was cut.
func (t *transfer) chunk(ctx context.Context, i int) error {
	begin := int64(i) * t.state.Chunk
	length := min(t.state.Chunk, t.state.Size-begin)
	retry := retries{pause: t.Pause}
	for {
		t.mu.Lock()
		have := t.state.Have[i]
		t.mu.Unlock()
		if have == length {
			return nil
		}
		err := t.fetch(ctx, i, begin+have, begin+length-1)
		t.mu.Lock()
		if t.state.Have[i] > have {
			retry = retries{pause: t.Pause} // it goes on: only a server that gives nothing is given up
		}
		t.mu.Unlock()
		if err != nil && !retry.again(ctx, err) {
			return err
		}
	}
}

// fetch writes the bytes of a range as they come.
func (t *transfer) fetch(ctx context.Context, i int, from, to int64) error {
	resp, err := t.send(ctx, from, to, t.state.ETag)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusPartialContent:
	case http.StatusOK, http.StatusRequestedRangeNotSatisfiable, http.StatusPreconditionFailed:
		return errChanged
	default:
		return newStatusError(resp)
	}
	r, err := ParseContentRange(resp.Header.Get("Content-Range"))
	if err != nil {
		return err
	}
	if tag := strongETag(resp.Header); r.Size != t.state.Size || tag != "" && t.state.ETag != "" && tag != t.state.ETag {
		return errChanged
	}
	if r.First != from || r.Last > to {
		return fmt.Errorf("the server gives bytes %d to %d, and %d to %d were asked for", r.First, r.Last, from, to)
	}
	at := from
	err = t.copy(ctx, io.LimitReader(resp.Body, r.Last-r.First+1), func(p []byte) error {
		if _, err := t.out.WriteAt(p, at); err != nil {
			return &diskError{err}
		}
		at += int64(len(p))
		t.mu.Lock()
		t.state.Have[i] += int64(len(p))
		t.mu.Unlock()
		return t.tell(int64(len(p)))
	})
	if err == nil && at <= r.Last {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// sequential writes an answer that cannot be gone on with.
func (t *transfer) sequential(ctx context.Context, resp *http.Response) error {
	defer resp.Body.Close()
	if err := t.out.Truncate(0); err != nil {
		return err
	}
	if resp.ContentLength > 0 {
		t.state.Size = resp.ContentLength
	}
	at := int64(0)
	err := t.copy(ctx, resp.Body, func(p []byte) error {
		_, err := t.out.WriteAt(p, at)
		at += int64(len(p))
		if t.state.Size == 0 && t.file.Size > 0 && at > t.file.Size {
			return fmt.Errorf("%w: it has more than the %d bytes that are promised", ErrChecksum, t.file.Size)
		}
		return errors.Join(err, t.tell(int64(len(p))))
	})
	if err == nil && resp.ContentLength >= 0 && at != resp.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("%w; the server has no ranges, so the next try starts over", err)
	}
	return t.out.Sync()
}

// diskError is an error that no server can help with.
type diskError struct{ err error }

func (e *diskError) Error() string { return e.err.Error() }

func (e *diskError) Unwrap() error { return e.err }

// stallTime is how long a server may send nothing before the request is sent again.
const stallTime = 60 * time.Second

// copy hands on what is read.
func (t *transfer) copy(ctx context.Context, body io.Reader, write func([]byte) error) error {
	buf := make([]byte, copyBytes)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if err := write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

// tell counts bytes, shows progress, and now and then saves what there is.
func (t *transfer) tell(n int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done += n
	t.progress(t.done, t.state.Size)
	if time.Since(t.saved) < saveEvery {
		return nil
	}
	return t.saveLocked()
}

func (t *transfer) save() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.saveLocked()
}

// saveLocked notes what of the file is there, after making sure that it is: a note of bytes that a power cut takes back
// would put zeros into the file. A download without ranges has no note.
func (t *transfer) saveLocked() error {
	t.saved = time.Now()
	if len(t.state.Have) == 0 {
		return nil
	}
	s := t.state
	s.Have = slices.Clone(t.state.Have)
	data, err := json.Marshal(s)
	if err == nil {
		err = t.out.Sync()
	}
	if err != nil {
		return err
	}
	name := t.out.Name() + stateSuffix
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// send asks for bytes from first to last.
func (t *transfer) send(ctx context.Context, first, last int64, etag string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.file.URL, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", first, last))
	req.Header.Set("Accept-Encoding", "identity")
	if etag != "" {
		req.Header.Set("If-Range", etag)
	}
	authorize(req, t.file.Token)
	resp, err := t.Do(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &watched{ReadCloser: resp.Body, timer: time.AfterFunc(stallTime, func() { resp.Body.Close() })}
	return resp, nil
}

// watched closes a body that gives nothing for too long, which ends its reader.
type watched struct {
	io.ReadCloser
	timer *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(stallTime)
	return w.ReadCloser.Read(p)
}

func (w *watched) Close() error {
	w.timer.Stop()
	return w.ReadCloser.Close()
}

func authorize(req *http.Request, token string) {
	req.Header.Set("User-Agent", "weir")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
}
