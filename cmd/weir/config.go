package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"weir/configs"
	"weir/internal/console"
	"weir/internal/server/state"
)

func newConfig() *cobra.Command {
	config := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration",
		Long: "Show the settings of weir serve: their values with the source of each, or a file to start\n" +
			"from. A flag overrides the environment, the environment overrides the file.",
		Example: "  weir config print --config weir.yml --max-num-seqs 32\n" +
			"  weir config example > weir.yml",
		Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	config.AddCommand(newConfigPrint(), newConfigExample(), newConfigRules())
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
		console.Warn(cmd.ErrOrStderr(), warnings)
		c, err := sources.Config()
		if err == nil {
			err = state.CheckExposure(cmd.Context(), c)
		}
		if err != nil {
			return console.ConfigError(err)
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

func newConfigRules() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Print Prometheus's recording rules and burn-rate alerts for the objectives (slo) of the configuration",
		Example: "  weir config rules --config weir.yml > weir.rules.yml\n" +
			"  weir config rules --slo-ttft-ms 1000 --selector 'job=\"weir\"' > weir.rules.yml",
		Args: atMost(0),
	}
	opts := addOptions(cmd, rulesSections)
	selector := cmd.Flags().String("selector", "", `restrict every series, where others have the same names: job="weir"`)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, warnings, err := opts.config()
		if err != nil {
			return err
		}
		console.Warn(cmd.ErrOrStderr(), warnings)
		if strings.ContainsFunc(*selector, unicode.IsControl) {
			return &console.UsageError{Err: fmt.Errorf("--selector %q has control characters", *selector),
				Hint: `write it on one line: job="weir",cluster="a"`}
		}
		return c.SLO.Write(cmd.OutOrStdout(), *selector)
	}
	return cmd
}
