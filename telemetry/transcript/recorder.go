package transcript

import (
	"context"
	"sync"
	"time"
)

// Source gives a record when its turn comes: what it costs to make one is not paid by
// the request.
type Source struct {
	Tenant string
	Bytes  int // about what the source holds in memory until then
	Record func() Record
}

// Config of a Recorder.
type Config struct {
	Log       Log
	Retention time.Duration // records are deleted after it
	Failed    func(error)   // hears of failures of the log, on the recorder's goroutine
}

const (
	// maxQueued and maxQueuedBytes bound what waits to be kept.
	maxQueued      = 1024
	maxQueuedBytes = 32 << 20

	batchRecords = 32 // records of one transaction
	keepTimeout  = 30 * time.Second
	expireEvery  = 10 * time.Minute
)

// Stats of a Recorder, counted since it was made.
type Stats struct {
	Kept    uint64
	Dropped uint64 // the queue was full, or the log failed
	Queued  int
}

// Recorder keeps what it is given in a log. All methods may be called at the same time.
type Recorder struct {
	config Config
	news   chan struct{} // holds one
	over   chan struct{}
	done   chan struct{}
	ending sync.Once

	// writing is held from when a batch leaves the queue until it is in the log, so
	// that Forget finds it here or there.
	writing sync.Mutex

	mu    sync.Mutex
	queue []Source
	bytes int // of queue
	stats Stats
}

// NewRecorder starts a recorder, which Close ends.
func NewRecorder(c Config) *Recorder {
	r := &Recorder{config: c, news: make(chan struct{}, 1), over: make(chan struct{}), done: make(chan struct{})}
	go r.run()
	return r
}

// Add gives the recorder a request's texts. It never waits.
func (r *Recorder) Add(s Source) {
	r.mu.Lock()
	if len(r.queue) == maxQueued || r.bytes+s.Bytes > maxQueuedBytes {
		r.stats.Dropped++
		r.mu.Unlock()
		return
	}
	r.queue = append(r.queue, s)
	r.bytes += s.Bytes
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// Forget deletes what there is of a tenant, in the queue too, and returns how many
// records of the log it deleted. What a request brings later is kept.
func (r *Recorder) Forget(ctx context.Context, tenant string) (int64, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	left := r.queue[:0]
	for _, s := range r.queue {
		if s.Tenant == tenant {
			r.bytes -= s.Bytes
			continue
		}
		left = append(left, s)
	}
	clear(r.queue[len(left):])
	r.queue = left
	r.mu.Unlock()
	return r.config.Log.ForgetTranscripts(ctx, tenant)
}

// Stats counts.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.stats
	st.Queued = len(r.queue)
	return st
}

// Close keeps what is queued and ends the recorder. What it did not come to until ctx
// ended is dropped.
func (r *Recorder) Close(ctx context.Context) error {
	r.ending.Do(func() { close(r.over) })
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Recorder) run() {
	defer close(r.done)
	expire := time.NewTicker(expireEvery)
	defer expire.Stop()
	r.expire()
	for {
		select {
		case <-r.news:
			r.keepAll()
		case <-expire.C:
			r.expire()
		case <-r.over:
			r.keepAll()
			return
		}
	}
}

func (r *Recorder) keepAll() {
	for r.keepSome() {
	}
}

// keepSome moves a batch into the log. It reports whether there was one.
func (r *Recorder) keepSome() bool {
	r.writing.Lock()
	defer r.writing.Unlock()
	batch := r.take()
	if len(batch) == 0 {
		return false
	}
	records := make([]Record, len(batch))
	for i, s := range batch {
		records[i] = s.Record().scrubbed()
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepTimeout)
	defer cancel()
	err := r.config.Log.KeepTranscripts(ctx, records)
	r.mu.Lock()
	if err == nil {
		r.stats.Kept += uint64(len(batch))
	} else {
		r.stats.Dropped += uint64(len(batch))
	}
	r.mu.Unlock()
	if err != nil {
		r.failed(err)
	}
	return true
}

// take removes a batch from the queue.
func (r *Recorder) take() []Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.queue), batchRecords)
	batch := append([]Source(nil), r.queue[:n]...)
	for _, s := range batch {
		r.bytes -= s.Bytes
	}
	left := copy(r.queue, r.queue[n:])
	clear(r.queue[left:])
	r.queue = r.queue[:left]
	return batch
}

func (r *Recorder) expire() {
	ctx, cancel := context.WithTimeout(context.Background(), keepTimeout)
	defer cancel()
	if _, err := r.config.Log.ExpireTranscripts(ctx, time.Now().Add(-r.config.Retention)); err != nil {
		r.failed(err)
	}
}

func (r *Recorder) failed(err error) {
	if r.config.Failed != nil {
		r.config.Failed(err)
	}
}
