package capacity

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Pool is what the replicas of a pool compute.
type Pool string

// The pools: replicas that compute prompts and outputs, or one of the two.
const (
	Mixed   Pool = "mixed"
	Prefill Pool = "prefill"
	Decode  Pool = "decode"
)

// Demand is a load, and what one replica was measured to do.
type Demand struct {
	Pool   Pool    // "" is Mixed
	Rate   float64 // requests a second
	Prompt float64 // mean tokens of a prompt
	Output float64 // mean tokens of an answer
	Cached float64 // share of prompt tokens that prefix caches hold

	Prefill   float64 // prompt tokens a second of one replica, while it computes prompts only
	Decode    float64 // output tokens a second of one replica, of all sequences together, while it decodes only
	Sequences int     // sequences that Decode was measured with
	Slots     int     // sequences that a replica runs at once; 0 is no limit
	KVTokens  int     // of a replica's KV cache; 0 is not looked at

	Rows        float64 // rows of predictions a second; 0 is none
	RowsReplica float64 // rows a second of one replica

	Headroom float64 // share of a replica that stays free: bursts wait less
	Zones    int     // replicas are spread over; the load is served without one of them; 0 or 1 is no such promise
}

// Need is how many replicas a load needs, by each limit, whatever the latency.
type Need struct {
	In        Demand
	Work      float64 // seconds of a replica that a request takes
	Stay      float64 // seconds that a request's sequence stays, at the planned load
	Live      float64 // sequences at a time, in all replicas
	Compute   float64 // replicas by each limit, not rounded
	Slots     float64
	KV        float64
	Predict   float64
	Replicas  int // what is needed, for language models and predictions in replicas of their own
	Predicted int
	Total     int // with a zone's loss
}

// Need computes how many replicas are needed. The formulas are those that lines shows.
func (in Demand) Need() (*Need, error) {
	if err := in.check(); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	p := &Need{In: in}
	use := 1 - in.Headroom
	if in.Rate > 0 {
		prefill, decode := in.seconds()
		p.Work = prefill + decode
		p.Compute = in.Rate * p.Work / use
		// A sequence decodes at its share of a replica's rate, and waits while the replica computes prompts: the share of its time that the
		// planned load leaves to decoding is 1 - rate x prefill / replicas.
		p.Stay = prefill
		if decode > 0 {
			p.Stay += decode * float64(in.Sequences) / (1 - use*prefill/p.Work)
		}
		p.Live = in.Rate * p.Stay
		if in.Slots > 0 {
			p.Slots = p.Live / float64(in.Slots) / use
		}
		if in.KVTokens > 0 {
			p.KV = p.Live * in.held() / float64(in.KVTokens) / use
		}
		p.Replicas = replicasOf(max(p.Compute, p.Slots, p.KV))
	}
	if in.Rows > 0 {
		p.Predict = in.Rows / in.RowsReplica / use
		p.Predicted = replicasOf(p.Predict)
	}
	p.Total = overZones(p.Replicas, in.Zones) + overZones(p.Predicted, in.Zones)
	return p, nil
}

// seconds of a replica that a request's prompt and its output take.
func (in *Demand) seconds() (prefill, decode float64) {
	if in.Pool != Decode {
		prefill = in.Prompt * (1 - in.Cached) / in.Prefill
	}
	if in.Pool != Prefill {
		decode = in.Output / in.Decode
	}
	return prefill, decode
}

// held is how many tokens of the KV cache a sequence holds, in the mean.
func (in *Demand) held() float64 {
	if in.Pool == Prefill {
		return in.Prompt
	}
	return in.Prompt + in.Output/2
}

// Limit says which limit binds.
func (p *Need) Limit() string {
	switch max(p.Compute, p.Slots, p.KV) {
	case p.Compute:
		return "compute"
	case p.Slots:
		return "slots"
	}
	return "KV cache"
}

// Most is how many requests a second one replica serves, by all limits.
func (p *Need) Most() float64 { return p.In.Rate / max(p.Compute, p.Slots, p.KV) }

// replicasOf rounds replicas up; what is a rounding error above a whole number is that number.
func replicasOf(n float64) int { return max(1, int(math.Ceil(n-1e-9))) }

// overZones is how many replicas in equal zones leave n when one zone is lost.
func overZones(n, zones int) int {
	if n == 0 || zones < 2 {
		return n
	}
	each := (n + zones - 2) / (zones - 1)
	return each * zones
}

// These bound a load, and with it the replicas that are counted one by one: mostRate takes about a second.
const (
	mostRate = 1e5 // requests a second
	mostRows = 1e9
)

