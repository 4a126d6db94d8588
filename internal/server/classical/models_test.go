package classical

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/engine/classic"
	"weir/internal/defaultmodel"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/internal/tensor"
	"weir/router/versions"
)

// flower is a request for the built-in model, of rows of four columns.
func flower(rows ...float32) *inference.Prediction {
	return &inference.Prediction{Tenant: "a", Inputs: []tensor.Tensor{tensor.Of("input", tensor.Float32, []int64{int64(len(rows) / 4), 4}, rows)}}
}

func iris() Source {
	model, golden := defaultmodel.Iris()
	return Source{Source: classic.Source{Name: "iris", Data: model, GoldenData: golden, Options: classic.Options{Labels: defaultmodel.IrisClasses()}}}
}

// onDisk writes the built-in model and its golden rows into a folder.
func onDisk(t *testing.T) Source {
	t.Helper()
	e := iris()
	e.Path = filepath.Join(t.TempDir(), "iris.json")
	write(t, e.Path, e.Data)
	write(t, strings.TrimSuffix(e.Path, ".json")+".golden.json", e.GoldenData)
	e.Data, e.GoldenData = "", ""
	return e
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// changes collects what models report.
type changes struct {
	mu   sync.Mutex
	list []string
}

func (c *changes) add(x versions.Change) {
	c.mu.Lock()
	c.list = append(c.list, fmt.Sprint(x.What, " ", x.Name, "/", x.Label))
	c.mu.Unlock()
}

func newTestModels(t *testing.T, limit int64, sources ...Source) (*Models, *changes) {
	t.Helper()
	seen := new(changes)
	lane, err := classic.NewLane(classic.LaneOptions{Cores: 2})
	if err != nil {
		t.Fatal(err)
	}
	m := New(Options{Lane: lane, MaxBytes: limit, MaxWaiting: 100, LoadWait: time.Minute, CloseWait: time.Second, OnChange: seen.add})
	t.Cleanup(func() { _ = lane.Close(t.Context()); m.Close() })
	commit, _, err := m.Prepare(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	return m, seen
}

func find(t *testing.T, m *Models, name, version string) *Version {
	t.Helper()
	v, err := m.Find(name, version)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// predict has the version of a name compute a request, as a server does: of version "" the one that answers.
func predict(t *testing.T, m *Models, name, version string, p *inference.Prediction) error {
	v, lease, err := m.Acquire(name, version)
	if err != nil {
		return err
	}
	defer lease.Release()
	p.Hold = lease
	return v.Predict(t.Context(), p)
}

// taken is the memory of what is loaded.
func taken(m *Models) (sum int64) {
	for _, st := range m.Index() {
		sum += st.Bytes
	}
	return sum
}

// A version is replaced and unloaded beneath callers: no caller gets an error but ErrUnavailable,
// and that only while it is unloaded.
func TestVersionsChangeBeneathCallers(t *testing.T) {
	e := onDisk(t)
	r, seen := newTestModels(t, 0, e)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				p := flower(5.1, 3.5, 1.4, 0.2)
				if err := predict(t, r, "iris", "", p); err != nil {
					t.Error(err)
					return
				}
				if y := tensor.Values[float32](&p.Outputs[0]); y[0] < 0.9 {
					t.Errorf("%v", y)
				}
			}
		})
	}
	for range 5 {
		if err := r.Load(t.Context(), "iris"); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	if err := r.Unload("iris"); err != nil {
		t.Fatal(err)
	}
	if err := predict(t, r, "iris", "", flower(1, 2, 3, 4)); !errors.Is(err, inference.ErrUnavailable) {
		t.Errorf("unloaded: %v", err)
	}
	if i := r.Index(); len(i) != 1 || i[0].Ready || i[0].Loaded || taken(r) != 0 {
		t.Errorf("%+v, %d bytes", i, taken(r))
	}
	if err := r.Load(t.Context(), "iris"); err != nil {
		t.Fatal(err)
	}
	if err := predict(t, r, "iris", "", flower(1, 2, 3, 4)); err != nil {
		t.Error(err)
	}
	if err := r.Load(t.Context(), "rose"); !errors.Is(err, versions.ErrUnknown) {
		t.Errorf("an unknown model: %v", err)
	}
	r.Close() // what happened is told beside the calls
	slices.Sort(seen.list)
	if want := "load*7 unload"; tally(seen.list) != want {
		t.Errorf("%s, want %s", tally(seen.list), want)
	}
}

