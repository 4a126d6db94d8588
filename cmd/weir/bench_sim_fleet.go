package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/internal/console"
	"weir/router/balance"
)

func newBenchSimFleet() *cobra.Command {
	var (
		o        bench.FleetOptions
		policies []string
		kills    []string
		plot     string
		scale    string
	)
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Run replicas behind the router on simulated machines",
		Long: "Run the scheduler and the KV cache of several replicas in virtual time behind the router's own choice of replicas, under a\n" +
			"load of conversations: tenants with Zipf's shares, each with a system prompt, turns that carry all that was said. One\n" +
			"row for each policy, all under the same load. The same seed gives the same table.",
		Example: "  weir bench sim fleet\n  weir bench sim fleet --replicas 100 --requests 100000 --policies prefix,round_robin\n" +
			"  weir bench sim fleet --replicas 8 --prefill 2 --documents 0.5 --policies prefix\n  weir bench sim fleet --kill 1@60s+30s --plot fleet.svg\n" +
			"  weir bench sim fleet --autoscale 2-16 --swing 0.9 --rate 4 --requests 20000 --policies prefix",
		Args: atMost(0),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.Replicas, "replicas", 3, "replicas")
	f.StringSliceVar(&policies, "policies", balance.Policies(), "policies to compare, in order")
	f.IntVar(&o.Load.Requests, "requests", 2000, "requests, turns of all conversations together")
	f.Float64Var(&o.Load.Rate, "rate", 0, "requests that come in a second; 0 is 0.6 for each replica")
	f.IntVar(&o.Load.Tenants, "tenants", 20, "tenants")
	f.Float64Var(&o.Load.Zipf, "zipf", 1.1, "exponent of the tenants' shares")
	f.IntVar(&o.Load.System, "system-tokens", 800, "mean length of the tenants' system prompts")
	f.Float64Var(&o.Load.Turns, "turns", 4, "mean turns of a conversation")
	f.DurationVar(&o.Load.Think, "think", 20*time.Second, "mean time from an answer to the next turn")
	f.IntVar(&o.KVTokens, "kv-tokens", 40_000, "KV cache of each replica")
	f.DurationVar(&o.Report, "reports", 250*time.Millisecond, "time between two reports of a replica; below 0 is never")
	f.DurationVar(&o.Late, "late", 50*time.Millisecond, "how late a report comes")
	f.StringArrayVar(&kills, "kill", nil, "kill a replica: NUMBER@WHEN, or NUMBER@WHEN+DOWN to have it back with a cold cache")
	f.StringVar(&scale, "autoscale", "", "MIN-MAX: replicas come and go by the rules of configs/kubernetes/autoscale.yaml; instead of --replicas")
	f.DurationVar(&o.Scaling.StartUp, "start-up", time.Minute, "with --autoscale: time that a new replica needs until it serves")
	f.Float64Var(&o.Scaling.Running, "running", 6, "with --autoscale: requests that shall run at a replica, in the mean; more want another replica")
	f.Float64Var(&o.Load.Swing, "swing", 0, "the rate goes from 1 - SWING of its mean up to 1 + SWING in the middle of the run, and back")
	f.IntVar(&o.Pools.Prefill, "prefill", 0, "of the replicas, so many compute prompts for the others; see docs/kv-transfer.md")
	f.Float64Var(&o.Pools.Rate, "fetch-rate", 20_000, "with --prefill: prompt tokens a second whose KV blocks come from another replica")
	f.Float64Var(&o.Load.Documents.Rate, "documents", 0, "long prompts with short answers that come in a second, between the conversations")
	f.IntVar(&o.Load.Documents.Tokens, "document-tokens", 4000, "with --documents: length of the longest; the shortest have half of it")
	f.Uint64Var(&o.Seed, "seed", 1, "the same seed gives the same load and the same picks")
	f.StringVar(&plot, "plot", "", "write the distributions of the time to the first token as SVG")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, text := range kills {
			fault, err := parseKill(text)
			if err != nil {
				return err
			}
			o.Faults = append(o.Faults, fault)
		}
		if scale != "" {
			if _, err := fmt.Sscanf(scale, "%d-%d", &o.Scaling.Min, &o.Scaling.Max); err != nil || o.Scaling.Max < 1 {
				return &console.UsageError{Err: fmt.Errorf("--autoscale %q: it takes two numbers of replicas, as 2-16", scale), Hint: ""}
			}
		}
		var results []*bench.FleetResult
		for _, name := range policies {
			var err error
			if o.Policy, err = balance.ParsePolicy(name); err != nil {
				return err
			}
			began := time.Now()
			result, err := bench.SimulateFleet(o)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %.1f s\n", name, time.Since(began).Seconds())
			results = append(results, result)
		}
		if plot != "" {
			if err := plotFleets(plot, o.Replicas, results); err != nil {
				return err
			}
		}
		return bench.PrintFleets(cmd.OutOrStdout(), results)
	}
	return cmd
}

func plotFleets(path string, replicas int, results []*bench.FleetResult) error {
	title := fmt.Sprintf("Simulated: %d requests on %d replicas", results[0].Requests, replicas)
	return savePlot(path, func(w io.Writer) error { return bench.PlotFleets(w, title, results) })
}

// parseKill reads NUMBER@WHEN[+DOWN].
func parseKill(text string) (bench.FleetFault, error) {
	wrong := func(err error) (bench.FleetFault, error) {
		return bench.FleetFault{}, fmt.Errorf("--kill %q: want NUMBER@WHEN or NUMBER@WHEN+DOWN, as 1@60s+30s: %w", text, err)
	}
	number, when, _ := strings.Cut(text, "@")
	when, down, back := strings.Cut(when, "+")
	var f bench.FleetFault
	var err error
	if f.Replica, err = strconv.Atoi(number); err != nil {
		return wrong(err)
	}
	if f.At, err = time.ParseDuration(when); err != nil {
		return wrong(err)
	}
	if back {
		if f.Down, err = time.ParseDuration(down); err != nil {
			return wrong(err)
		}
	}
	return f, nil
}
