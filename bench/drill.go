package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// The faults of a drill.
const (
	FaultRegion  = "region"  // all processes of region a end, and region b takes over
	FaultRouter  = "router"  // the router of region a ends, and starts again on its store
	FaultReplica = "replica" // a replica of region a ends
	FaultStore   = "store"   // the database restarts, by DrillOptions.StoreRestart
)

// DrillFaults lists the faults.
func DrillFaults() []string { return []string{FaultRegion, FaultRouter, FaultReplica, FaultStore} }

// DrillOptions say what a drill runs: two regions as processes on loopback, each with replicas and a router on a store, a steady load
// whose requests have idempotency keys, and a fault in the middle.
type DrillOptions struct {
	Weir         string // the executable
	Model        string // GGUF file; empty is the built-in model
	Replicas     int    // of each region
	ReplicaFlags []string
	Store        string // PostgreSQL that both regions use; "": each has an SQLite file, and backups go over
	StoreRestart string // command that restarts it, for FaultStore
	Pepper       string // of the keys in it; "": one of the drill's own
	Fault        string
	Clients      int
	Requests     int // acknowledged before the fault, and again after it
	OutputTokens int

	BackupEvery time.Duration // from the end of one backup to the beginning of the next
	CheckEvery  time.Duration // between looks at /ready?deep of region a
	Checks      int           // that fail in a row move the clients

	Log      io.Writer // what the processes log; nil: nowhere
	Progress func(stage string)
}

// drill is one that runs.
type drill struct {
	o       *DrillOptions
	folder  string
	began   time.Time
	a, b    *drillRegion
	load    *drillLoad
	backups drillBackups
	result  *DrillResult
}

// RunDrill runs a drill. The regions' processes have ended when it returns.
func RunDrill(ctx context.Context, o DrillOptions) (_ *DrillResult, err error) {
	d := &drill{o: &o, began: time.Now(), result: &DrillResult{Fault: o.Fault, Replicas: o.Replicas, Clients: o.Clients, Store: "SQLite, a file for each region"}}
	if o.Store != "" {
		d.result.Store = "PostgreSQL, one for both regions"
	}
	if d.folder, err = os.MkdirTemp("", "weir-drill-"); err != nil {
		return nil, err
	}
	d.a, d.b = d.region("a"), d.region("b")
	defer func() { err = errors.Join(err, d.a.stop(), d.b.stop(), os.RemoveAll(d.folder)) }()
	if err := d.start(ctx); err != nil {
		return nil, err
	}
	if err := d.run(ctx); err != nil {
		return nil, err
	}
	return d.result, d.judge(ctx)
}

func (d *drill) tell(stage string) {
	if d.o.Progress != nil {
		d.o.Progress(stage)
	}
}

// since is the time of the drill.
func (d *drill) since() time.Duration { return time.Since(d.began) }