// tally shortens a list of changes of one model.
func tally(list []string) string {
	var parts []string
	for i := 0; i < len(list); {
		n := 1
		for i+n < len(list) && list[i+n] == list[i] {
			n++
		}
		word, _, _ := strings.Cut(list[i], " ")
		if n > 1 {
			word += fmt.Sprint("*", n)
		}
		parts = append(parts, word)
		i += n
	}
	return strings.Join(parts, " ")
}

// A model whose golden rows do not come out is not published; the one before it stays.
func TestGoldenRowsGuardAVersion(t *testing.T) {
	e := onDisk(t)
	r, _ := newTestModels(t, 0, e)
	before := find(t, r, "iris", "").Loaded()
	golden := strings.TrimSuffix(e.Path, ".json") + ".golden.json"
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.LastIndex(string(text), "[[")
	write(t, golden, string(text[:at])+"[[9"+string(text[at+2:]))
	err = r.Load(t.Context(), "iris")
	if err == nil || !strings.Contains(err.Error(), "golden") || !errors.Is(err, inference.ErrUnavailable) {
		t.Errorf("other outputs are expected: %v", err)
	}
	if find(t, r, "iris", "").Loaded() != before {
		t.Error("the version was replaced")
	}
	if err := predict(t, r, "iris", "", flower(1, 2, 3, 4)); err != nil {
		t.Errorf("the version before: %v", err)
	}
	write(t, e.Path, "{}")
	if _, _, err := r.Prepare(t.Context(), []Source{{Source: classic.Source{Name: "other", Path: e.Path}}}); err == nil || !strings.Contains(err.Error(), e.Path) {
		t.Errorf("a file that is no model: %v", err)
	}
}

// Three versions share memory for two: the one used least recently is evicted, and loaded
// again by its next request. A pinned one stays.
func TestVersionsAreEvictedByUse(t *testing.T) {
	e := iris()
	v, err := classic.Load([]byte(e.Data), "iris", classic.Options{})
	if err != nil {
		t.Fatal(err)
	}
	entries := []Source{iris(), iris(), iris()}
	for i := range entries {
		entries[i].Version = fmt.Sprint(i + 1)
	}
	entries[1].Pinned = true
	r, seen := newTestModels(t, 2*v.Bytes()+v.Bytes()/2, entries...)
	for _, version := range []string{"1", "2", "3", "1", "3"} {
		if err := predict(t, r, "iris", version, flower(1, 2, 3, 4)); err != nil {
			t.Fatal(err)
		}
		if taken(r) > 2*v.Bytes()+v.Bytes()/2 {
			t.Fatalf("%d bytes are loaded, a version has %d", taken(r), v.Bytes())
		}
	}
	index := r.Index()
	if len(index) != 3 || index[0].Loaded || !index[0].Ready || !index[1].Loaded || !index[2].Loaded {
		t.Errorf("%+v", index)
	}
	if s := find(t, r, "iris", ""); s.Describe().Version != "3" {
		t.Errorf("the newest version is %q", s.Describe().Version)
	}
	if _, _, err := r.Prepare(t.Context(), []Source{iris(), iris()}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("one version twice: %v", err)
	}
	r.Close() // what happened is told beside the calls
	evicted := 0
	for _, c := range seen.list {
		if c == "evict iris/2" {
			t.Error("the pinned version was evicted")
		}
		if strings.HasPrefix(c, "evict") {
			evicted++
		}
	}
	if evicted < 2 {
		t.Errorf("%v", seen.list)
	}
}

