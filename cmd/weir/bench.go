package main

import (
	"github.com/spf13/cobra"
)

// newBench joins the measuring verbs; each has a file of its own.
func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure servers, and torment them",
		Args:  knownVerb,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newBenchSoak(),
	)
	return cmd
}
