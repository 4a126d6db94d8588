package online

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/tensor"
	"weir/router"
	"weir/telemetry/monitor/feature"
)

// What a request pays for its features: of one view, each row about another entity, in
// weir's layout; with every value read of Redis, and with every value in the cache. Sizes
// are those that Feast publishes for its own servers. Needs Redis.
func BenchmarkFeatures(b *testing.B) {
	f := testFeatures(b)
	for _, features := range []int{50, 250} {
		project := "weir-bench-" + rand.Text()
		table := Table{project, "user", "v", nil, time.Hour}
		rows := make([]Row, 100)
		for r := range rows {
			rows[r].Parts = []string{fmt.Sprint(r)}
		}
		var list strings.Builder
		for i := range features {
			table.Fields = append(table.Fields, fmt.Sprintf("feature_%d", i))
			fmt.Fprintf(&list, "  - {name: feature_%d, source: store, entity: user, view: v, type: number, max_staleness: 1h}\n", i)
			for r := range rows {
				rows[r].Values = append(rows[r].Values, fmt.Sprint(float64(i*r)/7))
			}
		}
		if err := f.Put(b.Context(), table, rows, time.Now()); err != nil {
			b.Fatal(err)
		}
		for _, entities := range []int{1, 100} {
			for _, cache := range []string{"{entries: 0}", "{entries: 1000, fresh: 10m}"} {
				name := fmt.Sprintf("features=%d/rows=%d/%s", features, entities, map[bool]string{true: "redis", false: "cache"}[cache == "{entries: 0}"])
				b.Run(name, func(b *testing.B) { benchmarkJoin(b, f, project, cache, list.String(), entities) })
			}
		}
	}
}

func benchmarkJoin(b *testing.B, f *Store, project, cache, features string, entities int) {
	m, err := feature.ParseManifest(fmt.Appendf(nil, "version: 1\nproject: %s\ntimeout: 1s\ncache: %s\n"+
		"entities: [{name: user, keys: [{input: id, type: integer}]}]\nfeatures:\n%s", project, cache, features))
	if err != nil {
		b.Fatal(err)
	}
	join, err := feature.NewJoin(m, feature.NewOnline(f, feature.OnlineOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	ids := make([]int64, entities)
	for i := range ids {
		ids[i] = int64(i)
	}
	p := router.Prediction{Inputs: []tensor.Tensor{tensor.Of("id", tensor.Int64, []int64{int64(entities)}, ids)}}
	var rows feature.Rows
	var times []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		if err := join.Resolve(b.Context(), &p, &rows); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(began))
		if o := rows.Outcome(entities-1, 0); o != feature.Stored && o != feature.Cached {
			b.Fatal(o)
		}
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}
