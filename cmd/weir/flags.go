package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/configs"
	"weir/internal/console"
)

// sections of the configuration, as sets of flags.
var (
	everySection   []string                                               // nil is all of them
	engineSections = []string{"model", "registry", "engine", "scheduler"} // of what runs a model without serving it
	storeSections  = []string{"store"}                                    // of what works on the store alone
	modelsSections = []string{"registry", "store"}                        // of what works on kept models
	rulesSections  = []string{"slo"}
)

// options are the configuration flags of one verb.
type options struct {
	path  string // --config
	given []flag // in the order of the command line
}

type flag struct{ name, value string }

// shorthands are the one-letter names of flags, as llama.cpp's tools have them.
var shorthands = map[string]string{"model": "m", "threads": "t"}

// addOptions gives a verb the flags of some sections, and --config.
func addOptions(cmd *cobra.Command, sections []string) *options {
	o := new(options)
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&o.path, "config", os.Getenv("WEIR_CONFIG"), "YAML file with settings (WEIR_CONFIG)")
	for setting := range configs.New().All() {
		section, _, _ := strings.Cut(setting.Key, ".")
		if sections != nil && !slices.Contains(sections, section) {
			continue
		}
		usage := setting.Usage
		if choices := setting.Choices(); len(choices) > 0 {
			usage += " (" + strings.Join(choices, ", ") + ")"
		}
		if value := setting.Value(); value != "" && value != "false" {
			usage += " (default " + value + ")"
		}
		f := cmd.Flags().VarPF(&flagValue{options: o, setting: setting}, setting.Flag, shorthands[setting.Flag], usage)
		if setting.IsBool() {
			f.NoOptDefVal = "true"
		}
		f.Annotations = map[string][]string{groupAnnotation: {groupOf(section)}}
	}
	return o
}

// flagValue checks a value at once, so that the error names the flag, and
// remembers it until the weaker sources have been read.
type flagValue struct {
	options *options
	setting *configs.Setting
}

// Set implements the flag library's Value.
func (v *flagValue) Set(text string) error {
	if err := v.setting.Check(text); err != nil {
		return err
	}
	v.options.given = append(v.options.given, flag{v.setting.Flag, text})
	return nil
}

// String is empty: defaults are part of the usage text.
func (v *flagValue) String() string { return "" }

// Type names the value in help texts.
func (v *flagValue) Type() string { return v.setting.Kind() }

// resolve reads file and environment and applies the flags over them. The
// warnings name environment variables that no setting has.
func (o *options) resolve() (sources *configs.Sources, warnings []string, err error) {
	s := configs.New()
	if o.path != "" {
		if err := s.ReadFile(o.path); err != nil {
			return nil, nil, console.ConfigError(err)
		}
	}
	unknown, err := s.ReadEnv(os.Environ())
	if err != nil {
		return nil, nil, console.ConfigError(err)
	}
	for _, name := range unknown {
		warnings = append(warnings, fmt.Sprintf("environment variable %s is set, but weir has no such setting", name))
	}
	for _, f := range o.given {
		if err := s.SetFlag(f.name, f.value); err != nil {
			return nil, nil, console.ConfigError(err)
		}
	}
	return s, warnings, nil
}

// config resolves and checks the tree as a whole.
func (o *options) config() (configs.Config, []string, error) {
	s, warnings, err := o.resolve()
	if err != nil {
		return configs.Config{}, nil, err
	}
	c, err := s.Config()
	if err != nil {
		return configs.Config{}, nil, console.ConfigError(err)
	}
	return c, warnings, nil
}

// repeats tells when a flag that takes one value is given again.
type repeats struct {
	pflag.Value
	cmd   *cobra.Command
	name  string
	given int
}

// Set implements the flag library's Value.
func (r *repeats) Set(text string) error {
	if r.given++; r.given == 2 {
		console.Warn(r.cmd.ErrOrStderr(), []string{fmt.Sprintf("--%s is given more than once; the last one counts", r.name)})
	}
	return r.Value.Set(text)
}

// tellRepeats watches the flags of a command and of all below it, except for those that take several values.
func tellRepeats(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		_, several := f.Value.(pflag.SliceValue)
		if setting, ok := f.Value.(*flagValue); ok {
			several = setting.setting.IsList()
		}
		if !several {
			f.Value = &repeats{Value: f.Value, cmd: cmd, name: f.Name}
		}
	})
	for _, c := range cmd.Commands() {
		tellRepeats(c)
	}
}

// keyFlag gives a verb a flag whose default is the secret in an environment variable, which help texts name and do not show.
func keyFlag(f *pflag.FlagSet, into *string, name, env, usage string) {
	f.StringVar(into, name, os.Getenv(env), usage+" (default: $"+env+")")
	f.Lookup(name).DefValue = ""
}
