package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the manual pages into a folder, one for each command",
		Hidden: true, // for make install and packages
		Args:   exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			for c := range manual(cmd.Root()) {
				if err := os.WriteFile(filepath.Join(args[0], manName(c)+".1"), []byte(manPage(c)), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// manual yields the commands that have a page: all but the hidden ones.
func manual(c *cobra.Command) func(yield func(*cobra.Command) bool) {
	return func(yield func(*cobra.Command) bool) {
		if !yield(c) {
			return
		}
		for _, sub := range c.Commands() {
			if sub.Hidden || sub.Name() == "help" {
				continue
			}
			for each := range manual(sub) {
				if !yield(each) {
					return
				}
			}
		}
	}
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage is a command's help as a page of section 1, in the macros of man(7).
func manPage(c *cobra.Command) string {
	c.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %q %q %q\n", roff(strings.ToUpper(manName(c))), buildDay(), "weir "+build().Version, "weir manual")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR\n", roff(c.UseLine()))
	b.WriteString(".SH DESCRIPTION\n")
	manText(&b, cmp.Or(c.Long, c.Short))
	manCommands(&b, c)
	for _, g := range flagsByGroup(c.LocalFlags()) {
		fmt.Fprintf(&b, ".SH %s\n", roff(strings.ToUpper(cmp.Or(g.title, "Options"))))
		g.flags.VisitAll(func(f *pflag.Flag) { manFlag(&b, f) })
	}
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.EX\n%s\n.EE\n", roff(strings.TrimRight(c.Example, "\n")))
	}
	b.WriteString(".SH EXIT STATUS\n.TP\n0\nThe command did what was asked.\n.TP\n1\nIt could not.\n.TP\n2\nFlags, arguments or the configuration are wrong.\n")
	if c.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n\\fB%s\\fR(1)\n", roff(manName(c.Parent())))
	}
	return b.String()
}

// buildDay is the day of SOURCE_DATE_EPOCH, as reproducible builds set it, or of the commit that this binary was built from, where it knows it.
func buildDay() string {
	if epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		return time.Unix(epoch, 0).UTC().Format(time.DateOnly)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if at, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
			return at.UTC().Format(time.DateOnly)
		}
	}
	return ""
}

// manText writes paragraphs; one with an indented line keeps its lines.
func manText(b *strings.Builder, text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.Contains("\n"+paragraph, "\n ") {
			fmt.Fprintf(b, ".EX\n%s\n.EE\n", roff(paragraph))
		} else {
			fmt.Fprintf(b, "%s\n", roff(paragraph))
		}
	}
}

func manCommands(b *strings.Builder, c *cobra.Command) {
	heading := ".SH COMMANDS\n"
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			fmt.Fprintf(b, "%s.TP\n\\fB%s\\fR(1)\n%s\n", heading, roff(manName(sub)), roff(sub.Short))
			heading = ""
		}
	}
}

// manFlag writes a flag as --help shows it, default included.
func manFlag(b *strings.Builder, f *pflag.Flag) {
	alone := pflag.NewFlagSet("", pflag.ContinueOnError)
	alone.AddFlag(f)
	names, usage, _ := strings.Cut(strings.TrimSpace(alone.FlagUsages()), "   ")
	names, kind, _ := strings.Cut(names, "--"+f.Name)
	fmt.Fprintf(b, ".TP\n\\fB%s\\fR\\fI%s\\fR\n%s\n", roff(names+"--"+f.Name), roff(kind), roff(strings.TrimSpace(usage)))
}

// roff escapes text: a backslash and a dash mean something to roff, and a dot or an apostrophe does at the start of a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
