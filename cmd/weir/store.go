package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"weir/api/batch"
	"weir/configs"
	"weir/internal/server/state"
)

func newStore() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Back up, restore, check and encrypt the store, and rotate its keys",
		Long: "Back up the store and restore it, check it for damage, encrypt what it keeps of tenants' prompts and answers,\n" +
			"and rotate the keys that encrypt it. Servers may use the store meanwhile, except for restore.",
		Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newStoreEncrypt(), newStoreRotate(), newStoreVerify(), newStoreBackup(), newStoreRestore())
	return cmd
}

func newStoreEncrypt() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "encrypt",
		Short: "Encrypt texts that an earlier weir has left in clear, as weir serve does at its start",
		Args:  cobra.NoArgs,
	}
	onStore(cmd, func(ctx context.Context, c configs.Config, s *state.Store, _ []string) error {
		rows, err := s.EncryptClear(ctx)
		if err != nil {
			return err
		}
		dir, err := state.FilesDir(c)
		if err != nil {
			return err
		}
		files := 0
		if _, err := os.Stat(dir); err == nil {
			if files, err = batch.EncryptFiles(ctx, dir, s.Batches, s.Cipher); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "encrypted: %d rows, %d files\n", rows, files)
		return err
	})
	return cmd
}

func newStoreVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Look for damage: pages of SQLite, encrypted rows, data keys, the audit log",
		Long: "Look for damage: SQLite's own check of pages and indexes, the data keys, the audit log, and every encrypted\n" +
			"row, which carries its own checksum. It reads the whole store. weir serve does it at its start with --store-verify.",
		Args: cobra.NoArgs,
	}
	onStore(cmd, func(ctx context.Context, _ configs.Config, s *state.Store, _ []string) error {
		if err := state.Verify(ctx, s); err != nil {
			return err
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "the store is whole")
		return err
	})
	return cmd
}

func newStoreRotate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate-keys [TENANT]...",
		Short: "Give tenants new data keys, and encrypt their texts with them",
		Long: "Give tenants (all, if none is named) new data keys, and encrypt their texts with them. Files keep the key\n" +
			"that they were written with. A key that nothing needs any more is deleted a day later by weir serve. The\n" +
			"master key is rotated by its setting: put the new one before the old one (--master-key), on every server\n" +
			"first behind it; then take the old one away.",
		Example: "  weir store rotate-keys\n  weir store rotate-keys acme",
	}
	onStore(cmd, func(ctx context.Context, _ configs.Config, s *state.Store, args []string) error {
		var err error
		if len(args) == 0 {
			if args, err = s.KeyTenants(ctx); err != nil {
				return err
			}
		}
		for _, name := range args {
			if _, err := state.AddEntry(ctx, s.Audit, state.CommandLine(), state.ActionRotateKeys, name, nil); err != nil {
				return err
			}
			rows, err := s.RotateKey(ctx, name)
			if err != nil {
				return fmt.Errorf("rotate the key of %s: %w", name, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: a new key, and %d rows encrypted with it\n", name, rows)
		}
		return nil
	})
	return cmd
}
