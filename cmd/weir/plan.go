package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"weir/bench/capacity"
	"weir/configs"
	"weir/internal/console"
)

// planFlags are a plan's flags.
type planFlags struct {
	file, lengths, output string
	from                  []string // results of weir bench batched

	demand  capacity.Demand
	targets capacity.Targets
	spread  float64
	npl     int
	price   float64
	itl     time.Duration
}

func newPlan() *cobra.Command {
	var o planFlags
	cmd := &cobra.Command{
		Use:   "plan [CATALOGUE.yml]",
		Short: "Compute which instances, and how many, a load needs",
		Long: "Compute how many replicas a load needs, on which instances they cost least, and what latency they give.\n\n" +
			"What one replica sustains is computed from measured rates, by formulas (work of prompts and outputs, slots, KV cache)\n" +
			"and by running this build's scheduler in virtual time on steps that take what was measured: a Poisson process of\n" +
			"requests at rising rates, until a target of TTFT or ITL is missed. Headroom and the loss of a zone come on top.\n\n" +
			"With flags alone it plans one model on one kind of instance, whose rates are a result of weir bench batched. With a\n" +
			"catalogue it chooses among instances with prices, CPU nodes, whole GPUs and MIG slices, compares a pool that computes\n" +
			"prompts and outputs with pools apart, and packs several models on cards by weights and KV cache; see\n" +
			"configs/plan.example.yml and docs/deployment.md.",
		Example: "  weir bench batched model.gguf --npp 64,512 --ntg 32 --npl 1,4,16 --kv-cache-memory-bytes 1GiB -o json > batched.json\n" +
			"  weir plan --from batched.json --rate 5 --prompt 900 --output-tokens 120 --cached 0.6 --ttft-p99 2s --itl-p99 150ms\n" +
			"  weir plan --from batched.json --rate 5 --prompt 900 --output-tokens 120 --kv-tokens 60000 --zones 3\n" +
			"  weir plan configs/plan.example.yml\n" +
			"  weir plan fleet.yml -o json | jq .price_per_hour",
		Args: atMost(1),
	}
	o.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			o.file = args[0]
		}
		return o.run(cmd)
	}
	return cmd
}

func (o *planFlags) add(cmd *cobra.Command) {
	f, in := cmd.Flags(), &o.demand
	f.SortFlags = false
	f.Float64Var(&in.Rate, "rate", 0, "requests a second")
	f.Float64Var(&in.Prompt, "prompt", 1000, "mean tokens of a prompt")
	f.Float64Var(&in.Output, "output-tokens", 200, "mean tokens of an answer")
	f.Float64Var(&o.spread, "spread", 0, "lengths are even in mean*(1±spread), as --random-range-ratio of weir bench serve")
	f.StringVar(&o.lengths, "lengths", "", "file that lengths are taken from, instead: a result of bench serve --save-detailed, or a trace in Mooncake's form")
	f.Float64Var(&in.Cached, "cached", 0, "share of prompt tokens that prefix caches hold")
	f.DurationVar(&o.targets.TTFT50, "ttft-p50", 0, "most that the median time to the first token may be; 0 is no target")
	f.DurationVar(&o.targets.TTFT99, "ttft-p99", 0, "most that the 99th percentile of it may be")
	f.DurationVar(&o.targets.ITL50, "itl-p50", 0, "most that the median inter-token latency may be")
	f.DurationVar(&o.targets.ITL99, "itl-p99", 0, "most that the 99th percentile of it may be")
	f.StringSliceVar(&o.from, "from", nil, "results of weir bench batched that the rates are taken from")
	f.IntVar(&o.npl, "npl", 0, "of the result, the test with so many sequences; 0 is the one with the most")
	f.Float64Var(&in.Prefill, "prefill", 0, "instead of --from: prompt tokens a second of one replica")
	f.Float64Var(&in.Decode, "decode", 0, "output tokens a second of one replica, of all sequences together")
	f.IntVar(&in.Sequences, "sequences", 0, "sequences that --decode was measured with")
	f.IntVar(&in.Slots, "max-num-seqs", 0, "sequences that a replica runs at once; 0 is 256")
	f.DurationVar(&o.itl, "itl-target", -1, "inter-token latency that replicas are set to (--itl-target-ms); below 0 is 200ms, or --itl-p99 where that is less")
	f.IntVar(&in.KVTokens, "kv-tokens", 0, "KV cache of a replica; 0 is not looked at")
	f.Float64Var(&o.price, "price", 0, "price of a replica's instance an hour")
	f.Float64Var(&in.Rows, "rows", 0, "rows of predictions a second")
	f.Float64Var(&in.RowsReplica, "rows-replica", 0, "rows a second of one replica")
	f.Float64Var(&in.Headroom, "headroom", 0.3, "share of a replica that stays free")
	f.IntVar(&in.Zones, "zones", 1, "zones of which one may be lost")
	f.StringVarP(&o.output, "output", "o", "text", "format: text, json")
}

