package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// shape describes a public trace by its quantiles, so that its lengths,
// arrivals and shared prefixes can be drawn without the trace.
type shape struct {
	name        string
	about       string
	input       quantiles // tokens of prompts
	output      quantiles
	correlation float64 // Spearman's, of input and output

	rate    float64                                // requests per second, mean; 0 leaves the arrivals as they are
	arrive  func(r *rand.Rand, n int) []float64    // seconds
	block   int                                    // tokens of a shared block; 0: nothing is shared
	common  bool                                   // the first block is the same everywhere
	reuse   float64                                // share of requests that go on from an earlier one
	session func(r *rand.Rand, before int) (n int) // which of the earlier ones, counted backwards
}

// quantiles are the values at quantileAt; between them the inverse of the
// distribution is a line.
type quantiles [17]float64

var quantileAt = [17]float64{0, .01, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9, .95, .98, .99, .999, 1}

// at is the value below which the share u of all lies.
func (q *quantiles) at(u float64) float64 {
	for i := 1; i < len(q); i++ {
		if u <= quantileAt[i] {
			return q[i-1] + (q[i]-q[i-1])*(u-quantileAt[i-1])/(quantileAt[i]-quantileAt[i-1])
		}
	}
	return q[len(q)-1]
}

// shapes are traces by their quantiles, which were taken from the public files: Azure LLM inference traces
// 2023 (code, conversation), Mooncake's FAST'25 traces (conversation,
// synthetic), and Vidur's lengths of arXiv summarisation.
var shapes = []shape{
	{
		name: "azure-code", about: "code completion: long prompts, short answers, requests in bursts",
		input:  quantiles{3, 17, 75, 147, 385, 770, 1075, 1469, 1909, 2433, 3193, 5194, 7315, 7436, 7436, 7437, 7437},
		output: quantiles{6, 6, 6, 7, 8, 9, 11, 13, 16, 20, 29, 55, 90, 172, 252, 831, 1899},
		arrive: onOff,
	},
	{
		name: "azure-conv", about: "chat: prompts of about 1000 tokens, answers of about 100 or 400",
		input:  quantiles{2, 29, 181, 207, 387, 403, 703, 1020, 1071, 1130, 1315, 2735, 4083, 4098, 4142, 6212, 14050},
		output: quantiles{7, 16, 41, 54, 77, 91, 103, 129, 177, 384, 400, 424, 451, 540, 601, 954, 1000},
		rate:   5.53, arrive: drifting,
	},
	{
		name: "mooncake-conv", about: "long chats: all share a beginning, two of five go on from an earlier one",
		input:  quantiles{891, 894, 901, 964, 1662, 3263, 4993, 6909, 9570, 13196, 17869, 27367, 39552, 66484, 85401, 121301, 126195},
		output: quantiles{1, 3, 10, 24, 100, 213, 291, 350, 399, 447, 504, 597, 698, 893, 1120, 2000, 2000},
		rate:   3.4, arrive: poisson, block: 512, common: true, reuse: .387, session: recent,
	},
	{
		name: "mooncake-synthetic", about: "half of the requests repeat nearly all of an earlier prompt",
		input:       quantiles{13, 16, 22, 30, 88, 912, 4365, 11587, 16289, 19411, 28430, 38615, 49009, 56631, 66458, 191374, 191378},
		output:      quantiles{1, 2, 2, 4, 8, 16, 32, 69, 126, 211, 289, 389, 519, 693, 769, 825, 893},
		correlation: -.52,
		rate:        3.9, arrive: poisson, block: 512, reuse: .45, session: anyEarlier,
	},
	{
		name: "arxiv", about: "summaries of papers: prompts of 1000 to 4000 tokens",
		input:  quantiles{1, 73, 747, 1242, 1802, 2150, 2453, 2730, 2996, 3249, 3490, 3702, 3813, 3892, 3934, 4012, 4054},
		output: quantiles{5, 36, 60, 78, 104, 125, 145, 167, 192, 222, 268, 372, 737, 2775, 3273, 3845, 4056},
		rate:   1, arrive: poisson,
	},
}

// TraceShapes lists the names with a line about each.
func TraceShapes() (names, about []string) {
	for i := range shapes {
		names, about = append(names, shapes[i].name), append(about, shapes[i].about)
	}
	return names, about
}

// poisson arrivals at 1 per second; the caller sets the rate.
func poisson(r *rand.Rand, n int) []float64 { return gammaArrivals(r, n, 1, 1) }

// drifting arrivals are bursty from one request to the next (gaps gamma of
// shape 0.84) under a rate that changes every 330 requests, about a minute of
// the trace, with a coefficient of variation of 0.21.
func drifting(r *rand.Rand, n int) []float64 {
	const gapShape, ratePeriod, rateShape = 0.84, 330, 22
	at, now, rate := make([]float64, n), 0.0, 1.0
	for i := range at {
		if i%ratePeriod == 0 {
			rate = gamma(r, rateShape) / rateShape
		}
		now += gamma(r, gapShape) / gapShape / rate
		at[i] = now
	}
	return at
}

