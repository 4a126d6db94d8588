package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/console"
)

// flagGroups are the headings of flags in help texts, in their order, and the sections of the configuration under each.
var flagGroups = []struct {
	title    string
	sections []string
}{
	{"Listeners and access", []string{"server"}},
	{"Model", []string{"model"}},
	{"Engine and KV cache", []string{"engine"}},
	{"Scheduler", []string{"scheduler"}},
	{"API", []string{"api"}},
	{"HTTP limits", []string{"http"}},
	{"Kept answers", []string{"idempotency", "responses", "response_cache"}},
	{"Files and batches", []string{"files", "batch"}},
	{"Classical models", []string{"predict"}},
	{"Model folder and registries", []string{"registry"}},
	{"Store", []string{"store"}},
	{"Quotas over several servers", []string{"quota"}},
	{"Objectives", []string{"slo"}},
	{"Logs and traces", []string{"log", "trace"}},
}

// groupAnnotation is where a flag has the title of its group.
const groupAnnotation = "group"

// groupOf is the title for a section of the configuration.
func groupOf(section string) string {
	for _, g := range flagGroups {
		if slices.Contains(g.sections, section) {
			return g.title
		}
	}
	return ""
}

// addTemplates tells cobra the functions of the templates of help, which it keeps for the whole process.
var addTemplates = sync.OnceFunc(func() { cobra.AddTemplateFunc("flagsInGroups", flagsInGroups) })

// groupFlags writes a verb's flags under the titles of their groups where it has more than a screen of them.
func groupFlags(cmd *cobra.Command) {
	addTemplates()
	cmd.SetUsageTemplate(strings.Replace(cmd.UsageTemplate(), "Flags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}", "{{flagsInGroups .LocalFlags}}", 1))
}

// mostUngrouped is how many flags stand under one title at most.
const mostUngrouped = 30

// titled are flags under one title.
type titled struct {
	title string // empty: of no group
	flags *pflag.FlagSet
}

// flagsByGroup are the flags that help shows, in the order of groups, those of none first. Up to mostUngrouped are of none.
func flagsByGroup(all *pflag.FlagSet) []titled {
	groups, n := map[string]*pflag.FlagSet{}, 0
	all.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			n++
		}
	})
	all.SortFlags = false
	all.VisitAll(func(f *pflag.Flag) {
		title := ""
		if given := f.Annotations[groupAnnotation]; len(given) > 0 && n > mostUngrouped {
			title = given[0]
		}
		if groups[title] == nil {
			groups[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
			groups[title].SortFlags = false
		}
		if !f.Hidden {
			groups[title].AddFlag(f)
		}
	})
	var found []titled
	add := func(title string) {
		if g := groups[title]; g != nil && g.HasAvailableFlags() {
			found = append(found, titled{title, g})
		}
	}
	add("")
	for _, g := range flagGroups {
		add(g.title)
	}
	return found
}

func flagsInGroups(all *pflag.FlagSet) string {
	var b strings.Builder
	for _, g := range flagsByGroup(all) {
		fmt.Fprintf(&b, "%s:\n%s\n", cmp.Or(g.title, "Flags"), g.flags.FlagUsages())
	}
	return strings.TrimRight(b.String(), "\n")
}

// typoDistance is how many letters may differ between a word and what was meant.
const typoDistance = 2

// nearest are the names that a mistyped one may mean.
func nearest(word string, names []string) []string {
	c := &cobra.Command{SuggestionsMinimumDistance: typoDistance}
	for _, name := range names {
		c.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return c.SuggestionsFor(word)
}

// elsewhere are names that other servers have for flags of weir.
var elsewhere = map[string][]string{
	"address": {"host", "port"}, "addr": {"host", "port"}, "bind": {"host", "port"}, "listen": {"host", "port"},
	"ctx-size": {"max-model-len"}, "context-length": {"max-model-len"}, "num-ctx": {"max-model-len"},
	"parallel": {"max-num-seqs"}, "gpu-memory-utilization": {"model-memory-bytes"},
}

// askedHelp refuses a word that is no verb where help is asked for: cobra shows the help of the verb before it.
func askedHelp(root *cobra.Command, args []string) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	verb, rest, err := root.Find(args)
	if err != nil || !verb.HasSubCommands() || !slices.Contains(rest, "--help") && !slices.Contains(rest, "-h") {
		return nil //nolint:nilerr // what is wrong is said where the command line is executed
	}
	i := slices.IndexFunc(rest, func(word string) bool { return !strings.HasPrefix(word, "-") })
	if i < 0 {
		return nil
	}
	return knownVerb(verb, rest[i:])
}

// flagError is the error of a command line with a wrong flag, with the flag that may have been meant.
func flagError(cmd *cobra.Command, err error) error {
	hint := fmt.Sprintf("run %s --help for the flags", cmd.CommandPath())
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && len(unknown.GetSpecifiedName()) > 1 {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		near := nearest(unknown.GetSpecifiedName(), names)
		if meant := elsewhere[unknown.GetSpecifiedName()]; len(meant) > 0 && slices.Contains(names, meant[0]) {
			near = meant
		}
		switch verb, _, err := cmd.Find([]string{unknown.GetSpecifiedName()}); {
		case err == nil && verb != cmd: // weir --serve
			hint = "run " + verb.CommandPath()
		case len(near) > 0 && len(near) <= 3:
			hint = "did you mean --" + strings.Join(near, " or --") + "?"
		}
	}
	return &console.UsageError{Err: err, Hint: hint}
}
