package batch

import (
	"strings"
	"testing"
	"testing/synctest"

	"weir/internal/semaphore"
)

// A file's pieces are written one permit at a time, between other work beside the steps.
func TestFilesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := semaphore.New(semaphore.Config{Permits: 1})
		other, err := q.Acquire(nil, "other")
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		done := make(chan struct{})
		go func() {
			defer close(done)
			if n, err := (&pacedWriter{&text, q, "acme"}).Write([]byte("bytes")); n != 5 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("a piece was written without a permit")
		default:
		}
		other.Release()
		<-done
		if text.String() != "bytes" || q.Pieces() != 0 {
			t.Errorf("%q, and %d permits are kept", text.String(), q.Pieces())
		}
	})
}