// onOff arrivals come in bursts, gaps of 0.111 s with a coefficient of
// variation of 2.21, and one in 180 gaps is a pause of 5 s and more. In the
// long run that is the trace's mean rate, 2.57 per second, and its variation
// over all gaps, 13.
func onOff(r *rand.Rand, n int) []float64 {
	const within, burstShape, pauses, shortest, beyond = 0.111, 0.205, 0.0055, 5.0, 45.75
	at, now := make([]float64, n), 0.0
	for i := range at {
		if r.Float64() < pauses {
			now += shortest + beyond*r.ExpFloat64()
		} else {
			now += within * gamma(r, burstShape) / burstShape
		}
		at[i] = now
	}
	return at
}

// recent goes on from one of the last several hundred: the trace's median gap
// between uses of a prefix, 162 s, is some 550 requests.
func recent(r *rand.Rand, before int) int {
	return min(before, 1+int(r.ExpFloat64()*550/math.Ln2))
}

func anyEarlier(r *rand.Rand, before int) int { return 1 + r.IntN(before) }

// traceRequest is a request of a trace before it has a text.
type traceRequest struct {
	input, output int
	blocks        []uint64 // identities of the prompt's full blocks; equal ones have equal texts
}

// draw makes n requests of a shape, lengths times shrink.
func (s *shape) draw(w *Workload, shrink float64) []traceRequest {
	list := make([]traceRequest, w.Count)
	block := s.blockLen(shrink)
	fresh := uint64(1) // 0 is the common block
	for i := range list {
		r := w.rand(streamLength, i)
		u1, u2 := correlated(r, s.correlation)
		d := traceRequest{
			input:  clampLen(s.input.at(u1)*shrink, w.Trace.MaxInput),
			output: clampLen(s.output.at(u2)*shrink, w.Trace.MaxOutput),
		}
		if block > 0 {
			full := (d.input - 1) / block // the last token is never shared
			d.blocks = s.inherit(r, list[:i], full)
			for len(d.blocks) < full {
				d.blocks = append(d.blocks, fresh)
				fresh++
			}
		}
		list[i] = d
	}
	return list
}

// inherit returns the blocks, at most full, that the next request shares with
// an earlier one.
func (s *shape) inherit(r *rand.Rand, before []traceRequest, full int) []uint64 {
	var shared []uint64
	if s.common && full > 0 {
		shared = []uint64{0}
	}
	if len(before) > 0 && r.Float64() < s.reuse {
		parent := before[len(before)-s.session(r, len(before))]
		if k := min(full, len(parent.blocks)); k > len(shared) {
			shared = parent.blocks[:k]
		}
	}
	return slices.Clone(shared)
}

// blockLen is the words of a shared block; shrunk traces have shrunk blocks.
func (s *shape) blockLen(shrink float64) int {
	if s.block == 0 {
		return 0
	}
	return max(16, int(float64(s.block)*shrink))
}

func clampLen(n float64, limit int) int {
	length := max(1, int(math.Round(n)))
	if limit > 0 {
		length = min(length, limit)
	}
	return min(length, maxLen)
}

// correlated draws two numbers, each even in [0, 1), whose ranks correlate as
// given: through two normal ones (a Gaussian copula).
func correlated(r *rand.Rand, spearman float64) (u1, u2 float64) {
	if spearman == 0 {
		return r.Float64(), r.Float64()
	}
	rho := 2 * math.Sin(math.Pi*spearman/6)
	a, b := r.NormFloat64(), r.NormFloat64()
	b = rho*a + math.Sqrt(1-rho*rho)*b
	return normalShare(a), normalShare(b)
}

// normalShare is the standard normal distribution's share below x.
func normalShare(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// trace makes requests of a shape.
func (w *Workload) trace() ([]Request, error) {
	i := slices.IndexFunc(shapes, func(s shape) bool { return s.name == w.Trace.Shape })
	if i < 0 {
		names, _ := TraceShapes()
		return nil, fmt.Errorf("shape %q is not known; known are %s", w.Trace.Shape, strings.Join(names, ", "))
	}
	shrink := w.Trace.Shrink
	if !(shrink > 0 && shrink <= 1) {
		return nil, fmt.Errorf("shrink factor is %g, must be above 0 and at most 1", shrink)
	}
	s := &shapes[i]
	at := s.arrive(w.rand(streamArrival, 0), w.Count)
	if s.rate > 0 {
		rescale(at, float64(w.Count)/s.rate)
	}
	return w.write(s.draw(w, shrink), s.blockLen(shrink), at), nil
}

// write gives drawn requests their texts and times.
func (w *Workload) write(list []traceRequest, block int, at []float64) []Request {
	requests := make([]Request, len(list))
	words := w.Scale.more(max(1, block))
	for i, d := range list {
		var b strings.Builder
		for _, id := range d.blocks {
			appendWords(&b, w.rand(streamPrefix, int(id)), words)
		}
		rest := d.input - len(d.blocks)*block
		tail := w.Scale.more(max(1, rest))
		appendWords(&b, w.rand(streamPrompt, i), tail)
		requests[i] = Request{Prompt: b.String(), Words: len(d.blocks)*words + tail, OutputTokens: d.output, At: at[i]}
	}
	return requests
}