// A reload keeps what did not change, and takes out what is not listed any more.
func TestPrepareKeepsWhatDidNotChange(t *testing.T) {
	a, b := iris(), iris()
	b.Name = "b"
	r, _ := newTestModels(t, 0, a, b)
	kept := find(t, r, "iris", "").Loaded()
	c := iris()
	c.Name = "c"
	if _, _, err := r.Prepare(t.Context(), []Source{a, {Source: classic.Source{Name: "d", Path: "nowhere.json"}}}); err == nil {
		t.Error("a file that does not exist was prepared")
	}
	commit, _, err := r.Prepare(t.Context(), []Source{a, c})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Find("b", ""); err != nil {
		t.Error("before the commit b is gone")
	}
	commit()
	if find(t, r, "iris", "").Loaded() != kept {
		t.Error("an unchanged model was loaded again")
	}
	if _, err := r.Find("b", ""); !errors.Is(err, versions.ErrUnknown) {
		t.Errorf("b after the commit: %v", err)
	}
	if both := kept.Bytes() + find(t, r, "c", "1").Loaded().Bytes(); taken(r) != both { // kernels are chosen by measurement, and differ in size
		t.Errorf("%d bytes are counted, the models have %d", taken(r), both)
	}
}

// The version that answers is found at every moment of a reload, which replaces it by one of another label.
func TestFoundWhileListChanges(t *testing.T) {
	one, two := iris(), iris()
	two.Version = "2"
	m, _ := newTestModels(t, 0)
	var seen error
	m.versions = versions.New(versions.Options{MaxWaiting: 1, LoadWait: time.Minute, CloseWait: time.Second, OnChange: func(c versions.Change) {
		if c.What == "move" {
			_, seen = m.Find("iris", "")
		}
	}})
	for _, s := range []Source{one, two} {
		commit, _, err := m.Prepare(t.Context(), []Source{s})
		if err != nil {
			t.Fatal(err)
		}
		commit()
	}
	if seen != nil {
		t.Error(seen)
	}
}

// A model is loaded while a new list takes one of its versions away: the others are loaded, and nothing is wrong.
func TestLoadWhileVersionLeaves(t *testing.T) {
	one, two := iris(), iris()
	two.Version = "2"
	m, _ := newTestModels(t, 0)
	loads := 0
	var failed error
	m.versions = versions.New(versions.Options{MaxWaiting: 1, LoadWait: time.Minute, CloseWait: time.Second, OnChange: func(c versions.Change) {
		if c.What == "unload" {
			loads++
			failed = m.Load(t.Context(), "iris")
		}
	}})
	for _, list := range [][]Source{{one, two}, {one}} {
		commit, _, err := m.Prepare(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		commit()
	}
	if failed != nil || loads != 1 {
		t.Errorf("%d loads: %v", loads, failed)
	}
}

// TestPredictBesideReloads takes the version that answers away and brings it back while requests come which name no version: all are
// answered, by one of the two.
func TestPredictBesideReloads(t *testing.T) {
	one, two := iris(), iris()
	two.Version = "2"
	m, _ := newTestModels(t, 0, one)
	var stop atomic.Bool
	var answered [3]atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for !stop.Load() {
				v, lease, err := m.Acquire("iris", "")
				if err != nil {
					t.Error(err)
					return
				}
				p := flower(5.1, 3.5, 1.4, 0.2)
				p.Hold = lease
				if err := v.Predict(t.Context(), p); err != nil {
					t.Error(err)
				}
				lease.Release()
				answered[v.Label()[0]-'0'].Add(1)
			}
		})
	}
	for i := range reference.Repeats(20, 60, 200) {
		commit, _, err := m.Prepare(t.Context(), [][]Source{{two}, {one}}[i%2])
		if err != nil {
			t.Fatal(err)
		}
		commit()
	}
	stop.Store(true)
	all.Wait()
	if answered[1].Load() == 0 || answered[2].Load() == 0 {
		t.Errorf("%d answers of version 1 and %d of version 2", answered[1].Load(), answered[2].Load())
	}
}

// TestHeldVersionAnswers takes a version away between a request's finding it and its computation, which is done all the same.
func TestHeldVersionAnswers(t *testing.T) {
	one, two := iris(), iris()
	two.Version = "2"
	m, _ := newTestModels(t, 0, one)
	v, lease, err := m.Acquire("iris", "")
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	commit, _, err := m.Prepare(t.Context(), []Source{two})
	if err != nil {
		t.Fatal(err)
	}
	commit()
	p := flower(5.1, 3.5, 1.4, 0.2)
	p.Hold = lease
	if err := v.Predict(t.Context(), p); err != nil || v.Label() != "1" {
		t.Errorf("version %s: %v", v.Label(), err)
	}
}
