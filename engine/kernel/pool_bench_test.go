package kernel

import (
	"fmt"
	"runtime"
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
			p := NewPool(workers)
			defer p.Close()
			j := &spanJob{}
			for b.Loop() {
				p.Run(j, workers, 1)
			}
		})
	}
}

// Four workers for each core must not take much longer than one for each; the
// ratio is printed.
func BenchmarkOversubscribed(b *testing.B) {
	p, many := NewPool(runtime.NumCPU()), NewPool(4*runtime.NumCPU())
	defer p.Close()
	defer many.Close()
	j := &spanJob{loops: 500}
	var took [2]time.Duration
	for b.Loop() {
		for i, pool := range []*Pool{p, many} {
			begin := time.Now()
			pool.Run(j, 64, 1)
			took[i] += time.Since(begin)
		}
	}
	b.ReportMetric(float64(took[0].Nanoseconds())/float64(b.N), "ns/round-1x")
	b.ReportMetric(float64(took[1])/float64(took[0]), "ratio-4x")
}
