package main

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/internal/console"
)

// calibrationFlags are those of weir bench quality that measure a server's decisions.
type calibrationFlags struct {
	file   string
	fit    bool
	target bench.Target
}

func (q *calibrationFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.file, "decisions", "", "file of questions with their right answers, a request a line, or builtin: weir's own")
	f.BoolVar(&q.fit, "fit", false, "with --decisions: fit a calibration, and print it as a setting of weir serve")
	f.StringVar(&q.target.BaseURL, "base-url", "http://127.0.0.1:8000", "server whose decisions are measured")
	f.StringVar(&q.target.Model, "decider", "", "its model; empty takes the first that it lists")
	keyFlag(f, &q.target.APIKey, "api-key", "WEIR_API_KEY", "key to send to it")
	for _, other := range []string{"text", "against", "kl-divergence-base", "save-all-logits", "by-tensor", "plot"} {
		cmd.MarkFlagsMutuallyExclusive("decisions", other)
	}
}

// measure asks the server and prints how good its answers are.
func (q *calibrationFlags) measure(cmd *cobra.Command, output string) error {
	var from io.Reader = strings.NewReader(bench.LabelledDecisions)
	if q.file != "builtin" {
		file, err := os.Open(q.file)
		if err != nil {
			return err
		}
		defer file.Close()
		from = file
	}
	list, err := bench.ReadDecisions(from)
	if err != nil {
		return err
	}
	shown := console.NewSteps(cmd.ErrOrStderr())
	defer shown.End()
	got, err := bench.MeasureDecisions(cmd.Context(), &q.target, list, q.fit, func(done, total int) { shown.Update("decisions", done, total) })
	if err != nil {
		return err
	}
	shown.End()
	result := newResult(cmd, "quality")
	result.Model = bench.ModelRef{Name: q.target.Model}
	write := got.Calibration().AddTo
	page := func(w io.Writer) error { return bench.WriteCalibrationMarkdown(w, got.Calibration()) }
	if q.fit {
		fit, err := got.Fit()
		if err != nil {
			return err
		}
		write, page = fit.AddTo, fit.WriteMarkdown
	}
	if output == "json" {
		write(result)
		return result.Write(cmd.OutOrStdout())
	}
	return page(cmd.OutOrStdout())
}
