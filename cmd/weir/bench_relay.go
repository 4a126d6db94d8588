package main

import (
	"errors"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/internal/console"
)

func newBenchRelay() *cobra.Command {
	o := bench.RelayOptions{}
	var log string
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Measure what passing streams on costs, beside nginx and haproxy",
		Long: "Start a server of streams that computes nothing, and weir route, nginx and haproxy before it, all on loopback; send the same\n" +
			"streams each way, in turns; and tell what each takes of the processor for a token, and adds to the time to the first one.\n" +
			"nginx and haproxy take part where they are installed. Of weir route there are two: one with nothing but a replica, and one as routers\n" +
			"run, with a tenant and its limits, prices, metrics, and two replicas to pick from by the prompt's prefix.",
		Example: "  weir bench relay\n  weir bench relay --streams 128 --gap 10ms --prompt-bytes 4096 --nginx /usr/sbin/nginx",
		Args:    atMost(0),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.Streams, "streams", 64, "streams at a time")
	f.IntVar(&o.Tokens, "tokens", 200, "tokens of a stream")
	f.DurationVar(&o.Gap, "gap", 10*time.Millisecond, "time between two tokens of a stream")
	f.IntVar(&o.Rounds, "rounds", 5, "rounds of each way")
	f.IntVar(&o.Singles, "singles", 100, "requests of one token, one after the other, in each round")
	f.IntVar(&o.Prompt, "prompt-bytes", 0, "size of a prompt, beside a few bytes; 4096 is about a thousand tokens")
	f.StringVar(&o.Nginx, "nginx", "", "executable of nginx (default: the one that is installed)")
	f.StringVar(&o.HAProxy, "haproxy", "", "executable of haproxy (default: the one that is installed)")
	f.StringVar(&log, "log", "", "file for what the processes log")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if min(o.Streams, o.Tokens, o.Rounds) < 1 || o.Streams > 2048 || o.Gap < 0 || o.Singles < 1 || o.Prompt < 0 || o.Prompt > 1<<20 {
			return &console.UsageError{Err: errors.New("--streams takes 1 to 2048, the other counts 1 or more, --prompt-bytes 0 to 1048576, and --gap no negative time"), Hint: ""}
		}
		ctx, stop := interruptible(cmd)
		defer stop()
		if o.Weir, err = exec.LookPath(os.Args[0]); err != nil {
			return err
		}
		for name, path := range map[string]*string{"nginx": &o.Nginx, "haproxy": &o.HAProxy} {
			if *path == "" {
				*path, _ = exec.LookPath(name) // left out where it is not installed
			}
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
		o.Progress = func(done, total int) { shown.Update("rounds", done, total) }
		ways, err := bench.RunRelay(ctx, o)
		shown.End()
		if err != nil {
			return err
		}
		return bench.WriteRelay(cmd.OutOrStdout(), ways)
	}
	return cmd
}
