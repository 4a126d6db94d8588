package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// DraftSource is what proposes draft tokens, and how they fared.
type DraftSource struct {
	Name               string // "ngram", "grammar", "draft_model", "mtp"
	Proposed, Accepted uint64
}

// Draft tokens have series of their own: those by place are vLLM's.
var (
	draftsAt       = prometheus.NewDesc("vllm:spec_decode_num_accepted_tokens_per_pos_total", "Draft tokens accepted, by their place among those of a step: 0 is the first.", []string{"position"}, nil)
	draftsProposed = prometheus.NewDesc("weir_draft_tokens_total",
		"Draft tokens proposed, by source: ngram (lookup), grammar (text that a format leaves no choice about), draft_model, mtp.",
		[]string{"source"}, nil)
	draftsAccepted = prometheus.NewDesc("weir_draft_tokens_accepted_total", "Draft tokens accepted, by source.", []string{"source"}, nil)
)

// collectDrafts sends these.
func (s *Snapshot) collectDrafts(ch chan<- prometheus.Metric) {
	for i, n := range s.AcceptedAt {
		ch <- prometheus.MustNewConstMetric(draftsAt, prometheus.CounterValue, float64(n), strconv.Itoa(i))
	}
	for _, from := range s.DraftSources {
		ch <- prometheus.MustNewConstMetric(draftsProposed, prometheus.CounterValue, float64(from.Proposed), from.Name)
		ch <- prometheus.MustNewConstMetric(draftsAccepted, prometheus.CounterValue, float64(from.Accepted), from.Name)
	}
}
