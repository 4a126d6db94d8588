package feature

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/inference"
	"weir/internal/tensor"
	"weir/router"
)

const shopManifest = `
version: 1
project: shop
cache: {entries: 100, fresh: 1s, stale: 10s}
entities:
  - {name: user, keys: [{input: user_id, type: integer}]}
  - {name: item, keys: [{input: sku, type: string}]}
features:
  - {name: amount, source: request, type: number, required: true, min: 0, max: 1000, on_violation: reject}
  - {name: age, source: store, entity: user, view: profile, type: integer, default: 30, min: 0, max: 120, on_violation: clip}
  - {name: city, source: store, entity: user, view: profile, type: string, categories: [Bonn, Rome, Oslo], default: Rome, on_violation: clip}
  - {name: spent, source: store, entity: user, view: orders, type: number, max_staleness: 1m}
  - {name: price, source: store, entity: item, view: catalogue, field: gross, type: number, default: 9.5}
  - {name: bias, source: constant, type: number, value: 1}
`

func mustParse(t testing.TB, text string) *Manifest {
	t.Helper()
	m, err := ParseManifest([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fakeStore holds records by "entity:id" and counts its reads.
type fakeStore struct {
	mu    sync.Mutex
	rows  map[string]Record
	err   error // of all reads
	slow  time.Duration
	reads [][]string
}

func (s *fakeStore) Reader(Target) (Reader, error) { return s, nil }

func (s *fakeStore) Read(ctx context.Context, ids []ID, records []Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for i, id := range ids {
		name := fmt.Sprintf("%d:%s", id.Entity, strings.Join(id.Parts, ":"))
		names = append(names, name)
		if r, found := s.rows[name]; found {
			copy(records[i].Values, r.Values)
			copy(records[i].Times, r.Times)
		}
	}
	s.reads = append(s.reads, names)
	if s.slow > 0 {
		select {
		case <-time.After(s.slow):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.err
}

// echo is a model of one input with six features, which it returns.
type echo struct{ got []float32 }

func (e *echo) Describe() *router.Description {
	return &router.Description{Name: "echo", Version: "3", Inputs: []tensor.Spec{{Name: "input", Type: tensor.Float32, Shape: []int64{-1, 6}}}}
}

func (e *echo) Predict(_ context.Context, p *router.Prediction) error {
	e.got = slices.Clone(tensor.Values[float32](&p.Inputs[0]))
	p.Outputs = []tensor.Tensor{tensor.Of("output", tensor.Float32, []int64{p.Inputs[0].Rows()}, make([]float32, p.Inputs[0].Rows()))}
	return nil
}

type rig struct {
	*testing.T
	store *fakeStore
	model *echo
	p     *Predictor
	last  []Outcome // of the last prediction's first row
}

func newRig(t *testing.T, manifest string) *rig {
	t.Helper()
	now := time.Now()
	r := &rig{T: t, model: &echo{}, store: &fakeStore{rows: map[string]Record{
		"0:7":  {[]Value{IntOf(41), TextOf("Oslo"), FloatOf(12.5)}, []time.Time{now, now, {}}},
		"0:8":  {[]Value{IntOf(150), TextOf("Kyiv"), FloatOf(3)}, []time.Time{now, now, {}}},
		"1:ab": {[]Value{FloatOf(99)}, []time.Time{{}, {}, now}},
	}}}
	var err error
	r.p, err = NewPredictor(r.model, mustParse(t, manifest), NewOnline(r.store, OnlineOptions{}), func(_ *router.Prediction, rows *Rows, _ error) {
		r.last = slices.Clone(rows.outcomes[:len(rows.manifest.Features)])
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func column(name string, values ...float64) tensor.Tensor {
	return tensor.Of(name, tensor.Float64, []int64{int64(len(values))}, values)
}

func ints(name string, values ...int64) tensor.Tensor {
	return tensor.Of(name, tensor.Int64, []int64{int64(len(values)), 1}, values)
}

func texts(name string, values ...string) tensor.Tensor {
	t := tensor.Tensor{Name: name, Type: tensor.Bytes, Shape: []int64{int64(len(values))}}
	for _, v := range values {
		t.Strings = append(t.Strings, []byte(v))
	}
	return t
}

// predict runs one request and checks what the model got and what the answer notes.
func (r *rig) predict(want []float32, notes string, inputs ...tensor.Tensor) {
	r.Helper()
	p := router.Prediction{Inputs: inputs}
	if err := r.p.Predict(r.Context(), &p); err != nil {
		r.Fatal(err)
	}
	if fmt.Sprint(r.model.got) != fmt.Sprint(want) {
		r.Errorf("the model got %v, want %v", r.model.got, want)
	}
	if got := noteText(p.Notes); got != notes {
		r.Errorf("the answer notes %q, want %q", got, notes)
	}
}

func noteText(notes []router.Note) string {
	var list []string
	for _, n := range notes {
		list = append(list, n.Name+"="+n.Value)
	}
	return strings.Join(list, "; ")
}

func (r *rig) count(view string, o Outcome) (n int64) {
	r.p.Join().Counts(func(v, outcome string, count int64) {
		if v == view && outcome == o.String() {
			n = count
		}
	})
	return n
}

var nan = float32(math.NaN())

// The ladder, rung by rung: request, cache, store, outdated, default, failure.
func TestLadder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, shopManifest)
		ask := []tensor.Tensor{column("amount", 5), ints("user_id", 7), texts("sku", "ab")}
		r.predict([]float32{5, 41, 2, 12.5, 99, 1}, "", ask...)
		r.predict([]float32{5, 41, 2, 12.5, 99, 1}, "", ask...)
		if len(r.store.reads) != 1 || r.last[1] != Cached {
			t.Fatalf("two requests within cache.fresh made the reads %v", r.store.reads)
		}
		// The request's own value stands before the cache's; its others stay.
		r.predict([]float32{5, 50, 2, 12.5, 99, 1}, "", append(ask, ints("age", 50))...)

		time.Sleep(2 * time.Second)
		r.store.err = errors.New("connection refused")
		r.predict([]float32{5, 41, 2, 12.5, 99, 1},
			"features-outdated=age:outdated, city:outdated, spent:outdated, price:outdated", ask...)
		time.Sleep(20 * time.Second)
		r.predict([]float32{5, 30, 1, nan, 9.5, 1},
			"features-defaulted=age:unavailable, city:unavailable, spent:unavailable, price:unavailable", ask...)
		if n := r.count("orders", Unavailable); n != 1 {
			t.Errorf("%d values of orders were unavailable, want 1", n)
		}
		// amount has no default, and is required.
		err := r.p.Predict(t.Context(), &router.Prediction{Inputs: ask[1:]})
		if !errors.Is(err, inference.ErrInvalid) || !strings.Contains(err.Error(), `"amount" of row 0 is required`) {
			t.Errorf("a request without amount: %v", err)
		}
	})
}

// A required feature of a store that does not answer fails the request as unavailable,
// and one that the store does not have as invalid.
func TestRequiredFeatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, strings.Replace(shopManifest, "type: number, max_staleness: 1m", "type: number, required: true", 1))
		for _, c := range []struct {
			store error
			user  tensor.Tensor
			want  error
			text  string
		}{
			{nil, ints("user_id", 99), inference.ErrInvalid, "absent"},
			{errors.New("refused"), ints("user_id", 98), inference.ErrUnavailable, "does not answer"},
			{nil, texts("sku", "x"), inference.ErrInvalid, "key of its entity"},
		} {
			r.store.err = c.store
			err := r.p.Predict(t.Context(), &router.Prediction{Inputs: []tensor.Tensor{column("amount", 5), c.user}})
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %v with %q", err, c.want, c.text)
			}
		}
		r.predict([]float32{5, 30, 1, 8, 9.5, 1}, "features-defaulted=age:no_entity, city:no_entity, price:no_entity",
			column("amount", 5), column("spent", 8))
	})
}

