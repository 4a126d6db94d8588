package registry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/reference"
)

// The test binary is also the processes that work on a folder beside one another.
func TestMain(m *testing.M) {
	if task := os.Getenv("WEIR_TEST_REGISTRY_TASK"); task != "" {
		if err := runTask(task, os.Getenv("WEIR_TEST_REGISTRY_DIR")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runTask is what another process does.
func runTask(task, dir string) error {
	ctx := context.Background()
	r, err := Open(dir)
	if err != nil {
		return err
	}
	r.Actor = task
	task, weights, _ := strings.Cut(task, " ")
	switch task {
	case "import":
		_, err = r.Import(ctx, Import{Name: "shared", Files: []Source{{Role: Weights, Path: weights}}})
		return err
	case "pull":
		_, err = r.Pull(ctx, Pull{Reference: weights, Name: "chat"})
		return err
	case "push":
		_, err = r.Push(ctx, "chat:v1", weights, Remote{}, noProgress)
		return err
	case "churn": // imports, tags, loads, removes and collects until it is killed
		for n := 0; ; n++ {
			if err := churn(ctx, r, weights, n); err != nil {
				return err
			}
		}
	case "hold":
		if _, err := r.Load(ctx, "chat", nil); err != nil {
			return err
		}
		fmt.Println("held")
		time.Sleep(time.Hour)
	}
	return errors.New("no such task")
}

func churn(ctx context.Context, r *Registry, folder string, n int) error {
	weights := filepath.Join(folder, fmt.Sprint(n%4))
	name := fmt.Sprintf("m%d:v%d", n%3, rand.IntN(3))
	if _, err := r.Import(ctx, Import{Name: name, Files: []Source{{Role: Weights, Path: weights}}}); err != nil {
		return fmt.Errorf("import %s: %w", name, err)
	}
	_, err := r.Tag(ctx, name, "chat:prod")
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("tag %s: %w", name, err)
	}
	held, err := r.Load(ctx, "chat:prod", nil)
	if err == nil {
		if _, err = os.ReadFile(held.Path()); err == nil {
			err = held.Release()
		}
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("load: %w", err)
	}
	switch rand.IntN(3) {
	case 0:
		_, err = r.Remove(ctx, name)
	case 1:
		_, err = r.Collect(ctx)
	}
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

func process(t *testing.T, dir, task string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "WEIR_TEST_REGISTRY_TASK="+task, "WEIR_TEST_REGISTRY_DIR="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// Processes that are killed at any moment leave a folder in which everything that can be seen is whole, and garbage
// that Collect finds.
func TestKilledProcesses(t *testing.T) {
	reference.Slow(t)
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	dir, files := t.TempDir(), t.TempDir()
	for n := range 4 {
		if err := os.WriteFile(filepath.Join(files, fmt.Sprint(n)), []byte(strings.Repeat(fmt.Sprint(n), 2<<20)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, dir)
	for range rounds {
		var others []*exec.Cmd
		for range 2 {
			p := process(t, dir, "churn "+files)
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			others = append(others, p)
		}
		time.Sleep(time.Duration(30+rand.IntN(120)) * time.Millisecond)
		for _, p := range others {
			_ = p.Process.Kill()
			_ = p.Wait()
			if !p.ProcessState.Exited() || p.ProcessState.ExitCode() == -1 {
				continue // it was killed
			}
			t.Fatalf("a process ended by itself: %v", p.ProcessState)
		}
		list, err := r.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range list {
			if err := r.Verify(t.Context(), v, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := r.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := r.List()
	if err != nil {
		t.Fatal(err)
	}
	needed := make(map[string]bool)
	for _, v := range list {
		for _, d := range v.digests() {
			needed[d.Encoded()] = true
		}
		if len(v.Aliases) == 0 {
			t.Errorf("%s has no alias", v.Digest)
		}
	}
	if left := blobsIn(t, r); len(left) != len(needed) {
		t.Errorf("%d blobs are left, and %d needed", len(left), len(needed))
	}
	for _, folder := range []string{ingestFolder, leasesFolder} {
		if left, err := os.ReadDir(r.path(folder)); err != nil || len(left) != 0 {
			t.Errorf("%s holds %v, %v", folder, left, err)
		}
	}
	history, err := r.History()
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range history {
		if c.Sequence != int64(i)+1 {
			t.Fatalf("change %d has the number %d", i+1, c.Sequence)
		}
	}
	t.Logf("%d rounds of two processes, %d changes, %d versions left", rounds, len(history), len(list))
}

// An alias that moves is never missing, and readers in other processes are never in the way.
func TestAliasIsAlwaysThere(t *testing.T) {
	reference.Slow(t)
	r := open(t, t.TempDir())
	imported(t, r, "chat:a", "a")
	imported(t, r, "chat:b", "b")
	if _, err := r.Tag(t.Context(), "chat:a", "chat:prod"); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			mine := open(t, r.Dir())
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := mine.Resolve("chat:prod"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range reference.Repeats(8, 20, 60) {
		if _, err := r.Tag(t.Context(), []string{"chat:a", "chat:b"}[n%2], "chat:prod"); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}

func TestTwoProcessesImportTheSame(t *testing.T) {
	dir := t.TempDir()
	weights := write(t, "big.gguf", strings.Repeat("w", 8<<20))
	a, b := process(t, dir, "import "+weights), process(t, dir, "import "+weights)
	if err := errors.Join(a.Start(), b.Start()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Wait(), b.Wait()); err != nil {
		t.Fatal(err)
	}
	r := open(t, dir)
	list, err := r.List()
	if err != nil || len(list) != 1 || len(blobsIn(t, r)) != 3 {
		t.Errorf("%d versions, %d blobs, %v", len(list), len(blobsIn(t, r)), err)
	}
}

// What a process uses stays as long as the process lives, and not longer.
func TestLeaseEndsWithItsProcess(t *testing.T) {
	r := open(t, t.TempDir())
	imported(t, r, "chat", "weights")
	p := process(t, r.Dir(), "hold")
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 5)
	if _, err := out.Read(buf); err != nil {
		t.Fatal(err)
	}
	if removed, err := r.Remove(t.Context(), "chat"); err != nil || len(removed.Kept) != 1 || removed.Blobs != 0 {
		t.Errorf("while the process lives: %+v, %v", removed, err)
	}
	_ = p.Process.Kill()
	_ = p.Wait()
	if removed, err := r.Collect(t.Context()); err != nil || len(removed.Versions) != 1 || removed.Blobs != 3 {
		t.Errorf("after it was killed: %+v, %v", removed, err)
	}
}

// A file that is begun while somebody collects is there until it is done with.
func TestFilesBegunAmidACollectionStay(t *testing.T) {
	reference.Slow(t)
	r := open(t, t.TempDir())
	in, err := r.newIngest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	swept := make(chan error, 1)
	go func() {
		var err error
		for stop := false; !stop && err == nil; {
			select {
			case <-done:
				stop = true
			default:
				err = r.sweepFolder(ingestFolder, r.sweepIngest)
			}
		}
		swept <- err
	}()
	for range 2000 {
		f, err := in.create()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(f.Name(), f.Name()+".done"); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Remove(f.Name()+".done"), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	if err := errors.Join(<-swept, in.Close()); err != nil {
		t.Error(err)
	}
}
