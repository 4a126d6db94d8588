package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weir/configs"
	"weir/internal/console"
	"weir/internal/server/folder"
	"weir/internal/unit"
	"weir/router/registry"
)

func newModels() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "models",
		Short: "Keep versions of models: import, list, tag, push, pull, verify, remove",
		Long: "Keep versions of models in a folder (--models-dir) that is an OCI image layout. A version is named by the\n" +
			"digest of its weights and everything else that decides its answers, and never changes; aliases NAME:TAG\n" +
			"point at versions, and move in one step. weir serve, run, inspect and bench take NAME:TAG and\n" +
			"NAME@sha256:DIGEST in place of a file. All of it works while servers run on the same folder.",
		Example: "  weir models import llama.gguf chat:v1\n  weir models tag chat:v1 chat:prod\n  weir serve chat:prod\n" +
			"  weir models push chat:v1 registry.example.com/team/chat:v1",
		Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newModelsImport(), newModelsList(), newModelsShow(), newModelsTag(), newModelsPush(), newModelsPull(), newModelsVerify(), newModelsSign(), newModelsRemove(),
		newModelsCollect(), newModelsHistory())
	cmd.AddCommand(liveModels()...)
	return cmd
}

// modelsVerb is what a verb on models works with.
type modelsVerb struct {
	cmd      *cobra.Command
	config   configs.Config
	registry *registry.Registry
	asJSON   bool
}

// onModels gives a verb the flags of the models folder, and --json.
func onModels(cmd *cobra.Command, do func(ctx context.Context, m *modelsVerb, args []string) error) {
	opts := addOptions(cmd, modelsSections)
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, warnings, err := opts.config()
		if err != nil {
			return err
		}
		console.Warn(cmd.ErrOrStderr(), warnings)
		r, err := folder.Open(c)
		if err != nil {
			return err
		}
		ctx, stop := interruptible(cmd)
		defer stop()
		err = errors.Join(r.Deliver(ctx), do(ctx, &modelsVerb{cmd, c, r, *asJSON}, args))
		if late, ok := errors.AsType[*registry.AuditError](err); ok && err.Error() == late.Error() {
			console.Warn(cmd.ErrOrStderr(), []string{late.Error()})
			return nil
		}
		return err
	}
}

// print writes a value as JSON, or as text.
func (m *modelsVerb) print(value any, text func(w io.Writer) error) error {
	w := m.cmd.OutOrStdout()
	if !m.asJSON {
		return text(w)
	}
	return printJSON(w, value)
}

// printJSON prints a value for other programs, which people may read.
func printJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

// progress shows bytes while do works.
func (m *modelsVerb) progress(verb, name string, do func(registry.Progress) error) error {
	errs := m.cmd.ErrOrStderr()
	p := console.NewProgressOf(errs, console.IsTerminal(errs), verb, console.Printable(name))
	defer p.End()
	return do(p.Update)
}

func newModelsList() *cobra.Command {
	cmd := &cobra.Command{Use: "list [NAME]", Aliases: []string{"ls"}, Short: "List versions and the aliases that point at them", Args: atMost(1)}
	onModels(cmd, func(_ context.Context, m *modelsVerb, args []string) error {
		list, listErr := m.registry.List()
		kept := list[:0]
		for _, v := range list {
			if len(args) == 0 || called(v, args[0]) {
				kept = append(kept, v)
			}
		}
		if kept == nil {
			kept = []registry.Version{}
		}
		return errors.Join(listErr, m.print(kept, func(w io.Writer) error {
			if len(kept) == 0 {
				fmt.Fprintf(m.cmd.ErrOrStderr(), "There are no models in %s. weir pull NAME brings one in, %s say; weir models import FILE NAME:TAG makes one of a file. The built-in model needs none.\n",
					m.registry.Dir(), beginnings())
				return nil
			}
			return listModels(w, kept)
		}))
	})
	return cmd
}

func called(v registry.Version, name string) bool {
	if v.Name == name {
		return true
	}
	for _, alias := range v.Aliases {
		if alias == name || strings.HasPrefix(alias, name+":") {
			return true
		}
	}
	return false
}

func listModels(w io.Writer, list []registry.Version) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tDIGEST\tFORMAT\tARCHITECTURE\tPARAMETERS\tQUANTIZATION\tSIZE\tADDED\tUSED")
	for _, v := range list {
		names := v.Aliases
		if len(names) == 0 {
			names = []string{v.Name + ":-"}
		}
		for _, name := range names {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", console.Printable(name), folder.ShortDigest(string(v.Digest)), orDash(v.Facts.Format),
				orDash(v.Facts.Architecture), orDash(v.Facts.Parameters), orDash(v.Facts.Quantization), unit.Bytes(v.Size), showDay(v.Added), showDay(v.Used))
		}
	}
	return table.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return console.Printable(s)
}

