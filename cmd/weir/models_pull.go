package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/console"
	"weir/internal/server/folder"
	"weir/internal/unit"
	"weir/router/registry"
	"weir/router/registry/catalog"
)

func newModelsPush() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "push NAME [HOST/NAME:TAG]",
		Short: "Copy a version to an OCI registry",
		Long: "Copy a version to an OCI registry, under the name that is given or its own. Files that the registry has are\n" +
			"not sent, and the manifest goes last: a push that is cut has shown nothing. A tag that names another version stays\n" +
			"as it is without --force. Credentials are those of\n" +
			"docker login, or --registry-username and WEIR_REGISTRY_PASSWORD.",
		Example: "  weir models push chat:v1 registry.example.com/team/chat:v1", Args: cobra.RangeArgs(1, 2),
	}
	plain := plainHTTP(cmd)
	force := cmd.Flags().Bool("force", false, "give the tag this version where it names another one, and say which it named")
	onModels(cmd, func(ctx context.Context, m *modelsVerb, args []string) error {
		there := args[len(args)-1]
		to := folder.RemoteOf(m.config, *plain)
		if *force {
			to.Move = func(before string) bool {
				fmt.Fprintf(m.cmd.ErrOrStderr(), "%s was %s\n", there, before)
				return true
			}
		}
		var v registry.Version
		err := m.progress("pushing", there, func(p registry.Progress) (err error) {
			v, err = m.registry.Push(ctx, args[0], there, to, p)
			return err
		})
		if err != nil {
			return err
		}
		return m.print(v, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s is %s, %s\n", there, v.Digest, unit.Bytes(v.Size))
			return err
		})
	})
	return cmd
}

func newModelsPull() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pull [NAME...]",
		Short: "Bring models in from an OCI registry, Hugging Face, Ollama's registry or a URL",
		Long: "Bring models in: hf.co/ORG/REPO:QUANTISATION, NAME:TAG of Ollama's registry, HOST/NAME:TAG of any OCI\n" +
			"registry, or the URL of a GGUF file. Without a name, those of --models-preload. Transfers that were cut\n" +
			"go on; checksums are compared. HF_TOKEN is the token for Hugging Face, HF_ENDPOINT another address of it,\n" +
			"OLLAMA_REGISTRY another registry in the place of Ollama's; for other registries docker login.",
		Example: "  weir pull hf.co/ORG/REPO-GGUF:Q4_K_M\n  weir pull llama3.2:1b --as chat:v1\n  weir pull https://example.com/model.gguf",
	}
	as := cmd.Flags().String("as", "", "alias NAME:TAG that the model gets here (default: the name that was pulled)")
	plain := plainHTTP(cmd)
	onModels(cmd, func(ctx context.Context, m *modelsVerb, args []string) error {
		if len(args) == 0 {
			args = m.config.Registry.Preload
		}
		switch {
		case len(args) == 0:
			return &console.UsageError{Err: errors.New("no model is named, and there is no preload list"), Hint: "name one, " + beginnings() + " say, or set --models-preload; the page of a running server lists more, with their sizes"}
		case len(args) > 1 && *as != "":
			return &console.UsageError{Err: errors.New("--as with several models"), Hint: "pull them one by one"}
		}
		p := &folder.Puller{Config: m.config, Registry: m.registry, Errs: m.cmd.ErrOrStderr(), Plain: *plain}
		list := []registry.Version{}
		for _, name := range args {
			v, err := p.Pull(ctx, name, *as)
			if v.Digest == "" {
				return err
			}
			warnLate(m.cmd, err)
			list = append(list, v)
		}
		return m.print(list, func(w io.Writer) error { return listModels(w, list) })
	})
	return cmd
}

// beginnings are names of small models to begin with.
func beginnings() string {
	var names []string
	for _, m := range catalog.All() {
		if m.Use == catalog.Chat && len(names) < 2 && !strings.Contains(m.Name, "/") {
			names = append(names, m.Name)
		}
	}
	return strings.Join(names, " or ")
}

// warnLate shows an error beside a result that is whole.
func warnLate(cmd *cobra.Command, err error) {
	if err != nil {
		console.Warn(cmd.ErrOrStderr(), []string{err.Error()})
	}
}

func plainHTTP(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("plain-http", false, "speak to the registry without TLS, as is done on this machine anyway")
}
