package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/configs"
	"weir/engine/llm"
	"weir/internal/console"
	"weir/internal/server/local"
)

// subject is what the verbs that measure the engine in this process share: a
// model, how to run it, and where the result goes.
type subject struct {
	cmd     *cobra.Command
	options *options
	seed    uint64
	output  string
	file    string
}

func newSubject(cmd *cobra.Command, formats ...string) *subject {
	s := &subject{cmd: cmd}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&s.output, "output", "o", formats[0], "format: "+strings.Join(formats, ", "))
	f.StringVar(&s.file, "result-file", "", "write the result as JSON to this file, too")
	f.Uint64Var(&s.seed, "seed", 1, "the same seed makes the same tokens")
	s.options = addOptions(cmd, engineSections)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(formats, s.output) {
			return &console.UsageError{Err: fmt.Errorf("--output %q: it takes %s", s.output, strings.Join(formats, ", ")), Hint: ""}
		}
		return nil
	}
	return s
}

// config is the configuration, with the model that the argument names.
func (s *subject) config(args []string) (configs.Config, error) {
	c, warnings, err := s.options.config()
	if err != nil {
		return c, err
	}
	console.Warn(s.cmd.ErrOrStderr(), warnings)
	err = chooseModel(s.cmd, &c, args)
	return c, err
}

// need sizes the engine for the tests, where the caller did not.
func need(c *configs.Config, length, sequences int) {
	c.Scheduler.MaxSeqs = max(sequences, 1)
	c.Scheduler.MaxBatchTokens = max(c.Scheduler.MaxBatchTokens, c.Scheduler.MaxSeqs)
	if c.Scheduler.MaxModelLen == 0 {
		c.Scheduler.MaxModelLen = length
	}
}

// open loads the model. blocks is the size of its cache where none was given, of each block table.
func (s *subject) open(c configs.Config, blocks int) (*bench.Rig, error) {
	f, err := local.Open(c.Model.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	opts, err := local.EngineOptions(c)
	if err != nil {
		return nil, err
	}
	opts.Sample = local.SampleOf(f)
	if opts.KVBytes == 0 {
		const plenty = 1 << 20 // nothing is taken of it
		opts.KVBlocks = plenty
		info, err := llm.Describe(f, opts)
		if err != nil {
			return nil, local.LoadError(c.Model, err)
		}
		opts.KVBlocks = blocks * info.KVTables()
	}
	errs, name := s.cmd.ErrOrStderr(), console.Printable(c.Model.Name())
	if w := local.PrepareThreads(c); w != "" {
		console.Warn(errs, []string{w})
	}
	if c.Engine.Speculate {
		console.Warn(errs, []string{"--speculative-ngram: figures are of one token per step, without draft tokens"})
	}
	shown := console.NewProgress(errs, console.IsTerminal(errs), name)
	r, err := bench.OpenRig(f, opts, s.seed, shown.Update)
	shown.End()
	if err != nil {
		return nil, local.LoadError(c.Model, err)
	}
	return r, nil
}

// result describes a run of r.
func (s *subject) result(kind string, c configs.Config, r *bench.Rig) *bench.Result {
	result := newResult(s.cmd, kind)
	if sources, _, err := s.options.resolve(); err == nil { // it was resolved before
		for setting := range sources.All() {
			if s.cmd.Flags().Lookup(setting.Flag) != nil {
				result.Flags[setting.Flag] = setting.Value()
			}
		}
	}
	result.Seed = s.seed
	result.Model.Name, result.Model.Path = c.Model.Name(), c.Model.Path
	if r != nil {
		r.Fill(result)
	}
	return result
}

// save writes the result's file, if one was asked for.
func (s *subject) save(result *bench.Result) error {
	if s.file == "" {
		return nil
	}
	return result.WriteFile(s.file)
}

// interruptible ends with Ctrl-C or SIGTERM.
func interruptible(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
}

// engineFlags are the tests of bench engine.
type engineFlags struct {
	prompts, generate, depths []int
	both                      []string
	repetitions               int
	noWarmup                  bool
}

func newBenchEngine() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "engine [MODEL.gguf]",
		Short: "Measure prefill and decode of one sequence, as llama-bench does",
		Long: "Load a model in this process and measure one sequence alone: pp512 prefills a prompt of 512\n" +
			"tokens, tg128 decodes 128 tokens one by one, pp512+tg128 does both. Tokens are random,\n" +
			"sampling is greedy, and no repetition's prompt is in the prefix cache. Figures are tokens\n" +
			"per second: mean and standard deviation of the repetitions.",
		Example: "  weir bench engine model.gguf\n" +
			"  weir bench engine -m model.gguf -p 128,512 -n 0 -r 3 -t 4\n" +
			"  weir bench engine -m model.gguf -p 0 -n 64 -d 0,4096 -o json > now.json",
		Args: atMost(1),
	}
	var o engineFlags
	f := cmd.Flags()
	f.IntSliceVarP(&o.prompts, "n-prompt", "p", []int{512}, "prompt lengths in tokens; 0 for none")
	f.IntSliceVarP(&o.generate, "n-gen", "n", []int{128}, "numbers of tokens to decode; 0 for none")
	f.StringArrayVar(&o.both, "pg", nil, "a prompt length and a count of tokens after it: 512,128; repeat for several")
	f.IntSliceVarP(&o.depths, "n-depth", "d", []int{0}, "tokens of context before each test, taken from the prefix cache")
	f.IntVarP(&o.repetitions, "repetitions", "r", 5, "how often each test runs")
	f.BoolVar(&o.noWarmup, "no-warmup", false, "measure the first run, too")
	s := newSubject(cmd, "md", "json", "csv")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return benchEngine(s, o, args) }
	return cmd
}

