package main

import (
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/bench"
)

// newBench joins the measuring verbs; each has a file of its own.
func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure servers, models, kernels and the scheduler",
		Long: "Measure servers, models, kernels and the scheduler. quick, serve, soak and predict send requests\n" +
			"to a running server, weir or another one with the same API; engine, batched, embed, gbdt and quality\n" +
			"load a model in this process; micro and sim need no model; compare reads the results of the others.",
		Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newBenchQuick(), newBenchServe(), newBenchPredict(),
		newBenchCompare(),
		newBenchEngine(), newBenchBatched(), newBenchMicro(), newBenchGBDT(), newBenchEmbed(), newBenchQuality(),
		newBenchSoak(), newBenchCluster(), newBenchRelay(), newBenchNeighbours(),
		newBenchSim(),
	)
	return cmd
}

// secretFlags must not reach a result file.
var secretFlags = map[string]bool{"api-key": true, "header": true}

// newResult begins the result of a measuring verb: this build, this machine,
// and every flag with its value.
func newResult(cmd *cobra.Command, kind string) *bench.Result {
	r := bench.NewResult(kind)
	b := build()
	r.Version, r.Commit = b.Version, b.Commit
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.modified" && s.Value == "true" {
				r.Commit += "+dirty"
			}
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !secretFlags[f.Name] {
			r.Flags[f.Name] = f.Value.String()
		}
	})
	return r
}
