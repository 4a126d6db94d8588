package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/console"
	"weir/internal/server/keychain"
	"weir/internal/server/state"
)

func newKeys() *cobra.Command {
	keys := &cobra.Command{
		Use:   "keys",
		Short: "Create, list, change, rotate and revoke API keys",
		Long: "Create, list, change, rotate and revoke API keys. They are kept in the store (--store), as keyed hashes:\n" +
			"a key is shown once, when it is made. A server on the same store takes a new key at once, and\n" +
			"refuses a revoked one within half a second.",
		Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	keys.AddCommand(newKeysCreate(), newKeysList(), newKeysChange(), newKeysRotate(), newKeysRevoke())
	return keys
}

// keyStore is what the verbs work on.
type keyStore struct {
	config configs.Config
	store  *state.Store
}

// onKeys gives a verb the store's flags. create says that a store may be made.
func onKeys(cmd *cobra.Command, create bool, do func(ctx context.Context, k *keyStore, args []string) error) {
	opts := addOptions(cmd, storeSections)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, warnings, err := opts.config()
		if err != nil {
			return err
		}
		console.Warn(cmd.ErrOrStderr(), warnings)
		if exists, err := state.Exists(c.Store); err != nil || !exists && !create {
			return errors.Join(err, errors.New("there are no keys yet: weir keys create makes the first, and the store"))
		}
		s, err := state.Open(cmd.Context(), c.Store, state.Options{})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), state.Timeout)
		defer cancel()
		return errors.Join(do(ctx, &keyStore{c, s}, args), state.Close(s))
	}
}

func newKeysCreate() *cobra.Command {
	var label, scope, expires string
	cmd := &cobra.Command{
		Use:   "create TENANT",
		Short: "Create a key for a tenant, and show it this once",
		Example: "  weir keys create acme\n  weir keys create acme --label batch --expires 90d\n" +
			"  weir keys create ops --scope admin,metrics\n" +
			"  weir keys create acme --label intern --limit daily_cost=5 --limit requests_per_minute=30 --model llama-3.2-1b",
		Args: exactly(1),
	}
	cmd.Flags().StringVar(&label, "label", "default", "what the key is for; two keys of a tenant and label may live at once")
	cmd.Flags().StringVar(&scope, "scope", "inference", "what the key allows: inference, admin, metrics, or several with commas")
	cmd.Flags().StringVar(&expires, "expires", "", "time after which the key ends, such as 12h or 90d (default: never)")
	terms := addTermsFlags(cmd)
	onKeys(cmd, true, func(ctx context.Context, k *keyStore, args []string) error {
		spec, err := terms.spec()
		if err != nil {
			return err
		}
		chain := k.chain()
		issued, record, first, err := chain.Create(ctx, state.CommandLine(), keychain.Request{Tenant: args[0], Label: label, Scope: scope, Expires: expires, Terms: spec})
		if err != nil {
			return err
		}
		if err := showKey(cmd.OutOrStdout(), cmd.ErrOrStderr(), issued, &record); err != nil {
			return err
		}
		if first {
			fmt.Fprintln(cmd.ErrOrStderr(), keychain.FirstKey)
		}
		k.tell(ctx, cmd.ErrOrStderr(), &record)
		return nil
	})
	return cmd
}

// tell says what is odd about a key that was made or changed.
func (k *keyStore) tell(ctx context.Context, w io.Writer, key *tenant.Key) {
	d, err := k.chain().Tenants(ctx)
	if err != nil {
		return // the key is made all the same
	}
	if len(d.List()) > 0 {
		if note := keychain.UnlistedNote(d, key.Tenant); note != "" {
			fmt.Fprintln(w, note)
		}
	}
	of, _ := d.Find(key.Tenant)
	for _, note := range keychain.ModelNotes(key, of, namesOf(k.config)) {
		fmt.Fprintln(w, console.Printable(note))
	}
}