// start brings both regions up. Region b has a router only where both are on one store: a store that is restored must not be in use.
func (d *drill) start(ctx context.Context) error {
	d.tell("starting")
	var all sync.WaitGroup
	errs := make([]error, 2)
	for i, r := range []*drillRegion{d.a, d.b} {
		if r == d.b && d.o.Fault != FaultRegion {
			continue
		}
		all.Go(func() { errs[i] = r.startReplicas(ctx) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, r := range []*drillRegion{d.a, d.b} {
		var err error
		if r.key, err = d.a.makeKey(ctx, "load-"+r.name, "inference"); err != nil {
			return err
		}
	}
	var err error
	if d.a.operator, err = d.a.makeKey(ctx, "operator", "admin"); err != nil {
		return err
	}
	if d.a.batching, err = d.a.makeKey(ctx, "batches", "inference"); err != nil {
		return err
	}
	if err := d.a.startRouter(ctx); err != nil {
		return err
	}
	if d.o.Fault == FaultRegion && d.o.Store != "" {
		return d.b.startRouter(ctx)
	}
	return nil
}

// run has the load go on through the fault.
func (d *drill) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	d.load = newDrillLoad(d)
	healthy, faulted := context.WithCancel(ctx)
	defer faulted()
	if d.o.Store == "" && d.o.Fault == FaultRegion {
		all.Go(func() { d.backups.run(healthy, d) })
		if err := d.backups.first(ctx); err != nil { // a region without a backup is no arrangement
			return err
		}
	}
	for i := range d.o.Clients {
		all.Go(func() { d.load.client(ctx, i) })
	}
	operating := make(chan struct{})
	go func() {
		defer close(operating)
		d.load.operate(healthy)
	}()
	d.tell("load")
	if err := d.load.await(ctx, func(l *drillLoad) bool { return l.acknowledged() >= d.o.Requests && l.operated() }); err != nil {
		return err
	}
	d.result.faultAt = d.since()
	err := d.fault(ctx, faulted)
	<-operating
	if err != nil {
		return err
	}
	before := d.load.acknowledged()
	d.tell("load after the fault")
	return d.load.await(ctx, func(l *drillLoad) bool { return l.acknowledged() >= before+d.o.Requests && !l.waits() })
}

// fault breaks something and returns when requests are answered again; healthy ends with it.
func (d *drill) fault(ctx context.Context, faulted context.CancelFunc) error {
	defer faulted()
	d.tell("fault: " + d.o.Fault)
	switch d.o.Fault {
	case FaultReplica:
		return d.a.replicas[0].kill()
	case FaultRouter:
		if err := d.a.router.kill(); err != nil {
			return err
		}
		return d.a.startRouter(ctx)
	case FaultStore:
		return d.restartStore(ctx)
	}
	if err := d.a.kill(); err != nil {
		return err
	}
	faulted() // ends the backups of the region that is gone
	if err := d.a.awaitFailure(ctx); err != nil {
		return err
	}
	d.result.Detected = seconds(d.since() - d.result.faultAt)
	if d.o.Store == "" {
		d.tell("restoring")
		began := time.Now()
		if err := d.backups.restore(ctx, d); err != nil {
			return err
		}
		d.result.Restored = seconds(time.Since(began))
		if err := d.b.startRouter(ctx); err != nil {
			return err
		}
	}
	if err := d.b.awaitReady(ctx); err != nil {
		return err
	}
	d.load.to(d.b)
	return nil
}

// restartStore runs the command that restarts the database, and waits for its end.
func (d *drill) restartStore(ctx context.Context) error {
	began := time.Now()
	said, err := exec.CommandContext(ctx, "sh", "-c", d.o.StoreRestart).CombinedOutput()
	if err != nil {
		return fmt.Errorf("restart the store: %s: %w: %.500s", d.o.StoreRestart, err, said)
	}
	d.result.Restarted = seconds(time.Since(began))
	return nil
}

// judge compares what was acknowledged with what is there.
func (d *drill) judge(ctx context.Context) error {
	d.tell("counting")
	r := d.result
	at, recovered := recovery(d.load.attempts, r.faultAt)
	if !recovered {
		return errors.New("requests were not answered again with 99 % success; --log shows what the processes said")
	}
	r.RTO = seconds(at - r.faultAt)
	for _, a := range d.load.attempts {
		if a.at > r.faultAt && !a.held {
			r.Attempts++
			if !a.ok {
				r.Failed++
			}
		}
	}
	r.Held = d.load.held
	if r.Held > 0 {
		r.HeldSeconds = seconds(d.load.heldUntil - r.faultAt)
	}
	standing := d.a
	if d.o.Fault == FaultRegion {
		standing = d.b
	}
	own := slices.DeleteFunc(slices.Clone(d.load.acks), func(a ack) bool { return a.region != "a" })
	before := slices.DeleteFunc(slices.Clone(own), func(a ack) bool { return d.o.Fault != FaultRegion && a.at > r.faultAt })
	kinds := []struct {
		what  string
		there func(ctx context.Context, r *drillRegion, a *ack) (bool, error)
	}{{"responses", hasResponse}, {"files", hasFile}, {"batches", hasBatch}, {"API keys", hasKey}, {"idempotency keys", hasIdempotencyKey}}
	ledger, err := d.ledger(ctx, standing, before, own)
	if err != nil {
		return err
	}
	r.Rows = append(r.Rows, ledger...)
	for _, k := range kinds {
		row := DrillRow{What: k.what}
		for i := range before {
			a := &before[i]
			if !a.is(k.what) {
				continue
			}
			row.Acknowledged++
			there, err := k.there(ctx, standing, a)
			if err != nil {
				return fmt.Errorf("look for %s: %w", k.what, err)
			}
			if !there {
				row.lose(a.at, r.faultAt)
			}
		}
		r.Rows = append(r.Rows, row)
	}
	for _, row := range r.Rows {
		r.RPO = max(r.RPO, row.Seconds)
	}
	return nil
}
