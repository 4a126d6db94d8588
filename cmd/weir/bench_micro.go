package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/engine/gguf"
	"weir/engine/kernel/isa"
	"weir/internal/console"
	"weir/internal/cpu"
	"weir/internal/roofline"
)

// microFlags are the flags of bench micro.
type microFlags struct {
	o                   bench.MicroOptions
	level, types        string
	size                string
	output, plot, saved string
	noLimits            bool
}

// coldBytes are weights that are taken in turn, and microRound is how long a case is measured at least; 0 is what bench takes by itself.
// Tests take less.
var (
	coldBytes  int64
	microRound time.Duration
)

func newBenchMicro() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "micro",
		Short: "Measure kernels as shares of this machine's limits",
		Long: "Measure the engine's kernels one by one: matrix products by weight type and rows,\n" +
			"attention by cache type and context, operations on rows. First the machine's limits are\n" +
			"measured (see weir doctor); each product and each attention is printed as a share of the\n" +
			"limit that bounds it, memory bandwidth or multiplications. No model is needed.",
		Example: "  weir bench micro\n" +
			"  weir bench micro --kernels product --types Q4_K,Q8_0 --rows 1,16,512 --plot roofline.svg\n" +
			"  weir bench micro --cpu-level avx2 -t 1 -o json > now.json",
		Args: atMost(0),
	}
	var m microFlags
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&m.o.Kernels, "kernels", bench.MicroKernels, "groups to measure")
	f.StringVar(&m.types, "types", "",
		"weight types, as in Q4_K,F16; all for every type; empty for those that have assembly kernels")
	f.IntSliceVar(&m.o.Rows, "rows", []int{1, 4, 8, 16, 64, 512}, "rows (tokens) of the matrix products")
	f.StringVar(&m.size, "size", "8192x2048", "outputs and inputs of the weight matrices")
	f.IntVar(&m.o.Rounds, "rounds", 5, "measurements of each case; the median is reported")
	f.IntVarP(&m.o.Threads, "threads", "t", 0, "compute threads; 0 takes every core")
	f.StringVar(&m.level, "cpu-level", "auto", "instruction set of the kernels: auto, avx512, avx2, portable")
	f.BoolVar(&m.noLimits, "no-limits", false, "do not measure the machine's limits")
	f.Uint64Var(&m.o.Seed, "seed", 1, "the same seed makes the same numbers")
	f.StringVarP(&m.output, "output", "o", "md", "format: md, json")
	f.StringVar(&m.plot, "plot", "", "draw the rooflines into this SVG file")
	f.StringVar(&m.saved, "result-file", "", "write the result as JSON to this file, too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := m.read(); err != nil {
			return &console.UsageError{Err: err, Hint: ""}
		}
		return benchMicro(cmd, &m)
	}
	return cmd
}

// read turns texts into options.
func (m *microFlags) read() error {
	if !slices.Contains([]string{"md", "json"}, m.output) {
		return fmt.Errorf("--output %q: it takes md or json", m.output)
	}
	if m.plot != "" && m.noLimits {
		return fmt.Errorf("--plot %q: it draws the machine's limits; leave --no-limits out", m.plot)
	}
	if n, err := fmt.Sscanf(m.size, "%dx%d", &m.o.Outputs, &m.o.Inputs); n != 2 || err != nil {
		return fmt.Errorf("--size %q: it takes outputs and inputs, as in 8192x2048", m.size)
	}
	m.o.Cold, m.o.Round = coldBytes, microRound
	var err error
	if m.o.Level, err = isa.Parse(m.level); err != nil {
		return err
	}
	m.o.Types, err = weightTypes(m.types)
	return err
}

// weightTypes reads names such as "q4_k"; none is the default.
func weightTypes(list string) ([]gguf.Type, error) {
	if list == "" {
		return nil, nil
	}
	known := gguf.SupportedTypes()
	if strings.EqualFold(list, "all") {
		return known, nil
	}
	var types []gguf.Type
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(known, func(t gguf.Type) bool { return strings.EqualFold(t.String(), strings.TrimSpace(name)) })
		if i < 0 {
			return nil, fmt.Errorf("--types: %q is no weight type that weir computes with; take some of %v, or all", name, known)
		}
		types = append(types, known[i])
	}
	return types, nil
}

func benchMicro(cmd *cobra.Command, m *microFlags) error {
	ctx, stop := interruptible(cmd)
	defer stop()
	result := newResult(cmd, "micro")
	if m.o.Threads == 0 {
		m.o.Threads = cpu.Threads()
	}
	shown := console.NewSteps(cmd.ErrOrStderr())
	defer shown.End()
	var limits roofline.Limits
	if !m.noLimits {
		level, err := roofline.ParseLevel(m.o.Level.String())
		if err != nil {
			return err
		}
		if limits, err = roofline.Measure(ctx, roofline.Options{
			Level: level, Threads: m.o.Threads,
			Progress: func(done, total int) { shown.Update("limits of the machine", done, total) },
		}); err != nil {
			return fmt.Errorf("measure the machine: %w", err)
		}
		shown.End()
	}
	shown = console.NewSteps(cmd.ErrOrStderr())
	m.o.Progress = shown.Update
	rows, err := bench.RunMicro(ctx, m.o)
	shown.End()
	if err != nil {
		return err
	}
	result.Threads, result.Seed = m.o.Threads, m.o.Seed
	result.AddMicro(rows, limits)
	if m.saved != "" {
		if err := result.WriteFile(m.saved); err != nil {
			return err
		}
	}
	if m.plot != "" {
		if err := savePlot(m.plot, func(w io.Writer) error { return bench.PlotRoofline(w, rows, limits) }); err != nil {
			return err
		}
	}
	if m.output == "json" {
		return result.Write(cmd.OutOrStdout())
	}
	return bench.WriteMicroMarkdown(cmd.OutOrStdout(), rows, limits)
}