// showKey prints the key alone to out, so that a script can take it, and what
// people need to know beside it.
func showKey(out, beside io.Writer, issued tenant.Issued, record *tenant.Key) error {
	if _, err := fmt.Fprintln(out, issued.Text); err != nil {
		return fmt.Errorf("the key %s was made, and could not be shown: %w; revoke it and make another", issued.ID, err)
	}
	_, err := fmt.Fprintf(beside, "This key is shown only now. Tenant %s, label %s, scope %s, id %s, %s.\n"+
		"Clients send it as a header: Authorization: Bearer %s…\nOpenAI's libraries read it from OPENAI_API_KEY.\n",
		record.Tenant, record.Label, record.Scope, record.ID, untilWhen(record.Expires), issued.Text[:len(tenant.KeyPrefix)+tenant.IDChars])
	return err
}

func untilWhen(t time.Time) string {
	if t.IsZero() {
		return "without an end"
	}
	return "until " + t.Format(time.RFC3339)
}

func newKeysList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [TENANT]",
		Short: "List keys without their secrets, ended ones too",
		Args:  atMost(1),
	}
	onKeys(cmd, false, func(ctx context.Context, k *keyStore, args []string) error {
		keys, err := k.store.Keys.List(ctx, strings.Join(args, ""))
		if err != nil {
			return err
		}
		now := time.Now()
		table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ID\tTENANT\tLABEL\tSCOPE\tSTATE\tCREATED\tENDS\tLAST USED\tLIMITS")
		for i := range keys {
			key := &keys[i]
			ends := key.Expires
			if !key.Revoked.IsZero() {
				ends = key.Revoked
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", key.ID, key.Tenant, key.Label, key.Scope,
				keychain.State(key, now), keychain.When(key.Created), keychain.When(ends), keychain.When(key.LastUsed), showTerms(&key.KeyTerms))
		}
		return table.Flush()
	})
	return cmd
}

func newKeysRotate() *cobra.Command {
	var grace, expires string
	cmd := &cobra.Command{
		Use:   "rotate ID",
		Short: "Make the key that takes the place of another, which ends a while later",
		Args:  exactly(1),
	}
	cmd.Flags().StringVar(&grace, "grace", "24h", "time for which the old key stays good")
	cmd.Flags().StringVar(&expires, "expires", "", "time after which the new key ends, such as 90d (default: never)")
	onKeys(cmd, false, func(ctx context.Context, k *keyStore, args []string) error {
		issued, next, ends, err := k.chain().Rotate(ctx, state.CommandLine(), args[0], grace, expires)
		if err != nil {
			return err
		}
		if err := showKey(cmd.OutOrStdout(), cmd.ErrOrStderr(), issued, &next); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "The old key %s ends at %s.\n", args[0], ends.Format(time.RFC3339))
		return nil
	})
	return cmd
}

func newKeysRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "End keys: servers refuse them within half a second",
		Args:  atLeast(1),
	}
	onKeys(cmd, false, func(ctx context.Context, k *keyStore, args []string) error {
		chain := k.chain()
		for _, id := range args { // all of them are there, or none is revoked
			if _, err := chain.Find(ctx, id); err != nil {
				return err
			}
		}
		for _, id := range args {
			if _, err := chain.Revoke(ctx, state.CommandLine(), id); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "revoked %s\n", id)
		}
		return nil
	})
	return cmd
}

// chain makes and ends keys.
func (k *keyStore) chain() *keychain.Keychain {
	return &keychain.Keychain{Config: k.config.Store, Keys: k.store.Keys, Audit: k.store.Audit, Tenants: func(ctx context.Context) (*tenant.Directory, error) {
		configured, err := tenant.NewDirectory(k.config.Tenants)
		if err != nil {
			return nil, err
		}
		stored, _, err := keychain.Tenants(ctx, k.store.Tenants)
		if err != nil {
			return nil, err
		}
		directory, _ := configured.With(stored) // servers tell what is wrong with one
		return directory, nil
	}}
}
