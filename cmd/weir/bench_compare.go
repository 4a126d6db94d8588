package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/internal/console"
	"weir/internal/outfile"
)

func newBenchCompare() *cobra.Command {
	var o bench.CompareOptions
	var plot string
	cmd := &cobra.Command{
		Use:   "compare A.json B.json [more.json]",
		Short: "Compare results of measurements with the first of them",
		Long: "Compare two or more result files. Each figure of the second and later files is printed as\n" +
			"a ratio to the first file's figure, with a verdict: better, worse, same (within the\n" +
			"threshold) or unclear. Where both files have four samples or more, a rank sum test tells\n" +
			"a difference from noise; unclear means that the difference could be noise. A warning\n" +
			"names what else differs between the files: model, CPU, flags. Files of vllm bench serve\n" +
			"are read, too.",
		Example: "  weir bench compare before.json after.json\n" +
			"  weir bench compare a.json b.json c.json --only ttft --plot ttft.svg",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return &console.UsageError{Err: fmt.Errorf("compare needs two results or more, got %d", len(args)),
					Hint: "use: weir bench compare A.json B.json"}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Float64Var(&o.Threshold, "threshold", 0.03, "ratios within 1±this are the same")
	f.StringVar(&o.Only, "only", "", "only figures whose name contains this")
	f.StringVar(&plot, "plot", "", "draw the results into this SVG file")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		names := bench.ShortNames(len(args))
		results := make([]*bench.Result, len(args))
		for i, path := range args {
			var err error
			if results[i], err = bench.ReadResult(path); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s = %s\n", names[i], console.Printable(path))
		}
		c, err := bench.Compare(results, names, o)
		if err != nil {
			return err
		}
		if err := c.Print(cmd.OutOrStdout()); err != nil {
			return err
		}
		for i, path := range args {
			names[i] = strings.TrimSuffix(filepath.Base(path), ".json") // a picture is seen without the list above
		}
		return writePlot(plot, results, names)
	}
	return cmd
}

// writePlot draws results into a file; no path draws nothing.
func writePlot(path string, results []*bench.Result, names []string) error {
	if path == "" {
		return nil
	}
	return savePlot(path, func(w io.Writer) error { return bench.Plot(w, results, names) })
}

// savePlot writes a picture into a file.
func savePlot(path string, draw func(io.Writer) error) error {
	if err := outfile.Write(path, outfile.Public, draw); err != nil {
		return fmt.Errorf("save plot: %w", err)
	}
	return nil
}

// parseObject reads a JSON object of the command line; "" is none.
func parseObject(flag, s string) (map[string]any, error) {
	if s == "" {
		return nil, nil
	}
	var out map[string]any
	if err := json.Unmarshal([]byte(s), &out); err != nil {
		return nil, fmt.Errorf(`--%s %q: %w; it takes a JSON object, as in '{"top_p":0.9}'`, flag, s, err)
	}
	return out, nil
}
