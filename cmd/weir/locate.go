package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"weir/configs"
	"weir/internal/console"
	"weir/internal/server/folder"
	"weir/router/registry"
	"weir/router/registry/hub"
)

// locator finds the files of models that are named as versions in the models folder, NAME:TAG or NAME@sha256:DIGEST,
// instead of by a path. The files of versions that it holds are not removed: those of the configuration in force, of the one
// before, whose versions may answer again, and those that were found since.
type locator struct {
	cmd  *cobra.Command
	held map[string]*registry.Held // by digest

	found, inForce map[string]bool // digests of the configuration that was read last, and of the one in force
	once           bool            // the configuration has been located before: a running server pulls nothing
	any            bool            // the verb takes classical models in the place of a language model
}

func newLocator(cmd *cobra.Command) *locator {
	l := &locator{cmd: cmd, held: make(map[string]*registry.Held)}
	if ctx := cmd.Context(); ctx != nil {
		if all, ok := ctx.Value(locatorsKey{}).(*locators); ok {
			*all = append(*all, l)
		}
	}
	return l
}

// locators are those of one command line, in the context of its verb: what they hold is released when the verb is over.
type locators []*locator

type locatorsKey struct{}

func (all locators) release() {
	for _, l := range all {
		for _, held := range l.held {
			_ = held.Release() // its lease ends with the process at the latest
		}
		clear(l.held)
	}
}

// chooseModel lets the verb's argument name the model, and finds its files.
func chooseModel(cmd *cobra.Command, c *configs.Config, args []string) error {
	if err := choosePath(c, args); err != nil {
		return err
	}
	return newLocator(cmd).locate(cmd.Context(), c)
}

// locate puts paths of files in the place of versions.
func (l *locator) locate(ctx context.Context, c *configs.Config) error {
	defer func() { l.once = true }()
	l.found = make(map[string]bool)
	if err := l.language(ctx, c); err != nil {
		return err
	}
	if err := l.list(ctx, c); err != nil {
		return err
	}
	return l.classic(ctx, c)
}

func (l *locator) language(ctx context.Context, c *configs.Config) error {
	ref, named := folder.AsReference(c.Model.Path)
	if !named {
		return folder.Unapproved(*c, c.Model.Path)
	}
	v, err := l.find(ctx, *c, c.Model.Path, ref)
	if err != nil {
		return err
	}
	if !v.Language() && !l.any {
		return &console.UsageError{Err: fmt.Errorf("%s is a classical model (%s)", ref, v.Facts.Format),
			Hint: fmt.Sprintf("serve it beside language models, or alone, with --classic %s=%s", folder.BaseName(ref), ref)}
	}
	c.Model.Path, c.Model.Defaults = v.Path(), folder.DefaultsOf(v)
	c.Model.OwnSafety = string(v.Record.Safety)
	if len(c.Model.ServedNames) == 0 {
		c.Model.ServedNames = slices.Compact([]string{folder.BaseName(ref), ref.String()})
	}
	if templates := v.Paths(registry.Template); c.Model.ChatTemplate == "" && len(templates) > 0 {
		c.Model.ChatTemplate = templates[0]
	}
	return nil
}

// list puts records with the files of versions in the place of those that name versions.
func (l *locator) list(ctx context.Context, c *configs.Config) error {
	c.Models = slices.Clone(c.Models)
	for i := range c.Models {
		m := &c.Models[i]
		ref, named := folder.AsReference(m.Path)
		if !named || m.Path == configs.BuiltinPath {
			if err := folder.Unapproved(*c, m.Path); err != nil {
				return err
			}
			continue
		}
		v, err := l.find(ctx, *c, m.Path, ref)
		if err != nil {
			return err
		}
		if !v.Language() {
			return &console.UsageError{Err: fmt.Errorf("%s is a classical model (%s)", ref, v.Facts.Format), Hint: "give it to --classic, or to the list classic"}
		}
		if m.Name == configs.NewServedModel("", m.Path).Name { // it came from the reference
			m.Name = folder.BaseName(ref)
		}
		folder.TakeVersion(m, v)
	}
	return nil
}

