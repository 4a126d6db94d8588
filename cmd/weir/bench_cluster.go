package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/configs"
)

func newBenchCluster() *cobra.Command {
	o := bench.ClusterOptions{Chats: bench.Chats{}}
	var output, plot, log string
	var kill bool
	cmd := &cobra.Command{
		Use:   "cluster [MODEL.gguf]",
		Short: "Run replicas, a router and chats on this machine, and draw what happened",
		Long: "Start replicas of a model as processes on loopback, weir route before them, and hold conversations\n" +
			"that share system prompts; once for each policy of the router, with processes that start anew.\n" +
			"--kill ends one replica without warning after a third of the time and starts it again, with a cold\n" +
			"cache, after two thirds. The table compares the policies; the plot has a lane for each replica.\n\n" +
			"All processes share this machine's cores, so ratios between policies count, not milliseconds.",
		Example: "  weir bench cluster --kill --plot cluster.svg\n" +
			"  weir bench cluster model.gguf --policies prefix,least_load,round_robin --duration 60s\n" +
			"  weir bench cluster model.gguf --replica-flag=--kv-cache-memory-bytes=128MiB --systems 24",
		Args: atMost(1),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.Replicas, "replicas", 3, "replicas")
	f.StringSliceVar(&o.Policies, "policies", []string{"prefix"}, "policies of the router, a run for each")
	f.DurationVar(&o.Duration, "duration", 20*time.Second, "time of a run")
	f.BoolVar(&kill, "kill", false, "kill a replica after a third of the time and start it again after two thirds")
	f.IntVar(&o.Chats.Clients, "clients", 6, "conversations at a time")
	f.IntVar(&o.Chats.Systems, "systems", 9, "system prompts that conversations share, the first ones more often")
	f.IntVar(&o.Chats.SystemWords, "system-words", 100, "words of a system prompt")
	f.IntVar(&o.Chats.TurnWords, "turn-words", 12, "words of a user's turn")
	f.IntVar(&o.Chats.Turns, "turns", 4, "turns of a conversation")
	f.IntVar(&o.Chats.OutputTokens, "output-len", 24, "output tokens of an answer, at most")
	f.StringArrayVar(&o.ReplicaFlags, "replica-flag", []string{"--threads=1"}, "flag of weir serve for the replicas; may be repeated")
	f.Uint64Var(&o.Chats.Seed, "seed", 1, "the same seed sends the same texts")
	f.StringVar(&plot, "plot", "", "draw the runs into this SVG file")
	f.StringVar(&log, "log", "", "file for what the processes log")
	f.StringVarP(&output, "output", "o", "md", "format: md, json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			o.Model = args[0]
		}
		if err := checkCluster(&o, output); err != nil {
			return &usageError{err, ""}
		}
		if kill {
			o.KillAt, o.RestartAt = o.Duration/3, o.Duration*2/3
		}
		return benchCluster(cmd, o, output, plot, log)
	}
	return cmd
}

func checkCluster(o *bench.ClusterOptions, output string) error {
	c := &o.Chats
	switch {
	case !slices.Contains([]string{"md", "json"}, output):
		return fmt.Errorf("--output %q: it takes md or json", output)
	case min(o.Replicas, c.Clients, c.Systems, c.SystemWords, c.TurnWords, c.Turns, c.OutputTokens) < 1 || o.Replicas > 64 || c.Clients > 4096:
		return errors.New("--replicas takes 1 to 64, --clients 1 to 4096, and the other counts 1 or more")
	case o.Duration < time.Second:
		return fmt.Errorf("--duration %v: a run takes a second or more", o.Duration)
	case len(o.Policies) == 0:
		return errors.New("--policies names none")
	}
	for _, p := range o.Policies {
		if !slices.Contains(configs.Policies, p) {
			return fmt.Errorf("--policies: %q is none of %v", p, configs.Policies)
		}
	}
	return nil
}

func benchCluster(cmd *cobra.Command, o bench.ClusterOptions, output, plot, log string) (err error) {
	ctx, stop := interruptible(cmd)
	defer stop()
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
	result := newResult(cmd, "cluster")
	shown := newSteps(cmd.ErrOrStderr())
	defer shown.end()
	o.Progress = func(policy string, elapsed, total time.Duration) {
		shown.update(policy, int(elapsed.Seconds()), int(total.Seconds()))
	}
	runs, err := bench.RunCluster(ctx, o)
	shown.end()
	if err != nil {
		return err
	}
	if plot != "" {
		file, err := os.Create(plot)
		if err != nil {
			return err
		}
		if err := errors.Join(bench.PlotCluster(file, runs), file.Close()); err != nil {
			return err
		}
	}
	if output == "json" {
		result.Seed, result.Model.Path = o.Chats.Seed, o.Model
		result.AddCluster(runs)
		return result.Write(cmd.OutOrStdout())
	}
	return bench.WriteClusterMarkdown(cmd.OutOrStdout(), runs)
}
