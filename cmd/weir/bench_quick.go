package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/internal/console"
)

// quickBench are the flags of `weir bench quick`.
type quickBench struct {
	quick        bench.Quick
	target       bench.Target
	tpot         time.Duration
	metricsURL   string
	output, plot string
}

func newBenchQuick() *cobra.Command {
	b := new(quickBench)
	cmd := &cobra.Command{
		Use:   "quick",
		Short: "Find in a minute how many users at once a running server has room for, and what bounds it",
		Long: "Find in a minute how many users at once a running server has room for: each sends a prompt,\n" +
			"reads the answer and sends the next one. The goals hold where 9 of 10 requests get their first\n" +
			"token and their tokens per second in time. 1, 2, 4, 8 … users are tried, then numbers between.\n\n" +
			"The server may be weir, vLLM, llama-server or any other one with OpenAI's API. What bounds it is\n" +
			"told from the times, and from the server's metrics where these are found: at --metrics-url, at\n" +
			"/metrics of the server, or on weir's admin listener of this machine.\n\n" +
			"Every prompt is another one, so that no prefix cache helps: with shared system prompts a server\n" +
			"has room for more. weir bench serve measures single loads in detail.",
		Example: "  weir bench quick\n" +
			"  weir bench quick --ttft 1s --tokens-per-second 10 --input-len 1000\n" +
			"  weir bench quick --base-url http://host:8080 --api-key KEY --model chat\n" +
			"  weir bench quick --duration 30s --plot users.svg",
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&b.target.BaseURL, "base-url", "http://127.0.0.1:8000", "server to measure, without /v1")
	f.StringVar(&b.target.Model, "model", "", "model to request; empty takes the server's first")
	keyFlag(f, &b.target.APIKey, "api-key", "WEIR_API_KEY", "key to send")
	f.DurationVar(&b.quick.TTFT, "ttft", 500*time.Millisecond, "goal: time to the first token")
	f.Float64Var(&b.quick.PerUser, "tokens-per-second", 20, "goal: output tokens per second of each user's answer")
	f.DurationVar(&b.tpot, "tpot", 0, "the same goal as time per output token, as in 50ms")
	f.IntVar(&b.quick.Input, "input-len", 128, "tokens of a prompt")
	f.IntVar(&b.quick.Output, "output-len", 64, "tokens of an answer, on average")
	f.DurationVar(&b.quick.Duration, "duration", time.Minute, "time of all steps together")
	f.IntVar(&b.quick.MostUsers, "max-users", 512, "the most users to try")
	f.Uint64Var(&b.quick.Seed, "seed", 0, "the same seed sends the same prompts; 0 takes a new one each time")
	f.StringVar(&b.target.Endpoint, "endpoint", "", "path to send requests to; empty tries "+bench.EndpointChat+", then "+bench.EndpointCompletions)
	f.StringVar(&b.metricsURL, "metrics-url", "", "URL of the server's metrics; empty looks at the usual places")
	f.StringVar(&b.plot, "plot", "", "draw the steps into this SVG file")
	f.StringVarP(&b.output, "output", "o", "text", "format: text, json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return b.run(ctx, cmd)
	}
	return cmd
}

// parse checks what belongs together.
func (b *quickBench) parse(cmd *cobra.Command) error {
	switch {
	case b.output != "text" && b.output != "json":
		return fmt.Errorf("--output is %q, must be text or json", b.output)
	case cmd.Flags().Changed("tpot") && cmd.Flags().Changed("tokens-per-second"):
		return errors.New("--tpot and --tokens-per-second are the same goal; give one of them")
	case cmd.Flags().Changed("tpot") && b.tpot <= 0:
		return fmt.Errorf("--tpot is %v, must be above 0, as in 50ms", b.tpot)
	case cmd.Flags().Changed("tpot"):
		b.quick.PerUser = float64(time.Second) / float64(b.tpot)
	}
	b.target.BaseURL = strings.TrimSuffix(strings.TrimRight(b.target.BaseURL, "/"), "/v1")
	b.target.Headers = http.Header{}
	b.quick.Target = &b.target
	if b.quick.Seed == 0 {
		b.quick.Seed = rand.Uint64()
	}
	if b.quick.MetricsURLs = metricsPages(b.target.BaseURL); b.metricsURL != "" {
		b.quick.MetricsURLs = []string{b.metricsURL}
	}
	return b.quick.Check()
}

// metricsPages are where the metrics of a server usually are: on its own address, and of a weir on this machine on the admin listener.
func metricsPages(base string) []string {
	pages := []string{base + "/metrics"}
	address, err := url.Parse(base)
	if err != nil {
		return nil
	}
	if ip := net.ParseIP(address.Hostname()); address.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		pages = append(pages, "http://127.0.0.1:9090/metrics")
	}
	return pages
}

func (b *quickBench) run(ctx context.Context, cmd *cobra.Command) error {
	if err := b.parse(cmd); err != nil {
		return &console.UsageError{Err: err, Hint: "run weir bench quick --help for the flags"}
	}
	defer b.target.Close()
	result := newResult(cmd, "quick")
	if address, err := url.Parse(b.target.BaseURL); err == nil {
		result.Flags["base-url"] = address.Redacted()
	}
	result.Seed = b.quick.Seed
	errs := cmd.ErrOrStderr()
	b.quick.Progress = func(s bench.QuickStep) { fmt.Fprintln(errs, s) }
	report, err := b.quick.Run(ctx)
	if err != nil {
		return err
	}
	report.Fill(result)
	if b.plot != "" {
		if err := savePlot(b.plot, report.Plot); err != nil {
			return err
		}
	}
	if b.output == "json" {
		return result.Write(cmd.OutOrStdout())
	}
	return printQuick(cmd.OutOrStdout(), report)
}

// printQuick writes the report; the model's name and the server's words are of others.
func printQuick(w io.Writer, r *bench.QuickReport) error {
	r.Model, r.Bound.Text = console.Printable(r.Model), console.Printable(r.Bound.Text)
	return r.Print(w)
}