func showDay(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}

func newModelsShow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show what a version is: files, sampling, lineage, metrics, approval",
		Example: "  weir models show chat:prod\n  weir models show chat@sha256:0f4a31c2 --json", Args: exactly(1),
	}
	onModels(cmd, func(_ context.Context, m *modelsVerb, args []string) error {
		v, err := m.registry.Resolve(args[0])
		if err != nil {
			return wayToModels(err)
		}
		shown := struct {
			registry.Version
			Path string `json:"path"`
		}{v, v.Path()}
		return m.print(shown, func(w io.Writer) error { return showVersion(w, v) })
	})
	return cmd
}

func showVersion(w io.Writer, v registry.Version) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, value any) {
		if text := console.Printable(fmt.Sprint(value)); text != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, text)
		}
	}
	row("name", v.Name)
	row("aliases", strings.Join(v.Aliases, ", "))
	row("digest", v.Digest)
	row("format", v.Facts.Format)
	row("architecture", v.Facts.Architecture)
	row("parameters", v.Facts.Parameters)
	row("quantization", v.Facts.Quantization)
	row("size", unit.Bytes(v.Size))
	row("pulled from", v.Source)
	row("added", showDay(v.Added))
	row("path", v.Path())
	for _, f := range v.Files {
		row(string(f.Role), fmt.Sprintf("%s, %s, %s", f.Name, unit.Bytes(f.Size), f.Digest))
	}
	for _, part := range []struct {
		name  string
		value any
		there bool
	}{
		{"sampling", v.Record.Sampling, v.Record.Sampling != nil}, {"safety", v.Record.Safety, v.Record.Safety != nil},
		{"lineage", v.Record.Lineage, v.Record.Lineage != nil}, {"metrics", v.Record.Metrics, v.Record.Metrics != nil},
		{"approval", v.Record.Approval, v.Record.Approval != nil},
	} {
		if !part.there {
			continue
		}
		text, err := json.Marshal(part.value)
		if err != nil {
			return err
		}
		row(part.name, string(text))
	}
	return table.Flush()
}

func newModelsTag() *cobra.Command {
	cmd := &cobra.Command{
		Use: "tag VERSION NAME:TAG", Short: "Point an alias at a version, in one step",
		Long: "Point an alias at a version, in one step: servers that resolve it find the old version before and the new\n" +
			"one after. The version that the alias leaves stays until weir models gc.",
		Example: "  weir models tag chat:v2 chat:prod\n  weir models tag chat@sha256:0f4a31c2 chat:prod   # back", Args: exactly(2),
	}
	onModels(cmd, func(ctx context.Context, m *modelsVerb, args []string) error {
		v, err := m.registry.Tag(ctx, args[0], args[1])
		if v.Digest == "" {
			return wayToModels(err)
		}
		return errors.Join(err, m.print(v, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s is %s\n", args[1], v.Digest)
			return err
		}))
	})
	return cmd
}

func newModelsVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use: "verify [NAME...]", Short: "Read all files of versions and compare their digests",
		Example: "  weir models verify\n  weir models verify chat:prod --key team.pub.pem",
	}
	keyFile := cmd.Flags().String("key", "", "file: public Ed25519 key in PEM that must have signed the versions, too")
	onModels(cmd, func(ctx context.Context, m *modelsVerb, args []string) error {
		list, err := m.versions(args)
		if err != nil {
			return err
		}
		check, err := signatureCheck(m.registry, *keyFile)
		if err != nil {
			return err
		}
		type result struct {
			Name   string `json:"name"`
			Digest string `json:"digest"`
			Bytes  int64  `json:"bytes"`
			Error  string `json:"error,omitempty"`
		}
		results, failed := []result{}, 0
		for _, v := range list {
			err := m.progress("checking", v.Name, func(p registry.Progress) error { return m.registry.Verify(ctx, v, p) })
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err = errors.Join(err, check(v))
			r := result{v.Name, string(v.Digest), v.Size, ""}
			if err != nil {
				failed++
				r.Error = err.Error()
			}
			results = append(results, r)
		}
		err = m.print(results, func(w io.Writer) error {
			for _, r := range results {
				text := "whole"
				if r.Error != "" {
					text = console.Printable(r.Error)
				}
				fmt.Fprintf(w, "%s  %s  %s\n", console.Printable(r.Name), folder.ShortDigest(r.Digest), text)
			}
			return nil
		})
		if failed > 0 {
			err = errors.Join(err, fmt.Errorf("%d of %d versions fail", failed, len(list)))
		}
		return err
	})
	return cmd
}

