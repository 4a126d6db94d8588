package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"weir/internal/console"
	"weir/router/registry"
)

func newModelsSign() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sign NAME",
		Short: "Vouch for a version with an Ed25519 key",
		Long: "Read all files of a version, compare their digests, and sign the version's digest with a private Ed25519 key\n" +
			"(PEM, as openssl genpkey -algorithm ed25519 makes it). weir models verify --key checks it with the public key.",
		Example: "  weir models sign chat:v1 --key team.pem", Args: exactly(1),
	}
	keyFile := cmd.Flags().String("key", "", "file: private Ed25519 key in PEM")
	onModels(cmd, func(ctx context.Context, m *modelsVerb, args []string) error {
		data, err := readFileFlag("key", *keyFile)
		if err != nil {
			return err
		}
		if data == nil {
			return &console.UsageError{Err: errors.New("--key is missing"), Hint: "give the file of a private Ed25519 key"}
		}
		key, err := registry.PrivateKey(data)
		if err != nil {
			return fmt.Errorf("--key %s: %w", *keyFile, err)
		}
		v, err := m.registry.Resolve(args[0])
		if err != nil {
			return wayToModels(err)
		}
		if err := m.progress("checking", v.Name, func(p registry.Progress) error { return m.registry.Verify(ctx, v, p) }); err != nil {
			return err
		}
		s, err := m.registry.Sign(ctx, v, key)
		if err != nil {
			return err
		}
		return m.print(s, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s is signed by %s\n", v.Digest, s.Key)
			return err
		})
	})
	return cmd
}

// signatureCheck is the check that a key asks for; without a key it asks for nothing.
func signatureCheck(r *registry.Registry, keyFile string) (func(registry.Version) error, error) {
	data, err := readFileFlag("key", keyFile)
	if err != nil || data == nil {
		return func(registry.Version) error { return nil }, err
	}
	key, err := registry.PublicKey(data)
	if err != nil {
		return nil, fmt.Errorf("--key %s: %w", keyFile, err)
	}
	return func(v registry.Version) error { return r.CheckSignature(v, key) }, nil
}
