package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weir/configs"
	"weir/internal/console"
	"weir/internal/server/state"
	"weir/telemetry/audit"
)

func newAudit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show and check the log of changes by people and rules",
		Long: "Show and check the audit log, which the store keeps (--store): keys that were made and revoked,\n" +
			"configurations that were loaded, starts and ends of servers. Each entry holds the hash of the one\n" +
			"before it, so that an entry that was altered or removed shows.",
		Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAuditList(), newAuditVerify(), newAuditHead(), newAuditAccept())
	return cmd
}

// onStore gives a verb the flags of a store that there must be.
func onStore(cmd *cobra.Command, do func(ctx context.Context, c configs.Config, s *state.Store, args []string) error) {
	opts := addOptions(cmd, storeSections)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, warnings, err := opts.config()
		if err != nil {
			return err
		}
		console.Warn(cmd.ErrOrStderr(), warnings)
		exists, err := state.Exists(c.Store)
		if err != nil {
			return err
		}
		if !exists {
			return errors.New("there is no store yet: weir serve and weir keys create make one, and --store names another")
		}
		s, err := state.Open(cmd.Context(), c.Store, state.Options{})
		if err != nil {
			return err
		}
		return errors.Join(do(cmd.Context(), c, s, args), state.Close(s))
	}
}

func newAuditList() *cobra.Command {
	var after int64
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the entries",
		Example: "  weir audit list\n  weir audit list --after 1200",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().Int64Var(&after, "after", 0, "list the entries after this number only")
	onStore(cmd, func(ctx context.Context, _ configs.Config, s *state.Store, _ []string) error {
		table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ENTRY\tTIME\tWHO\tACTION\tOBJECT\tDETAILS")
		for e, err := range s.Audit.Entries(ctx, after) {
			if err != nil {
				return errors.Join(table.Flush(), err)
			}
			fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\n", e.Sequence, e.Time.Format(time.RFC3339),
				console.Printable(e.Actor), console.Printable(e.Action), console.Printable(e.Object), console.Printable(e.Details))
		}
		return table.Flush()
	})
	return cmd
}

func newAuditVerify() *cobra.Command {
	var without bool
	cmd := &cobra.Command{
		Use:   "verify [HEAD...]",
		Short: "Check the chain of all entries, and that it has heads that were noted",
		Long: "Check that no entry was altered, removed or put in, that the table's triggers are there, and that the log\n" +
			"has the head that is noted in a file apart from it (--audit-head). The chain is keyed with the pepper:\n" +
			"who may write the whole store cannot compute it again. Heads that were noted elsewhere, such as those\n" +
			"that weir serve logs at its start, at its end and every day, can be given to be compared, too. Where that file\n" +
			"is missing and no head is given, an end that was cut off cannot be seen, and the check fails; --without-head takes\n" +
			"that.",
		Example: "  weir audit verify\n  weir audit verify 1200:4f0c…",
	}
	cmd.Flags().BoolVar(&without, "without-head", false, "check the chain alone: there is no head to compare its end with")
	onStore(cmd, func(ctx context.Context, _ configs.Config, s *state.Store, args []string) error {
		noted := make([]audit.Head, len(args))
		for i, text := range args {
			var err error
			if noted[i], err = audit.ParseHead(text); err != nil {
				return &console.UsageError{Err: err}
			}
		}
		head, err := s.Audit.Verify(ctx, noted...)
		if errors.Is(err, audit.ErrBroken) {
			return state.AuditBroken(fmt.Errorf("%w; it is whole up to entry %d", err, head.Sequence))
		}
		if err != nil {
			return err
		}
		last, err := s.Audit.NotedHead()
		if err != nil {
			return err
		}
		if last == (audit.Head{}) {
			const missing = "no head of the audit log is noted here (%s): that its end was cut off would not show"
			if len(noted) == 0 && !without {
				return fmt.Errorf("the chain of %d entries is whole up to %s, but "+missing+
					"; name the file with --audit-head, give a head that was noted elsewhere (weir serve logs it), or take it with --without-head",
					head.Sequence, head, s.Audit.HeadFile())
			}
			fmt.Fprintf(cmd.ErrOrStderr(), missing+"\n", s.Audit.HeadFile())
		}
		fmt.Fprintf(cmd.OutOrStdout(), "The audit log is whole: %d entries. Its head, to be noted elsewhere:\n%s\n", head.Sequence, head)
		return nil
	})
	return cmd
}

func newAuditHead() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "head",
		Short: "Print the name of the last entry, to be noted elsewhere",
		Args:  cobra.NoArgs,
	}
	onStore(cmd, func(ctx context.Context, _ configs.Config, s *state.Store, _ []string) error {
		head, err := s.Audit.Head(ctx)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), head)
		return err
	})
	return cmd
}

func newAuditAccept() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "accept --reason TEXT",
		Short: "Note that what is wrong with the audit log was seen, and let servers start on it again",
		Long: "Note in the audit log what is wrong with it and why, put its triggers back, and note its head again: for a\n" +
			"database that was set back to an older copy, and after an intrusion that was looked into. The entry\n" +
			"holds a digest of all entries before it: what is changed in them later shows again.",
		Example: "  weir audit accept --reason 'restored from the backup of Monday'",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why the log is as it is, for those who read it later")
	onStore(cmd, func(ctx context.Context, _ configs.Config, s *state.Store, _ []string) error {
		if strings.TrimSpace(reason) == "" {
			return &console.UsageError{Err: errors.New("--reason is empty; say why the log is as it is")}
		}
		found, err := s.Audit.Accept(ctx, state.CommandLine(), reason)
		switch {
		case err != nil:
			return err
		case found == "":
			return errors.New("the audit log is whole; there is nothing to accept")
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "accepted: %s\n", found)
		return err
	})
	return cmd
}
