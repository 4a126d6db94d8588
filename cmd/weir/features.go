package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/console"
	"weir/internal/server/state"
	"weir/telemetry/monitor/feature"
	"weir/telemetry/monitor/feature/online"
	"weir/telemetry/monitor/predictions"
)

// featureTarget says which store and entity a verb is about.
type featureTarget struct{ redis, project, entity string }

func newFeatures() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "features",
		Short: "Write and read the online features of classical models, and check their manifests",
		Long: "Write and read online features in Redis, in weir's own layout, and check manifests. A pipeline\n" +
			"that writes features in production talks to Redis itself: docs/features.md has the layout.",
		Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newFeaturesPut(), newFeaturesGet(), newFeaturesCheck())
	return cmd
}

func (t *featureTarget) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.redis, "redis", "", "URL of Redis, such as redis://:PASSWORD@127.0.0.1:6379/0 (default: WEIR_FEATURE_REDIS)")
	f.StringVar(&t.project, "project", "", "the manifest's project")
	f.StringVar(&t.entity, "entity", "", "the entity, such as user")
	for _, name := range []string{"project", "entity"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // a bug: no such flag
		}
	}
}

func (t *featureTarget) open() (*online.Store, error) {
	address := cmp.Or(t.redis, os.Getenv("WEIR_FEATURE_REDIS"))
	if address == "" {
		return nil, &console.UsageError{Err: errors.New("no Redis is named"), Hint: "set --redis or WEIR_FEATURE_REDIS"}
	}
	return online.Open(address)
}

func newFeaturesPut() *cobra.Command {
	var (
		t         featureTarget
		view      string
		keys      []string
		ttl       time.Duration
		eventTime string
	)
	cmd := &cobra.Command{
		Use:     "put FILE",
		Short:   "Write a .csv or .parquet table of one view's features",
		Example: "  weir features put users.csv --project shop --entity user --view profile --key user_id",
		Args:    exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			at := time.Now()
			if eventTime != "" {
				var err error
				if at, err = time.Parse(time.RFC3339, eventTime); err != nil {
					return &console.UsageError{Err: err, Hint: "--time takes 2026-11-22T10:00:00Z"}
				}
			}
			table, err := predictions.ReadTable(args[0])
			if err != nil {
				return err
			}
			to := online.Table{Project: t.project, Entity: t.entity, View: view, TTL: ttl}
			rows, err := featureRows(table, keys, &to)
			if err != nil {
				return err
			}
			s, err := t.open()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), featureTimeout)
			defer cancel()
			if err := errors.Join(s.Put(ctx, to, rows, at), s.Close()); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %d features of %d entities\n", len(to.Fields), len(rows))
			return nil
		},
	}
	t.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&view, "view", "", "the view, whose time is written with the values")
	f.StringSliceVar(&keys, "key", nil, "columns of the entity's key, in the manifest's order")
	f.DurationVar(&ttl, "ttl", 0, "after which an entity is deleted (default: never)")
	f.StringVar(&eventTime, "time", "", "when the values were true (default: now)")
	for _, name := range []string{"view", "key"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // a bug: no such flag
		}
	}
	return cmd
}

// featureTimeout bounds a verb's whole work on the store.
const featureTimeout = 10 * time.Minute

// featureRows takes a table's rows apart into keys and values.
func featureRows(t *predictions.Table, keys []string, to *online.Table) ([]online.Row, error) {
	parts, values := make([][]string, len(keys)), [][]string{}
	for i, key := range keys {
		if !t.Has(key) {
			return nil, fmt.Errorf("the table has no column %q; it has %s", key, strings.Join(t.Names, ", "))
		}
		parts[i] = t.Text(key)
	}
	for _, name := range t.Names {
		if !slices.Contains(keys, name) {
			to.Fields = append(to.Fields, name)
			values = append(values, t.Text(name))
		}
	}
	rows := make([]online.Row, t.Rows)
	for i := range rows {
		for _, column := range parts {
			if column[i] == "" {
				return nil, fmt.Errorf("row %d has no key", i+1)
			}
			rows[i].Parts = append(rows[i].Parts, column[i])
		}
		for _, column := range values {
			rows[i].Values = append(rows[i].Values, column[i])
		}
	}
	return rows, nil
}

func newFeaturesGet() *cobra.Command {
	var t featureTarget
	cmd := &cobra.Command{
		Use:     "get ID...",
		Short:   "Show what the store has of one entity; an id of several keys is several words",
		Example: "  weir features get 7 --project shop --entity user",
		Args:    atLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := t.open()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
			defer cancel()
			all, err := s.Get(ctx, t.project, t.entity, args)
			if err = errors.Join(err, s.Close()); err != nil {
				return err
			}
			if len(all) == 0 {
				return fmt.Errorf("the store has no %s %s of project %s", t.entity, strings.Join(args, " "), t.project)
			}
			return showFields(cmd.OutOrStdout(), all)
		},
	}
	t.flags(cmd)
	return cmd
}

func showFields(out io.Writer, all map[string]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(w, "%s\t%s\n", name, all[name])
	}
	return w.Flush()
}

func newFeaturesCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check MANIFEST",
		Short: "Read a manifest, list its features and print its schema hash",
		Args:  exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := readManifest(args[0])
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "feature\ttype\tsource\twhere it is missing")
			for i := range m.Features {
				f := &m.Features[i]
				fmt.Fprintf(w, "%s\t%v\t%s\t%s\n", f.Name, f.Type, sourceText(m, f), missingText(f))
			}
			if err := w.Flush(); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "\nschema: %s\n", m.Schema())
			return nil
		},
	}
}

func sourceText(m *feature.Manifest, f *feature.Feature) string {
	if f.Source != feature.FromStore {
		return f.Source.String()
	}
	return fmt.Sprintf("store: %s of %s, %s", f.Field, m.Entities[f.Entity].Name, m.Views[f.View])
}

func missingText(f *feature.Feature) string {
	switch {
	case f.Source == feature.FromConstant:
		return "never: " + f.Constant.String()
	case f.Required:
		return "the request fails"
	case f.Default.Present():
		return "default " + f.Default.String()
	default:
		return "the model gets no value"
	}
}

// readManifest reads and checks the file of a manifest.
func readManifest(path string) (*feature.Manifest, error) {
	data, err := state.ReadBounded(path, feature.MaxBytes)
	if err != nil {
		return nil, err
	}
	m, err := feature.ParseManifest(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}