// tests are all the tests that the flags name.
func (o engineFlags) tests() ([]bench.EngineTest, error) {
	var tests []bench.EngineTest
	for _, d := range o.depths {
		for _, p := range o.prompts {
			if p != 0 {
				tests = append(tests, bench.EngineTest{Prompt: p, Depth: d})
			}
		}
		for _, n := range o.generate {
			if n != 0 {
				tests = append(tests, bench.EngineTest{Generate: n, Depth: d})
			}
		}
		for _, text := range o.both {
			p, n, err := readPair(text)
			if err != nil {
				return nil, err
			}
			tests = append(tests, bench.EngineTest{Prompt: p, Generate: n, Depth: d})
		}
	}
	return tests, nil
}

func readPair(text string) (prompt, generate int, err error) {
	p, n, ok := strings.Cut(text, ",")
	prompt, err1 := strconv.Atoi(p)
	generate, err2 := strconv.Atoi(n)
	if err := errors.Join(err1, err2); !ok || err != nil {
		return 0, 0, &console.UsageError{Err: fmt.Errorf("--pg %q: it takes two numbers, as in 512,128", text), Hint: ""}
	}
	return prompt, generate, nil
}

func benchEngine(s *subject, flags engineFlags, args []string) error {
	c, err := s.config(args)
	if err != nil {
		return err
	}
	tests, err := flags.tests()
	if err != nil {
		return err
	}
	shown := console.NewSteps(s.cmd.ErrOrStderr())
	o := bench.EngineOptions{
		Tests: tests, Repetitions: flags.repetitions, NoWarmup: flags.noWarmup,
		Progress: func(t bench.EngineTest, done, total int) { shown.Update(t.String(), done, total) },
	}
	if err := o.Check(c.Engine.BlockTokens); err != nil {
		return &console.UsageError{Err: err, Hint: ""}
	}
	need(&c, o.Length(), 1)
	r, err := s.open(c, blocksFor(c, o.Length())+4)
	if err != nil {
		return err
	}
	defer r.Close()
	ctx, stop := interruptible(s.cmd)
	defer stop()
	result := s.result("engine", c, r)
	rows, err := r.RunEngine(ctx, o)
	shown.End()
	if err != nil {
		return err
	}
	result.AddEngine(rows)
	if err := s.save(result); err != nil {
		return err
	}
	w, of := s.cmd.OutOrStdout(), bench.EngineSubject{Model: console.Printable(c.Model.Name()), Info: r.Info(), Backend: r.Level()}
	switch s.output {
	case "json":
		return result.Write(w)
	case "csv":
		return bench.WriteEngineCSV(w, of, rows)
	default:
		return bench.WriteEngineMarkdown(w, of, rows)
	}
}

