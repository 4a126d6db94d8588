package batch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/semaphore"
)

// worker takes batches from the store and runs them, each on goroutines of its own.
type worker struct {
	config  *Config
	store   Store
	folder  *folder
	gate    *lineLimiter
	permits *semaphore.Semaphore // for validation and files that come: one at a time, fairly between tenants
	counts  counts

	ctx   context.Context //nolint:containedctx // of the whole worker: ends when no more lines shall begin
	end   context.CancelFunc
	wake  chan struct{} // there may be a new batch
	all   sync.WaitGroup
	begun sync.Once
	mu    sync.Mutex
	runs  map[string]*run
	left  map[string]Batch // those that other servers have begun, with models that are not here
}

// counts are what the metrics show.
type counts struct {
	completed, failed, expired, cancelled, refused atomic.Uint64
}

const (
	leaseEvery = 2 * time.Second // how often the worker looks for batches that others left
	sweepEvery = time.Minute
	saveEvery  = time.Second // how often progress is written
	maxRuns    = 64          // batches at a time
	tenantRuns = 16          // of these, of one tenant: the others' have room beside them
	failPause  = 30 * time.Second

	// batchLife is how long a finished batch is listed.
	batchLife = 90 * 24 * time.Hour
)

func newWorker(c *Config, f *folder) *worker {
	w := &worker{config: c, store: c.Store, folder: f, gate: newGate(&c.Limits, c.Busy), wake: make(chan struct{}, 1),
		runs: map[string]*run{}, left: map[string]Batch{}}
	w.ctx, w.end = context.WithCancel(context.Background())
	w.permits = semaphore.New(semaphore.Config{Permits: 1, Busy: w.gate.othersRun, Rest: restShare, Closed: w.ctx.Done()})
	return w
}

func (w *worker) start() {
	w.begun.Do(func() {
		w.all.Go(w.leaseAll)
		w.all.Go(w.sweepAll)
	})
}

// stop begins no more lines; wait waits for what runs.
func (w *worker) stop() { w.end() }
func (w *worker) wait() { w.all.Wait() }

// look looks for new batches soon.
func (w *worker) look() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// nudge has a batch look at once whether it shall end.
func (w *worker) nudge(id string) {
	w.mu.Lock()
	r := w.runs[id]
	delete(w.left, id)
	w.mu.Unlock()
	if r != nil {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	w.look()
}

// progress is what a batch has come to, where it runs here.
func (w *worker) progress(id string) (Batch, bool) {
	w.mu.Lock()
	r := w.runs[id]
	w.mu.Unlock()
	if r == nil {
		return Batch{}, false
	}
	return r.now(), true
}

func (w *worker) leaseAll() {
	tick := time.NewTicker(leaseEvery)
	defer tick.Stop()
	for {
		w.leaseMany()
		select {
		case <-w.ctx.Done():
			return
		case <-w.wake:
		case <-tick.C:
		}
	}
}

// leaseMany takes all batches that no worker has.
func (w *worker) leaseMany() {
	for w.ctx.Err() == nil {
		full, room := w.room()
		if !room {
			return
		}
		ctx, cancel := context.WithTimeout(w.ctx, storeTimeout)
		b, found, err := w.store.LeaseBatch(ctx, w.folder.place, full, w.others())
		cancel()
		if err != nil {
			if w.ctx.Err() == nil {
				w.config.Failed(fmt.Errorf("look for batches: %w", err))
			}
			return
		}
		if !found {
			return
		}
		if w.leaves(&b) {
			continue
		}
		w.begin(b)
	}
}

// others are the batches that are left to other servers: they have models that are not here, and their time is not over.
func (w *worker) others() (ids []string) {
	if w.config.Models == nil {
		return nil
	}
	names := w.config.Models()
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.left, func(_ string, b Batch) bool { return !isForeign(&b, names) })
	return slices.Sorted(maps.Keys(w.left))
}

// isForeign reports whether other servers have to run the lines of a batch. One whose time is over, or that was cancelled, ends anywhere.
func isForeign(b *Batch, names []string) bool {
	base, _, _ := strings.Cut(b.Model, "@") // a version
	return b.Status == StatusInProgress && b.Model != "" && b.Cancelling.IsZero() && time.Now().Before(b.Expires) &&
		!slices.Contains(names, b.Model) && !slices.Contains(names, base)
}

// leaves gives a leased batch back whose model is not here.
func (w *worker) leaves(b *Batch) bool {
	if w.config.Models == nil || !isForeign(b, w.config.Models()) {
		return false
	}
	w.mu.Lock()
	w.left[b.ID] = *b
	w.mu.Unlock()
	w.config.Failed(fmt.Errorf("the batch %s waits for a server that has its model %q, which this one has not", b.ID, b.Model))
	ctx, cancel := storeContext()
	defer cancel()
	if err := w.store.ReleaseBatch(ctx, b.ID); err != nil {
		w.config.Failed(fmt.Errorf("give the batch %s back: %w", b.ID, err))
	}
	return true
}

// room reports whether one more batch may run, and which tenants have as many as they may.
func (w *worker) room() (full []string, room bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	running := map[string]int{}
	for _, r := range w.runs {
		if running[r.batch.Tenant]++; running[r.batch.Tenant] == tenantRuns {
			full = append(full, r.batch.Tenant)
		}
	}
	return full, len(w.runs) < maxRuns
}

