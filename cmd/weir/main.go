// Command weir serves language models from GGUF files: `weir serve` offers an
// OpenAI-compatible API, `weir run` a chat in the terminal, `weir inspect`
// what a file holds. Each verb has a file here. The package connects the other
// packages of weir, and none of them imports it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/console"
)

// Exit statuses.
const (
	exitOK      = 0
	exitFailure = 1 // the command could not do what was asked
	exitUsage   = 2 // flags, arguments or configuration are wrong
)

func main() {
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs one command line; an error is printed here and nowhere else.
func execute(args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	if len(args) > 1 && args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	var opened locators
	err := askedHelp(root, args)
	if err == nil {
		err = root.ExecuteContext(context.WithValue(context.Background(), locatorsKey{}, &opened))
	}
	opened.release()
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "weir: %v\n", err)
	if wrong, ok := errors.AsType[*console.UsageError](err); ok {
		if wrong.Hint != "" {
			fmt.Fprintln(stderr, wrong.Hint)
		}
		return exitUsage
	}
	return exitFailure
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Serve language models, text encoders and classical models on the CPU",
		Long: "weir serves language models and text encoders from GGUF files on the CPU, with an OpenAI-compatible\n" +
			"API, and models of XGBoost, LightGBM, CatBoost and ONNX with the APIs of KServe and Triton. serve, run,\n" +
			"inspect and bench engine use a small built-in model where none is given.",
		Example: "  weir run                # chat with the built-in model in this terminal\n" +
			"  weir serve model.gguf   # an API on http://127.0.0.1:8000/v1\n" +
			"  weir doctor model.gguf  # whether a model fits on this machine, and how fast it would run",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              knownVerb,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newServe(), newRoute(), newRun(), newModels(), newModelsPull(), newLs(), newPs(), newStop(), newRollout(), newDeploy(), newDeployments(), newInspect(), newDoctor(), newTop(), newBench(), newPlan(), newEval(), newGolden(), newScore(), newFeatures(), newConfig(), newKeys(), newTenants(), newUsage(), newAudit(), newStore(), newDrill(), newVersion(), newMan())
	tellRepeats(root)
	groupFlags(root)
	return root
}

// verbsOfOllama are words of its command line that are no verbs here, and what does the same.
var verbsOfOllama = map[string]string{
	"show": "weir inspect MODEL", "rm": "weir models rm NAME", "cp": "weir models tag VERSION NAME:TAG", "create": "weir models import FILE NAME:TAG",
	"push": "weir models push NAME HOST/NAME:TAG",
}

// knownVerb refuses words that are no verb, with the nearest ones.
func knownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "run " + cmd.CommandPath() + " --help for the commands"
	cmd.SuggestionsMinimumDistance = typoDistance
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	if same := verbsOfOllama[args[0]]; same != "" && !cmd.HasParent() {
		hint = same + " does that here"
	}
	return &console.UsageError{Err: fmt.Errorf("%q is not a command of %s", args[0], cmd.CommandPath()), Hint: hint}
}

// atMost limits the arguments of a verb, which its use line names.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= n {
			return nil
		}
		return &console.UsageError{Err: fmt.Errorf("%q is one argument too many", args[n]), Hint: "use: " + cmd.UseLine()}
	}
}

// atLeast wants n arguments of a verb, or more.
func atLeast(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= n {
			return nil
		}
		return &console.UsageError{Err: fmt.Errorf("an argument of %s is missing", cmd.CommandPath()), Hint: "use: " + cmd.UseLine()}
	}
}

// exactly wants n arguments of a verb.
func exactly(n int) cobra.PositionalArgs { return cobra.MatchAll(atLeast(n), atMost(n)) }