// classic puts records with the files of versions in the place of settings and records that name them.
func (l *locator) classic(ctx context.Context, c *configs.Config) error {
	list := c.ClassicModels()
	for _, m := range list {
		if _, named := folder.AsReference(m.Path); !named {
			if err := folder.Unapproved(*c, m.Path); err != nil {
				return err
			}
		}
	}
	if !slices.ContainsFunc(list, func(m configs.Classic) bool { _, named := folder.AsReference(m.Path); return named }) {
		return nil
	}
	for i := range list {
		m := &list[i]
		ref, named := folder.AsReference(m.Path)
		if !named {
			continue
		}
		v, err := l.find(ctx, *c, m.Path, ref)
		if err != nil {
			return err
		}
		if v.Language() {
			return &console.UsageError{Err: fmt.Errorf("--classic %s: it is a language model", ref), Hint: "name it as the argument"}
		}
		if name, _, tagged := strings.Cut(m.Name, ":"); tagged { // it came from the reference
			m.Name = path.Base(name)
		}
		first := func(role registry.Role) string { return strings.Join(v.Paths(role)[:min(1, len(v.Paths(role)))], "") }
		m.Path = v.Path()
		m.Golden, m.Manifest, m.Profile = cmp.Or(m.Golden, first(registry.Golden)), cmp.Or(m.Manifest, first(registry.Features)), cmp.Or(m.Profile, first(registry.Profile))
	}
	c.Predict.Models, c.Classic = nil, list
	return nil
}

// find loads a version: its digests are checked, once for each state of its files.
func (l *locator) find(ctx context.Context, c configs.Config, text string, ref registry.Ref) (*registry.Version, error) {
	r, err := folder.Open(c)
	if err != nil {
		return nil, err
	}
	v, err := r.Resolve(ref.String())
	if errors.Is(err, registry.ErrNotFound) {
		if err := l.bring(ctx, c, r, text, ref, err); err != nil {
			return nil, err
		}
		v, err = r.Resolve(ref.String())
	}
	if err != nil {
		return nil, err
	}
	if err := folder.Servable(c, &v, ref); err != nil {
		return nil, err
	}
	l.found[string(v.Digest)] = true
	if held, ok := l.held[string(v.Digest)]; ok {
		return &held.Version, nil
	}
	errs := l.cmd.ErrOrStderr()
	p := console.NewProgressOf(errs, console.IsTerminal(errs), "checking", console.Printable(ref.String()))
	held, err := r.Load(ctx, ref.String(), p.Update)
	p.End()
	if err != nil {
		return nil, err
	}
	l.held[string(held.Digest)] = held
	return &held.Version, nil
}

// applied notes that the configuration which was read last is in force, and lets go of versions that neither it nor the one
// before names. It is not called during locate.
func (l *locator) applied() {
	for digest, held := range l.held {
		if !l.found[digest] && !l.inForce[digest] {
			_ = held.Release() // its lease ends with the process at the latest
			delete(l.held, digest)
		}
	}
	l.inForce = l.found
}

// bring pulls a version that is not here, where somebody has said so: by --pull, or now on the terminal. A server that
// runs already never pulls.
func (l *locator) bring(ctx context.Context, c configs.Config, r *registry.Registry, text string, ref registry.Ref, why error) error {
	missing := fmt.Errorf("there is no file %s, and in the models folder %w; weir models import FILE %s makes it of a file, weir models list shows what is there",
		text, why, ref)
	source, err := hub.New(os.Getenv).Parse(text)
	if err != nil || ref.Digest != "" && source.Kind != hub.OCI {
		return missing
	}
	switch {
	case l.once:
		return fmt.Errorf("%w; a running server pulls nothing: run weir pull %s first", missing, text)
	case c.Registry.Pull:
	case !l.ask(text, source):
		return fmt.Errorf("%w; weir pull %s, or --pull, brings it in from %s", missing, text, hostOf(source))
	}
	_, err = (&folder.Puller{Config: c, Registry: r, Errs: l.cmd.ErrOrStderr()}).Pull(ctx, text, "")
	return err
}

// ask asks a person, if there is one, whether to pull.
func (l *locator) ask(text string, source hub.Source) bool {
	in, ok := l.cmd.InOrStdin().(*os.File)
	errs := l.cmd.ErrOrStderr()
	if !ok || !term.IsTerminal(int(in.Fd())) || !console.IsTerminal(errs) {
		return false
	}
	fmt.Fprintf(errs, "%s is not here. Pull it from %s? [y/N] ", console.Printable(text), console.Printable(hostOf(source)))
	answer, err := bufio.NewReader(in).ReadString('\n')
	return err == nil && slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}

// hostOf is where a source would be pulled from.
func hostOf(s hub.Source) string {
	switch s.Kind {
	case hub.HuggingFace:
		return strings.TrimPrefix(strings.TrimPrefix(hub.New(os.Getenv).HuggingFace, "https://"), "http://")
	case hub.OCI:
		host, _, _ := strings.Cut(s.Reference, "/")
		return host
	case hub.URL:
	}
	if u, err := url.Parse(s.URL); err == nil {
		return u.Host
	}
	return s.URL
}