// blocksFor is how many blocks of the cache a sequence takes.
func blocksFor(c configs.Config, tokens int) int {
	return (tokens + c.Engine.BlockTokens - 1) / c.Engine.BlockTokens
}

// batchedFlags are the tests of bench batched.
type batchedFlags struct {
	prompts, generate, sequences []int
	noWarmup                     bool
}

func newBenchBatched() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "batched [MODEL.gguf]",
		Short: "Measure many sequences at once, as llama-batched-bench does",
		Long: "Load a model in this process and measure B sequences at once. First all prompts of PP\n" +
			"tokens are prefilled, in T_PP seconds; then all sequences decode TG tokens each, in T_TG\n" +
			"seconds. N_KV = B*(PP+TG) tokens; S_PP = B*PP/T_PP, S_TG = B*TG/T_TG and S = N_KV/T are\n" +
			"tokens per second. Tokens are random and no two sequences share a prefix.",
		Example: "  weir bench batched model.gguf\n" +
			"  weir bench batched -m model.gguf --npp 128,512 --ntg 64 --npl 1,4,16 -o json > now.json",
		Args: atMost(1),
	}
	var o batchedFlags
	f := cmd.Flags()
	f.IntSliceVar(&o.prompts, "npp", []int{128, 512}, "prompt lengths in tokens")
	f.IntSliceVar(&o.generate, "ntg", []int{128}, "tokens that each sequence decodes")
	f.IntSliceVar(&o.sequences, "npl", []int{1, 2, 4, 8, 16, 32}, "sequences at once")
	f.BoolVar(&o.noWarmup, "no-warmup", false, "measure the first run, too")
	s := newSubject(cmd, "md", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return benchBatched(s, o, args) }
	return cmd
}

func benchBatched(s *subject, flags batchedFlags, args []string) error {
	c, err := s.config(args)
	if err != nil {
		return err
	}
	shown := console.NewSteps(s.cmd.ErrOrStderr())
	o := bench.BatchedOptions{
		Tests: bench.BatchedTests(flags.prompts, flags.generate, flags.sequences), NoWarmup: flags.noWarmup,
		Progress: func(t bench.BatchedTest, done, total int) { shown.Update(t.String(), done, total) },
	}
	if err := o.Check(); err != nil {
		return &console.UsageError{Err: err, Hint: ""}
	}
	length, sequences, blocks := o.Needs(c.Engine.BlockTokens)
	need(&c, length, sequences)
	c.Scheduler.OutputEstimate = max(slices.Max(flags.generate), 1)
	r, err := s.open(c, blocks)
	if err != nil {
		return err
	}
	defer r.Close()
	ctx, stop := interruptible(s.cmd)
	defer stop()
	result := s.result("batched", c, r)
	rows, err := r.RunBatched(ctx, o)
	shown.End()
	if err != nil {
		return err
	}
	result.AddBatched(rows)
	if err := s.save(result); err != nil {
		return err
	}
	if s.output == "json" {
		return result.Write(s.cmd.OutOrStdout())
	}
	fmt.Fprintf(s.cmd.OutOrStdout(), "%s, %s, %d threads\n\n", console.Printable(c.Model.Name()), r.Level(), r.Info().Threads)
	return bench.WriteBatchedMarkdown(s.cmd.OutOrStdout(), rows)
}
