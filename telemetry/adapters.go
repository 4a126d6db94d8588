package telemetry

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Adapters are the LoRA adapters of a model's requests at one moment.
type Adapters struct {
	Running, Waiting []string // names, of requests that run and that wait
	Most             int      // that may be loaded at once
}

// adaptersDesc is vLLM's series of adapters, by which gateways find servers that have one at work. Its value is when it was read.
var adaptersDesc = prometheus.NewDesc("vllm:lora_requests_info",
	"LoRA adapters of the requests that run and wait, and how many may be loaded; the value is the time in Unix seconds.",
	[]string{"max_lora", "running_lora_adapters", "waiting_lora_adapters"}, nil)

// collect sends the series.
func (a *Adapters) collect(to chan<- prometheus.Metric) {
	if a == nil {
		return
	}
	names := func(list []string) string {
		return strings.Join(slices.Compact(slices.Sorted(slices.Values(list))), ",")
	}
	to <- prometheus.MustNewConstMetric(adaptersDesc, prometheus.GaugeValue, float64(time.Now().Unix()), strconv.Itoa(a.Most), names(a.Running), names(a.Waiting))
}
