package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Transcripts counts the requests of tenants that let their prompts be kept.
type Transcripts struct {
	Kept    uint64
	Dropped uint64 // the queue was full, or the store failed
}

// AddTranscripts publishes what read returns at each scrape.
func AddTranscripts(r Registerer, read func() Transcripts) error {
	counter := func(name, help string, value func(Transcripts) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(value(read())) })
	}
	return registerAll(r, []prometheus.Collector{
		counter("weir_transcripts_kept_total", "Requests of tenants with log_prompts whose prompts and answers were kept, scrubbed.",
			func(t Transcripts) uint64 { return t.Kept }),
		counter("weir_transcripts_dropped_total", "Requests of tenants with log_prompts whose prompts and answers could not be kept in time.",
			func(t Transcripts) uint64 { return t.Dropped }),
	})
}
