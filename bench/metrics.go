package bench

import (
	"math"
	"slices"
)

// Metric is a latency of which statistics are made.
type Metric struct {
	Key    string // in names of fields: "ttft" of median_ttft_ms
	Label  string // in the table
	Header string // of its section
}

// Metrics are all that Serve measures, in the order in which they are shown.
var Metrics = []Metric{
	{"ttft", "TTFT", "Time to First Token"},
	{afterRamp, "TTFT after ramp", "Time to First Token after the First Wave"},
	{"first_text", "First Text", "Time to First Non-empty Text"},
	{"tpot", "TPOT", "Time per Output Token (excl. 1st token)"},
	{"itl", "ITL", "Inter-token Latency"},
	{"e2el", "E2EL", "End-to-end Latency"},
	{"client_queue_time", "Client Queue Time", "Client-side Queueing"},
	{"e2el_including_client_queue", "E2EL incl. Client Queue", "Queue-inclusive End-to-end Latency"},
}

// afterRamp is the key of the time to the first token of requests that came
// after a closed loop's first wave.
const afterRamp = "ttft_after_ramp"

// SLO is a latency bound; goodput counts the requests within all bounds.
type SLO struct {
	Metric string // ttft, tpot or e2el
	Millis float64
}

// Figures are computed from a load, with the definitions of vLLM.
type Figures struct {
	Duration           float64 // seconds
	Completed, Failed  int
	Failures           map[string]int // by kind
	InputTokens        int
	OutputTokens       int
	CachedTokens       int
	RequestThroughput  float64 // per second, as all of these
	Goodput            float64 // of requests that keep all SLOs
	OutputThroughput   float64
	TotalThroughput    float64
	PeakOutputPerS     float64 // in the best of the run's whole seconds, by chunks
	PeakConcurrent     int
	Resent             int                  // requests sent again, see Outcome
	Uncounted          int                  // completed requests without a token count by the server
	ChunksPerToken     float64              // 1 where each token comes in a chunk of its own
	Latencies          map[string][]float64 // seconds, sorted, by Metric.Key
	ServerFingerprints []string
}

// Compute makes the figures of a load.
func Compute(l *Load, slos []SLO) *Figures {
	f := &Figures{Duration: l.Duration, Failures: map[string]int{}, Latencies: map[string][]float64{}}
	good, chunks := 0, 0
	for i := range l.Outcomes {
		o := &l.Outcomes[i]
		f.Resent += o.Resent
		if !o.ok() {
			f.Failed++
			f.Failures[o.Kind]++
			continue
		}
		f.Completed++
		f.InputTokens += o.PromptTokens
		f.OutputTokens += o.OutputTokens
		f.CachedTokens += o.CachedTokens
		chunks += o.Chunks
		if !o.Counted {
			f.Uncounted++
		}
		if o.keeps(slos) {
			good++
		}
		if o.Fingerprint != "" && !slices.Contains(f.ServerFingerprints, o.Fingerprint) {
			f.ServerFingerprints = append(f.ServerFingerprints, o.Fingerprint)
		}
		f.addLatencies(o)
		if l.Ramp > 0 && i >= l.Ramp {
			f.Latencies[afterRamp] = append(f.Latencies[afterRamp], o.TTFT)
		}
	}
	for _, values := range f.Latencies {
		slices.Sort(values)
	}
	if f.Duration > 0 {
		f.RequestThroughput = float64(f.Completed) / f.Duration
		f.Goodput = float64(good) / f.Duration
		f.OutputThroughput = float64(f.OutputTokens) / f.Duration
		f.TotalThroughput = float64(f.InputTokens+f.OutputTokens) / f.Duration
	}
	if f.OutputTokens > 0 {
		f.ChunksPerToken = float64(chunks) / float64(f.OutputTokens)
	}
	f.PeakOutputPerS, f.PeakConcurrent = peakOutput(l.Outcomes), peakConcurrent(l.Outcomes)
	return f
}

// addLatencies adds one request's. Requests of a single token have no TPOT,
// those without text no time to it.
func (f *Figures) addLatencies(o *Outcome) {
	add := func(key string, values ...float64) { f.Latencies[key] = append(f.Latencies[key], values...) }
	add("ttft", o.TTFT)
	if o.FirstText > 0 {
		add("first_text", o.FirstText)
	}
	if o.OutputTokens > 1 {
		add("tpot", o.tpot())
	}
	add("itl", o.ITLs...)
	add("e2el", o.Latency)
	queued := o.Start - o.Arrival
	add("client_queue_time", queued)
	add("e2el_including_client_queue", o.Latency+queued)
}

// tpot is the time per output token after the first; 0 if there is none.
func (o *Outcome) tpot() float64 {
	if o.OutputTokens <= 1 {
		return 0
	}
	return (o.Latency - o.TTFT) / float64(o.OutputTokens-1)
}

// keeps reports whether the request is within all bounds.
func (o *Outcome) keeps(slos []SLO) bool {
	for _, s := range slos {
		value := map[string]float64{"ttft": o.TTFT, "tpot": o.tpot(), "e2el": o.Latency}[s.Metric]
		if value*1000 > s.Millis {
			return false
		}
	}
	return true
}

// peakOutput is the most chunks in one second, counted in whole seconds from
// the first request's start.
func peakOutput(outcomes []Outcome) float64 {
	first := math.Inf(1)
	for i := range outcomes {
		if outcomes[i].ok() {
			first = min(first, outcomes[i].Start)
		}
	}
	seconds := map[int]int{}
	most := 0
	count := func(at float64) {
		second := int(at - first)
		seconds[second]++
		most = max(most, seconds[second])
	}
	for i := range outcomes {
		o := &outcomes[i]
		if !o.ok() {
			continue
		}
		at := o.Start + o.TTFT
		count(at)
		for _, gap := range o.ITLs {
			at += gap
			count(at)
		}
	}
	return float64(most)
}

// peakConcurrent is the most requests under way at a moment; one that ends as
// another starts does not count with it.
func peakConcurrent(outcomes []Outcome) int {
	type event struct {
		at    float64
		delta int
	}
	var events []event
	for i := range outcomes {
		if o := &outcomes[i]; o.ok() {
			events = append(events, event{o.Start, 1}, event{o.Start + o.Latency, -1})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return a.delta - b.delta
	})
	now, most := 0, 0
	for _, e := range events {
		now += e.delta
		most = max(most, now)
	}
	return most
}

// Percentile is the value below which p percent of the sorted values lie, a
// line between neighbours, as numpy's default; 0 of none.
func Percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := p / 100 * float64(len(sorted)-1)
	i := min(max(int(at), 0), len(sorted)-1)
	if i+1 >= len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (sorted[i+1]-sorted[i])*(at-float64(i))
}
