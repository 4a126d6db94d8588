package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/internal/console"
)

func newDrill() *cobra.Command {
	o := bench.DrillOptions{Pepper: os.Getenv("WEIR_KEY_PEPPER")}
	var output, log string
	cmd := &cobra.Command{
		Use:   "drill [MODEL.gguf]",
		Short: "Lose a region, a router or a replica of a demonstration under load, and measure RPO and RTO",
		Long: "Start two regions as processes on loopback, each with replicas and a router on a store, and send a steady load\n" +
			"with idempotency keys to region a, which files, batches and API keys are made in, too. Then end all processes of\n" +
			"region a without warning. Clients follow /ready?deep: after --checks failed looks region b takes over, with the last\n" +
			"backup of region a's store (weir store backup, restore), or on the PostgreSQL that --store names for both.\n\n" +
			"RTO is the time from the fault until requests are answered, at least 99 % of them from then on. RPO is how long before the\n" +
			"fault the oldest write was acknowledged that is lost; the table has the lost writes of each kind.\n\n" +
			"--fault router ends the router alone and starts it again on its store; --fault replica ends one replica of region a;\n" +
			"--fault store restarts the database by the command of --store-restart, amid the requests of region a.\n" +
			"With --store the drill makes the tenant drill and its keys, usage, responses, files and batches there; WEIR_KEY_PEPPER is\n" +
			"that of the store. Use one that is for drills.",
		Example: "  weir drill\n  weir drill --backup-interval 10s --requests 2000\n  weir drill --store postgres://weir@db/drill -o json\n  weir drill --fault router\n  weir drill --store postgres://weir@db/drill --fault store --store-restart 'pg_ctl restart -m fast -D DIR'",
		Args:    atMost(1),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.Fault, "fault", bench.FaultRegion, "what is lost: "+strings.Join(bench.DrillFaults(), ", "))
	f.StringVar(&o.Store, "store", "", "postgres:// URL of a store for both regions (default: an SQLite file for each, and backups)")
	f.StringVar(&o.StoreRestart, "store-restart", "", "command that restarts the database of --store, for --fault store")
	f.IntVar(&o.Replicas, "replicas", 2, "replicas of each region")
	f.IntVar(&o.Clients, "clients", 4, "clients, each with one request at a time")
	f.IntVar(&o.Requests, "requests", 2000, "acknowledged requests before the fault, and again after it")
	f.IntVar(&o.OutputTokens, "output-len", 16, "output tokens of an answer, at most")
	f.DurationVar(&o.BackupEvery, "backup-interval", 2*time.Second, "from the end of a backup to the next one")
	f.DurationVar(&o.CheckEvery, "check-interval", 500*time.Millisecond, "between looks at /ready?deep of region a")
	f.IntVar(&o.Checks, "checks", 3, "failed looks in a row that move the clients to region b")
	f.StringArrayVar(&o.ReplicaFlags, "replica-flag", []string{"--threads=1"}, "flag of weir serve for the replicas; may be repeated")
	f.StringVar(&log, "log", "", "file for what the processes log")
	f.StringVarP(&output, "output", "o", "md", "format: md, json")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if len(args) > 0 {
			o.Model = args[0]
		}
		if err := checkDrill(&o, output); err != nil {
			return &console.UsageError{Err: err, Hint: ""}
		}
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
		if console.IsTerminal(cmd.ErrOrStderr()) {
			o.Progress = func(stage string) { fmt.Fprintln(cmd.ErrOrStderr(), stage) }
		}
		result, err := bench.RunDrill(ctx, o)
		if err != nil {
			return err
		}
		if output == "json" {
			encoder := json.NewEncoder(cmd.OutOrStdout())
			encoder.SetIndent("", "  ")
			return encoder.Encode(result)
		}
		return result.WriteMarkdown(cmd.OutOrStdout())
	}
	return cmd
}

func checkDrill(o *bench.DrillOptions, output string) error {
	switch {
	case !slices.Contains([]string{"md", "json"}, output):
		return fmt.Errorf("--output %q: it takes md or json", output)
	case !slices.Contains(bench.DrillFaults(), o.Fault):
		return fmt.Errorf("--fault %q: it takes %s", o.Fault, strings.Join(bench.DrillFaults(), ", "))
	case o.Store != "" && !strings.HasPrefix(o.Store, "postgres://") && !strings.HasPrefix(o.Store, "postgresql://"):
		return fmt.Errorf("--store %q: two regions can share PostgreSQL alone; leave it out for SQLite and backups", o.Store)
	case (o.Fault == bench.FaultStore) != (o.StoreRestart != "") || o.Fault == bench.FaultStore && o.Store == "":
		return errors.New("--fault store takes --store with a PostgreSQL of its own and --store-restart with the command that restarts it, such as 'pg_ctl restart -D /var/lib/postgresql/data'; other faults take no --store-restart")
	case o.Fault == bench.FaultReplica && o.Replicas < 2:
		return errors.New("--fault replica needs two replicas or more: of one, nothing answers any more")
	case min(o.BackupEvery, o.CheckEvery) < time.Millisecond:
		return errors.New("--backup-interval and --check-interval take a millisecond or more")
	}
	for _, count := range []struct {
		flag     string
		is, most int
	}{{"replicas", o.Replicas, 64}, {"clients", o.Clients, 1024}, {"requests", o.Requests, 1e6}, {"output-len", o.OutputTokens, 1e5}, {"checks", o.Checks, 1e4}} {
		if count.is < 1 || count.is > count.most {
			return fmt.Errorf("--%s %d: it takes 1 to %d", count.flag, count.is, count.most)
		}
	}
	return nil
}
