package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/store"
)

func newKeys() *cobra.Command {
	keys := &cobra.Command{
		Use:   "keys",
		Short: "Create, list, rotate and revoke API keys",
		Long: "Create, list, rotate and revoke API keys. They are kept in the store (--store), as keyed hashes:\n" +
			"a key is shown once, when it is made. A server on the same store takes a new key at once, and\n" +
			"refuses a revoked one within a few seconds.",
		Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	keys.AddCommand(newKeysCreate(), newKeysList(), newKeysRotate(), newKeysRevoke())
	return keys
}

// keyStore is what the verbs work on.
type keyStore struct {
	config configs.Config
	store  *store.Store
}

// onKeys gives a verb the store's flags. create says that a store may be made.
func onKeys(cmd *cobra.Command, create bool, do func(ctx context.Context, k *keyStore, args []string) error) {
	opts := addOptions(cmd, storeSections)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, warnings, err := opts.config()
		if err != nil {
			return err
		}
		warn(cmd.ErrOrStderr(), warnings)
		if exists, err := storeExists(c.Store); err != nil || !exists && !create {
			return errors.Join(err, errors.New("there are no keys yet: weir keys create makes the first, and the store"))
		}
		s, err := openStore(cmd.Context(), c.Store, store.Options{})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), storeTimeout)
		defer cancel()
		return errors.Join(do(ctx, &keyStore{c, s}, args), closeStore(s))
	}
}

func newKeysCreate() *cobra.Command {
	var label, scope, expires string
	cmd := &cobra.Command{
		Use:   "create TENANT",
		Short: "Create a key for a tenant, and show it this once",
		Example: "  weir keys create acme\n  weir keys create acme --label batch --expires 90d\n" +
			"  weir keys create ops --scope admin,metrics",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&label, "label", "default", "what the key is for; two keys of a tenant and label may live at once")
	cmd.Flags().StringVar(&scope, "scope", "inference", "what the key allows: inference, admin, metrics, or several with commas")
	cmd.Flags().StringVar(&expires, "expires", "", "time after which the key ends, such as 12h or 90d (default: never)")
	onKeys(cmd, true, func(ctx context.Context, k *keyStore, args []string) error {
		record := tenant.Key{Tenant: args[0], Label: label, Created: time.Now().UTC().Truncate(time.Millisecond)}
		if err := k.checkTenant(args[0]); err != nil {
			return err
		}
		if !tenant.IsName(label) {
			return fmt.Errorf("label %q is not accepted; it takes %s", label, tenant.NameForm)
		}
		var err error
		if record.Scope, err = tenant.ParseScope(scope); err != nil {
			return err
		}
		if record.Expires, err = endAfter(record.Created, expires); err != nil {
			return err
		}
		before, err := k.store.List(ctx, "")
		if err != nil {
			return err
		}
		issued, err := k.issue(&record, func() error {
			return k.change(ctx, actionKeyCreate, &record, nil, func() error { return k.store.Create(ctx, record) })
		})
		if err != nil {
			return err
		}
		if err := showKey(cmd.OutOrStdout(), cmd.ErrOrStderr(), issued, &record); err != nil {
			return err
		}
		if len(before) == 0 {
			fmt.Fprintln(cmd.ErrOrStderr(), "This is the store's first key: servers that use the store ask for keys from now on.")
		}
		return nil
	})
	return cmd
}

// checkTenant refuses names that no server with this configuration would know.
func (k *keyStore) checkTenant(name string) error {
	directory, err := tenant.NewDirectory(k.config.Tenants)
	if err != nil {
		return err
	}
	if !tenant.IsName(name) {
		return fmt.Errorf("tenant %q is not accepted; it takes %s", name, tenant.NameForm)
	}
	if _, ok := directory.Find(name); ok {
		return nil
	}
	var names []string
	for _, t := range directory.List() {
		names = append(names, t.Name)
	}
	return fmt.Errorf("tenant %q is not among tenants in the configuration, which has %s; add it there, or an entry *",
		name, strings.Join(names, ", "))
}

// issue makes a key and has it written under an id that is free.
func (k *keyStore) issue(record *tenant.Key, write func() error) (tenant.Issued, error) {
	pepper, err := pepperOf(k.config.Store)
	if err != nil {
		return tenant.Issued{}, err
	}
	for range 3 {
		issued := pepper.Issue()
		record.ID, record.Hash = issued.ID, issued.Hash
		err = write()
		if err == nil || !errors.Is(err, tenant.ErrKeyExists) {
			return issued, keysAtMost(err, record)
		}
	}
	return tenant.Issued{}, err
}

// change makes a change of a key, once the audit log has it.
func (k *keyStore) change(ctx context.Context, action string, key *tenant.Key, more details, do func() error) error {
	all := details{"tenant": key.Tenant, "label": key.Label, "scope": key.Scope.String(), "expires": when(key.Expires)}
	maps.Copy(all, more)
	if _, err := addEntry(ctx, k.store, commandLine(), action, key.ID, all); err != nil {
		return err
	}
	return do()
}