// A batch asks once, for each entity once; rows keep their own values, and a number
// that is NaN is missing.
func TestBatch(t *testing.T) {
	r := newRig(t, shopManifest)
	r.predict([]float32{
		1, 41, 2, 12.5, 99, 1,
		2, 120, 1, 3, 9.5, 1,
		3, 20, 2, 12.5, 99, 1,
		4, 30, 1, nan, 99, 1,
	}, "features-defaulted=age:absent:1/4, city:absent:1/4, city:unknown:1/4, spent:absent:1/4, price:absent:1/4; "+
		"features-out-of-range=age:clip:1/4, city:clip:1/4",
		column("amount", 1, 2, 3, 4), ints("user_id", 7, 8, 7, 99), texts("sku", "ab", "zz", "ab", "ab"),
		column("age", math.NaN(), math.NaN(), 20, math.NaN()))
	if want := [][]string{{"0:7", "0:8", "0:99", "1:ab", "1:zz"}}; fmt.Sprint(r.store.reads) != fmt.Sprint(want) {
		t.Errorf("the reads are %v, want %v", r.store.reads, want)
	}
}

// A request that has all features of an entity does not ask for it, and one with the
// model's own matrix asks only for what is NaN.
func TestRequestOverrides(t *testing.T) {
	r := newRig(t, shopManifest)
	r.predict([]float32{1, 2, 0, 4, 5, 1}, "",
		column("amount", 1), column("age", 2), texts("city", "Bonn"), column("spent", 4), column("price", 5), ints("user_id", 7))
	r.predict([]float32{1, 2, 2, 4, 5, 1}, "", tensor.Of("input", tensor.Float32, []int64{1, 6}, []float32{1, 2, 2, 4, 5, 77}))
	if len(r.store.reads) != 0 {
		t.Errorf("the store was asked for %v", r.store.reads)
	}
	r.predict([]float32{1, 2, 2, 12.5, 5, 1}, "",
		tensor.Of("input", tensor.Float32, []int64{1, 6}, []float32{1, 2, 2, nan, 5, 77}), ints("user_id", 7))
}

