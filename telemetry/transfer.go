package telemetry

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// KVTransfer is what came from other replicas' prefix caches and went there, since the start.
type KVTransfer struct {
	Fetches                    uint64
	Seconds                    float64
	QueryTokens, HitTokens     uint64
	ReceivedBlocks, SentBlocks uint64
	ReceivedBytes, SentBytes   uint64
	Failures, Skipped          map[string]uint64 // by reason
}

var (
	kvBlocks = prometheus.NewDesc("weir_kv_transfer_blocks_total", "KV blocks that came from other replicas, and that were read for them.", []string{"direction"}, nil)
	kvBytes  = prometheus.NewDesc("weir_kv_transfer_bytes_total", "Bytes of these blocks.", []string{"direction"}, nil)

	kvFailures = prometheus.NewDesc("weir_kv_transfer_failures_total", "Fetches of KV blocks that failed, wholly or from a block on; the rest was computed.", []string{"reason"}, nil)
	kvSkipped  = prometheus.NewDesc("weir_kv_transfer_skipped_total", "KV blocks that are elsewhere and were not fetched, by why.", []string{"reason"}, nil)
)

// collect sends the series with labels.
func (t *KVTransfer) collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, label string, n uint64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), label)
	}
	send(kvBlocks, "received", t.ReceivedBlocks)
	send(kvBlocks, "sent", t.SentBlocks)
	send(kvBytes, "received", t.ReceivedBytes)
	send(kvBytes, "sent", t.SentBytes)
	for _, reason := range slices.Sorted(maps.Keys(t.Failures)) {
		send(kvFailures, reason, t.Failures[reason])
	}
	for _, reason := range slices.Sorted(maps.Keys(t.Skipped)) {
		send(kvSkipped, reason, t.Skipped[reason])
	}
}
