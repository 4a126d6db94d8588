package capacity

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"weir/internal/unit"
)

// Print writes the plan as a text, the formulas with their numbers.
func (p *Plan) Print(w io.Writer) error {
	var b strings.Builder
	for i := range p.Models {
		p.Models[i].write(&b)
	}
	p.printInstances(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (m *ModelPlan) write(b *strings.Builder) {
	fmt.Fprintf(b, "%s: %.4g requests a second, prompts of %.4g tokens, answers of %.4g, %.3g %% of prompts cached\n", m.Name, m.Rate, m.Prompt, m.Output, 100*m.Cached)
	for _, way := range []struct {
		name string
		w    *Alternative
	}{{"chosen", &m.Chosen}, {"cheapest mixed", m.Mixed}, {"cheapest apart", m.Split}} {
		if way.w != nil && (way.w == &m.Chosen || !same(way.w, &m.Chosen)) {
			way.w.write(b, way.name)
		}
	}
	if m.Chosen.PricePerHour > 0 {
		fmt.Fprintf(b, "  %.4g a million tokens of prompts and answers, %.4g a million of answers, were it alone\n", m.PerMillion, m.PerMillionOutput)
	}
	for i := range m.Chosen.Pools {
		pool := &m.Chosen.Pools[i]
		fmt.Fprintf(b, "\n  %s on %s\n", pool.Pool, pool.Kind)
		for _, line := range pool.Formulas {
			fmt.Fprintf(b, "    %s\n", line)
		}
		if l := pool.Latency; l != nil {
			fmt.Fprintf(b, "    latency             = %s at %.4g requests a second of each, simulated\n", l, pool.Rate)
		}
		if l := pool.Slower; l != nil {
			fmt.Fprintf(b, "    steps 10 %% longer   = %s at that rate, simulated\n", l)
		}
	}
	if m.Off > 0 {
		fmt.Fprintf(b, "    steps are %.1f %% from their estimates in the mean\n", 100*m.Off)
	}
	for _, n := range m.Notes {
		fmt.Fprintf(b, "  not planned: %s\n", n)
	}
	fmt.Fprintln(b)
}

// same reports whether two ways have the same pools.
func same(a, b *Alternative) bool {
	return slices.EqualFunc(a.Pools, b.Pools, func(x, y PoolPlan) bool { return x.Pool == y.Pool && x.Kind == y.Kind && x.Replicas == y.Replicas })
}

func (w *Alternative) write(b *strings.Builder, name string) {
	var parts []string
	for _, p := range w.Pools {
		text := fmt.Sprintf("%d %s on %s", p.Replicas, p.Pool, p.Kind)
		if p.Resource != "" {
			text += fmt.Sprintf(" (%s: 1 each)", p.Resource)
		}
		parts = append(parts, fmt.Sprintf("%s, utilization %.0f %%, bound by %s", text, 100*p.Used, p.Limit))
	}
	fmt.Fprintf(b, "  %-15s %s", name+":", strings.Join(parts, "; "))
	if w.PricePerHour > 0 {
		fmt.Fprintf(b, "; %.4g an hour alone", w.PricePerHour)
	}
	fmt.Fprintln(b)
	if w.Latency != nil {
		fmt.Fprintf(b, "  %-15s %s", "", w.Latency)
		if w.Moved > 0 {
			fmt.Fprintf(b, ", of which %s for moving KV blocks", unit.Seconds(w.Moved))
		}
		fmt.Fprintln(b)
	}
}

// String is latencies as a text.
func (l *Latency) String() string {
	return fmt.Sprintf("TTFT p50 %s, p99 %s, ITL p50 %s, p99 %s, busy %.0f %%", unit.Seconds(l.TTFT.P50), unit.Seconds(l.TTFT.P99), unit.Seconds(l.ITL.P50),
		unit.Seconds(l.ITL.P99), 100*l.Busy)
}

func (p *Plan) printInstances(b *strings.Builder) {
	fmt.Fprintln(b, "instances")
	for i := range p.Instances {
		u := &p.Instances[i]
		fmt.Fprintf(b, "  %d x %s: %s\n", u.Count, u.Instance, u.holds())
		if len(u.Slices) > 0 {
			fmt.Fprintf(b, "      nvidia-smi mig -cgi %s -C\n", u.create())
		}
	}
	if p.Zones > 1 {
		fmt.Fprintf(b, "  over %d zones, of which one may be lost\n", p.Zones)
	}
	if p.PricePerHour > 0 {
		fmt.Fprintf(b, "  %.4g an hour, %.4g a month of 730 hours\n", p.PricePerHour, 730*p.PricePerHour)
	}
}

// holds says what stands on the unit.
func (u *Unit) holds() string {
	var parts []string
	for _, s := range u.Slices {
		parts = append(parts, fmt.Sprintf("%s at %d: %s %s", s.Profile, s.Start, s.Model, s.Pool))
	}
	for _, t := range u.Shared {
		text := fmt.Sprintf("%s %s", t.Model, t.Pool)
		if t.MemoryGiB > 0 {
			text += fmt.Sprintf(", %.3g GiB", t.MemoryGiB)
		}
		if len(u.Shared) > 1 && t.Latency != nil {
			text += fmt.Sprintf(" (beside the others %s)", t.Latency)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// create is what nvidia-smi makes the slices from: they are placed in this order, the largest first.
func (u *Unit) create() string {
	ordered := slices.Clone(u.Slices)
	slices.SortStableFunc(ordered, func(a, b Slice) int { return b.Size - a.Size })
	var names []string
	for _, s := range ordered {
		names = append(names, s.Profile)
	}
	return strings.Join(names, ",")
}
