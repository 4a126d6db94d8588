package classic

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/internal/defaultmodel"
	"weir/internal/inference"
	"weir/internal/tensor"
)

// flower is a request for the built-in model, of rows of four columns.
func flower(rows ...float32) *inference.Prediction {
	return &inference.Prediction{Tenant: "a", Inputs: []tensor.Tensor{tensor.Of("input", tensor.Float32, []int64{int64(len(rows) / 4), 4}, rows)}}
}

func iris() Entry {
	model, golden := defaultmodel.Iris()
	return Entry{Name: "iris", Data: model, GoldenData: golden, Options: Options{Labels: defaultmodel.IrisClasses()}}
}

// onDisk writes the built-in model and its golden rows into a folder.
func onDisk(t *testing.T) Entry {
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

// changes collects what a repository reports.
type changes struct {
	mu   sync.Mutex
	list []string
}

func (c *changes) add(x Change) {
	c.mu.Lock()
	c.list = append(c.list, fmt.Sprint(x.What, " ", x.Name, "/", x.Version))
	c.mu.Unlock()
}

func newTestRepository(t *testing.T, limit int64, entries ...Entry) (*Repository, *changes) {
	t.Helper()
	seen := new(changes)
	r := NewRepository(newTestLane(t, LaneOptions{Cores: 2}), RepositoryOptions{MaxBytes: limit, OnChange: seen.add})
	commit, err := r.Prepare(entries)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	return r, seen
}

func find(t *testing.T, r *Repository, name, version string) *Served {
	t.Helper()
	s, err := r.Find(name, version)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheBuiltInModelKnowsItsFlowers(t *testing.T) {
	r, _ := newTestRepository(t, 0, iris())
	s := find(t, r, "iris", "")
	d := s.Describe()
	if d.Platform != "weir_gbdt" || d.Version != "1" || len(d.Inputs) != 1 || !slices.Equal(d.Inputs[0].Shape, []int64{-1, 4}) ||
		!slices.Equal(d.Outputs[0].Shape, []int64{-1, 3}) || !slices.Equal(d.Labels["output"], defaultmodel.IrisClasses()) {
		t.Errorf("%+v", d)
	}
	if v := s.Version(); !v.Batches() || v.Estimate(1) <= 0 || v.Estimate(1) > InlineLimit || v.Kernel() == "" {
		t.Errorf("batches %v, a row takes %v, kernel %q", v.Batches(), v.Estimate(1), v.Kernel())
	}
	p := flower(5.1, 3.5, 1.4, 0.2, 6.3, 3.3, 6.0, 2.5)
	if err := s.Predict(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	y := tensor.Values[float32](&p.Outputs[0])
	if len(y) != 6 || y[0] < 0.9 || y[5] < 0.9 {
		t.Errorf("%v; want setosa and virginica", y)
	}

	// The same row in other forms: float64, whole numbers, one column per feature.
	columns := &inference.Prediction{Tenant: "a"}
	for i, name := range []string{"petal_width", "sepal_length", "petal_length", "sepal_width"} {
		columns.Inputs = append(columns.Inputs, tensor.Of(name, tensor.Float64, []int64{1}, []float64{[]float64{2, 6, 5, 3}[i]}))
	}
	whole := &inference.Prediction{Tenant: "a", Inputs: []tensor.Tensor{tensor.Of("input", tensor.Int64, []int64{1, 4}, []int64{6, 3, 5, 2})}}
	want := flower(6, 3, 5, 2)
	for i, p := range []*inference.Prediction{want, columns, whole} {
		if err := s.Predict(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if !same(p.Outputs, want.Outputs) {
			t.Errorf("form %d: %v, want %v", i, p.Outputs, want.Outputs)
		}
	}
}

func TestWrongInputsAreRefused(t *testing.T) {
	r, _ := newTestRepository(t, 0, iris())
	s := find(t, r, "iris", "")
	one := []float32{1}
	for name, in := range map[string][]tensor.Tensor{
		"nothing":        nil,
		"three columns":  {tensor.Of("input", tensor.Float32, []int64{1, 3}, []float32{1, 2, 3})},
		"too few bytes":  {{Name: "input", Type: tensor.Float32, Shape: []int64{2, 4}, Data: make([]byte, 16)}},
		"huge":           {{Name: "input", Type: tensor.Float32, Shape: []int64{1 << 60, 4}}},
		"negative":       {{Name: "input", Type: tensor.Float32, Shape: []int64{-1, 4}}},
		"strings":        {{Name: "input", Type: tensor.Bytes, Shape: []int64{1, 4}, Strings: make([][]byte, 4)}},
		"unknown column": {tensor.Of("a", tensor.Float32, []int64{1}, one), {}, {}, {}},
		"twice": {tensor.Of("sepal_width", tensor.Float32, []int64{1}, one), tensor.Of("sepal_width", tensor.Float32, []int64{1}, one),
			tensor.Of("sepal_length", tensor.Float32, []int64{1}, one), tensor.Of("petal_length", tensor.Float32, []int64{1}, one)},
		"no rows": {{Name: "input", Type: tensor.Float32, Shape: []int64{0, 4}}},
	} {
		if err := s.Predict(t.Context(), &inference.Prediction{Inputs: in}); !errors.Is(err, inference.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A version is replaced and unloaded beneath callers: no caller gets an error but ErrUnavailable,
// and that only while it is unloaded.
func TestVersionsChangeBeneathCallers(t *testing.T) {
	e := onDisk(t)
	r, seen := newTestRepository(t, 0, e)
	s := find(t, r, "iris", "")
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
				if err := s.Predict(t.Context(), p); err != nil {
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
		if err := r.Load("iris"); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	if err := r.Unload("iris"); err != nil {
		t.Fatal(err)
	}
	if err := s.Predict(t.Context(), flower(1, 2, 3, 4)); !errors.Is(err, inference.ErrUnavailable) {
		t.Errorf("unloaded: %v", err)
	}
	if i := r.Index(); len(i) != 1 || i[0].Ready || i[0].Loaded || r.Bytes() != 0 {
		t.Errorf("%+v, %d bytes", i, r.Bytes())
	}
	if err := r.Load("iris"); err != nil {
		t.Fatal(err)
	}
	if err := s.Predict(t.Context(), flower(1, 2, 3, 4)); err != nil {
		t.Error(err)
	}
	if want := "load*6 unload load"; tally(seen.list) != want {
		t.Errorf("%s, want %s", tally(seen.list), want)
	}
	if err := r.Load("rose"); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown model: %v", err)
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
	r, _ := newTestRepository(t, 0, e)
	before := find(t, r, "iris", "").Version()
	golden := strings.TrimSuffix(e.Path, ".json") + ".golden.json"
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.LastIndex(string(text), "[[")
	write(t, golden, string(text[:at])+"[[9"+string(text[at+2:]))
	err = r.Load("iris")
	if err == nil || !strings.Contains(err.Error(), "golden") || !errors.Is(err, inference.ErrUnavailable) {
		t.Errorf("other outputs are expected: %v", err)
	}
	if find(t, r, "iris", "").Version() != before {
		t.Error("the version was replaced")
	}
	if err := find(t, r, "iris", "").Predict(t.Context(), flower(1, 2, 3, 4)); err != nil {
		t.Errorf("the version before: %v", err)
	}
	write(t, e.Path, "{}")
	if _, err := r.Prepare([]Entry{{Name: "other", Path: e.Path}}); err == nil || !strings.Contains(err.Error(), e.Path) {
		t.Errorf("a file that is no model: %v", err)
	}
}

// Three versions share memory for two: the one used least recently is evicted, and loaded
// again by its next request. A pinned one stays.
func TestVersionsAreEvictedByUse(t *testing.T) {
	e := iris()
	v, err := Load([]byte(e.Data), "iris", Options{})
	if err != nil {
		t.Fatal(err)
	}
	entries := []Entry{iris(), iris(), iris()}
	for i := range entries {
		entries[i].Version = fmt.Sprint(i + 1)
	}
	entries[1].Pinned = true
	r, seen := newTestRepository(t, 2*v.Bytes()+v.Bytes()/2, entries...)
	for _, version := range []string{"1", "2", "3", "1", "3"} {
		if err := find(t, r, "iris", version).Predict(t.Context(), flower(1, 2, 3, 4)); err != nil {
			t.Fatal(err)
		}
		if r.Bytes() > 2*v.Bytes()+v.Bytes()/2 {
			t.Fatalf("%d bytes are loaded, a version has %d", r.Bytes(), v.Bytes())
		}
	}
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
	index := r.Index()
	if len(index) != 3 || index[0].Loaded || !index[0].Ready || !index[1].Loaded || !index[2].Loaded {
		t.Errorf("%+v", index)
	}
	if s := find(t, r, "iris", ""); s.Describe().Version != "3" {
		t.Errorf("the newest version is %q", s.Describe().Version)
	}
	if _, err := r.Prepare([]Entry{iris(), iris()}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("one version twice: %v", err)
	}
}

// A reload keeps what did not change, and takes out what is not listed any more.
func TestPrepareKeepsWhatDidNotChange(t *testing.T) {
	a, b := iris(), iris()
	b.Name = "b"
	r, _ := newTestRepository(t, 0, a, b)
	kept := find(t, r, "iris", "").Version()
	c := iris()
	c.Name = "c"
	if _, err := r.Prepare([]Entry{a, {Name: "d", Path: "nowhere.json"}}); err == nil {
		t.Error("a file that does not exist was prepared")
	}
	commit, err := r.Prepare([]Entry{a, c})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Find("b", ""); err != nil {
		t.Error("before the commit b is gone")
	}
	commit()
	if find(t, r, "iris", "").Version() != kept {
		t.Error("an unchanged model was loaded again")
	}
	if _, err := r.Find("b", ""); !errors.Is(err, ErrUnknown) {
		t.Errorf("b after the commit: %v", err)
	}
	if both := kept.Bytes() + find(t, r, "c", "1").Version().Bytes(); r.Bytes() != both { // kernels are chosen by measurement, and differ in size
		t.Errorf("%d bytes are counted, the models have %d", r.Bytes(), both)
	}
}

func FuzzReadGolden(f *testing.F) {
	_, golden := defaultmodel.Iris()
	f.Add([]byte(golden))
	f.Add([]byte(`{"inputs":[{"name":"a","datatype":"BYTES","shape":[1],"data":["x"]}],"outputs":[{"name":"b","datatype":"INT64","shape":[2],"data":[1,[2]]}]}`))
	f.Add([]byte(`{"inputs":[{"name":"a","datatype":"FP64","shape":[3],"data":[null,"NaN","-Infinity"]}],"outputs":[{"name":"b","datatype":"BOOL","shape":[1],"data":[true]}],"tolerance":0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := ReadGolden(data)
		if err != nil {
			return
		}
		for _, ts := range [][]tensor.Tensor{g.Inputs, g.Outputs} {
			for i := range ts {
				if err := whole(&ts[i]); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
