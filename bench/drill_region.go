package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// drillRegion is one of the two regions.
type drillRegion struct {
	d        *drill
	name     string
	store    string
	files    string // folder of uploads
	port     int    // of the router, which keeps it when it starts again
	admin    int
	key      string // of its clients
	operator string // a key of the scope admin
	batching string // a key of its own for batches, whose lines count for it

	replicas []*process
	router   *process
}

// drillTenant is whom the load is of.
const drillTenant = "drill"

func (d *drill) region(name string) *drillRegion {
	r := &drillRegion{d: d, name: name, store: d.o.Store, files: filepath.Join(d.folder, "files")}
	if r.store == "" {
		r.store = "sqlite:" + filepath.Join(d.folder, name+".db")
		r.files = filepath.Join(d.folder, name+".files")
	}
	if d.o.Pepper == "" {
		d.o.Pepper = rand.Text() + rand.Text()
	}
	return r
}

// environment has the secret that both regions share, and keeps the processes out of the user's own state.
func (d *drill) environment() []string {
	return []string{"WEIR_KEY_PEPPER=" + d.o.Pepper, "XDG_STATE_HOME=" + filepath.Join(d.folder, "state")}
}

// command runs a verb of weir to its end.
func (d *drill) command(ctx context.Context, args ...string) (out string, err error) {
	cmd := exec.CommandContext(ctx, d.o.Weir, args...) //nolint:gosec // it is this executable
	cmd.Env = append(append(os.Environ(), "WEIR_CONFIG="), d.environment()...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("weir %s %s: %w: %s", args[0], args[1], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

func (r *drillRegion) startReplicas(ctx context.Context) error {
	started, errs := make([]*process, r.d.o.Replicas), make([]error, r.d.o.Replicas)
	args := []string{"serve"}
	if r.d.o.Model != "" {
		args = append(args, r.d.o.Model)
	}
	args = append(args, "--port", "0", "--admin-address", "off", "--store", "off", "--served-model-name", clusterModel, "--region", r.name)
	args = append(args, r.d.o.ReplicaFlags...)
	var all sync.WaitGroup
	for i := range started {
		all.Go(func() { started[i], errs[i] = startWeir(ctx, r.d.o.Weir, r.d.o.Log, r.d.environment(), args) })
	}
	all.Wait()
	for _, p := range started {
		if p != nil {
			r.replicas = append(r.replicas, p)
		}
	}
	return errors.Join(errs...)
}

// startRouter starts the region's router on its store, at the address that it had before.
func (r *drillRegion) startRouter(ctx context.Context) (err error) {
	if r.port == 0 {
		if r.port, err = freePort(); err == nil {
			r.admin, err = freePort()
		}
		if err != nil {
			return err
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "models:\n  - name: %s\n    policy: least_load\n    routing: {probe_interval: 200ms}\n    replicas:\n", clusterModel)
	for _, p := range r.replicas {
		fmt.Fprintf(&b, "      - {url: %q, kind: weir, region: %s}\n", p.url+"/v1", r.name)
	}
	file := filepath.Join(r.d.folder, r.name+".yml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return err
	}
	r.router, err = startWeir(ctx, r.d.o.Weir, r.d.o.Log, r.d.environment(), []string{
		"route", "--config", file, "--port", strconv.Itoa(r.port), "--admin-address", "127.0.0.1:" + strconv.Itoa(r.admin),
		"--region", r.name, "--store", r.store, "--file-dir", r.files,
	})
	return err
}

// kill ends all processes of the region at once, as a region that is lost does.
func (r *drillRegion) kill() error {
	processes := append([]*process{r.router}, r.replicas...)
	for _, p := range processes {
		if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	var errs []error
	for _, p := range processes {
		errs = append(errs, p.wait())
	}
	return errors.Join(errs...)
}

// stop ends what the region has left.
func (r *drillRegion) stop() error {
	if r.router != nil {
		r.replicas = append(r.replicas, r.router)
	}
	c := &cluster{replicas: r.replicas}
	return c.stop()
}

// makeKey makes a key of the drill's tenant with the command line.
func (r *drillRegion) makeKey(ctx context.Context, label, scope string) (string, error) {
	out, err := r.d.command(ctx, "keys", "create", drillTenant, "--label", label+"-"+filepath.Base(r.d.folder), "--scope", scope, "--expires", "1d", "--store", r.store)
	return strings.TrimSpace(out), err
}

// drillTimeout is how long one request may take.
const drillTimeout = 10 * time.Second

var drillClient = &http.Client{Timeout: drillTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}

// ask sends a request to the router. Without an answer status is 0.
func (r *drillRegion) ask(ctx context.Context, method, path, key, contentType string, body []byte, header ...string) (status int, h http.Header, answer []byte) {
	port := r.port
	if strings.HasPrefix(path, "/admin/") {
		port = r.admin
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1:"+strconv.Itoa(port)+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil
	}
	q.Header.Set("Authorization", "Bearer "+key)
	q.Header.Set("Content-Type", contentType)
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	res, err := drillClient.Do(q)
	if err != nil {
		return 0, nil, nil
	}
	defer res.Body.Close()
	if answer, err = io.ReadAll(res.Body); err != nil {
		return 0, nil, nil // it was not whole, so it acknowledges nothing
	}
	return res.StatusCode, res.Header, answer
}

func (r *drillRegion) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	status, _, _ := r.ask(ctx, http.MethodGet, "/ready?deep", r.key, "", nil)
	return status == http.StatusOK
}

// awaitFailure looks at the region as a gateway does, and returns when enough looks in a row have failed.
func (r *drillRegion) awaitFailure(ctx context.Context) error {
	for failed := 0; failed < r.d.o.Checks; {
		if !sleep(ctx, r.d.o.CheckEvery) {
			return ctx.Err()
		}
		if failed++; r.ready(ctx) {
			failed = 0
		}
	}
	return nil
}

func (r *drillRegion) awaitReady(ctx context.Context) error {
	for !r.ready(ctx) {
		if !sleep(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// drillBackups are those of region a's store.
type drillBackups struct {
	mu     sync.Mutex
	n      int // whole ones
	failed error
	done   chan struct{} // closed after the first
	once   sync.Once
}

func (b *drillBackups) signal() chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == nil {
		b.done = make(chan struct{})
	}
	return b.done
}

// first waits for a backup.
func (b *drillBackups) first(ctx context.Context) error {
	select {
	case <-b.signal():
		return b.failed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run backs region a up until ctx ends: its store, and then the folder of uploads.
func (b *drillBackups) run(ctx context.Context, d *drill) {
	for n := 1; ctx.Err() == nil; n++ {
		err := d.backup(ctx, n)
		if ctx.Err() != nil {
			return // the region is gone, and the backup with it
		}
		b.mu.Lock()
		if b.failed = err; err == nil {
			b.n = n
		}
		b.mu.Unlock()
		b.once.Do(func() { close(b.signal()) })
		sleep(ctx, d.o.BackupEvery)
	}
}

func (d *drill) backupAt(n int) string { return filepath.Join(d.folder, fmt.Sprintf("backup-%d", n)) }

func (d *drill) backup(ctx context.Context, n int) error {
	if _, err := d.command(ctx, "store", "backup", d.backupAt(n), "--store", d.a.store); err != nil {
		return err
	}
	if _, err := os.Stat(d.a.files); err != nil {
		return nil //nolint:nilerr // nothing was uploaded yet
	}
	return os.CopyFS(d.backupAt(n)+".files", os.DirFS(d.a.files))
}

// restore puts the last whole backup into region b.
func (b *drillBackups) restore(ctx context.Context, d *drill) error {
	b.mu.Lock()
	n := b.n
	b.mu.Unlock()
	d.result.Backups = n
	if _, err := d.command(ctx, "store", "restore", d.backupAt(n), "--store", d.b.store); err != nil {
		return err
	}
	if _, err := os.Stat(d.backupAt(n) + ".files"); err != nil {
		return nil //nolint:nilerr // nothing was uploaded before it
	}
	return os.CopyFS(d.b.files, os.DirFS(d.backupAt(n)+".files"))
}
