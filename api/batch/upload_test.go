package batch

import (
	"strings"
	"testing"
	"testing/synctest"

	turns "weir/internal/turn"
)

// A file's pieces are written in turns with other work beside the steps.
func TestFilesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := turns.NewQueue(turns.Config{Turns: 1})
		other, err := q.Take(nil, "other")
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
			t.Error("a piece was written without a turn")
		default:
		}
		other.End()
		<-done
		if text.String() != "bytes" || q.Pieces() != 0 {
			t.Errorf("%q, and %d turns are kept", text.String(), q.Pieces())
		}
	})
}
