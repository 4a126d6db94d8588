package batches

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weir/internal/store/storetest"

	"weir/api/batch"
)

var batchNoon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func addFiles(t *testing.T, s *Store, files ...batch.File) {
	t.Helper()
	for _, f := range files {
		if err := s.AddFile(t.Context(), f, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func inputFile(id, tenant string) batch.File {
	return batch.File{ID: id, Tenant: tenant, Place: "here", Purpose: batch.PurposeBatch, Name: "in.jsonl", Bytes: 10, Created: batchNoon}
}

func newBatch(id, tenant, input string) batch.Batch {
	return batch.Batch{ID: id, Tenant: tenant, Place: "here", Input: input, Status: batch.StatusValidating, Created: batchNoon,
		Endpoint: "/v1/completions", Window: "24h", Expires: batchNoon.Add(24 * time.Hour), Metadata: map[string]string{"a\x00": "b"}}
}

func ids[T any](list []T, id func(T) string) (out []string) {
	for _, item := range list {
		out = append(out, id(item))
	}
	return out
}

func TestFilesAreTheTenantsOwn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, ctx := openStore(t, url, opts{}), t.Context()
		mine := inputFile("file-1", "acme")
		mine.Expires = batchNoon.Add(time.Hour)
		addFiles(t, s, mine, inputFile("file-2", "eve"))
		if got, err := s.FindFile(ctx, "acme", "file-1", batchNoon); err != nil || got != mine {
			t.Errorf("%+v, %v; want %+v", got, err, mine)
		}
		for _, c := range []struct {
			tenant, id string
			now        time.Time
		}{{"eve", "file-1", batchNoon}, {"acme", "file-2", batchNoon}, {"acme", "file-1", mine.Expires}, {"acme", "file-\x00", batchNoon}} {
			if got, err := s.FindFile(ctx, c.tenant, c.id, c.now); !errors.Is(err, batch.ErrUnknown) {
				t.Errorf("%+v: %+v, %v", c, got, err)
			}
		}
		if err := s.RemoveFile(ctx, "eve", "file-1"); !errors.Is(err, batch.ErrUnknown) {
			t.Errorf("eve removes a file of acme: %v", err)
		}
		if err := s.RemoveFile(ctx, "acme", "file-1"); err != nil {
			t.Error(err)
		}
		if _, err := s.AnyFile(ctx, "file-1"); !errors.Is(err, batch.ErrUnknown) {
			t.Errorf("a removed file is known: %v", err)
		}
	})
}

func TestFilesComeInPages(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, ctx := openStore(t, url, opts{}), t.Context()
		for i := range 5 {
			f := inputFile(fmt.Sprint("file-", i), "acme")
			f.Created = batchNoon.Add(time.Duration(i/2) * time.Second) // two of the same time
			if i == 4 {
				f.Purpose = batch.PurposeUser
			}
			addFiles(t, s, f)
		}
		for _, c := range []struct {
			page batch.Page
			want string
			more bool
		}{
			{batch.Page{Limit: 10}, "[file-4 file-3 file-2 file-1 file-0]", false},
			{batch.Page{Limit: 2}, "[file-4 file-3]", true},
			{batch.Page{Limit: 2, After: "file-3"}, "[file-2 file-1]", true},
			{batch.Page{Limit: 2, After: "file-1"}, "[file-0]", false},
			{batch.Page{Limit: 3, Ascending: true}, "[file-0 file-1 file-2]", true},
			{batch.Page{Limit: 3, Ascending: true, After: "file-2"}, "[file-3 file-4]", false},
			{batch.Page{Limit: 3, Purpose: batch.PurposeUser}, "[file-4]", false},
		} {
			list, more, err := s.Files(ctx, "acme", c.page, batchNoon)
			if got := fmt.Sprint(ids(list, func(f batch.File) string { return f.ID })); err != nil || got != c.want || more != c.more {
				t.Errorf("%+v: %s %v %v, want %s", c.page, got, more, err, c.want)
			}
		}
		if _, _, err := s.Files(ctx, "eve", batch.Page{Limit: 1, After: "file-1"}, batchNoon); !errors.Is(err, batch.ErrUnknown) {
			t.Errorf("a page behind another tenant's file: %v", err)
		}
	})
}

