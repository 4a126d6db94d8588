package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/internal/console"
)

// predictBench are the flags of `weir bench predict`.
type predictBench struct {
	target    bench.PredictTarget
	load      bench.PredictLoad
	protocols string
	rows      []int
	within    float64
}

func newBenchPredict() *cobra.Command {
	b := new(predictBench)
	cmd := &cobra.Command{
		Use:   "predict URL",
		Short: "Measure a server of predict protocols: requests per second and latency",
		Long: "Send rows to a classical model behind V1, V2 as JSON, V2 with binary tensors, or gRPC, and measure\n" +
			"what clients would see. Without --rate each connection sends its next request when the answer is\n" +
			"there (a closed loop: what the server can do at most). With --rate requests come as a Poisson\n" +
			"process, whether or not the server keeps up, and latency counts from the time at which each was\n" +
			"due. --within finds the highest such rate whose 99th percentile stays within so many\n" +
			"milliseconds. Rows rotate, so that no answer comes out of a cache.",
		Example: "  weir bench predict http://127.0.0.1:8000\n" +
			"  weir bench predict http://127.0.0.1:8000 --grpc-address 127.0.0.1:8001 --protocols v1,v2,binary,grpc --within 5",
		Args: exactly(1),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&b.protocols, "protocols", "", "comma-separated: v1, v2, binary, grpc; empty is all, grpc with --grpc-address only")
	f.StringVar(&b.target.GRPC, "grpc-address", "", "host:port of the server's gRPC")
	f.StringVar(&b.target.Model, "model", "", "model to ask; empty takes the first that the server lists")
	f.StringVar(&b.target.Input, "input", "", "name of the model's input; empty asks the server")
	f.IntVar(&b.target.Columns, "columns", 0, "values of a row; 0 asks the server")
	keyFlag(f, &b.target.APIKey, "api-key", "WEIR_API_KEY", "key to send")
	f.Lookup("api-key").DefValue = "" // help must not print it
	f.IntSliceVar(&b.rows, "rows", []int{1}, "rows of a request; several are measured in turn")
	f.IntVar(&b.load.Connections, "connections", 16, "connections, each with one request at a time")
	f.Float64Var(&b.load.Rate, "rate", 0, "requests per second with Poisson arrivals; 0 is a closed loop")
	f.Float64Var(&b.within, "within", 0, "find the highest rate whose 99th percentile is within so many milliseconds; 0 does not")
	f.DurationVar(&b.load.Duration, "duration", 5*time.Second, "time that each load is sent")
	f.DurationVar(&b.load.Warmup, "warmup", time.Second, "time before it that is not counted")
	f.Uint64Var(&b.load.Seed, "seed", 0, "the same seed sends the same rows at the same times")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b.target.URL = strings.TrimSuffix(args[0], "/")
		return b.run(cmd)
	}
	return cmd
}

func (b *predictBench) run(cmd *cobra.Command) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if b.load.Connections < 1 || b.load.Duration <= 0 || b.load.Rate < 0 || b.within < 0 {
		return &console.UsageError{Err: errors.New("--connections, --duration, --rate or --within is below what makes sense"), Hint: "run weir bench predict --help for the flags"}
	}
	if err := b.target.Describe(ctx); err != nil {
		return fmt.Errorf("describe the model: %w", err)
	}
	var runs []bench.PredictRun
	for _, protocol := range b.list() {
		for _, rows := range b.rows {
			l := b.load
			l.Protocol, l.Rows = protocol, rows
			if b.within > 0 {
				best, _, err := bench.SearchPredict(ctx, b.target, l, b.within)
				if err != nil {
					return err
				}
				runs = append(runs, best)
				continue
			}
			run, err := bench.RunPredict(ctx, b.target, l)
			if err != nil {
				return err
			}
			runs = append(runs, run)
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "model %s, %d columns\n%s", b.target.Model, b.target.Columns, bench.WritePredict(runs))
	for i := range runs {
		if err := runs[i].FirstError; err != nil {
			return fmt.Errorf("%d of %d requests over %s failed; the first: %w", runs[i].Errors, runs[i].Requests, runs[i].Protocol, err)
		}
	}
	return nil
}

// list is the protocols that are measured.
func (b *predictBench) list() []string {
	if b.protocols != "" {
		return strings.Split(b.protocols, ",")
	}
	all := []string{bench.PredictV1, bench.PredictV2, bench.PredictBinary}
	if b.target.GRPC != "" {
		all = append(all, bench.PredictGRPC)
	}
	return all
}