func (o *planFlags) run(cmd *cobra.Command) error {
	if o.output != "text" && o.output != "json" {
		return &console.UsageError{Err: fmt.Errorf("--output %q: it takes text, json; the tokens of an answer are --output-tokens", o.output), Hint: ""}
	}
	w := cmd.OutOrStdout()
	if o.file == "" && o.demand.Rate == 0 && o.lengths == "" {
		return o.predictions(w)
	}
	c, err := o.catalogue(cmd)
	if err != nil {
		return err
	}
	plan, err := capacity.Make(c)
	if err != nil {
		return err
	}
	if o.output == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(plan)
	}
	if err := plan.Print(w); err != nil || o.demand.Rows == 0 {
		return err
	}
	o.demand.Rate = 0
	return o.predictions(w)
}

// predictions plans rows of classical models alone.
func (o *planFlags) predictions(w io.Writer) error {
	need, err := o.demand.Need()
	if err != nil {
		return err
	}
	if o.output == "json" {
		return json.NewEncoder(w).Encode(map[string]int{"replicas": need.Total})
	}
	_, err = fmt.Fprintf(w, "%sreplicas            = %d\n", need, need.Total)
	return err
}

// catalogue is the file's, or one of the model and the instance that the flags describe.
func (o *planFlags) catalogue(cmd *cobra.Command) (*capacity.Catalogue, error) {
	if o.file != "" {
		for _, name := range []string{"rate", "prompt", "output-tokens", "from", "lengths", "prefill", "decode", "ttft-p99", "itl-p99", "headroom", "zones"} {
			if cmd.Flags().Changed(name) {
				return nil, &console.UsageError{Err: fmt.Errorf("--%s beside a catalogue: write it into the file", name), Hint: ""}
			}
		}
		return capacity.ReadCatalogue(o.file, describeGGUF)
	}
	on := capacity.On{On: "replica", Seqs: o.demand.Slots, KVTokens: o.demand.KVTokens, Batched: o.from, Sequences: o.npl}
	if o.itl >= 0 {
		on.ITLTarget = &o.itl
	}
	if len(o.from) == 0 {
		on.Given = &capacity.Rates{
			Prefill: o.demand.Prefill, Decode: o.demand.Decode, Sequences: o.demand.Sequences,
			WhyNot: errors.New("latencies need steps that were measured: give --from a result of weir bench batched"),
		}
	}
	load := capacity.Load{Rate: o.demand.Rate, Cached: o.demand.Cached, Lengths: o.lengths}
	if o.lengths == "" {
		load.Prompt, load.Output, load.Spread = o.demand.Prompt, o.demand.Output, o.spread
	}
	c := &capacity.Catalogue{
		Headroom: &o.demand.Headroom, Zones: o.demand.Zones, Instances: []capacity.Instance{{Name: "replica", PricePerHour: o.price}},
		Models: []capacity.Model{{Name: "model", Load: load, Targets: o.targets, Rates: []capacity.On{on}}},
	}
	return c, c.Prepare(describeGGUF)
}

// describeGGUF tells how many bytes a model's weights take as weir loads them, and a sequence in its KV cache.
func describeGGUF(path string) (weights float64, kv func(tokens int) float64, err error) {
	c := configs.Default()
	c.Model.Path = path
	r, err := inspect(c)
	if err != nil {
		return 0, nil, err
	}
	if r.Engine == nil {
		return 0, nil, fmt.Errorf("%s: %s; give weights_gib and kv_bytes_per_token instead of gguf", path, r.WhyNot)
	}
	info := r.Engine.info
	return float64(info.WeightBytes), func(tokens int) float64 { return float64(info.KVSequenceBytes(tokens)) }, nil
}
