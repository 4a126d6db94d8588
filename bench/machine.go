package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"weir/internal/inference"
	"weir/scheduler/cost"
)

// observedStep is a step of an engine and what it computed.
type observedStep struct {
	load cost.Load
	took time.Duration
}

// What a machine is learned from: decoding so many sequences at once, prompts of so many tokens, and what follows a long prompt.
var (
	machineDecodes = []int{1, 2, 3, 4, 6, 8, 12}
	machinePrompts = []int{8, 24, 64, 160, 320, 512}
)

const (
	machineRounds = 3
	machineStart  = 32 // tokens of the prompts before decoding
	machineTokens = 12 // decoded of each
	machineDepth  = 512
)

// MachineNeeds is what an engine must hold for Machine.Measure: the longest sequence, and how many at once.
func MachineNeeds() (length, sequences int) {
	return machineDepth + 64 + 2, machineDecodes[len(machineDecodes)-1] + 1
}

// Measure learns what steps of the rigs' engines take while all of them compute, as replicas on one machine do. Where they have more
// threads than the machine has processors, a step is taken to last as much less as it would with processors for all of them; so that what
// the others' use of caches, memory and the scheduler costs is in it, and the wait for a processor is not.
func (m Machine) Measure(ctx context.Context, rigs []*Rig) error {
	crowd := max(1, float64(len(rigs)*rigs[0].Info().Threads)/float64(runtime.NumCPU()))
	seen, errs := make([][]observedStep, len(rigs)), make([]error, len(rigs))
	var all sync.WaitGroup
	for i, r := range rigs {
		all.Go(func() { seen[i], errs[i] = r.observe(ctx) })
	}
	all.Wait()
	for i := range rigs {
		if errs[i] != nil {
			return fmt.Errorf("measure steps: %w", errs[i])
		}
		for _, o := range seen[i] {
			m.Learned.Observe(o.load, time.Duration(float64(o.took)/crowd))
		}
	}
	return nil
}

// NewMachine is a machine of which nothing is known yet: Measure tells.
func NewMachine() Machine { return Machine{Learned: cost.New(cost.Prior{})} }

// observe runs prompts and outputs of many sizes and returns the steps.
func (r *Rig) observe(ctx context.Context) ([]observedStep, error) {
	if _, err := r.generate(ctx, r.domain(), r.tokens(gateTokens), 2); err != nil { // warm
		return nil, err
	}
	var seen []observedStep
	for range machineRounds {
		for _, n := range machineDecodes {
			steps, err := r.observeDecoding(ctx, n)
			if err != nil {
				return nil, err
			}
			seen = append(seen, steps...)
		}
		for _, n := range machinePrompts {
			steps, err := r.observePrompt(ctx, r.domain(), r.tokens(n), 0)
			if err != nil {
				return nil, err
			}
			seen = append(seen, steps...)
		}
		domain, prompt := r.domain(), r.tokens(machineDepth)
		if _, err := r.generate(ctx, domain, prompt, 1); err != nil {
			return nil, err
		}
		steps, err := r.observePrompt(ctx, domain, append(prompt, r.tokens(64)...), machineDepth)
		if err != nil {
			return nil, err
		}
		seen = append(seen, steps...)
	}
	return seen, nil
}

// observeDecoding decodes n sequences and returns the steps that did nothing else.
func (r *Rig) observeDecoding(ctx context.Context, n int) ([]observedStep, error) {
	prompts := make([][]inference.TokenID, n)
	for i := range prompts {
		prompts[i] = r.tokens(machineStart)
	}
	steps, _, err := r.together(ctx, r.domain(), prompts, machineTokens)
	if err != nil {
		return nil, err
	}
	var seen []observedStep
	for _, s := range steps {
		if n := s.DecodeTokens; n > 0 && s.PrefillTokens == 0 {
			seen = append(seen, observedStep{cost.Load{Rows: n, Outputs: n, Decode: n * (machineStart + machineTokens/2)}, s.StepTime})
		}
	}
	return seen, nil
}

// observePrompt computes a prompt of which so many tokens are cached and returns its steps.
func (r *Rig) observePrompt(ctx context.Context, domain string, prompt []inference.TokenID, cached int) ([]observedStep, error) {
	steps, err := r.generate(ctx, domain, prompt, 1)
	if err != nil {
		return nil, err
	}
	if err := expectRows(steps, len(prompt)-cached, 0); err != nil {
		return nil, err
	}
	var seen []observedStep
	for _, s := range steps {
		l := cost.Load{Rows: s.PrefillTokens, Prompt: cost.Attended(cached, s.PrefillTokens)}
		if cached += s.PrefillTokens; cached == len(prompt) {
			l.Outputs = 1
		}
		seen = append(seen, observedStep{l, s.StepTime})
	}
	return seen, nil
}
