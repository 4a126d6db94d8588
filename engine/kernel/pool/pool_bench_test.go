package pool

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// spanJob computes for a fixed time per item.
type spanJob struct{ loops int }

func (j *spanJob) Do(_, _ int) {
	for range j.loops {
		pause()
	}
}

// Round is what a round costs beside its work.
func BenchmarkRound(b *testing.B) {
	for _, workers := range []int{2, runtime.NumCPU(), 4 * runtime.NumCPU()} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			p := New(workers)
			defer p.Close()
			j := &spanJob{}
			for b.Loop() {
				p.run(j, workers, 1)
			}
		})
	}
}

// Four workers for each core must not take much longer than one for each; the
// ratio is printed.
func BenchmarkOversubscribed(b *testing.B) {
	p, many := New(runtime.NumCPU()), New(4*runtime.NumCPU())
	defer p.Close()
	defer many.Close()
	members := []*Member{p.Join(1), many.Join(1)}
	j := &spanJob{loops: 500}
	var took [2]time.Duration
	for b.Loop() {
		for i, member := range members {
			begin := time.Now()
			member.Run(j, 64, 1)
			took[i] += time.Since(begin)
		}
	}
	b.ReportMetric(float64(took[0].Nanoseconds())/float64(b.N), "ns/round-1x")
	b.ReportMetric(float64(took[1])/float64(took[0]), "ratio-4x")
}

// HandOver is the time from the end of one member's step to the beginning of the
// next member's, when two members have steps to do all the time.
func BenchmarkHandOver(b *testing.B) {
	p := New(runtime.NumCPU())
	defer p.Close()
	var ended time.Time // of the last step
	var gaps []time.Duration
	done := make(chan struct{}, 2)
	step := func() bool {
		begin := time.Now()
		if !ended.IsZero() {
			gaps = append(gaps, begin.Sub(ended))
		}
		for time.Since(begin) < 50*time.Microsecond {
			pause()
		}
		ended = time.Now()
		if len(gaps) < b.N {
			return true
		}
		done <- struct{}{}
		return false
	}
	for range 2 {
		l := p.Join(1)
		l.Drive(step)
		l.Ready()
	}
	<-done
	<-done
	slices.Sort(gaps)
	b.ReportMetric(float64(gaps[len(gaps)/2].Nanoseconds())/1000, "p50-µs")
	b.ReportMetric(float64(gaps[len(gaps)*9/10].Nanoseconds())/1000, "p90-µs")
}
