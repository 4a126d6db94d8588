package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/configs"
	"weir/engine/llm"
	"weir/internal/console"
	"weir/internal/server/local"
)

func newBenchEmbed() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "embed MODEL.gguf",
		Short: "Measure a text encoder",
		Long: "Measure how many texts and tokens per second an encoder embeds in this process: calls of\n" +
			"texts of random tokens, one call after the other, by number of tokens and texts.",
		Example: "  weir bench embed minilm-Q8_0.gguf\n" +
			"  weir bench embed minilm-F32.gguf --tokens 512 --texts 1 -t 1 -o json > now.json",
		Args: atMost(1),
	}
	opts := addOptions(cmd, engineSections)
	var o bench.TextOptions
	f := cmd.Flags()
	f.IntSliceVar(&o.Tokens, "tokens", []int{16, 128, 512}, "tokens of a text")
	f.IntSliceVar(&o.Texts, "texts", []int{1, 8, 32}, "texts of a call")
	f.IntVar(&o.Rounds, "rounds", 5, "measurements of each case, by turns; the median is reported")
	f.Uint64Var(&o.Seed, "seed", 1, "the same seed makes the same texts")
	output := f.StringP("output", "o", "md", "format: md, json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains([]string{"md", "json"}, *output) {
			return &console.UsageError{Err: fmt.Errorf("--output %q: it takes md or json", *output), Hint: ""}
		}
		if o.Rounds < 1 || len(o.Tokens) == 0 || len(o.Texts) == 0 || slices.Min(o.Tokens) < 1 || slices.Min(o.Texts) < 1 {
			return &console.UsageError{Err: errors.New("--tokens, --texts and --rounds take positive numbers"), Hint: ""}
		}
		c, warnings, err := opts.config()
		if err != nil {
			return err
		}
		console.Warn(cmd.ErrOrStderr(), warnings)
		if err := chooseModel(cmd, &c, args); err != nil {
			return err
		}
		return benchEmbed(cmd, c, o, *output)
	}
	return cmd
}

func benchEmbed(cmd *cobra.Command, c configs.Config, o bench.TextOptions, output string) error {
	ctx, stop := interruptible(cmd)
	defer stop()
	result := newResult(cmd, "embed")
	f, err := local.OpenRunnable(c)
	if err != nil {
		return err
	}
	defer f.Close()
	options, err := local.EngineOptions(c)
	if err != nil {
		return err
	}
	options.Scheduler.MaxWaiting = max(options.Scheduler.MaxWaiting, slices.Max(o.Texts)+1)
	e, err := llm.OpenEncoder(f, options, nil)
	if err != nil {
		return local.LoadError(c.Model, err)
	}
	defer e.Close(context.Background())
	i := e.Info()
	if most := slices.Max(o.Tokens); most > i.MaxModelLen {
		return &console.UsageError{Err: fmt.Errorf("--tokens %d: the model reads texts of up to %d", most, i.MaxModelLen), Hint: ""}
	}
	shown := console.NewSteps(cmd.ErrOrStderr())
	defer shown.End()
	o.Vocabulary = i.VocabSize
	o.Progress = func(done, total int) { shown.Update("measuring", done, total) }
	rows, err := bench.RunTexts(ctx, e, o)
	shown.End()
	if err != nil {
		return err
	}
	result.Threads, result.Seed = i.Threads, o.Seed
	result.Model = bench.ModelRef{Name: c.Model.Name(), Path: c.Model.Path, Digest: i.Digest, Fingerprint: i.Fingerprint()}
	result.AddTexts(rows)
	if output == "json" {
		return result.Write(cmd.OutOrStdout())
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s, %s, %d threads\n\n", console.Printable(c.Model.Name()), options.Level, i.Threads)
	return bench.WriteTextsMarkdown(cmd.OutOrStdout(), rows)
}
