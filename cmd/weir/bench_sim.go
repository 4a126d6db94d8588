package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/bench"
)

func newBenchSim() *cobra.Command {
	var (
		seed          uint64
		target        = 200 * time.Millisecond
		seqs, batch   int
		noise, spikes float64
		oneTenant     bool
	)
	var scenarios strings.Builder
	for _, s := range bench.SimScenarios {
		fmt.Fprintf(&scenarios, "  %-14s %s\n", s.Name, s.What)
	}
	cmd := &cobra.Command{
		Use:   "sim SCENARIO",
		Short: "Run the scheduler on a simulated machine",
		Long: "Run the scheduler of this build in virtual time, on a machine whose step times follow a formula that was\n" +
			"fitted to a model of 1.2 billion parameters on two cores, and print the latencies. No model is needed, and\n" +
			"the same seed gives the same table. Scenarios:\n\n" + scenarios.String(),
		Example: "  weir bench sim served\n  weir bench sim long --itl-target-ms 100",
		Args:    exactly(1),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Uint64Var(&seed, "seed", 1, "the same seed gives the same requests and the same noise")
	targetMillis := f.Int("itl-target-ms", int(target.Milliseconds()), "target for the inter-token latency; 0 is no target")
	f.IntVar(&seqs, "max-num-seqs", 64, "sequences that run at once, at most")
	f.IntVar(&batch, "max-num-batched-tokens", 512, "tokens that one step computes at most, prefill and decode together")
	f.Float64Var(&noise, "noise", -1, "standard deviation of step times, as a share; below 0 is the scenario's own")
	f.Float64Var(&spikes, "spikes", -1, "share of steps that take twice as long; below 0 is the scenario's own")
	f.BoolVar(&oneTenant, "one-tenant", false, "take all requests as one tenant's, for contrast")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		scenario, err := bench.FindScenario(args[0])
		if err != nil {
			return err
		}
		o := scenario.Options(seed)
		o.Scheduler.ITLTarget = time.Duration(*targetMillis) * time.Millisecond
		o.Scheduler.MaxSeqs, o.Scheduler.MaxBatchTokens = seqs, batch
		o.OneTenant = oneTenant
		if noise >= 0 {
			o.Noise.Deviation = noise
		}
		if spikes >= 0 {
			o.Noise.SpikeShare, o.Noise.SpikeFactor = spikes, 2
		}
		result, err := bench.Simulate(o)
		if err != nil {
			return err
		}
		return result.Print(cmd.OutOrStdout())
	}
	cmd.AddCommand(newBenchSimSoak(), newBenchSimFleet())
	return cmd
}

func newBenchSimSoak() *cobra.Command {
	var o bench.SimSoakOptions
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Look for broken invariants in random simulations",
		Long: "Simulate random settings under random loads of several tenants, with cancels, deadlines, shared prefixes and\n" +
			"several choices, and check the invariants of scheduler, waiting queue and KV cache. The same seed gives the same\n" +
			"plans; the digest tells.",
		Example: "  weir bench sim soak\n  weir bench sim soak --seed 17 --seeds 1 --steps 100000 --check-every 1",
		Args:    atMost(0),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the first simulation; the others count up from it")
	f.IntVar(&o.Seeds, "seeds", 100, "seeds to simulate")
	f.IntVar(&o.Steps, "steps", 10_000_000, "steps of all simulations together")
	f.IntVar(&o.CheckEvery, "check-every", 64, "steps between two recounts of everything")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		last := o.Seed
		o.Progress = func(seed uint64, r *bench.SimResult) {
			if seed != last {
				fmt.Fprintf(cmd.ErrOrStderr(), "seed %d\n", seed)
				last = seed
			}
		}
		report, err := bench.SimSoak(o)
		if err != nil {
			return err
		}
		return report.Print(cmd.OutOrStdout())
	}
	return cmd
}
