package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"weir/configs"
	"weir/internal/console"
	"weir/internal/outfile"
	"weir/internal/server/state"
	"weir/internal/store"
)

// keysSuffix names the backup of the data keys beside that of the store.
const keysSuffix = ".keys"

// maxBackupWindow bounds the memory that a compressed backup makes its reader take.
const maxBackupWindow = 16 << 20

func newStoreBackup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write the store, as it is at one moment, into FILE, and its data keys into FILE.keys",
		Long: "Write the store, as it is at one moment, into FILE, and its data keys into FILE.keys, while servers go on\n" +
			"writing. Both are compressed (zstd), carry a checksum, and are for SQLite and PostgreSQL alike. The data keys are encrypted\n" +
			"with the master key. Neither the master key nor the pepper is in a backup, and without them it is worth nothing:\n" +
			"keep those elsewhere. Keep FILE.keys apart from FILE, and no longer than a forgotten tenant may stay readable.\n" +
			"Uploaded files (weir.db.files), models and what is in Redis are not in it. A broken audit log is not backed up.",
		Example: "  weir store backup /backup/weir-$(date +%F).zst",
		Args:    exactly(1),
	}
	onStore(cmd, func(ctx context.Context, _ configs.Config, s *state.Store, args []string) error {
		path := args[0]
		if _, err := s.Audit.Verify(ctx); err != nil {
			return fmt.Errorf("nothing is backed up: %w; see weir audit verify", err)
		}
		if _, err := state.AddEntry(ctx, s.Audit, state.CommandLine(), state.ActionStoreBackup, path, nil); err != nil {
			return err
		}
		var backed store.BackupSummary
		err := writeCompressed(path, func(w io.Writer) (err error) {
			backed, err = s.Backup(ctx, w, s.Audit)
			return err
		})
		if err != nil {
			return err
		}
		if err := writeCompressed(path+keysSuffix, func(w io.Writer) error { return s.BackupKeys(ctx, w) }); err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d rows, head of the audit log %v\n%s: the data keys; keep them apart\n"+
			"The master key and the pepper are in neither.\n", path, backed.Rows, backed.Audit, path+keysSuffix)
		return err
	})
	return cmd
}

// writeCompressed writes a file that only its owner reads, whole or not at all.
func writeCompressed(path string, write func(io.Writer) error) error {
	return outfile.Write(path, 0o600, func(w io.Writer) error {
		z, err := zstd.NewWriter(w, zstd.WithWindowSize(maxBackupWindow/2))
		if err != nil {
			return err
		}
		return errors.Join(write(z), z.Close())
	})
}

func newStoreRestore() *cobra.Command {
	var force bool
	var keys string
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup into a store that is empty",
		Long: "Put a backup of weir store backup into the store that --store names: SQLite or PostgreSQL, whichever it came\n" +
			"from. No server may use that store meanwhile. Before anything is changed, the backup's checksum and the chain of its audit\n" +
			"log are checked, with the pepper; afterwards the whole store is. A store that has tables is refused, unless --force drops\n" +
			"them. The data keys are read from FILE.keys, or --keys; where the keys that the backup needs are in place they stay, so\n" +
			"that tenants who were forgotten since stay forgotten. Pepper and master key must be those of the store that was backed up.",
		Example: "  weir store restore /backup/weir-2026-05-01.zst --store sqlite:/var/lib/weir/weir.db\n" +
			"  weir store restore weir.zst --keys weir.zst.keys --store postgres://weir@db/weir",
		Args: exactly(1),
	}
	cmd.Flags().BoolVar(&force, "force", false, "drop what the store has, all of it")
	cmd.Flags().StringVar(&keys, "keys", "", "the backup of the data keys; default FILE.keys, if it is there")
	opts := addOptions(cmd, storeSections)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, warnings, err := opts.config()
		if err != nil {
			return err
		}
		console.Warn(cmd.ErrOrStderr(), warnings)
		return restoreStore(cmd, c.Store, args[0], keys, force)
	}
	return cmd
}

func restoreStore(cmd *cobra.Command, c configs.Store, path, keys string, force bool) error {
	ctx := cmd.Context()
	r := store.Restoring{Store: compressed(path), Force: force}
	if keys == "" {
		if _, err := os.Stat(path + keysSuffix); err == nil {
			keys = path + keysSuffix
		}
	}
	if keys != "" {
		r.Keys = compressed(keys)
	}
	backed, err := state.Restore(ctx, c, r)
	if err != nil {
		return err
	}
	s, err := state.Open(ctx, c, state.Options{})
	if err != nil {
		return fmt.Errorf("the backup was restored, and cannot be opened: %w", err)
	}
	if err = state.Verify(ctx, s); err == nil {
		_, err = state.AddEntry(ctx, s.Audit, state.CommandLine(), state.ActionStoreRestore, path, state.Details{"head": backed.Audit})
	}
	if err = errors.Join(err, state.Close(s)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "restored: %d rows; the audit log is whole up to %v, and the store too\n", backed.Rows, backed.Audit)
	return err
}

// compressed opens a file of writeCompressed.
func compressed(path string) store.Opener {
	return func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		z, err := zstd.NewReader(f, zstd.WithDecoderMaxWindow(maxBackupWindow))
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return &compressedFile{z, f}, nil
	}
}

type compressedFile struct {
	*zstd.Decoder
	file *os.File
}

// Close implements io.Closer.
func (c *compressedFile) Close() error {
	c.Decoder.Close()
	return c.file.Close()
}
