package roofline

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"weir/internal/cpu"
)

// Options say how to measure. The zero value of a field means its default.
type Options struct {
	Level   Level
	Threads int           // default: the process's compute threads
	Rounds  int           // of which the median counts; default 7
	Round   time.Duration // of one measurement; default 40 ms
	Bytes   int           // read per thread; default at most 256 MiB, more than any cache holds

	Progress func(done, total int) // called after each measurement
}

// Bounds of the memory that is read.
const (
	bytesPerThread    = 256 << 20
	bytesAltogether   = 2 << 30 // where there are many threads
	leastBytes        = 32 << 20
	shareOfFreeMemory = 4
)

func (o *Options) fill() error {
	if o.Threads == 0 {
		o.Threads = cpu.Threads()
	}
	if o.Rounds == 0 {
		o.Rounds = 7
	}
	if o.Round == 0 {
		o.Round = 40 * time.Millisecond
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	if o.Bytes == 0 {
		o.Bytes = max(leastBytes, min(bytesPerThread, bytesAltogether/o.Threads))
		free := cpu.AvailableMemoryBytes() / shareOfFreeMemory / int64(o.Threads)
		if free < leastBytes {
			return errNoMemory
		}
		o.Bytes = int(min(int64(o.Bytes), free))
	}
	switch {
	case o.Level > Best():
		return fmt.Errorf("cpu level %s: this machine or build can run up to %s", o.Level, Best())
	case o.Threads < 1 || o.Rounds < 1 || o.Bytes < chunkBytes:
		return fmt.Errorf("threads %d, rounds %d and bytes %d must be at least 1, 1 and %d", o.Threads, o.Rounds, o.Bytes, chunkBytes)
	}
	return nil
}

// chunkBytes is read between two looks at the clock: microseconds, so that no
// call into assembly is long.
const chunkBytes = 128 << 10

// loops are the measuring loops of a level. Each call takes some microseconds,
// far less than 100, and returns what it did.
type loops struct {
	read  func(chunk []byte) float64 // bytes; chunk has chunkBytes
	int8  func() float64             // operations
	float func() float64             // operations
}

// Measure finds the machine's limits. Nothing else should run meanwhile.
func Measure(ctx context.Context, o Options) (Limits, error) {
	if err := o.fill(); err != nil {
		return Limits{}, err
	}
	m := &meter{o: o, loops: loopsOf(o.Level)}
	defer m.release()
	if err := m.reserve(); err != nil {
		return Limits{}, err
	}
	return m.run(ctx)
}

// meter owns the memory that is read.
type meter struct {
	o       Options
	loops   loops
	buffers [][]byte // per thread
	at      []int    // next chunk, per thread
}

func (m *meter) reserve() error {
	m.at = make([]int, m.o.Threads)
	for range m.o.Threads {
		b, err := newBuffer(m.o.Bytes / chunkBytes * chunkBytes)
		if err != nil {
			return fmt.Errorf("reserve %d bytes to read: %w", m.o.Bytes, err)
		}
		m.buffers = append(m.buffers, b)
	}
	var all sync.WaitGroup
	for _, b := range m.buffers {
		all.Go(func() {
			for i := 0; i < len(b); i += 4096 {
				b[i] = byte(i >> 12) // a page that was never written is shared and cached
			}
		})
	}
	all.Wait()
	return nil
}

func (m *meter) release() {
	for _, b := range m.buffers {
		freeBuffer(b)
	}
}

// quantity is one figure of Limits and how it is measured.
type quantity struct {
	into    *float64
	threads int
	do      func(thread int) float64
}

// run measures every quantity once per round, so that a disturbance hits all
// of them and the median of none.
func (m *meter) run(ctx context.Context) (Limits, error) {
	l := Limits{Level: m.o.Level, Threads: m.o.Threads}
	list := m.quantities(&l.One, 1)
	if m.o.Threads > 1 {
		list = append(list, m.quantities(&l.All, m.o.Threads)...)
	}
	if clock != nil {
		list = append(list, quantity{&l.ClockHz, 1, func(int) float64 { return clock() }})
	}
	samples := make([][]float64, len(list))
	for round := range m.o.Rounds {
		for i, q := range list {
			if err := ctx.Err(); err != nil {
				return Limits{}, err
			}
			samples[i] = append(samples[i], rate(q, m.o.Round))
			m.o.Progress(round*len(list)+i+1, m.o.Rounds*len(list))
		}
	}
	for i, q := range list {
		*q.into = median(samples[i])
	}
	if m.o.Threads == 1 {
		l.All = l.One
	}
	return l, nil
}

func (m *meter) quantities(r *Rates, threads int) []quantity {
	return []quantity{
		{&r.ReadBytes, threads, m.read},
		{&r.Int8Ops, threads, func(int) float64 { return m.loops.int8() }},
		{&r.FloatOps, threads, func(int) float64 { return m.loops.float() }},
	}
}

// read reads a thread's next chunk.
func (m *meter) read(thread int) float64 {
	b, at := m.buffers[thread], m.at[thread]
	m.at[thread] = at + chunkBytes
	if m.at[thread] == len(b) {
		m.at[thread] = 0
	}
	return m.loops.read(b[at : at+chunkBytes])
}

// rate lets threads work for a time that begins when all are there, and adds
// up what each does per second.
func rate(q quantity, d time.Duration) float64 {
	rates := make([]float64, q.threads)
	var ready, done sync.WaitGroup
	ready.Add(q.threads)
	for i := range q.threads {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			ready.Wait()
			rates[i] = work(q, i, d)
		})
	}
	done.Wait()
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	return sum
}

func work(q quantity, thread int, d time.Duration) float64 {
	start, sum := time.Now(), 0.0
	for {
		sum += q.do(thread)
		if t := time.Since(start); t >= d {
			return sum / t.Seconds()
		}
	}
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}
