package main

import (
	"context"
	"fmt"
	"net/url"
	"text/tabwriter"
	"time"
	"weir/internal/server/state"

	"github.com/spf13/cobra"

	"weir/api/usage"
	"weir/configs"
)

func newUsage() *cobra.Command {
	values := map[string]*string{}
	var csv bool
	cmd := &cobra.Command{
		Use:   "usage [TENANT]",
		Short: "Show what tenants have used, by day, hour and key",
		Long: "Show what tenants have used, from the store (--store). Servers write it twice a second, and show the same\n" +
			"at GET /admin/usage; a tenant reads its own at GET /v1/usage.",
		Example: "  weir usage\n  weir usage acme --by hour,key --from 2026-11-24\n  weir usage --from 2026-11-01 --to 2026-11-30 --csv > november.csv",
		Args:    atMost(1),
	}
	for _, f := range []struct{ name, help string }{
		{"from", "first date, UTC (default: the first of this month)"},
		{"to", "last date, UTC (default: today)"},
		{"by", "what rows are told apart by: day, hour, key, with commas between (default: day)"},
		{"model", "one model"},
		{"key", "one key, by its id"},
	} {
		values[f.name] = cmd.Flags().String(f.name, "", f.help)
	}
	cmd.Flags().BoolVar(&csv, "csv", false, "as CSV")
	onStore(cmd, func(ctx context.Context, _ configs.Config, s *state.Store, args []string) error {
		v := url.Values{}
		for name, value := range values {
			if *value != "" {
				v.Set(name, *value)
			}
		}
		q, err := usage.ParseQuery(v, time.Now())
		if err != nil {
			return err
		}
		if len(args) == 1 {
			q.Tenant, q.Alone = args[0], true
		}
		report, err := s.Usage.Report(ctx, q)
		if err != nil {
			return err
		}
		if csv {
			return report.WriteCSV(cmd.OutOrStdout())
		}
		return printUsage(cmd, &report)
	})
	return cmd
}

func printUsage(cmd *cobra.Command, r *usage.Report) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TIME\tTENANT\tMODEL\tKEY\tREQUESTS\tINPUT\tCACHED\tOUTPUT\tCOMPUTE\tCOST")
	line := func(at, tenant, model, key string, s *usage.Sums) {
		cost, _ := s.Cost.MarshalJSON() // a number
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%v\t%s\n", at, tenant, model, key, s.Requests, s.Input, s.Cached, s.Output,
			time.Duration(s.Compute).Round(time.Millisecond), cost)
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		at := row.Day.String()
		if row.Hour != 0 {
			at = row.Hour.String()
		}
		line(at, row.Tenant, row.Model, row.Key, &row.Sums)
	}
	line("in all", "", "", "", &r.Total)
	return table.Flush()
}
