package bench

import (
	"math"
	"strconv"
)

// Fill adds everything to a result: the members of vLLM's file under its
// names, rows for Compare, and the distributions for plots.
func (p *Report) Fill(r *Result) {
	r.Seed = p.Options.Seed
	r.Model.Name = p.Target.Model
	if prints := p.Figures.ServerFingerprints; len(prints) == 1 {
		r.Model.Fingerprint = prints[0]
	}
	r.Notes = append(r.Notes, p.Notes()...)
	p.setup(r)
	p.totals(r)
	if p.Figures.Failed > 0 {
		r.set("error_samples", p.Errors(10))
	}
	if p.Detailed {
		p.details(r)
	}
	p.latencies(r)
	p.distributions(r)
}

// tidy rounds to nine digits, which no clock exceeds.
func tidy(v float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 9, 64), 64)
	if err != nil {
		return v
	}
	return rounded
}

// setup are the members that say what was run.
func (p *Report) setup(r *Result) {
	backend := "openai"
	if p.Target.chat() {
		backend = "openai-chat"
	}
	r.set("endpoint_type", backend)
	r.set("backend", backend)
	r.set("label", orNull(p.Label))
	r.set("model_id", p.Target.Model)
	r.set("tokenizer_id", nil) // there is none: the server counts
	r.set("num_prompts", len(p.Options.Requests))
	for _, pair := range p.Metadata {
		r.set(pair[0], pair[1])
	}
	if math.IsInf(p.Options.Rate, 1) {
		r.set("request_rate", "inf")
	} else {
		r.set("request_rate", p.Options.Rate)
	}
	if math.IsInf(p.Options.Burstiness, 1) {
		r.set("burstiness", "inf")
	} else {
		r.set("burstiness", p.Options.Burstiness)
	}
	if p.Options.MaxConcurrency > 0 {
		r.set("max_concurrency", p.Options.MaxConcurrency)
	} else {
		r.set("max_concurrency", nil)
	}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// totals are the counts and rates, as members and as rows.
func (p *Report) totals(r *Result) {
	f := p.Figures
	both := func(name string, value float64) {
		value = tidy(value)
		r.set(name, value)
		r.AddValue(name, serveUnits[name], value)
	}
	both("duration", f.Duration)
	both("completed", float64(f.Completed))
	both("failed", float64(f.Failed))
	r.set("failures", f.Failures)
	both("total_input_tokens", float64(f.InputTokens))
	r.set("total_cached_tokens", f.CachedTokens)
	both("total_output_tokens", float64(f.OutputTokens))
	both("request_throughput", f.RequestThroughput)
	if len(p.SLOs) > 0 {
		both("request_goodput", f.Goodput)
	} else {
		r.set("request_goodput", nil)
	}
	both("output_throughput", f.OutputThroughput)
	both("total_token_throughput", f.TotalThroughput)
	both("max_output_tokens_per_s", f.PeakOutputPerS)
	both("max_concurrent_requests", float64(f.PeakConcurrent))
	r.set("chunks_per_token", tidy(f.ChunksPerToken))
}

// latencies are the statistics in milliseconds.
func (p *Report) latencies(r *Result) {
	for _, m := range Metrics {
		if !p.exists(m.Key) {
			continue
		}
		average, median, deviation, percentiles := p.stats(m.Key)
		row := func(name string, value float64) {
			value = tidy(value)
			r.set(name+"_"+m.Key+"_ms", value)
			if m.Key != "client_queue_time" || p.open() { // in a closed loop it says how many requests there were
				r.AddValue(name+"_"+m.Key+"_ms", "ms", value)
			}
		}
		row("mean", average)
		row("median", median)
		row("std", deviation)
		for i, q := range p.Percentiles {
			if q != 50 { // the median has it
				row("p"+percentileName(q), percentiles[i])
			} else {
				r.set("p50_"+m.Key+"_ms", tidy(percentiles[i]))
			}
		}
	}
}

// distributions are each latency's percentiles from 0 to 100 in milliseconds:
// what a plot needs, without every request.
func (p *Report) distributions(r *Result) {
	all := map[string][]float64{}
	for _, m := range Metrics {
		values := p.Figures.Latencies[m.Key]
		if len(values) == 0 {
			continue
		}
		points := make([]float64, 101)
		for i := range points {
			points[i] = tidy(1000 * Percentile(values, float64(i)))
		}
		all[m.Key] = points
	}
	r.set("distributions_ms", all)
}

// details are vLLM's members with one value for each request, in seconds; a
// failed request has zeros and an error.
func (p *Report) details(r *Result) {
	n := len(p.Load.Outcomes)
	inputs, outputs := make([]int, n), make([]int, n)
	ttfts, latencies, starts, queued := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	itls := make([][]float64, n)
	texts, errs := make([]string, n), make([]string, n)
	for i := range p.Load.Outcomes {
		o := &p.Load.Outcomes[i]
		inputs[i], starts[i], queued[i], errs[i] = o.PromptTokens, o.Start, o.Start-o.Arrival, o.Error
		texts[i], itls[i] = o.Text, append([]float64{}, o.ITLs...)
		if !o.ok() {
			errs[i] = o.Kind + ": " + o.Error
			continue
		}
		outputs[i], ttfts[i], latencies[i] = o.OutputTokens, o.TTFT, o.Latency
	}
	r.set("input_lens", inputs)
	r.set("output_lens", outputs)
	r.set("ttfts", ttfts)
	r.set("itls", itls)
	r.set("latencies", latencies)
	r.set("start_times", starts)
	r.set("queue_times", queued)
	r.set("generated_texts", texts)
	r.set("errors", errs)
}
