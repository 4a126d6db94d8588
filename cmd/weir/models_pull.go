package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"weir/configs"
	"weir/engine/gguf"
	"weir/router/registry"
	"weir/router/registry/hub"
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
		to := remoteOf(m.config, *plain)
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
			_, err := fmt.Fprintf(w, "%s is %s, %s\n", there, v.Digest, showSize(v.Size))
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
			return &usageError{errors.New("no model is named, and there is no preload list"), "name what to pull, or set --models-preload"}
		case len(args) > 1 && *as != "":
			return &usageError{errors.New("--as with several models"), "pull them one by one"}
		}
		p := &puller{config: m.config, registry: m.registry, errs: m.cmd.ErrOrStderr(), plain: *plain}
		list := []registry.Version{}
		for _, name := range args {
			v, err := p.pull(ctx, name, *as)
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

// warnLate shows an error beside a result that is whole.
func warnLate(cmd *cobra.Command, err error) {
	if err != nil {
		warn(cmd.ErrOrStderr(), []string{err.Error()})
	}
}

func plainHTTP(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("plain-http", false, "speak to the registry without TLS, as is done on this machine anyway")
}

func remoteOf(c configs.Config, plain bool) registry.Remote {
	return registry.Remote{PlainHTTP: plain, Username: c.Registry.Username, Password: c.Registry.Password}
}

// puller brings models in from wherever their names say.
type puller struct {
	config   configs.Config
	registry *registry.Registry
	errs     io.Writer // for progress
	plain    bool

	progress registry.Progress // nil: errs shows it
}

// pull brings a model in under an alias, by default under the name that is pulled.
func (p *puller) pull(ctx context.Context, text, as string) (registry.Version, error) {
	h := hub.New(os.Getenv)
	source, err := h.Parse(text)
	if err != nil {
		return registry.Version{}, err
	}
	if as == "" {
		as = source.Name
	}
	progress := p.progress
	if progress == nil {
		bar := newProgress(p.errs, isTerminal(p.errs), "pulling", printable(text))
		defer bar.end()
		progress = bar.update
	}
	room := registry.Room{Bytes: p.config.Registry.CacheBytes, Keep: p.keep(h)}
	if source.Kind == hub.OCI {
		return p.registry.Pull(ctx, registry.Pull{
			Reference: source.Reference, Name: as, Remote: remoteOf(p.config, p.plain), Room: room, Progress: progress,
		})
	}
	f := registry.Fetch{Name: as, Source: text, Describe: describeFile, Do: h.Client.Do, Room: room, Progress: progress}
	if source.Kind == hub.URL {
		f.Files = []hub.File{{URL: source.URL, Name: "model.gguf"}}
	} else {
		l, err := h.List(ctx, source)
		if err != nil {
			return registry.Version{}, err
		}
		f.Files, f.Revision = l.Files, l.Revision
	}
	return p.registry.Fetch(ctx, f)
}

// keep are the aliases of the preload list.
func (p *puller) keep(h *hub.Hub) []string {
	var names []string
	for _, text := range p.config.Registry.Preload {
		if s, err := h.Parse(text); err == nil {
			names = append(names, s.Name)
		}
	}
	return names
}

// describeFile says what a downloaded file is. One of several of a split model is read alone.
func describeFile(path string) (registry.Facts, error) {
	file, err := os.Open(path) //nolint:gosec // a blob
	if err != nil {
		return registry.Facts{}, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return registry.Facts{}, err
	}
	f, err := gguf.Parse(file, info.Size())
	if errors.Is(err, gguf.ErrSplit) {
		return registry.Facts{Format: "gguf"}, nil
	}
	if err != nil {
		return registry.Facts{}, fmt.Errorf("what was downloaded is no GGUF file: %w", err)
	}
	return factsOf(f), nil
}