// Events older than max_staleness, and of unknown age, are no values.
func TestStaleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, shopManifest)
		time.Sleep(time.Minute)
		ask := []tensor.Tensor{column("amount", 5), ints("user_id", 7), texts("sku", "ab")}
		r.predict([]float32{5, 41, 2, 12.5, 99, 1}, "", ask...)
		time.Sleep(time.Millisecond) // the cache is fresh; the event is not
		r.predict([]float32{5, 41, 2, nan, 99, 1}, "features-defaulted=spent:too_old", ask...)
		r.store.rows["0:9"] = Record{[]Value{IntOf(1), TextOf("Bonn"), FloatOf(1)}, make([]time.Time, 3)}
		r.predict([]float32{5, 1, 0, nan, 99, 1}, "features-defaulted=spent:too_old", column("amount", 5), ints("user_id", 9), texts("sku", "ab"))
		if n := r.count("orders", TooOld); n != 2 {
			t.Errorf("%d values were too old, want 2", n)
		}
	})
}

// A stalled store costs a request min(5 ms, 30 % of what is left), and after five
// requests nothing: the breaker is open until one try a second later succeeds.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, strings.Replace(shopManifest, "entries: 100", "entries: 0", 1))
		r.store.slow = time.Hour
		ask := []tensor.Tensor{column("amount", 5), ints("user_id", 7), texts("sku", "ab")}
		predict := func(left time.Duration) (time.Duration, string) {
			p := router.Prediction{Inputs: ask}
			if left != 0 {
				p.DoneBy = time.Now().Add(left)
			}
			began := time.Now()
			if err := r.p.Predict(t.Context(), &p); err != nil {
				t.Fatal(err)
			}
			return time.Since(began), noteText(p.Notes)
		}
		// Callers with little time wait their share of it, and do not open the breaker.
		for range 30 {
			if took, notes := predict(2 * time.Millisecond); took != 600*time.Microsecond || !strings.Contains(notes, "age:timeout") {
				t.Fatalf("with 2 ms left: %v, %q", took, notes)
			}
		}
		if took, _ := predict(-time.Second); took != 0 {
			t.Errorf("a request whose time is over waited %v", took)
		}
		if s := r.p.join.online.Stats(); s.State != "closed" || s.Timeouts != 30 {
			t.Errorf("after short deadlines the store is %+v", s)
		}
		for range 5 {
			if took, _ := predict(0); took != 5*time.Millisecond {
				t.Fatalf("a read took %v", took)
			}
		}
		if took, notes := predict(0); took != 0 || !strings.Contains(notes, "age:unavailable") {
			t.Fatalf("with the breaker open: %v, %q", took, notes)
		}
		time.Sleep(1100 * time.Millisecond)
		if took, _ := predict(0); took != 5*time.Millisecond {
			t.Errorf("the try took %v", took)
		}
		time.Sleep(1100 * time.Millisecond)
		r.store.slow = 0
		if _, notes := predict(0); notes != "" {
			t.Errorf("the store answers again, and the answer notes %q", notes)
		}
		if s := r.p.join.online.Stats(); s.State != "closed" || s.Refused != 1 {
			t.Errorf("at the end the store is %+v", s)
		}
	})
}