// keysAtMost says what to do about too many keys.
func keysAtMost(err error, record *tenant.Key) error {
	if !errors.Is(err, tenant.ErrKeysAtMost) {
		return err
	}
	return fmt.Errorf("tenant %s has %d live keys with the label %s, as many as it may; revoke one (weir keys list %s), or use another --label",
		record.Tenant, tenant.MaxLiveKeys, record.Label, record.Tenant)
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

// endAfter is the time after a duration such as 90d; zero for "".
func endAfter(from time.Time, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	d, err := parseSpan(text)
	if err != nil || d <= 0 {
		return time.Time{}, fmt.Errorf("duration %q is not accepted; it takes one above zero such as 30m, 12h or 90d", text)
	}
	return from.Add(d), nil
}

const (
	day      = 24 * time.Hour
	mostDays = 100 * 365
)

// parseSpan reads a duration, in whole days too.
func parseSpan(text string) (time.Duration, error) {
	number, found := strings.CutSuffix(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	var days int
	if n, err := fmt.Sscanf(number+"\n", "%d\n", &days); err != nil || n != 1 || days < 0 || days > mostDays {
		return 0, fmt.Errorf("%q is not a number of days up to %d", number, mostDays)
	}
	return time.Duration(days) * day, nil
}

func newKeysList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [TENANT]",
		Short: "List keys without their secrets, ended ones too",
		Args:  atMost(1),
	}
	onKeys(cmd, false, func(ctx context.Context, k *keyStore, args []string) error {
		keys, err := k.store.List(ctx, strings.Join(args, ""))
		if err != nil {
			return err
		}
		now := time.Now()
		table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ID\tTENANT\tLABEL\tSCOPE\tSTATE\tCREATED\tENDS\tLAST USED")
		for i := range keys {
			key := &keys[i]
			ends := key.Expires
			if !key.Revoked.IsZero() {
				ends = key.Revoked
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", key.ID, key.Tenant, key.Label, key.Scope,
				keyState(key, now), when(key.Created), when(ends), when(key.LastUsed))
		}
		return table.Flush()
	})
	return cmd
}

func keyState(k *tenant.Key, now time.Time) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case !k.Live(now):
		return "expired"
	}
	return "live"
}

func when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

func newKeysRotate() *cobra.Command {
	var grace, expires string
	cmd := &cobra.Command{
		Use:   "rotate ID",
		Short: "Make the key that takes the place of another, which ends a while later",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&grace, "grace", "24h", "time for which the old key stays good")
	cmd.Flags().StringVar(&expires, "expires", "", "time after which the new key ends, such as 90d (default: never)")
	onKeys(cmd, false, func(ctx context.Context, k *keyStore, args []string) error {
		old, err := k.find(ctx, args[0])
		if err != nil {
			return err
		}
		next := tenant.Key{Tenant: old.Tenant, Label: old.Label, Scope: old.Scope, Created: time.Now().UTC().Truncate(time.Millisecond)}
		ends, err := endAfter(next.Created, grace)
		if err != nil {
			return err
		}
		if next.Expires, err = endAfter(next.Created, expires); err != nil {
			return err
		}
		if !old.Expires.IsZero() && old.Expires.Before(ends) {
			ends = old.Expires
		}
		issued, err := k.issue(&next, func() error {
			more := details{"replaces": old.ID, "old_ends": ends.Format(time.RFC3339)}
			return k.change(ctx, actionKeyRotate, &next, more, func() error { return k.store.Rotate(ctx, old.ID, ends, next) })
		})
		if errors.Is(err, tenant.ErrNoKey) {
			return fmt.Errorf("key %s is %s already; weir keys create makes another", old.ID, keyState(&old, next.Created))
		}
		if err != nil {
			return err
		}
		if err := showKey(cmd.OutOrStdout(), cmd.ErrOrStderr(), issued, &next); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "The old key %s ends at %s.\n", old.ID, ends.Format(time.RFC3339))
		return nil
	})
	return cmd
}

func (k *keyStore) find(ctx context.Context, id string) (tenant.Key, error) {
	if !tenant.IsKeyID(id) {
		return tenant.Key{}, errors.New("that is no id of a key, which has 10 characters; weir keys list shows them")
	}
	key, err := k.store.Find(ctx, id)
	if errors.Is(err, tenant.ErrNoKey) {
		return key, fmt.Errorf("there is no key %s; weir keys list shows those that there are", id)
	}
	return key, err
}

func newKeysRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "End keys: servers refuse them within a few seconds",
		Args:  cobra.MinimumNArgs(1),
	}
	onKeys(cmd, false, func(ctx context.Context, k *keyStore, args []string) error {
		found := make([]tenant.Key, len(args))
		for i, id := range args {
			var err error
			if found[i], err = k.find(ctx, id); err != nil {
				return err
			}
		}
		for i := range found {
			key := &found[i]
			if err := k.change(ctx, actionKeyRevoke, key, nil, func() error { return k.store.Revoke(ctx, key.ID, time.Now()) }); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "revoked %s\n", key.ID)
		}
		return nil
	})
	return cmd
}
