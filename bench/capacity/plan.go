package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Plan is what a catalogue's models run on.
type Plan struct {
	Models       []ModelPlan `json:"models"`
	Instances    []Unit      `json:"instances"`
	PricePerHour float64     `json:"price_per_hour"`
	Zones        int         `json:"zones,omitempty"`
	Headroom     float64     `json:"headroom"`
}

// ModelPlan is how a model is served.
type ModelPlan struct {
	Name   string       `json:"name"`
	Rate   float64      `json:"rate"`
	Prompt float64      `json:"prompt_tokens"`
	Output float64      `json:"output_tokens"`
	Cached float64      `json:"cached"`
	Chosen Alternative  `json:"chosen"`
	Mixed  *Alternative `json:"mixed,omitempty"` // the cheapest of each sort, were the model alone
	Split  *Alternative `json:"split,omitempty"`

	PerMillion       float64  `json:"price_per_million_tokens"` // of prompts and outputs, at this load, were the model alone
	PerMillionOutput float64  `json:"price_per_million_output_tokens"`
	Off              float64  `json:"step_estimate_error"` // how far steps are from their estimates, in the mean, as a share
	Notes            []string `json:"notes,omitempty"`
}

// Alternative is one way to serve a model.
type Alternative struct {
	Pools        []PoolPlan `json:"pools"`
	Latency      *Latency   `json:"latency,omitempty"`
	Moved        float64    `json:"kv_transfer_s,omitempty"`
	PricePerHour float64    `json:"price_per_hour"` // were the model alone
}

// candidates is how many of a model's cheapest ways are tried beside other models'.
const candidates = 16

// Make plans a prepared catalogue.
func Make(c *Catalogue) (*Plan, error) { return newPlanner(c).make() }

func newPlanner(c *Catalogue) *planner {
	p := &planner{c: c, headroom: defaultHeadroom, replicas: map[replicaKey]*replica{}}
	if c.Headroom != nil {
		p.headroom = *c.Headroom
	}
	return p
}

func (p *planner) make() (*Plan, error) {
	c := p.c
	plan := &Plan{Zones: c.Zones, Headroom: p.headroom}
	ways := make([][]priced, len(c.Models))
	for i := range c.Models {
		m := &c.Models[i]
		var err error
		var notes []string
		if ways[i], notes, err = p.ways(m); err != nil {
			return nil, fmt.Errorf("plan %s: %w", m.Name, err)
		}
		all, err := modelPlan(m, ways[i], notes)
		if err != nil {
			return nil, fmt.Errorf("plan %s: %w", m.Name, err)
		}
		plan.Models = append(plan.Models, all)
	}
	chosen := p.together(ways)
	for i, o := range chosen {
		if err := o.refine(); err != nil {
			return nil, fmt.Errorf("plan %s: %w", o.model.Name, err)
		}
		plan.Models[i].choose(o, price(p.pack([]*option{o})))
	}
	plan.Instances = p.pack(chosen)
	plan.PricePerHour = price(plan.Instances)
	return plan, nil
}

const defaultHeadroom = 0.3

// priced is a way and what it costs alone.
type priced struct {
	option
	price float64
}

// ways to serve a model, the cheapest first.
func (p *planner) ways(m *Model) ([]priced, []string, error) {
	demand := Demand{Rate: m.Load.Rate, Prompt: m.Load.Prompt, Output: m.Load.Output, Cached: m.Load.Cached, Prefill: 1, Decode: 1, Sequences: 1}
	if demand.Rate == 0 {
		return nil, nil, errors.New("no load: give requests a second")
	}
	if err := demand.check(); err != nil {
		return nil, nil, err
	}
	var notes []string
	note := func(kind, why string) {
		if text := kind + ": " + why; !slices.Contains(notes, text) {
			notes = append(notes, text)
		}
	}
	options, err := p.mixed(m, note)
	if err != nil {
		return nil, nil, err
	}
	split, err := p.split(m, func(kind, why string) { note(kind, "apart: "+why) })
	if err != nil {
		return nil, nil, err
	}
	var ways []priced
	for _, o := range append(options, split...) {
		ways = append(ways, priced{o, price(p.pack([]*option{&o}))})
	}
	if len(ways) == 0 {
		return nil, nil, fmt.Errorf("nothing in the catalogue serves it:\n  %s", strings.Join(notes, "\n  "))
	}
	slices.SortStableFunc(ways, func(a, b priced) int { return cmp.Or(cmp.Compare(a.price, b.price), a.count()-b.count()) })
	return ways, notes, nil
}

// count is how many replicas an option has.
func (o *option) count() int {
	n := 0
	for i := range o.pools {
		n += o.pools[i].Replicas
	}
	return n
}

// together chooses a way for each model so that all of them cost little on common instances: from the cheapest of each alone, and from those
// that take the least of their instances, one model after the other moves to what costs least beside the others, until none does.
func (p *planner) together(ways [][]priced) []*option {
	alone, least := make([]*option, len(ways)), make([]*option, len(ways))
	tried := make([][]*option, len(ways))
	for i, w := range ways {
		for j := range min(candidates, len(w)) {
			tried[i] = append(tried[i], &w[j].option)
		}
		parts := make([]*option, len(w))
		for j := range w {
			parts[j] = &w[j].option
		}
		slices.SortStableFunc(parts, func(a, b *option) int { return cmp.Compare(a.parts(), b.parts()) })
		alone[i], least[i] = &w[0].option, parts[0]
		tried[i] = append(tried[i], parts[:min(candidates, len(parts))]...)
	}
	best := p.descend(alone, tried)
	if len(ways) < 2 {
		return alone
	}
	if cost := p.descend(least, tried); cost < best-1e-9 {
		return least
	}
	return alone
}

// parts is what an option's replicas cost by the share of their instances that they take.
func (o *option) parts() float64 {
	sum := 0.0
	for i := range o.pools {
		sum += float64(o.pools[i].Replicas) * o.pools[i].kind.price()
	}
	return sum
}

// descend moves one model after the other to the cheapest of what is tried, and says what all cost.
func (p *planner) descend(chosen []*option, tried [][]*option) float64 {
	best := price(p.pack(chosen))
	for moved := len(chosen) > 1; moved; {
		moved = false
		for i := range chosen {
			before := chosen[i]
			for _, o := range tried[i] {
				chosen[i] = o
				if cost := price(p.pack(chosen)); cost < best-1e-9 {
					best, before, moved = cost, o, true
				}
			}
			chosen[i] = before
		}
	}
	return best
}

func modelPlan(m *Model, ways []priced, notes []string) (ModelPlan, error) {
	plan := ModelPlan{Name: m.Name, Rate: m.Load.Rate, Prompt: m.Load.Prompt, Output: m.Load.Output, Cached: m.Load.Cached, Notes: notes}
	for i := range ways {
		w := &ways[i]
		into := &plan.Mixed
		if w.isSplit() {
			into = &plan.Split
		}
		if *into != nil {
			continue
		}
		if err := w.refine(); err != nil {
			return plan, err
		}
		*into = &Alternative{w.pools, w.latency, w.moved, w.price}
	}
	return plan, nil
}

func (m *ModelPlan) choose(o *option, alone float64) {
	m.Chosen = Alternative{o.pools, o.latency, o.moved, alone}
	m.PerMillion = alone / (m.Rate * 3600 * (m.Prompt + m.Output)) * 1e6
	m.PerMillionOutput = alone / (m.Rate * 3600 * m.Output) * 1e6
	for i := range o.pools {
		m.Off = max(m.Off, o.pools[i].replica.rates.Off)
	}
}