// A client that goes away is no failure of the store.
func TestCancelledReadIsNotJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, shopManifest)
		r.store.slow = time.Hour
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			_ = r.p.Predict(ctx, &router.Prediction{Inputs: []tensor.Tensor{column("amount", 5), ints("user_id", 7)}})
			cancel()
		}
		if s := r.p.join.online.Stats(); s.State != "closed" {
			t.Errorf("the breaker is %s", s.State)
		}
	})
}

// The cache is bounded, and keeps who was asked for last.
func TestCacheIsBounded(t *testing.T) {
	r := newRig(t, strings.Replace(shopManifest, "entries: 100", "entries: 3", 1))
	for user := range int64(50) {
		_ = r.p.Predict(t.Context(), &router.Prediction{Inputs: []tensor.Tensor{column("amount", 5), ints("user_id", user)}})
	}
	if n := r.p.Join().Cached(); n != 3 {
		t.Errorf("%d entities are remembered, want 3", n)
	}
}

// A request for another schema fails closed, whatever the case of the rest.
func TestSchemaOnRequest(t *testing.T) {
	r := newRig(t, shopManifest)
	ask := []tensor.Tensor{column("amount", 5)}
	hash := r.p.Describe().Schema
	for schema, ok := range map[string]bool{"": true, hash: true, strings.TrimPrefix(hash, "sha256:"): true, "sha256:00": false, "x": false} {
		err := r.p.Predict(t.Context(), &router.Prediction{Inputs: ask, Schema: schema})
		if ok != (err == nil) || !ok && !errors.Is(err, inference.ErrSchema) {
			t.Errorf("%.20q: %v", schema, err)
		}
	}
}

