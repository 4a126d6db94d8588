package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/console"
	"weir/internal/server/keychain"
	"weir/internal/server/state"
)

// termsFlags are those that say what a key may.
type termsFlags struct{ limits, models []string }

func addTermsFlags(cmd *cobra.Command) *termsFlags {
	f := &termsFlags{}
	cmd.Flags().StringArrayVar(&f.limits, "limit", nil, "a limit of the key as NAME=VALUE, beside its tenant's: daily_cost=5, tokens_per_minute=20000 …; repeat it")
	cmd.Flags().StringArrayVar(&f.models, "model", nil, "a model that the key may use (default: all of its tenant's); repeat it")
	return f
}

// allModels takes a key's list of models away.
const allModels = "all"

// spec is what the flags say, as configs.ParseKeyTerms reads it; a value none is null, and a model all is no list.
func (f *termsFlags) spec() ([]byte, error) {
	spec := map[string]any{}
	limits := map[string]any{}
	for _, text := range f.limits {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" || value == "" {
			return nil, &console.UsageError{Err: fmt.Errorf("--limit is %q; it takes NAME=VALUE, such as daily_cost=5", text)}
		}
		if before, twice := limits[name]; twice {
			return nil, &console.UsageError{Err: fmt.Errorf("--limit %s is given twice, as %v and %s; give it once", name, before, value)}
		}
		limits[name] = any(value)
		if _, err := strconv.ParseInt(value, 10, 64); err == nil && !strings.HasSuffix(name, "_cost") {
			limits[name] = json.Number(value)
		} else if value == "none" {
			limits[name] = nil
		}
	}
	if len(limits) > 0 {
		spec["limits"] = limits
	}
	if slices.Equal(f.models, []string{allModels}) {
		spec["models"] = nil
	} else if len(f.models) > 0 {
		spec["models"] = f.models
	}
	return json.Marshal(spec)
}

func newKeysChange() *cobra.Command {
	var expires string
	cmd := &cobra.Command{
		Use:   "change ID",
		Short: "Change the limits, models and end of a key",
		Long: "Change the limits, models and end of a key. What is not named stays; NAME=none takes a limit away, --model all\n" +
			"a list of models, --expires never an end. Servers see it within half a second.",
		Example: "  weir keys change 0a1b2c3d4e --limit daily_cost=10 --limit requests_per_minute=none",
		Args:    exactly(1),
	}
	terms := addTermsFlags(cmd)
	cmd.Flags().StringVar(&expires, "expires", "", "time from now after which the key ends, such as 90d, or never")
	onKeys(cmd, false, func(ctx context.Context, k *keyStore, args []string) error {
		spec, err := terms.spec()
		if err != nil {
			return err
		}
		p := keychain.Patch{Terms: spec}
		switch expires {
		case "":
			if string(spec) == "{}" {
				return &console.UsageError{Err: errors.New("nothing is to be changed; give --limit, --model or --expires")}
			}
		case "never":
			p.Ends = &time.Time{}
		default:
			ends, err := keychain.EndAfter(time.Now().UTC().Truncate(time.Millisecond), expires)
			if err != nil {
				return err
			}
			p.Ends = &ends
		}
		key, err := k.chain().Alter(ctx, state.CommandLine(), args[0], p)
		if err != nil {
			return err
		}
		if len(terms.models) > 0 {
			k.tell(ctx, cmd.ErrOrStderr(), &key)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "changed %s: %s, %s\n", key.ID, showTerms(&key.KeyTerms), untilWhen(key.Expires))
		return err
	})
	return cmd
}

// namesOf are the names that models have in a configuration; nil where it names none.
func namesOf(c configs.Config) (names []string) {
	if c.NamesNone() {
		return nil
	}
	for _, m := range slices.Concat(c.ServedModels(), c.RoutedModels()) {
		names = append(append(names, m.Name), m.Aliases...)
	}
	for _, m := range c.ClassicModels() {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// showTerms is a line about what a key has of its own.
func showTerms(t *tenant.KeyTerms) string {
	spec := configs.KeySpec(t)
	limits, _ := spec["limits"].(map[string]any)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		parts = append(parts, fmt.Sprintf("%s=%v", name, limits[name]))
	}
	if len(t.Models) > 0 {
		parts = append(parts, "models="+console.Printable(strings.Join(t.Models, ",")))
	}
	if parts == nil {
		return "its tenant's"
	}
	return strings.Join(parts, " ")
}
