package batches

import (
	"fmt"
	"testing"
	"time"

	"weir/api/batch"
	"weir/internal/store/storetest"
)

// TestBatchesAreChosenByTheQuery: a page has as many as it may of the batches with the prefix whose requests are still there.
func TestBatchesAreChosenByTheQuery(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, ctx := openStore(t, url, opts{}), t.Context()
		for i, id := range []string{"msg_0", "other", "msg_1", "msg_2", "msgx3"} {
			f := inputFile(fmt.Sprint("file-", i), "acme")
			f.Expires = batchNoon.Add(time.Hour)
			addFiles(t, s, f)
			b := newBatch(id, "acme", f.ID)
			b.Created = batchNoon.Add(time.Duration(i) * time.Second)
			if err := s.AddBatch(ctx, b, 9); err != nil {
				t.Fatal(err)
			}
		}
		storetest.Exec(t, s.DB, `UPDATE weir_batches SET ended = 1 WHERE id IN ('msg_1', 'msg_2')`)
		storetest.Exec(t, s.DB, `DELETE FROM weir_files WHERE id = 'file-3'`)
		later := batchNoon.Add(2 * time.Hour)
		for _, c := range []struct {
			page batch.Page
			want string
			more bool
		}{
			{batch.Page{Limit: 9}, "[msgx3 msg_2 msg_1 other msg_0]", false},
			{batch.Page{Limit: 9, Prefix: "msg_"}, "[msg_2 msg_1 msg_0]", false},
			{batch.Page{Limit: 1, Prefix: "msg_", Kept: batchNoon}, "[msg_1]", true},
			{batch.Page{Limit: 1, Prefix: "msg_", Kept: batchNoon, After: "msg_1"}, "[msg_0]", false},
			{batch.Page{Limit: 9, Prefix: "msg_", Kept: later}, "[msg_0]", false},
			{batch.Page{Limit: 9, Prefix: "msg_", Kept: batchNoon, Ascending: true}, "[msg_0 msg_1]", false},
		} {
			list, more, err := s.Batches(ctx, "acme", c.page)
			if got := fmt.Sprint(ids(list, func(b batch.Batch) string { return b.ID })); err != nil || got != c.want || more != c.more {
				t.Errorf("%+v: %s %v %v, want %s", c.page, got, more, err, c.want)
			}
		}
	})
}
