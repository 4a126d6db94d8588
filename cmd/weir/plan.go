package main

import (
	"github.com/spf13/cobra"

	"weir/bench"
)

func newPlan() *cobra.Command {
	var (
		in   bench.PlanInput
		from string
		npl  int
	)
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Compute how many replicas a load needs",
		Long: "Compute how many replicas a load needs: by the work of prompts and outputs apart, by slots, by the KV cache, and by rows\n" +
			"of predictions, with headroom and without one zone. The rates of one replica come from a result of weir bench batched,\n" +
			"or from flags. The formulas are shown with their numbers.",
		Example: "  weir bench batched -m model.gguf --npl 16 -o json > batched.json\n" +
			"  weir plan --from batched.json --rate 5 --prompt 900 --output 120 --cached 0.6 --kv-tokens 60000 --zones 3",
		Args: atMost(0),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Float64Var(&in.Rate, "rate", 0, "requests a second")
	f.Float64Var(&in.Prompt, "prompt", 1000, "mean tokens of a prompt")
	f.Float64Var(&in.Output, "output", 200, "mean tokens of an answer")
	f.Float64Var(&in.Cached, "cached", 0, "share of prompt tokens that prefix caches hold")
	f.StringVar(&from, "from", "", "result of weir bench batched that the rates are taken from")
	f.IntVar(&npl, "npl", 0, "of the result, the test with so many sequences; 0 is the one with the most")
	f.Float64Var(&in.Prefill, "prefill", 0, "prompt tokens a second of one replica")
	f.Float64Var(&in.Decode, "decode", 0, "output tokens a second of one replica, of all sequences together")
	f.IntVar(&in.Sequences, "sequences", 0, "sequences that --decode was measured with")
	f.IntVar(&in.Slots, "max-num-seqs", 0, "sequences that a replica runs at once; 0 is not looked at")
	f.IntVar(&in.KVTokens, "kv-tokens", 0, "KV cache of a replica; 0 is not looked at")
	f.Float64Var(&in.Rows, "rows", 0, "rows of predictions a second")
	f.Float64Var(&in.RowsReplica, "rows-replica", 0, "rows a second of one replica")
	f.Float64Var(&in.Headroom, "headroom", 0.3, "share of a replica that stays free")
	f.IntVar(&in.Zones, "zones", 1, "zones of which one may be lost")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if from != "" {
			r, err := bench.ReadResult(from)
			if err != nil {
				return err
			}
			if err := in.Take(r, npl); err != nil {
				return err
			}
		}
		p, err := bench.MakePlan(in)
		if err != nil {
			return err
		}
		return p.Print(cmd.OutOrStdout())
	}
	return cmd
}
