package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"weir/configs"
)

func newConfig() *cobra.Command {
	config := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration",
		Args:  knownVerb,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	config.AddCommand(newConfigPrint(), newConfigExample())
	return config
}

func newConfigPrint() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "print [flags of serve]",
		Short: "Print each value and where it came from: default, file, environment or flag",
		Args:  atMost(0),
	}
	cmd.DisableFlagsInUseLine = true
	opts := addOptions(cmd, everySection)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		sources, warnings, err := opts.resolve()
		if err != nil {
			return err
		}
		table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		for setting, origin := range sources.All() {
			fmt.Fprintf(table, "%s\t%s\t%s\n", setting.Key, shown(setting.Value()), origin)
		}
		for _, e := range sources.Entries() {
			fmt.Fprintf(table, "%s\t%s\t%s\n", e.Key, shown(e.Value), e.Origin)
		}
		if err := table.Flush(); err != nil {
			return fmt.Errorf("print configuration: %w", err)
		}
		warn(cmd.ErrOrStderr(), warnings)
		c, err := sources.Config()
		if err == nil {
			err = c.CheckExposure()
		}
		if err != nil {
			return configError(err)
		}
		return nil
	}
	return cmd
}

func shown(value string) string {
	if value == "" {
		return `""`
	}
	return value
}

func newConfigExample() *cobra.Command {
	return &cobra.Command{
		Use:   "example",
		Short: "Print a file with every setting, its default and what it does",
		Args:  atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), configs.Example())
			return err
		},
	}
}
