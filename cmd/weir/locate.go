package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/configs"
	"weir/router/registry"
)

// locator finds the files of models that are named as versions in the models folder, NAME:TAG or NAME@sha256:DIGEST,
// instead of by a path. Versions that it has found are this process's until it ends: nobody removes their files.
type locator struct {
	cmd  *cobra.Command
	held map[string]*registry.Held
	once bool // the configuration has been located before: a running server pulls nothing
	any  bool // the verb takes classical models in the place of a language model
}

func newLocator(cmd *cobra.Command) *locator {
	return &locator{cmd: cmd, held: make(map[string]*registry.Held)}
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
	if err := l.language(ctx, c); err != nil {
		return err
	}
	if err := l.list(ctx, c); err != nil {
		return err
	}
	return l.classic(ctx, c)
}

func (l *locator) language(ctx context.Context, c *configs.Config) error {
	ref, named := asReference(c.Model.Path)
	if !named {
		return nil
	}
	v, err := l.find(ctx, *c, ref)
	if err != nil {
		return err
	}
	if !v.Language() && !l.any {
		return &usageError{fmt.Errorf("%s is a classical model (%s)", ref, v.Facts.Format),
			fmt.Sprintf("serve it beside language models, or alone, with --classic %s=%s", baseName(ref), ref)}
	}
	c.Model.Path = v.Path()
	if len(c.Model.ServedNames) == 0 {
		c.Model.ServedNames = slices.Compact([]string{baseName(ref), ref.String()})
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
		ref, named := asReference(m.Path)
		if !named || m.Path == configs.BuiltinPath {
			continue
		}
		v, err := l.find(ctx, *c, ref)
		if err != nil {
			return err
		}
		if !v.Language() {
			return &usageError{fmt.Errorf("%s is a classical model (%s)", ref, v.Facts.Format), "give it to --classic, or to the list classic"}
		}
		if m.Name == configs.NewServedModel("", m.Path).Name { // it came from the reference
			m.Name = baseName(ref)
		}
		m.Path = v.Path()
		templates := v.Paths(registry.Template)
		if own := func(s configs.ModelSetting) bool { return s.Key == configs.ChatTemplateKey }; len(templates) > 0 && !slices.ContainsFunc(m.Settings, own) {
			m.Settings = append(slices.Clip(m.Settings), configs.ModelSetting{Key: configs.ChatTemplateKey, Value: templates[0]})
		}
	}
	return nil
}

// classic puts records with the files of versions in the place of settings and records that name them.
func (l *locator) classic(ctx context.Context, c *configs.Config) error {
	list := c.ClassicModels()
	if !slices.ContainsFunc(list, func(m configs.Classic) bool { _, named := asReference(m.Path); return named }) {
		return nil
	}
	for i := range list {
		m := &list[i]
		ref, named := asReference(m.Path)
		if !named {
			continue
		}
		v, err := l.find(ctx, *c, ref)
		if err != nil {
			return err
		}
		if v.Language() {
			return &usageError{fmt.Errorf("--classic %s: it is a language model", ref), "name it as the argument"}
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

// asReference reads a reference from what is no path of a file.
func asReference(text string) (registry.Ref, bool) {
	if text == "" || strings.HasSuffix(text, ".gguf") {
		return registry.Ref{}, false
	}
	if _, err := os.Stat(text); err == nil {
		return registry.Ref{}, false
	}
	ref, err := registry.ParseRef(text)
	return ref, err == nil
}

// baseName is a short name of a version.
func baseName(ref registry.Ref) string {
	if ref.Name == "" {
		return strings.ReplaceAll(shortDigest(ref.Digest), ":", "-")
	}
	return path.Base(ref.Name)
}

// find loads a version: its digests are checked, once for each state of its files.
func (l *locator) find(ctx context.Context, c configs.Config, ref registry.Ref) (*registry.Version, error) {
	r, err := openRegistry(c)
	if err != nil {
		return nil, err
	}
	v, err := r.Resolve(ref.String())
	if errors.Is(err, registry.ErrNotFound) {
		return nil, l.missing(ref, err)
	}
	if err != nil {
		return nil, err
	}
	if held, ok := l.held[string(v.Digest)]; ok {
		return &held.Version, nil
	}
	errs := l.cmd.ErrOrStderr()
	p := newProgress(errs, isTerminal(errs), "checking", printable(ref.String()))
	held, err := r.Load(ctx, ref.String(), p.update)
	p.end()
	if err != nil {
		return nil, err
	}
	l.held[string(held.Digest)] = held
	return &held.Version, nil
}

// missing says how a version that is not here gets here.
func (l *locator) missing(ref registry.Ref, err error) error {
	return fmt.Errorf("there is no file %s, and in the models folder %w; weir models import FILE %s makes it of a file, and weir models list shows what is there",
		ref, err, ref)
}
