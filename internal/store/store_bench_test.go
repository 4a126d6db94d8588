package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"weir/api/replay"
	"weir/api/usage"
	"weir/internal/store/storetest"
	"weir/router/deployment"
	"weir/telemetry/audit"
)

// What acknowledged writes cost: an idempotent request is two commits, an entry of the
// audit log one.
func BenchmarkWrites(b *testing.B) {
	urls := map[string]string{"sqlite": "sqlite:" + filepath.Join(b.TempDir(), "weir.db")}
	if os.Getenv("WEIR_TEST_POSTGRES") != "" {
		urls["postgres"] = storetest.Postgres(b)
	}
	for name, url := range urls {
		s, err := open(b.Context(), url, opts{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/idempotent request", func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				got, err := s.Begin(b.Context(), request(fmt.Sprint(s.Owner(), n), 1))
				if err != nil || got.State != replay.Begun {
					b.Fatal(got.State, err)
				}
				if err := s.Finish(b.Context(), got.Claim, make([]byte, 1000)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/audit entry", func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Append(b.Context(), audit.Change{Actor: "a", Action: "b"}); err != nil {
					b.Fatal(err)
				}
			}
		})
		if err := s.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	s, err := open(b.Context(), "sqlite:"+filepath.Join(b.TempDir(), "weir.db"), opts{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close(context.Background())
	b.ReportAllocs()
	for b.Loop() {
		s.Record(usage.Record{Ended: ledgerDay, Tenant: "tenant", Model: "model", Input: 100, Output: 10})
	}
}

// What changes of deployments cost that are asked for at once, each with its entry in the audit log.
func BenchmarkDeployments(b *testing.B) {
	urls := map[string]string{"sqlite": "sqlite:" + filepath.Join(b.TempDir(), "weir.db")}
	if os.Getenv("WEIR_TEST_POSTGRES") != "" {
		urls["postgres"] = storetest.Postgres(b)
	}
	for name, url := range urls {
		s, err := open(b.Context(), url, opts{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			var last atomic.Int64
			b.SetParallelism(12) // of each processor: 24 calls at once on two
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					n := last.Add(1)
					if err := s.NoteDeployment(b.Context(), fmt.Sprint("model-", n%100), func(old *deployment.Record, _ int64) (*deployment.Record, *audit.Change, error) {
						r := deployment.Apply(old, deployment.Spec{Model: "m", Version: fmt.Sprint(n)}, "id", "a", time.Now())
						return &r, &audit.Change{Actor: "a", Action: "b"}, nil
					}); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "changes/s")
		})
		if err := s.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}
}
