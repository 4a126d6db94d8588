package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/internal/console"
)

func newBenchNeighbours() *cobra.Command {
	o := bench.NeighboursOptions{}
	var log, plot, attackURL string
	cmd := &cobra.Command{
		Use:   "neighbours [MODEL.gguf]",
		Short: "Measure one tenant's first tokens beside another tenant's attacks",
		Long: "Start a server with two tenants on loopback for each attack. One sends short chats, one after the other; the other sends what costs\n" +
			"a server most: long prompts, many choices, log-probabilities, streams, texts to tokenise, schemas, regular expressions,\n" +
			"lists of prompts, tools, clients that hang up or do not read, idempotency keys, conversations, slow connections, large\n" +
			"bodies, answers that fill the KV cache, batches. The attack's clients are a process of the lowest priority.\n" +
			"The table has the first tenant's time to the first token alone and beside each, how long the server's steps were meanwhile\n" +
			"(half of them, and the longest, to a tenth), the worst first token in longest steps, the gaps between the first\n" +
			"tenant's tokens, how many requests of the attack were answered, refused and hung up, the processor time that the server and\n" +
			"the attack's clients took, in cores, and the server's memory during the attack and a second after it: resident, and in brackets in use\n" +
			"on Go's heap. What is resident and no heap is the weights, the KV cache as far as it was ever written, and what Go keeps.",
		Example: "  weir bench neighbours\n" +
			"  weir bench neighbours smollm2.gguf --attacks prompts,regex --plot neighbours.svg\n" +
			"  weir bench neighbours smollm2.gguf --words 7000 --server-flag=--max-model-len=16384\n" +
			"  weir bench neighbours smollm2.gguf --attacks prompts,filling --prefix-words 300 --server-flag=--kv-cache-memory-bytes=67108864",
		Args: atMost(1),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.Attacks, "attacks", nil, "some of "+strings.Join(bench.AttackNames(), ", ")+" (default: all)")
	f.IntVar(&o.Requests, "requests", 20, "requests of the measured tenant beside each attack")
	f.DurationVar(&o.Pause, "pause", 100*time.Millisecond, "time between two of them")
	f.IntVar(&o.Words, "words", 400, "words of the attacks' long prompts")
	f.IntVar(&o.Prefix, "prefix-words", 0, "words that every request of the measured tenant begins with")
	f.StringArrayVar(&o.Flags, "server-flag", nil, "flag of weir serve; may be repeated")
	f.BoolVar(&o.SameServer, "same-server", false, "one server for all attacks, to see what they leave behind (default: each has a new one)")
	f.StringVar(&plot, "plot", "", "draw the table into this SVG file")
	f.StringVar(&log, "log", "", "file for what the server logs")
	f.StringVar(&attackURL, "attack-url", "", "send --attacks to this server until the end of the standard input, and write what came of them")
	_ = f.MarkHidden("attack-url") // for the process of an attack's clients
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if o.Requests < 1 || o.Words < 1 || o.Pause < 0 {
			return &console.UsageError{Err: errors.New("--requests and --words take 1 or more, and --pause no negative time"), Hint: ""}
		}
		if len(args) > 0 {
			o.Model = args[0]
		}
		ctx, stop := interruptible(cmd)
		defer stop()
		if attackURL != "" {
			return attackUntilEOF(ctx, cmd, attackURL, &o)
		}
		if o.Weir, err = exec.LookPath(os.Args[0]); err != nil {
			return err
		}
		if log != "" {
			file, err := os.Create(log)
			if err != nil {
				return err
			}
			defer file.Close()
			o.Log = file
		}
		shown := console.NewSteps(cmd.ErrOrStderr())
		defer shown.End()
		o.Progress = func(_ string, done, total int) { shown.Update("attacks", done, total) }
		if err := bench.WriteNeighboursHead(cmd.OutOrStdout()); err != nil {
			return err
		}
		o.Row = func(n *bench.Neighbour) error {
			shown.End() // the next attack draws it again, below the row
			return n.WriteRow(cmd.OutOrStdout())
		}
		rows, err := bench.RunNeighbours(ctx, o)
		shown.End()
		if err != nil {
			return err
		}
		if plot == "" {
			return nil
		}
		return savePlot(plot, func(w io.Writer) error { return bench.PlotNeighbours(w, rows) })
	}
	return cmd
}

// attackUntilEOF sends an attack until the standard input ends.
func attackUntilEOF(ctx context.Context, cmd *cobra.Command, url string, o *bench.NeighboursOptions) error {
	if len(o.Attacks) != 1 {
		return &console.UsageError{Err: errors.New("--attack-url takes one of --attacks"), Hint: ""}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, cmd.InOrStdin())
		stop()
	}()
	counts, err := bench.RunAttack(ctx, url, o.Attacks[0], o.Words)
	if err != nil {
		return err
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(counts)
}
