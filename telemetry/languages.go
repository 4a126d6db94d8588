package telemetry

import "github.com/prometheus/client_golang/prometheus"

// LanguageModels is what language models and text encoders take, at one moment.
type LanguageModels struct {
	Loaded     int
	Bytes      int64 // of memory, of those that are loaded
	LimitBytes int64 // 0: none
	Warm       int   // held beside the version that answers
	WarmBytes  int64
}

// ModelChanges are the values of the label change of weir_model_changes_total.
var ModelChanges = []string{"evict", "fail", "idle", "load", "move", "unload"}

// AddLanguageModels registers what models take and what happens to them, and returns what
// counts the latter.
func AddLanguageModels(r Registerer, read func() LanguageModels) (count func(change string), err error) {
	changes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_model_changes_total",
		Help: "Versions of language models that were loaded, unloaded (by an operator or a reload), idle too long, evicted for another, could not be loaded, or took over a name.",
	}, []string{"change"})
	for _, c := range ModelChanges {
		changes.WithLabelValues(c)
	}
	gauge := func(name, help string, value func(LanguageModels) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(read()) })
	}
	return func(change string) { changes.WithLabelValues(change).Inc() }, registerAll(r, []prometheus.Collector{
		changes,
		gauge("weir_models_loaded", "Language models and text encoders in memory, by version.", func(l LanguageModels) float64 { return float64(l.Loaded) }),
		gauge("weir_models_memory_bytes", "Memory of their weights and KV caches.", func(l LanguageModels) float64 { return float64(l.Bytes) }),
		gauge("weir_models_warm", "Those among them that a deployment or a rollout holds beside the version that answers.", func(l LanguageModels) float64 { return float64(l.Warm) }),
		gauge("weir_models_warm_bytes", "Memory of these.", func(l LanguageModels) float64 { return float64(l.WarmBytes) }),
		gauge("weir_models_memory_limit_bytes", "What they may take; 0 is no limit.", func(l LanguageModels) float64 { return float64(l.LimitBytes) }),
	})
}
