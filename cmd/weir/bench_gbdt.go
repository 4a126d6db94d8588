package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/engine/gbdt"
	"weir/engine/kernel/isa"
	"weir/internal/console"
	"weir/internal/roofline"
)

// gbdtFlags are the flags of bench gbdt.
type gbdtFlags struct {
	o                      bench.TreeOptions
	trees, depth, features int
	kernel, level, rows    string
	output, saved          string
	noLimits               bool
}

func newBenchGBDT() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gbdt [MODEL]",
		Short: "Measure a model of decision trees",
		Long: "Measure how long a model of decision trees takes per row, on one thread, in calls of several\n" +
			"sizes. Rows follow one another, as a server's do: a call that repeats its row is foreseen by the\n" +
			"processor and several times as fast. The kernel is the one that serving would choose. The limit is\n" +
			"a byte compared for each node at the machine's rate and, for single rows, additions one after\n" +
			"the other. Without MODEL, random trees are measured.",
		Example: "  weir bench gbdt\n" +
			"  weir bench gbdt model.json --batch 1,64 -o json > now.json\n" +
			"  weir bench gbdt model.txt --kernel walk --cpu-level avx2",
		Args: atMost(1),
	}
	var g gbdtFlags
	f := cmd.Flags()
	f.SortFlags = false
	f.IntSliceVar(&g.o.Batches, "batch", []int{1, 8, 64, 1024}, "rows of a call")
	f.StringVar(&g.rows, "rows", "", "take rows from this file of float32, little endian, row by row; empty: made from the thresholds")
	f.IntVar(&g.trees, "trees", 500, "random trees, without MODEL")
	f.IntVar(&g.depth, "depth", 6, "their depth")
	f.IntVar(&g.features, "features", 28, "their features")
	f.StringVar(&g.kernel, "kernel", "", "compute with this kernel; empty: the fastest by measurement")
	f.StringVar(&g.level, "cpu-level", "auto", "instruction set of the kernels: auto, avx512, avx2, portable")
	f.IntVar(&g.o.Rounds, "rounds", 9, "measurements of each size, by turns; the median is reported")
	f.BoolVar(&g.noLimits, "no-limits", false, "do not measure the machine's limits")
	f.Uint64Var(&g.o.Seed, "seed", 1, "the same seed makes the same trees and rows")
	f.StringVarP(&g.output, "output", "o", "md", "format: md, json")
	f.StringVar(&g.saved, "result-file", "", "write the result as JSON to this file, too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains([]string{"md", "json"}, g.output) {
			return &console.UsageError{Err: fmt.Errorf("--output %q: it takes md or json", g.output), Hint: ""}
		}
		level, err := isa.Parse(g.level)
		if err != nil {
			return &console.UsageError{Err: err, Hint: ""}
		}
		return benchGBDT(cmd, args, &g, level)
	}
	return cmd
}

func benchGBDT(cmd *cobra.Command, args []string, g *gbdtFlags, level isa.Level) error {
	ctx, stop := interruptible(cmd)
	defer stop()
	result := newResult(cmd, "gbdt")
	model, err := g.model(args, gbdt.Options{Level: level, Kernel: g.kernel})
	if err != nil {
		return err
	}
	if g.rows != "" {
		if g.o.Rows, err = readFloats(g.rows); err != nil {
			return err
		}
	}
	shown := console.NewSteps(cmd.ErrOrStderr())
	defer shown.End()
	g.o.Progress = shown.Update
	rows, err := bench.RunTrees(ctx, model, g.o)
	shown.End()
	if err != nil {
		return err
	}
	if !g.noLimits {
		shown = console.NewSteps(cmd.ErrOrStderr())
		at, err := roofline.ParseLevel(level.String())
		if err != nil {
			return err
		}
		limits, err := roofline.Measure(ctx, roofline.Options{Level: at, Threads: 1,
			Progress: func(done, total int) { shown.Update("limits of the machine", done, total) }})
		if err != nil {
			return fmt.Errorf("measure the machine: %w", err)
		}
		shown.End()
		if err := bench.LimitTrees(rows, model, limits.One); err != nil {
			return err
		}
	}
	result.Threads, result.Seed = 1, g.o.Seed
	if len(args) > 0 {
		result.Model.Path = args[0]
	}
	result.AddTrees(rows, model.Choice())
	if g.saved != "" {
		if err := result.WriteFile(g.saved); err != nil {
			return err
		}
	}
	if g.output == "json" {
		return result.Write(cmd.OutOrStdout())
	}
	e := model.Ensemble()
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%d trees, %d nodes, %d features, %d outputs; %d bytes prepared\n\n",
		len(e.Trees), len(e.Feature), e.Features, e.Outputs, model.Choice().Bytes); err != nil {
		return err
	}
	return bench.WriteTreesMarkdown(cmd.OutOrStdout(), rows)
}

// model reads the file, or makes trees.
func (g *gbdtFlags) model(args []string, o gbdt.Options) (*gbdt.Model, error) {
	if len(args) == 0 {
		e, err := bench.MakeTrees(g.trees, g.depth, g.features, g.o.Seed)
		if err != nil {
			return nil, err
		}
		return gbdt.NewWith(e, o)
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return nil, fmt.Errorf("read model: %w", err)
	}
	m, err := gbdt.Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	return gbdt.NewWith(m.Ensemble(), o)
}

// readFloats reads a file of little-endian float32.
func readFloats(path string) ([]float32, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	if len(data) == 0 || len(data)%4 != 0 {
		return nil, fmt.Errorf("rows %s: %d bytes are no float32 values", path, len(data))
	}
	values := make([]float32, len(data)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return values, nil
}
