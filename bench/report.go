package bench

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Report says how figures are shown and saved.
type Report struct {
	Figures *Figures
	Load    *Load
	Target  *Target
	Options *ServeOptions

	SLOs        []SLO
	Shown       []string  // keys of the latencies in the table; the result file has all
	Percentiles []float64 // 0 to 100
	Label       string
	Metadata    [][2]string // further members of the result file
	Detailed    bool        // the result file has every request
	Unique      bool        // no two prompts begin alike, so that a prefix cache should not help
}

// ParseMetrics reads "ttft,tpot,itl".
func ParseMetrics(list string) ([]string, error) {
	var keys, known []string
	for _, m := range Metrics {
		known = append(known, m.Key)
	}
	for key := range strings.SplitSeq(list, ",") {
		key = strings.TrimSpace(key)
		if !slices.Contains(known, key) {
			return nil, fmt.Errorf("metric %q is not known; known are %s", key, strings.Join(known, ", "))
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// ParsePercentiles reads "50,99,99.9".
func ParsePercentiles(list string) ([]float64, error) {
	var out []float64
	for s := range strings.SplitSeq(list, ",") {
		p, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return nil, fmt.Errorf("percentile %q must be a number from 0 to 100", s)
		}
		out = append(out, p)
	}
	return out, nil
}

// ParseSLO reads "ttft:500", a bound in milliseconds.
func ParseSLO(s string) (SLO, error) {
	name, value, ok := strings.Cut(s, ":")
	if !ok || !slices.Contains([]string{"ttft", "tpot", "e2el"}, name) {
		return SLO{}, fmt.Errorf("service level objective %q must be ttft:MS, tpot:MS or e2el:MS", s)
	}
	ms, err := strconv.ParseFloat(value, 64)
	if err != nil || !(ms >= 0) {
		return SLO{}, fmt.Errorf("service level objective %q: %q must be a number of milliseconds, 0 or more", s, value)
	}
	return SLO{name, ms}, nil
}

// percentileName is "99" or "99.9".
func percentileName(p float64) string { return strconv.FormatFloat(p, 'f', -1, 64) }

// stats are the figures of one latency in milliseconds.
func (p *Report) stats(key string) (average, median, deviation float64, percentiles []float64) {
	values := p.Figures.Latencies[key]
	for _, q := range p.Percentiles {
		percentiles = append(percentiles, 1000*Percentile(values, q))
	}
	return 1000 * mean(values), 1000 * Percentile(values, 50), 1000 * Deviation(values), percentiles
}

// exists reports whether a latency means something in this run: requests wait
// for a free sender only where there is a limit, and their wait is part of a
// latency only where they arrive on their own.
func (p *Report) exists(key string) bool {
	limited := p.Options.MaxConcurrency > 0
	switch key {
	case afterRamp:
		return p.Load.Ramp > 0
	case "client_queue_time":
		return limited
	case "e2el_including_client_queue":
		return limited && p.open()
	}
	return true
}

// open reports whether requests arrive on their own.
func (p *Report) open() bool { return p.Options.SelfTimed || !math.IsInf(p.Options.Rate, 1) }

// Print writes the table that `vllm bench serve` prints.
func (p *Report) Print(w io.Writer) error {
	var b strings.Builder
	f := p.Figures
	count := func(label string, n int) { fmt.Fprintf(&b, "%-40s %-10d\n", label, n) }
	value := func(label string, v float64) { fmt.Fprintf(&b, "%-40s %-10.2f\n", label, v) }
	header(&b, " Serving Benchmark Result ", "=")
	count("Successful requests:", f.Completed)
	count("Failed requests:", f.Failed)
	for _, kind := range slices.Sorted(maps.Keys(f.Failures)) {
		count("  "+kind+":", f.Failures[kind])
	}
	if p.Options.MaxConcurrency > 0 {
		count("Maximum request concurrency:", p.Options.MaxConcurrency)
	}
	if !math.IsInf(p.Options.Rate, 1) {
		value("Request rate configured (RPS):", p.Options.Rate)
	}
	value("Benchmark duration (s):", f.Duration)
	count("Total input tokens:", f.InputTokens)
	if f.CachedTokens > 0 {
		count("  of these from the prefix cache:", f.CachedTokens)
	}
	count("Total generated tokens:", f.OutputTokens)
	value("Request throughput (req/s):", f.RequestThroughput)
	if len(p.SLOs) > 0 {
		value("Request goodput (req/s):", f.Goodput)
	}
	value("Output token throughput (tok/s):", f.OutputThroughput)
	value("Peak output token throughput (tok/s):", f.PeakOutputPerS)
	value("Peak concurrent requests:", float64(f.PeakConcurrent))
	value("Total token throughput (tok/s):", f.TotalThroughput)
	for _, m := range Metrics {
		shown := slices.Contains(p.Shown, m.Key) || m.Key == afterRamp && slices.Contains(p.Shown, "ttft")
		if !p.exists(m.Key) || !shown {
			continue
		}
		average, median, _, percentiles := p.stats(m.Key)
		header(&b, m.Header, "-")
		value(fmt.Sprintf("Mean %s (ms):", m.Label), average)
		value(fmt.Sprintf("Median %s (ms):", m.Label), median)
		for i, q := range p.Percentiles {
			value(fmt.Sprintf("P%s %s (ms):", percentileName(q), m.Label), percentiles[i])
		}
	}
	b.WriteString(strings.Repeat("=", tableWidth) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

const tableWidth = 50

// header centres a title in a line of the fill.
func header(b *strings.Builder, title, fill string) {
	left := max(0, tableWidth-len(title)) / 2
	right := max(0, tableWidth-len(title)-left)
	fmt.Fprintf(b, "%s%s%s\n", strings.Repeat(fill, left), title, strings.Repeat(fill, right))
}

// Notes tell what a reader of the figures must know.
func (p *Report) Notes() []string {
	var notes []string
	f := p.Figures
	if f.Uncounted > 0 {
		notes = append(notes, fmt.Sprintf(
			"%d of %d answers came without usage: their outputs are counted in chunks, their prompts in words", f.Uncounted, f.Completed))
	}
	if f.Resent > 0 {
		notes = append(notes, fmt.Sprintf("%d requests were sent again because the server had closed their idle connection; "+
			"latencies include that time", f.Resent))
	}
	if f.ChunksPerToken > 0 && (f.ChunksPerToken < 0.9 || f.ChunksPerToken > 1.1) {
		notes = append(notes, fmt.Sprintf(
			"a token came in %.2f chunks on average: ITL is per chunk, TPOT per token", f.ChunksPerToken))
	}
	if gap, pace := Percentile(f.Latencies["itl"], 50), Percentile(f.Latencies["tpot"], 50); gap < pace/10 {
		notes = append(notes, "most events arrived in one packet with the event before: "+
			"the median ITL says little; TPOT says how fast tokens arrive")
	}
	if share := float64(f.CachedTokens) / float64(max(f.InputTokens, 1)); p.Unique && share > 0.02 {
		notes = append(notes, fmt.Sprintf("%.0f %% of the prompt tokens came from the server's prefix cache: "+
			"it has seen prompts of this seed; choose another --seed to measure whole prefills", 100*share))
	}
	if f.Failed > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d requests failed and are in no figure but this: %s",
			f.Failed, f.Failed+f.Completed, failureList(f.Failures)))
	}
	if asked := p.asked(); p.Target.IgnoreEOS && f.Uncounted == 0 && f.Failed == 0 && asked != f.OutputTokens {
		notes = append(notes, fmt.Sprintf("%d output tokens were asked for and %d arrived, "+
			"although requests said ignore_eos", asked, f.OutputTokens))
	}
	if len(f.ServerFingerprints) > 1 {
		notes = append(notes, fmt.Sprintf("the answers carry %d different fingerprints: more than one server or model answered",
			len(f.ServerFingerprints)))
	}
	return notes
}

// asked sums the output tokens of all requests.
func (p *Report) asked() int {
	n := 0
	for i := range p.Options.Requests {
		n += p.Options.Requests[i].OutputTokens
	}
	return n
}

func failureList(failures map[string]int) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(failures)) {
		parts = append(parts, fmt.Sprintf("%d %s", failures[kind], kind))
	}
	return strings.Join(parts, ", ")
}

// Errors lists the first few errors, one of each text.
func (p *Report) Errors(most int) []string {
	var out []string
	for i := range p.Load.Outcomes {
		o := &p.Load.Outcomes[i]
		line := o.Kind + ": " + o.Error
		if !o.ok() && len(out) < most && !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}
