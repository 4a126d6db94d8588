package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/configs"
	"weir/engine/llm"
	"weir/internal/console"
	"weir/internal/server/local"
)

func newBenchCluster() *cobra.Command {
	o := bench.ClusterOptions{Chats: bench.Chats{}}
	var output, plot, log string
	var kill, simulate bool
	cmd := &cobra.Command{
		Use:   "cluster [MODEL.gguf]",
		Short: "Run replicas, a router and chats on this machine, and draw what happened",
		Long: "Start replicas of a model as processes on loopback, weir route before them, and hold conversations\n" +
			"that share system prompts; once for each policy of the router, with processes that restart.\n" +
			"--kill ends one replica without warning after a third of the time and starts it again, with a cold\n" +
			"cache, after two thirds. The table compares the policies; the plot has a lane for each replica.\n\n" +
			"All processes share this machine's cores, so ratios between policies count, not milliseconds.\n\n" +
			"--simulate measures the model's steps before and after the runs, with an engine in this process for each\n" +
			"replica, and holds the same conversations in the simulator of weir bench sim fleet, whose replicas share\n" +
			"the cores that router and clients left them. Its rows follow those of the processes.",
		Example: "  weir bench cluster --kill --plot cluster.svg\n" +
			"  weir bench cluster model.gguf --policies prefix,least_load,round_robin --duration 60s\n" +
			"  weir bench cluster model.gguf --replica-flag=--kv-cache-memory-bytes=128MiB --systems 24\n" +
			"  weir bench cluster model.gguf --policies prefix,least_load,round_robin --duration 60s --simulate",
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
	f.BoolVar(&simulate, "simulate", false, "run the same conversations in the simulator, too; not with --kill")
	f.StringVar(&plot, "plot", "", "draw the runs into this SVG file")
	f.StringVar(&log, "log", "", "file for what the processes log")
	f.StringVarP(&output, "output", "o", "md", "format: md, json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			o.Model = args[0]
		}
		if err := checkCluster(&o, output); err != nil {
			return &console.UsageError{Err: err, Hint: ""}
		}
		if kill && simulate {
			return &console.UsageError{Err: errors.New("--kill and --simulate: the simulation of a cluster has no faults; weir bench sim fleet has them"), Hint: ""}
		}
		if kill {
			o.KillAt, o.RestartAt = o.Duration/3, o.Duration*2/3
		}
		return benchCluster(cmd, &clusterFlags{o, simulate, output, plot, log})
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

// clusterFlags are the flags of bench cluster.
type clusterFlags struct {
	bench.ClusterOptions
	simulate          bool
	output, plot, log string
}

func benchCluster(cmd *cobra.Command, o *clusterFlags) (err error) {
	ctx, stop := interruptible(cmd)
	defer stop()
	if o.Weir, err = exec.LookPath(os.Args[0]); err != nil {
		return err
	}
	if o.log != "" {
		file, err := os.Create(o.log)
		if err != nil {
			return err
		}
		defer file.Close()
		o.Log = file
	}
	result := newResult(cmd, "cluster")
	shown := console.NewSteps(cmd.ErrOrStderr())
	defer shown.End()
	o.Progress = func(policy string, elapsed, total time.Duration) {
		shown.Update(policy, int(elapsed.Seconds()), int(total.Seconds()))
	}
	var twin *clusterTwin
	if o.simulate {
		if twin, err = newClusterTwin(cmd, &o.ClusterOptions); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, twin.close()) }()
		if err := twin.measure(ctx); err != nil {
			return err
		}
	}
	runs, err := bench.RunCluster(ctx, o.ClusterOptions)
	shown.End()
	if err != nil {
		return err
	}
	if o.plot != "" {
		if err := savePlot(o.plot, func(w io.Writer) error { return bench.PlotCluster(w, runs) }); err != nil {
			return err
		}
	}
	var simulated []*bench.FleetResult
	if twin != nil {
		if err := twin.measure(ctx); err != nil { // again: machines change
			return err
		}
		if simulated, err = bench.SimulateCluster(&o.ClusterOptions, runs, twin.machine, twin.kvTokens); err != nil {
			return err
		}
	}
	if o.output == "json" {
		result.Seed, result.Model.Path = o.Chats.Seed, o.Model
		result.AddCluster(runs, simulated)
		return result.Write(cmd.OutOrStdout())
	}
	return bench.WriteClusterMarkdown(cmd.OutOrStdout(), runs, simulated)
}

// clusterTwin is what the simulation of a cluster needs: engines like the replicas', to measure their steps, and the size of the
// replicas' caches.
type clusterTwin struct {
	rigs     []*bench.Rig
	machine  bench.Machine
	kvTokens int
}

// newClusterTwin loads an engine for each replica, with the replicas' flags.
func newClusterTwin(cmd *cobra.Command, o *bench.ClusterOptions) (_ *clusterTwin, err error) {
	replica := &cobra.Command{FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}}
	s := &subject{cmd: cmd, seed: o.Chats.Seed, options: addOptions(replica, engineSections)}
	s.options.path = ""
	if err := replica.ParseFlags(o.ReplicaFlags); err != nil {
		return nil, err
	}
	c, _, err := s.options.config()
	if err != nil {
		return nil, err
	}
	c.Model.Path = o.Model
	info, err := describeModel(c)
	if err != nil {
		return nil, err
	}
	const most = 1 << 20 // tokens; no run of a cluster fills more
	t := &clusterTwin{machine: bench.NewMachine(), kvTokens: min(info.KVTokens, most)}
	length, sequences := bench.MachineNeeds()
	need(&c, length, sequences)
	c.Engine.KVMemoryBytes = 0
	for range o.Replicas {
		r, err := s.open(c, sequences*blocksFor(c, length))
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		t.rigs = append(t.rigs, r)
	}
	return t, nil
}

func (t *clusterTwin) measure(ctx context.Context) error { return t.machine.Measure(ctx, t.rigs) }

func (t *clusterTwin) close() error {
	var errs []error
	for _, r := range t.rigs {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

func describeModel(c configs.Config) (llm.Info, error) {
	f, err := local.Open(c.Model.Path)
	if err != nil {
		return llm.Info{}, err
	}
	defer f.Close()
	return local.Describe(f, c)
}