func (in *Demand) check() error {
	switch {
	case in.Rate < 0 || in.Rows < 0 || in.Rate == 0 && in.Rows == 0:
		return errors.New("no load: give requests a second, or rows of predictions a second")
	case !(in.Rate <= mostRate && in.Rows <= mostRows):
		return fmt.Errorf("%g requests and %g rows a second (rate, rows), want at most %g and %g; plan a part of it and multiply", in.Rate, in.Rows, mostRate, mostRows)
	case !(in.Headroom >= 0 && in.Headroom < 1):
		return fmt.Errorf("a headroom of %g, want a share from 0 to below 1", in.Headroom)
	case in.Zones < 0:
		return fmt.Errorf("%d zones, want 0 or more", in.Zones)
	case in.Rows > 0 && !(in.RowsReplica > 0):
		return fmt.Errorf("%g rows a second of one replica: give what `weir bench predict` measured", in.RowsReplica)
	case in.Rate == 0:
		return nil
	case !(in.Prefill > 0) || !(in.Decode > 0) || in.Sequences < 1:
		return fmt.Errorf("%g prompt tokens a second, %g output tokens a second of %d sequences: give what `weir bench batched` measured",
			in.Prefill, in.Decode, in.Sequences)
	case !(in.Prompt > 0) || !(in.Output > 0) || !(in.Cached >= 0 && in.Cached < 1):
		return fmt.Errorf("prompts of %g tokens of which %g are cached, answers of %g: want lengths above 0 and a share below 1",
			in.Prompt, in.Cached, in.Output)
	case in.KVTokens > 0 && float64(in.KVTokens) < in.Prompt+in.Output:
		return fmt.Errorf("a KV cache of %d tokens holds no request of %g + %g", in.KVTokens, in.Prompt, in.Output)
	}
	return nil
}

// Lines are the formulas with their numbers.
func (p *Need) Lines() []string {
	in, use := &p.In, 1-p.In.Headroom
	var lines []string
	line := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if in.Rate > 0 {
		p.workLines(line)
		line("by compute          = rate x work / (1 - headroom) = %.4g x %.3g / %.3g = %.2f replicas", in.Rate, p.Work, use, p.Compute)
		if p.Slots > 0 || p.KV > 0 {
			p.liveLines(line)
		}
		line("%-19s = the greatest of these, rounded up = %d", "replicas", p.Replicas)
	}
	if in.Rows > 0 {
		line("predictions         = rows / rows of a replica / (1 - headroom) = %g / %g / %.3g = %.2f, rounded up = %d", in.Rows, in.RowsReplica, use,
			p.Predict, p.Predicted)
	}
	if in.Zones > 1 {
		line("without a zone      = ceil(replicas / (zones - 1)) x zones, over %d zones = %d", in.Zones, p.Total)
	}
	return lines
}

func (p *Need) workLines(line func(format string, args ...any)) {
	in := &p.In
	prefill, decode := in.seconds()
	switch in.Pool {
	case Prefill:
		line("work of a request   = prompt x (1 - cached) / prefill rate = %.4g x %.3g / %.4g = %.3g s of a replica", in.Prompt, 1-in.Cached, in.Prefill, prefill)
	case Decode:
		line("work of a request   = output / decode rate = %.4g / %.4g = %.3g s of a replica", in.Output, in.Decode, decode)
	default:
		line("work of a request   = prompt x (1 - cached) / prefill rate + output / decode rate")
		line("                    = %.4g x %.3g / %.4g + %.4g / %.4g = %.3g + %.3g = %.3g s of a replica", in.Prompt, 1-in.Cached, in.Prefill, in.Output,
			in.Decode, prefill, decode, p.Work)
	}
}

func (p *Need) liveLines(line func(format string, args ...any)) {
	in, use := &p.In, 1-p.In.Headroom
	prefill, _ := in.seconds()
	if in.Pool != Prefill {
		line("stay of a sequence  = prefill + output x sequences / decode rate / (1 - (1 - headroom) x prefill share of the work)")
		line("                    = %.3g + %.4g x %d / %.4g / (1 - %.3g x %.3g) = %.3g s", prefill, in.Output, in.Sequences, in.Decode, use,
			prefill/p.Work, p.Stay)
	}
	line("sequences at a time = rate x stay = %.4g x %.3g = %.1f", in.Rate, p.Stay, p.Live)
	if in.Slots > 0 {
		line("by slots            = sequences / slots / (1 - headroom) = %.1f / %d / %.3g = %.2f replicas", p.Live, in.Slots, use, p.Slots)
	}
	if in.KVTokens > 0 {
		line("by KV cache         = sequences x (prompt + output / 2) / KV tokens / (1 - headroom) = %.1f x %.4g / %d / %.3g = %.2f replicas",
			p.Live, in.held(), in.KVTokens, use, p.KV)
	}
}

// String is the lines as a text.
func (p *Need) String() string { return strings.Join(p.Lines(), "\n") + "\n" }
