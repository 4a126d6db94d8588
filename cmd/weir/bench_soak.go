package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"weir/bench"
)

func newBenchSoak() *cobra.Command {
	var o bench.SoakOptions
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Hang up on requests at every stage and check that the server released everything",
		Long: "Send requests and hang up at every stage: while a request waits, prefills or decodes.\n" +
			"Afterwards the server's own gauges must be zero: no request running or waiting, no KV block\n" +
			"held. Works with any OpenAI-compatible server.",
		Example: "  weir bench soak --url http://127.0.0.1:8000 --metrics-url http://127.0.0.1:9090/metrics",
		Args:    atMost(0),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.URL, "url", "http://127.0.0.1:8000", "server to send to")
	f.StringVar(&o.MetricsURL, "metrics-url", "http://127.0.0.1:9090/metrics",
		"URL of the server's metrics; empty skips the check for leaks")
	keyFlag(f, &o.APIKey, "api-key", "WEIR_API_KEY", "key to send")
	f.Lookup("api-key").DefValue = "" // help must not print it
	f.StringVar(&o.Model, "model", "", "model to request; empty takes the server's first")
	f.IntVar(&o.Requests, "requests", 2000, "requests in all")
	f.IntVar(&o.Concurrency, "concurrency", 32, "requests at once")
	f.IntVar(&o.MaxTokens, "max-tokens", 64, "output tokens per request, at most")
	f.IntVar(&o.PromptWords, "prompt-words", 120, "words per prompt, at most")
	f.Uint64Var(&o.Seed, "seed", 1, "the same seed sends the same requests")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		report, err := bench.Soak(ctx, o)
		if err != nil {
			return err
		}
		encoder := json.NewEncoder(cmd.OutOrStdout())
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(report); err != nil {
			return fmt.Errorf("print report: %w", err)
		}
		return report.Err()
	}
	return cmd
}
