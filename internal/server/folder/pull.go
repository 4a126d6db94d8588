package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"weir/configs"
	"weir/engine/gguf"
	"weir/internal/console"
	"weir/internal/unit"
	"weir/router/registry"
	"weir/router/registry/hub"
)

// RemoteOf is how registries are spoken to; plain is without TLS.
func RemoteOf(c configs.Config, plain bool) registry.Remote {
	return registry.Remote{PlainHTTP: plain, Username: c.Registry.Username, Password: c.Registry.Password}
}

// Puller brings models in from wherever their names say.
type Puller struct {
	Config   configs.Config
	Registry *registry.Registry
	Errs     io.Writer // for progress
	Plain    bool

	Progress registry.Progress // nil: errs shows it
}

// Pull brings a model in under an alias, by default under the name that is pulled.
func (p *Puller) Pull(ctx context.Context, text, as string) (registry.Version, error) {
	told := &reach{errs: p.Errs}
	h := hub.New(os.Getenv)
	h.Client.Transport = told
	source, err := h.Parse(text)
	if err != nil {
		return registry.Version{}, err
	}
	if as == "" {
		as = source.Name
	}
	progress := p.Progress
	if progress == nil {
		bar := console.NewProgressOf(p.Errs, console.IsTerminal(p.Errs), "pulling", console.Printable(text))
		defer bar.End()
		progress = bar.Update
	}
	room := registry.Room{Bytes: p.Config.Registry.CacheBytes, Keep: p.keep(h)}
	if source.Kind == hub.OCI {
		remote := RemoteOf(p.Config, p.Plain)
		remote.Transport = told
		return p.Registry.Pull(ctx, registry.Pull{
			Reference: source.Reference, Name: as, Remote: remote, Room: room, Progress: progress,
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
	return p.Registry.Fetch(ctx, f)
}

// keep are the aliases of the preload list.
func (p *Puller) keep(h *hub.Hub) []string {
	var names []string
	for _, text := range p.Config.Registry.Preload {
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
	return FactsOf(f), nil
}

// FactsOf is what a GGUF file says of itself.
func FactsOf(f *gguf.File) registry.Facts {
	facts := registry.Facts{Format: "gguf", Parameters: strings.ReplaceAll(unit.Count(f.ParamCount()), " ", "")}
	facts.Architecture, _, _ = f.String("general.architecture")
	sizes := make(map[string]int64)
	for _, t := range f.Tensors {
		if name := t.Type.String(); len(t.Dims) > 1 {
			sizes[name] += t.Bytes
			if sizes[name] > sizes[facts.Quantization] {
				facts.Quantization = name
			}
		}
	}
	return facts
}