// The bound holds whatever comes at the same time.
func TestQuotaOfFilesHolds(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{})
		const fits = 5
		var added atomic.Int32
		var wait sync.WaitGroup
		for i := range 12 {
			wait.Go(func() {
				switch err := s.AddFile(context.Background(), inputFile(fmt.Sprint("file-", i), "acme"), fits*batch.LeastBytes); {
				case err == nil:
					added.Add(1)
				case !errors.Is(err, batch.ErrQuota):
					t.Error(err)
				}
			})
		}
		wait.Wait()
		held, err := s.FileBytes(t.Context(), "acme")
		if added.Load() != fits || held != fits*batch.LeastBytes || err != nil {
			t.Errorf("%d files of %d bytes, %v", added.Load(), held, err)
		}
	})
}

func TestBatchLifeInTheStore(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, ctx := openStore(t, url, opts{}), t.Context()
		addFiles(t, s, inputFile("file-1", "acme"))
		b := newBatch("batch_1", "acme", "file-1")
		if err := s.AddBatch(ctx, newBatch("batch_0", "eve", "file-1"), 9); !errors.Is(err, batch.ErrUnknown) {
			t.Errorf("a batch of another tenant's file: %v", err)
		}
		if err := s.AddBatch(ctx, b, 1); err != nil {
			t.Fatal(err)
		}
		if err := s.AddBatch(ctx, newBatch("batch_2", "acme", "file-1"), 1); !errors.Is(err, batch.ErrQuota) {
			t.Errorf("one unfinished batch too many: %v", err)
		}
		if err := s.RemoveFile(ctx, "acme", "file-1"); !errors.Is(err, batch.ErrInUse) {
			t.Errorf("the input of an unfinished batch was removed: %v", err)
		}
		if _, found, err := s.LeaseBatch(ctx, "elsewhere", nil, nil); found || err != nil {
			t.Errorf("a batch of another place: %v", err)
		}
		got, found, err := s.LeaseBatch(ctx, "here", nil, nil)
		if err != nil || !found || fmt.Sprint(got) != fmt.Sprint(b) {
			t.Fatalf("%+v, %v; want %+v", got, err, b)
		}
		if _, found, err := s.LeaseBatch(ctx, "here", nil, nil); found || err != nil {
			t.Errorf("a batch is leased twice: %v", err)
		}
		got.Status, got.Total, got.Completed = batch.StatusInProgress, 5, 2
		if at, err := s.SaveBatch(ctx, &got); err != nil || !at.IsZero() {
			t.Errorf("%v, %v", at, err)
		}
		asked := batchNoon.Add(time.Minute)
		if b, err := s.CancelBatch(ctx, "eve", "batch_1", asked); !errors.Is(err, batch.ErrUnknown) {
			t.Errorf("eve cancels a batch of acme: %+v, %v", b, err)
		}
		if b, err := s.CancelBatch(ctx, "acme", "batch_1", asked); err != nil || !b.Cancelling.Equal(asked) || b.Completed != 2 {
			t.Errorf("%+v, %v", b, err)
		}
		if at, err := s.SaveBatch(ctx, &got); err != nil || !at.Equal(asked) {
			t.Errorf("the wish to cancel does not arrive: %v, %v", at, err)
		}
		got.Status, got.Output, got.Ended = batch.StatusCancelled, "file-2", batchNoon.Add(2*time.Minute)
		output := inputFile("file-2", "acme")
		output.Purpose = batch.PurposeOutput
		if err := s.FinishBatch(ctx, &got, []batch.File{output}); err != nil {
			t.Fatal(err)
		}
		if err := s.FinishBatch(ctx, &got, []batch.File{inputFile("file-3", "acme")}); !errors.Is(err, batch.ErrLost) {
			t.Errorf("a batch ends twice: %v", err)
		}
		list, _, err := s.Files(ctx, "acme", batch.Page{Limit: 9}, batchNoon)
		if got := ids(list, func(f batch.File) string { return f.ID }); err != nil || !slices.Equal(got, []string{"file-2", "file-1"}) {
			t.Errorf("files %v, %v", got, err)
		}
		if b, err := s.CancelBatch(ctx, "acme", "batch_1", asked.Add(time.Hour)); err != nil || !b.Cancelling.Equal(asked) || b.Status != batch.StatusCancelled {
			t.Errorf("%+v, %v", b, err)
		}
		if err := s.RemoveFile(ctx, "acme", "file-1"); err != nil {
			t.Error(err)
		}
		if err := s.ExpireBatches(ctx, got.Ended.Add(time.Second)); err != nil {
			t.Error(err)
		}
		if list, _, err := s.Batches(ctx, "acme", batch.Page{Limit: 9}); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// A batch is one process's until that process is dead, or gives it back.
func TestBatchIsLeasedByOne(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		ctx := t.Context()
		one := openStore(t, url, opts{})
		two := openStore(t, url, opts{})
		addFiles(t, one, inputFile("file-1", "acme"))
		const batches = 20
		for i := range batches {
			if err := one.AddBatch(ctx, newBatch(fmt.Sprintf("batch_%02d", i), "acme", "file-1"), batches); err != nil {
				t.Fatal(err)
			}
		}
		var wait sync.WaitGroup
		var taken [2][]string
		for i, s := range []*Store{one, two} {
			wait.Go(func() {
				for range batches / 2 {
					if b, found, err := s.LeaseBatch(context.Background(), "here", nil, nil); err != nil || !found {
						t.Errorf("%v %v", found, err)
					} else {
						taken[i] = append(taken[i], b.ID)
					}
				}
			})
		}
		wait.Wait()
		all := slices.Concat(taken[0], taken[1])
		slices.Sort(all)
		if len(slices.Compact(all)) != batches {
			t.Errorf("taken: %v", taken)
		}
		if _, found, err := two.LeaseBatch(ctx, "here", nil, nil); found || err != nil {
			t.Errorf("one more was taken: %v", err)
		}
		if list, err := two.Unfinished(ctx, 9); err != nil || len(list) != 9 || list[0].ID != "batch_00" {
			t.Errorf("%v, %v", list, err)
		}
		lost := newBatch(taken[0][0], "acme", "file-1")
		if err := one.ReleaseBatch(ctx, lost.ID); err != nil {
			t.Error(err)
		}
		if b, found, err := two.LeaseBatch(ctx, "here", []string{"zeta", "acme"}, nil); found || err != nil {
			t.Errorf("a batch of a tenant that has enough: %+v, %v", b, err)
		}
		if b, found, err := two.LeaseBatch(ctx, "here", []string{"zeta"}, []string{lost.ID}); found || err != nil {
			t.Errorf("a batch that is left to others is leased: %v %v", b, err)
		}
		if b, found, err := two.LeaseBatch(ctx, "here", []string{"zeta"}, nil); err != nil || !found || b.ID != lost.ID {
			t.Errorf("a batch that was given back: %+v, %v, %v", b, found, err)
		}
		if _, err := one.SaveBatch(ctx, &lost); !errors.Is(err, batch.ErrLost) {
			t.Errorf("a process writes a batch of another one: %v", err)
		}
		storetest.Close(t, one.DB) // its lease ends
		if b, found, err := two.LeaseBatch(ctx, "here", nil, nil); err != nil || !found || !slices.Contains(taken[0], b.ID) {
			t.Errorf("a batch of a process that ended: %+v, %v, %v", b, found, err)
		}
	})
}

func TestExpiredFilesGoUnlessInUse(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, ctx := openStore(t, url, opts{}), t.Context()
		for i := range 4 {
			f := inputFile(fmt.Sprint("file-", i), "acme")
			f.Expires = batchNoon.Add(time.Duration(i) * time.Hour)
			addFiles(t, s, f)
		}
		addFiles(t, s, inputFile("file-9", "acme"))
		if err := s.AddBatch(ctx, newBatch("batch_1", "acme", "file-1"), 9); err != nil {
			t.Fatal(err)
		}
		gone, err := s.ExpireFiles(ctx, "here", batchNoon.Add(2*time.Hour), 9)
		got := ids(gone, func(f batch.File) string { return f.ID })
		slices.Sort(got)
		if err != nil || !slices.Equal(got, []string{"file-0", "file-2"}) {
			t.Errorf("%v, %v", got, err)
		}
		forgotten, err := s.ForgetBatches(ctx, "acme")
		if err != nil || len(forgotten) != 3 {
			t.Errorf("%v, %v", forgotten, err)
		}
		if has, err := s.HasBatch(ctx, "batch_1"); has || err != nil {
			t.Errorf("a forgotten batch is known: %v", err)
		}
	})
}
