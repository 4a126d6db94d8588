package fleet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/router"
	"weir/router/balance"
)

// gauges are the metrics that say how much a server has to do, of all kinds: weir has vLLM's
// names.
var gauges = map[string]func(*router.Report) *float64{
	"vllm:num_requests_running":      func(r *router.Report) *float64 { return &r.Running },
	"vllm:num_requests_waiting":      func(r *router.Report) *float64 { return &r.Waiting },
	"vllm:kv_cache_usage_perc":       func(r *router.Report) *float64 { return &r.KVShare },
	"vllm:gpu_cache_usage_perc":      func(r *router.Report) *float64 { return &r.KVShare },
	"sglang:num_running_reqs":        func(r *router.Report) *float64 { return &r.Running },
	"sglang:num_queue_reqs":          func(r *router.Report) *float64 { return &r.Waiting },
	"sglang:token_usage":             func(r *router.Report) *float64 { return &r.KVShare },
	"llamacpp:requests_processing":   func(r *router.Report) *float64 { return &r.Running },
	"llamacpp:requests_deferred":     func(r *router.Report) *float64 { return &r.Waiting },
	"llamacpp:kv_cache_usage_ratio":  func(r *router.Report) *float64 { return &r.KVShare },
	"llamacpp:prompt_tokens_seconds": func(r *router.Report) *float64 { return &r.PrefillRate },

	"weir_prefill_tokens_per_second":     func(r *router.Report) *float64 { return &r.PrefillRate },
	"weir_kv_transfer_tokens_per_second": func(r *router.Report) *float64 { return &r.FetchRate },
}

const maxMetricsBytes = 8 << 20

// parseMetrics reads the gauges of a Prometheus text. A server with several models or engines
// has several series, which are added; a share is the highest one, a rate the lowest.
func parseMetrics(text io.Reader) (router.Report, error) {
	r := router.UnknownReport()
	lines := bufio.NewScanner(io.LimitReader(text, maxMetricsBytes))
	lines.Buffer(make([]byte, 0, 4<<10), 1<<20)
	for lines.Scan() {
		line := lines.Text()
		name := line[:max(strings.IndexAny(line, "{ "), 0)]
		of := gauges[name]
		if of == nil {
			continue
		}
		rest := line[strings.LastIndexByte(line, '}')+1:]
		if !strings.HasPrefix(line[len(name):], "{") {
			rest = line[len(name):]
		}
		value, _, _ := strings.Cut(strings.TrimSpace(rest), " ") // a time may follow
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || !(n >= 0 && n <= math.MaxInt32) {
			return router.UnknownReport(), fmt.Errorf("the metric %s is %.40q; it must be a number of at least 0", name, value)
		}
		switch p := of(&r); {
		case p == &r.KVShare:
			*p = max(*p, n)
		case *p < 0:
			*p = n
		case p == &r.PrefillRate, p == &r.FetchRate:
			*p = min(*p, n)
		default:
			*p += n
		}
	}
	return r, lines.Err()
}

// scrape asks a replica for its metrics, where its kind has some, and takes its load from
// them.
func (f *Fleet) scrape(ctx context.Context, r *replica) {
	address := r.metricsURL()
	if address == "" {
		return
	}
	if reported, at := r.reported(); at.After(time.Now().Add(-f.config.ProbeEvery)) && reported.Running >= 0 {
		return // its answers tell, and later ones than a scrape would
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	mark := f.balancer.Mark(r.number)
	res, err := r.wire.get(ctx, address)
	if err != nil {
		return // the probe says what is wrong with it
	}
	defer func() { _ = res.Body.Close() }() // only read
	if res.StatusCode != http.StatusOK {
		return // it shows no metrics to us; own counts decide
	}
	if report, err := parseMetrics(res.Body); err == nil {
		f.report(r, report, mark)
	}
}

// metricsURL is where a replica's metrics are; "" where it has none. A weir has them on its
// admin listener.
func (r *replica) metricsURL() string {
	path := kinds[r.target.Kind].metrics
	switch {
	case path == "":
		return ""
	case r.target.AdminURL != "":
		return strings.TrimSuffix(r.target.AdminURL, "/") + path
	case r.target.Kind == Weir:
		return ""
	}
	return r.wire.root(path)
}

// note takes the load from the header of an answer.
func (f *Fleet) note(r *replica, h http.Header) {
	text := h.Get(router.LoadHeader)
	if text == "" {
		return
	}
	if report, err := router.ParseReport(text); err == nil {
		f.report(r, report, f.balancer.Mark(r.number))
	}
}

// report takes in what a replica says of its load. since is from before it was asked.
func (f *Fleet) report(r *replica, report router.Report, since balance.Mark) {
	now := time.Now()
	r.mu.Lock()
	r.said, r.saidAt = report, now
	gone := r.gone
	r.mu.Unlock()
	if gone || report.Running < 0 && report.Waiting < 0 {
		return // it says nothing that counts
	}
	f.balancer.Report(now, r.number, balance.Report{
		Running: int(max(report.Running, 0)), Waiting: int(max(report.Waiting, 0)), WaitingTokens: int(report.WaitingTokens),
		KV: max(report.KVShare, 0), PrefillRate: max(report.PrefillRate, 0), FetchRate: max(report.FetchRate, 0), Since: since,
	})
}

// reported is the last report, and when it came.
func (r *replica) reported() (router.Report, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said, r.saidAt
}