// begin runs a batch that is leased.
func (w *worker) begin(b Batch) {
	r := newRun(w, b)
	w.mu.Lock()
	w.runs[b.ID] = r
	w.mu.Unlock()
	w.all.Go(func() {
		err := r.guard()
		w.ended(r, err)
	})
}

// ended gives a batch back that is not over. One that failed rests first, with its lease.
func (w *worker) ended(r *run, err error) {
	id := r.batch.ID
	if err != nil && !errors.Is(err, errStopping) {
		w.config.Failed(fmt.Errorf("the batch %s: %w", id, err))
		timer := time.NewTimer(failPause)
		select {
		case <-timer.C:
		case <-w.ctx.Done():
		}
		timer.Stop()
	}
	w.mu.Lock()
	delete(w.runs, id)
	w.mu.Unlock()
	if err != nil && !errors.Is(err, ErrLost) {
		ctx, cancel := storeContext()
		defer cancel()
		if err := w.store.ReleaseBatch(ctx, id); err != nil {
			w.config.Failed(fmt.Errorf("give the batch %s back: %w", id, err))
		}
	}
	w.look()
}

func (w *worker) panicked(value any) {
	if h := w.config.Hooks.OnPanic; h != nil {
		h("batch", value, debug.Stack())
	}
}

// sweepAll deletes what has expired, until the worker ends.
func (w *worker) sweepAll() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := w.sweep(time.Now()); err != nil && w.ctx.Err() == nil {
			w.config.Failed(fmt.Errorf("delete expired files: %w", err))
		}
		select {
		case <-w.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sweepFiles is how many files one question takes.
const sweepFiles = 500

func (w *worker) sweep(now time.Time) error {
	ctx, cancel := context.WithTimeout(w.ctx, sweepEvery)
	defer cancel()
	for {
		files, err := w.store.ExpireFiles(ctx, w.folder.place, now, sweepFiles)
		if err != nil {
			return err
		}
		if err := w.folder.removeAll(files); err != nil {
			return err
		}
		if len(files) < sweepFiles {
			break
		}
	}
	return errors.Join(w.store.ExpireBatches(ctx, now.Add(-batchLife)), w.folder.sweep(ctx, w.store, now))
}

func (f *folder) removeAll(files []File) error {
	var errs []error
	for _, file := range files {
		if file.Place == f.place {
			errs = append(errs, f.remove(file.ID))
		}
	}
	return errors.Join(errs...)
}

// RemoveFiles deletes the bytes of forgotten files in a folder; those of other places stay.
func RemoveFiles(dir string, files []File) error {
	f, err := openFolder(dir, nil)
	if err != nil {
		return err
	}
	return f.removeAll(files)
}

// Progress is what an operator sees of an unfinished batch.
type Progress struct {
	ID        string    `json:"id"`
	Tenant    string    `json:"tenant"`
	Model     string    `json:"model"`
	Endpoint  string    `json:"endpoint"`
	Status    Status    `json:"status"`
	Total     int       `json:"total"`
	Completed int       `json:"completed"`
	Failed    int       `json:"failed"`
	Created   time.Time `json:"created_at"`
	Expires   time.Time `json:"expires_at"`
	Here      bool      `json:"here"` // this process runs it
}

// shownBatches bounds what operators are shown.
const shownBatches = 1000

// Unfinished are the unfinished batches of all tenants, the oldest first. A server without files has none.
func (s *Server) Unfinished(ctx context.Context) ([]Progress, error) {
	list := []Progress{}
	if s.worker == nil {
		return list, nil
	}
	batches, err := s.config.Store.Unfinished(ctx, shownBatches)
	if err != nil {
		return nil, err
	}
	for _, b := range batches {
		_, here := s.worker.progress(b.ID)
		b = s.live(b)
		list = append(list, Progress{b.ID, b.Tenant, b.Model, b.Endpoint, shownStatus(&b), b.Total, b.Completed, b.Failed, b.Created, b.Expires, here})
	}
	return list, nil
}

// Stats are what this process has done.
type Stats struct {
	Batches int // that run here
	Lines   int // that run at this moment

	Completed, Failed, Expired, Cancelled uint64 // lines
	Refused                               uint64 // lines that were refused for now, and waited
}

// Stats counts.
func (s *Server) Stats() Stats {
	if s.worker == nil {
		return Stats{}
	}
	w, c := s.worker, &s.worker.counts
	w.mu.Lock()
	defer w.mu.Unlock()
	return Stats{len(w.runs), w.gate.count(), c.completed.Load(), c.failed.Load(), c.expired.Load(), c.cancelled.Load(), c.refused.Load()}
}

// Forget deletes a tenant's files and batches. What runs of them ends, and leaves nothing. It returns how many files
// went.
func (s *Server) Forget(ctx context.Context, name string) (files int64, err error) {
	if s.worker == nil {
		return 0, nil
	}
	gone, err := s.config.Store.ForgetBatches(ctx, name)
	if err != nil {
		return 0, err
	}
	s.worker.mu.Lock()
	for _, r := range s.worker.runs {
		if r.batch.Tenant == name {
			select {
			case r.wake <- struct{}{}:
			default:
			}
		}
	}
	s.worker.mu.Unlock()
	return int64(len(gone)), s.folder.removeAll(gone)
}
