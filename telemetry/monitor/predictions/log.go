// Package predictions keeps what models predicted, for the day when the truth is known:
// one Parquet file per model version and period, written beside the requests, and the
// reading of such files.
package predictions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Privacy says how a feature's values stand in the log.
type Privacy uint8

// The ways, from the most to the least that is told.
const (
	Plain   Privacy = iota // as the model got it
	Summary                // a number to two digits; a string as Hashed
	Hashed                 // a keyed hash, by which equal values can be told to be equal
	Omitted                // not at all
)

// Feature is a column of the log.
type Feature struct {
	Name    string
	Text    bool // a string; else a number
	Privacy Privacy
	Brought Privacy // of values that Batch.Brought marks, where it tells less than Privacy
}

// Config of a Log. Zero values take what stands beside each.
type Config struct {
	Folder         string // files stand in FOLDER/MODEL/VERSION
	Model, Version string
	Schema         string // of the features; kept in each file
	Features       []Feature
	Outputs        []string // names of the scores, one column each

	Key       []byte        // of hashes; random: then they can be compared within one process only
	MaxBytes  int64         // 64 MiB: a file about this size is finished
	MaxAge    time.Duration // 5 min: and one of this age; what is younger is lost if the process dies
	Keep      time.Duration // 0: for ever; files older than this are deleted
	KeepBytes int64         // 0: any; the oldest files beyond it are deleted
	Failed    func(error)   // hears of failures, on the log's goroutine
}

// Batch is what one request brings. Its slices belong to the log from Add on. Values
// stand row by row; a number that is missing is NaN.
type Batch struct {
	ID        string // of the request: labels are joined by it and the row's number
	Tenant    string
	Arm       string // of the rollout that chose the version
	At        time.Time
	Rows      int
	Numbers   []float64 // of the features that are no strings, in their order
	Texts     []string  // of the others
	Outputs   []float64
	Brought   []bool   // by row and feature: the request brought the value, and no other source; nil: none of them
	Defaulted []string // by row: names of features that no source gave, separated by spaces; nil: none
}

const (
	// maxQueued and maxQueuedBytes bound what waits to be written.
	maxQueued      = 8192
	maxQueuedBytes = 32 << 20

	flushValues  = 1 << 20          // of a row group: what is in memory until the disk has it
	retryAfter   = 10 * time.Second // of a file that failed
	partialEnd   = ".partial"       // of a file that is not whole yet
	fileEnd      = ".parquet"
	orphanAge    = 24 * time.Hour // partial files of processes that died are deleted after it
	checkEvery   = time.Second
	defaultBytes = 64 << 20
	defaultAge   = 5 * time.Minute
)

// Stats of a Log, counted in rows since it was made.
type Stats struct {
	Written uint64 // in files that are whole
	Dropped uint64 // the queue was full, or a file failed
	Queued  int    // requests
	Files   uint64
}

// Log writes predictions of one version. All methods may be called at the same time.
type Log struct {
	config Config
	folder string
	layout *layout
	news   chan struct{} // holds one
	over   chan struct{}
	done   chan struct{}
	ending sync.Once

	mu    sync.Mutex
	queue []Batch
	bytes int // of queue
	stats Stats

	file    *file // of the goroutine alone
	retryAt time.Time
}

// Open starts a log, which Close ends. It makes the folder.
func Open(c Config) (*Log, error) {
	if c.MaxBytes <= 0 {
		c.MaxBytes = defaultBytes
	}
	if c.MaxAge <= 0 {
		c.MaxAge = defaultAge
	}
	l := &Log{config: c, news: make(chan struct{}, 1), over: make(chan struct{}), done: make(chan struct{})}
	var err error
	if l.layout, err = newLayout(&l.config); err != nil {
		return nil, err
	}
	l.folder = filepath.Join(c.Folder, folderName(c.Model), folderName(c.Version))
	if err := os.MkdirAll(l.folder, 0o700); err != nil {
		return nil, fmt.Errorf("the prediction log: %w", err)
	}
	l.clean(time.Now())
	go l.run()
	return l, nil
}

// Add gives the log a request's predictions. It never waits: what finds no room is
// dropped and counted.
func (l *Log) Add(b Batch) {
	size := b.size()
	l.mu.Lock()
	if len(l.queue) == maxQueued || l.bytes+size > maxQueuedBytes {
		l.stats.Dropped += uint64(b.Rows) //nolint:gosec // not negative
		l.mu.Unlock()
		return
	}
	l.queue = append(l.queue, b)
	l.bytes += size
	l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
}

func (b *Batch) size() int {
	n := 128 + len(b.ID) + len(b.Tenant) + len(b.Arm) + 8*(len(b.Numbers)+len(b.Outputs))
	for _, list := range [][]string{b.Texts, b.Defaulted} {
		for _, t := range list {
			n += 16 + len(t)
		}
	}
	return n
}

// Stats counts.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Queued = len(l.queue)
	return s
}

// Close writes what is queued, finishes the file and ends the log. What it did not come
// to until ctx ended is lost.
func (l *Log) Close(ctx context.Context) error {
	l.ending.Do(func() { close(l.over) })
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Log) run() {
	defer close(l.done)
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.news:
			l.writeAll()
		case <-tick.C:
			l.rotate(time.Now(), false)
		case <-l.over:
			l.writeAll()
			l.rotate(time.Now(), true)
			return
		}
	}
}

func (l *Log) writeAll() {
	for {
		l.mu.Lock()
		queue := l.queue
		l.queue, l.bytes = nil, 0
		l.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for i := range queue {
			l.write(&queue[i])
			l.rotate(time.Now(), false)
		}
	}
}

func (l *Log) write(b *Batch) {
	if err := l.layout.check(b); err != nil {
		l.drop(b.Rows, err)
		return
	}
	if l.file == nil {
		now := time.Now()
		if now.Before(l.retryAt) {
			l.drop(b.Rows, nil)
			return
		}
		var err error
		if l.file, err = create(l.folder, l.layout, now); err != nil {
			l.retryAt = now.Add(retryAfter)
			l.drop(b.Rows, err)
			return
		}
	}
	if err := l.file.add(b); err != nil {
		l.abandon(b.Rows, err)
	}
}

// abandon gives up a file that failed, with the rows of it and rows beside.
func (l *Log) abandon(rows int, err error) {
	l.drop(l.file.rows+rows, errors.Join(err, l.file.remove()))
	l.file, l.retryAt = nil, time.Now().Add(retryAfter)
}

func (l *Log) drop(rows int, err error) {
	l.mu.Lock()
	l.stats.Dropped += uint64(rows) //nolint:gosec // not negative
	l.mu.Unlock()
	if err != nil && l.config.Failed != nil {
		l.config.Failed(fmt.Errorf("the prediction log of %s: %w", l.config.Model, err))
	}
}

// rotate finishes a file that is large or old enough, or any at the end.
func (l *Log) rotate(now time.Time, end bool) {
	f := l.file
	if f == nil || !end && f.written.n < l.config.MaxBytes && now.Sub(f.began) < l.config.MaxAge {
		return
	}
	if err := f.finish(); err != nil {
		l.abandon(0, err)
		return
	}
	l.file = nil
	l.mu.Lock()
	l.stats.Written += uint64(f.rows) //nolint:gosec // not negative
	l.stats.Files++
	l.mu.Unlock()
	l.clean(now)
}