// versions are those that the arguments name; all where there are none.
func (m *modelsVerb) versions(args []string) ([]registry.Version, error) {
	if len(args) == 0 {
		return m.registry.List()
	}
	var list []registry.Version
	for _, name := range args {
		v, err := m.registry.Resolve(name)
		if err != nil {
			return nil, wayToModels(err)
		}
		list = append(list, v)
	}
	return list, nil
}

func newModelsRemove() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove"}, Short: "Remove aliases, and versions that lose their last one",
		Long: "Remove aliases, and with its last alias a version and the files that no other version has. What a running\n" +
			"server uses stays until the server ends and weir models gc runs. NAME@sha256:DIGEST removes a version\n" +
			"without alias.",
		Example: "  weir models rm chat:v1", Args: atLeast(1),
	}
	onModels(cmd, func(ctx context.Context, m *modelsVerb, args []string) error {
		var all registry.Removed
		for _, name := range args {
			out, err := m.registry.Remove(ctx, name)
			all.Aliases, all.Versions, all.Kept = append(all.Aliases, out.Aliases...), append(all.Versions, out.Versions...), append(all.Kept, out.Kept...)
			all.Blobs, all.Bytes = all.Blobs+out.Blobs, all.Bytes+out.Bytes
			if err != nil {
				return wayToModels(err)
			}
		}
		return m.printRemoved(all)
	})
	return cmd
}

func newModelsCollect() *cobra.Command {
	cmd := &cobra.Command{
		Use: "gc", Short: "Remove versions without alias, and files that no version needs",
		Long: "Remove versions that no alias points at and no running process uses, files that no version needs, and\n" +
			"what broken imports and old broken pulls left behind.",
		Args: cobra.NoArgs,
	}
	onModels(cmd, func(ctx context.Context, m *modelsVerb, _ []string) error {
		out, err := m.registry.Collect(ctx)
		return errors.Join(err, m.printRemoved(out))
	})
	return cmd
}

func (m *modelsVerb) printRemoved(out registry.Removed) error {
	return m.print(out, func(w io.Writer) error {
		for _, alias := range out.Aliases {
			fmt.Fprintln(w, "removed", console.Printable(alias))
		}
		for _, d := range out.Versions {
			fmt.Fprintln(w, "removed version", d)
		}
		for _, d := range out.Kept {
			fmt.Fprintf(w, "%s is in use and stays; weir models gc removes it once no process has it\n", d)
		}
		_, err := fmt.Fprintf(w, "%s freed, %d files\n", unit.Bytes(out.Bytes), out.Blobs)
		return err
	})
}

func newModelsHistory() *cobra.Command {
	cmd := &cobra.Command{Use: "history [NAME:TAG]", Short: "Show who moved which alias when", Args: atMost(1)}
	onModels(cmd, func(_ context.Context, m *modelsVerb, args []string) error {
		all, err := m.registry.History()
		if err != nil {
			return err
		}
		kept := []registry.Change{}
		for _, c := range all {
			if len(args) == 0 || c.Object == args[0] || strings.HasPrefix(c.Object, args[0]+":") {
				kept = append(kept, c)
			}
		}
		return m.print(kept, func(w io.Writer) error {
			table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "CHANGE\tTIME\tWHO\tACTION\tOBJECT\tFROM\tTO")
			for _, c := range kept {
				fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Sequence, c.Time.Format(time.RFC3339), console.Printable(c.Actor), console.Printable(c.Action),
					console.Printable(c.Object), orDash(folder.ShortDigest(c.From)), orDash(folder.ShortDigest(c.To)))
			}
			return table.Flush()
		})
	})
	return cmd
}

// wayToModels adds to a name that is not here how to get it here.
func wayToModels(err error) error {
	if errors.Is(err, registry.ErrNotFound) {
		return fmt.Errorf("%w; weir models list shows what is here", err)
	}
	return err
}

// readFileFlag reads a flag's value from the file that it names.
func readFileFlag(name, path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path) //nolint:gosec // the user's own file
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", name, err)
	}
	return data, nil
}