// What a request may not send is refused, with the name of the input.
func TestRefusedInputs(t *testing.T) {
	r := newRig(t, shopManifest)
	half := tensor.Tensor{Name: "amount", Type: tensor.Float16, Shape: []int64{1}, Data: make([]byte, 2)}
	cut := column("amount", 1, 2)
	cut.Data = cut.Data[:8]
	for want, inputs := range map[string][]tensor.Tensor{
		"no inputs":               {},
		`"colour" is no feature`:  {column("amount", 1), column("colour", 1)},
		"has 2 rows":              {column("amount", 1), ints("user_id", 7, 8)},
		"is a constant":           {column("amount", 1), column("bias", 1)},
		"from 0 to 1000":          {column("amount", 1001)},
		`not of type integer`:     {column("amount", 1), column("age", 1.5)},
		"the key is of type":      {column("amount", 1), column("user_id", 1)},
		"features are sent as":    {half},
		"has 1 elements":          {cut},
		"must be [rows, 6]":       {tensor.Of("input", tensor.Float32, []int64{1, 3}, []float32{1, 2, 3})},
		"[rows] or [rows, 1]":     {tensor.Of("amount", tensor.Float64, []int64{1, 2}, []float64{1, 2})},
		`feature "city" of row 0`: {column("amount", 1), column("city", 3)},
	} {
		err := r.p.Predict(t.Context(), &router.Prediction{Inputs: inputs})
		if !errors.Is(err, inference.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A model with an input per feature gets them by name and in its own types.
func TestColumns(t *testing.T) {
	m := mustParse(t, `{version: 1, features: [
		{name: n, source: request, type: integer, default: 9007199254740993},
		{name: word, input: w, source: request, type: string, required: true},
		{name: yes, source: request, type: boolean, default: true},
		{name: x, source: request, type: number}]}`)
	var got []tensor.Tensor
	model := &columns{specs: []tensor.Spec{
		{Name: "w", Type: tensor.Bytes, Shape: []int64{-1, 1}}, {Name: "x", Type: tensor.Float64, Shape: []int64{-1}},
		{Name: "n", Type: tensor.Int64, Shape: []int64{-1, 1}}, {Name: "yes", Type: tensor.Bool, Shape: []int64{-1}},
	}, got: &got}
	p, err := NewPredictor(model, m, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Predict(t.Context(), &router.Prediction{Inputs: []tensor.Tensor{texts("word", "ä", "")}}); err != nil {
		t.Fatal(err)
	}
	if string(got[0].Strings[0]) != "ä" || !math.IsNaN(tensor.Values[float64](&got[1])[1]) ||
		tensor.Values[int64](&got[2])[0] != 1<<53+1 || got[3].Data[1] != 1 || fmt.Sprint(got[0].Shape, got[1].Shape) != "[2 1] [2]" {
		t.Errorf("the model got %+v", got)
	}
}

type columns struct {
	specs []tensor.Spec
	got   *[]tensor.Tensor
}

func (c *columns) Describe() *router.Description {
	return &router.Description{Name: "columns", Inputs: c.specs}
}

func (c *columns) Predict(_ context.Context, p *router.Prediction) error {
	*c.got = p.Inputs
	return nil
}

// A model without a manifest is observed as it is called: by its matrix, whose columns
// have the names that are given, or by its inputs.
func TestWatcher(t *testing.T) {
	var got []string
	observe := func(_ *router.Prediction, rows *Rows, err error) {
		for f, feature := range rows.Manifest().Features {
			got = append(got, feature.Name+"="+rows.Value(rows.Len()-1, f).String())
		}
	}
	watch := func(inner router.Predictor, names []string, inputs ...tensor.Tensor) string {
		t.Helper()
		m, err := Derive(inner.Describe(), names)
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewWatcher(inner, m, observe)
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		if err := w.Predict(t.Context(), &router.Prediction{Inputs: inputs}); err != nil {
			t.Fatal(err)
		}
		return strings.Join(got, " ")
	}
	matrix := tensor.Of("input", tensor.Float32, []int64{2, 6}, []float32{0, 0, 0, 0, 0, 0, 1, nan, 3, 4, 5, 6})
	if text := watch(&echo{}, nil, matrix); text != "input.0=1 input.1= input.2=3 input.3=4 input.4=5 input.5=6" {
		t.Error(text)
	}
	if text := watch(&echo{}, strings.Split("abcdef", ""), matrix); text != "a=1 b= c=3 d=4 e=5 f=6" {
		t.Error(text)
	}
	var tensors []tensor.Tensor
	model := &columns{specs: []tensor.Spec{{Name: "w", Type: tensor.Bytes, Shape: []int64{-1, 1}}, {Name: "n", Type: tensor.Int32, Shape: []int64{-1}}}, got: &tensors}
	if text := watch(model, nil, texts("w", "x"), ints("n", 7)); text != "w=x n=7" {
		t.Error(text)
	}
	if text := watch(model, nil, column("other", 1)); text != "" || len(tensors) != 1 {
		t.Errorf("what the manifest cannot read is observed as %q", text)
	}
	if _, err := Derive(&router.Description{Inputs: []tensor.Spec{{Name: "x", Shape: []int64{-1, -1}}}}, nil); err == nil {
		t.Error("a matrix of any width is watched")
	}
}
