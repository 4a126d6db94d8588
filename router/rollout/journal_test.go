package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// memoryAnswers is an AnswerStore of one process.
type memoryAnswers struct {
	mu      sync.Mutex
	down    error
	answers map[string]StoredAnswer
	told    map[string]map[SignalKind]*keptOutcome
	records map[string][]byte

	uncommitted, unacknowledged error // what the next count fails with: before it is kept, or behind that
}

func newMemoryAnswers() *memoryAnswers {
	return &memoryAnswers{answers: make(map[string]StoredAnswer), told: make(map[string]map[SignalKind]*keptOutcome), records: make(map[string][]byte)}
}

type keptOutcome struct {
	value   float64
	counted *float64
}

func (m *memoryAnswers) SaveAnswers(_ context.Context, list []StoredAnswer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range list {
		if m.down == nil {
			m.answers[a.Key], m.told[a.Key] = a, make(map[SignalKind]*keptOutcome)
		}
	}
	return m.down
}

func (m *memoryAnswers) FindAnswer(_ context.Context, key string) (map[SignalKind]float64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.answers[key]
	told := make(map[SignalKind]float64)
	for kind, w := range m.told[key] {
		told[kind] = w.value
	}
	return told, ok, m.down
}

func (m *memoryAnswers) TellAnswers(_ context.Context, list []StoredSignal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range list {
		if words := m.told[s.Key]; words != nil && words[s.Kind] == nil {
			words[s.Kind] = &keptOutcome{value: s.Value}
		} else if words != nil {
			words[s.Kind].value = s.Value
		}
	}
	return m.down
}

func (m *memoryAnswers) CountOutcomes(_ context.Context, home string, _ time.Time, count func([]UncountedOutcome) (StoredRecord, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []UncountedOutcome
	var words []*keptOutcome
	for key, a := range m.answers {
		for kind, w := range m.told[key] {
			if a.Home == home && (w.counted == nil || *w.counted != w.value) {
				list, words = append(list, UncountedOutcome{key, a.Arm, a.Step, kind, w.value, w.counted}), append(words, w)
			}
		}
	}
	if len(list) == 0 || m.down != nil {
		return m.down
	}
	record, err := count(list)
	if err = errors.Join(err, m.uncommitted); err != nil {
		m.uncommitted = nil
		return err
	}
	m.records[home] = record.JSON
	for _, w := range words {
		value := w.value
		w.counted = &value
	}
	err, m.unacknowledged = m.unacknowledged, nil
	return err
}

func (m *memoryAnswers) SaveRollout(_ context.Context, home string, _ time.Time, record StoredRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records[home] = record.JSON
	return m.down
}

func (m *memoryAnswers) ForgetRollout(_ context.Context, home string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, a := range m.answers {
		if a.Home == home {
			delete(m.answers, key)
			delete(m.told, key)
		}
	}
	return m.down
}

// Words told at once, some of them twice, are each counted once, also where the store was away for a while.
func TestJournal(t *testing.T) {
	c, store := NewController(), newMemoryAnswers()
	run, err := Start(Plan{ID: "r", Model: "m", Stable: "1", Candidate: "2", Gates: Gates{SignalDrop: -1}, Steps: []Step{{Percent: 50, MinRequests: 1000, MinTime: Duration(time.Minute)}}}, 0, time.Now())
	if err != nil || c.Add(run) != nil {
		t.Fatal(err)
	}
	j := NewJournal(store, c, func(id string) string { return id + "@here" })
	ctx, over := context.WithCancel(t.Context())
	var ended, clients sync.WaitGroup
	ended.Go(func() { j.Run(ctx, func([]Transition) {}, func(error) {}) })
	store.mu.Lock()
	store.down = errors.New("the store is away")
	store.mu.Unlock()
	const answers = 50
	for n := range answers {
		c.Observe("m", time.Now(), &Outcome{Rollout: "r", Arm: Arm(n % 2), ID: fmt.Sprint(n), Tenant: "a"})
	}
	if err := j.Tell(ctx, &Signal{ID: "1", Tenant: "a", Kind: Thumbs, Value: 1}); !errors.Is(err, ErrBusyJournal) {
		t.Errorf("without its store: %v", err)
	}
	store.mu.Lock()
	store.down = nil
	store.mu.Unlock()
	for n := range answers {
		for range 2 {
			clients.Go(func() {
				if err := j.Tell(ctx, &Signal{ID: fmt.Sprint(n), Tenant: "a", Kind: Thumbs, Value: 1}); err != nil {
					t.Error(err)
				}
				if err := j.Tell(ctx, &Signal{ID: fmt.Sprint(n), Tenant: "b", Kind: Thumbs, Value: 0}); !errors.Is(err, ErrUnknownAnswer) {
					t.Errorf("of another tenant: %v", err)
				}
			})
		}
	}
	clients.Wait()
	over()
	ended.Wait() // the last round counts what is told
	for _, a := range c.List(time.Now())[0].Arms {
		if got := a.Signals["thumbs"]; got.Answers != answers/2 || got.Mean != 1 {
			t.Errorf("%s: %+v", a.Arm, got)
		}
	}
	if err := j.Forget(t.Context(), "r"); err != nil || len(store.answers) != 0 {
		t.Errorf("%v, %d answers are left", err, len(store.answers))
	}
}

// A server that is killed after it has counted outcomes, and before it keeps its records again, goes on with all of them; a store that
// fails before the count is kept, or only in saying that it is, has none counted twice.
func TestCountedOutcomesOutliveAKill(t *testing.T) {
	store, ctx := newMemoryAnswers(), t.Context()
	run, err := Start(Plan{ID: "r", Model: "m", Stable: "1", Candidate: "2", Gates: Gates{SignalDrop: -1}, Steps: []Step{{Percent: 50, MinRequests: 1000, MinTime: Duration(time.Minute)}}}, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	begin := func(run *Rollout) (*Controller, *Journal) {
		c := NewController()
		if err := c.Add(run); err != nil {
			t.Fatal(err)
		}
		return c, NewJournal(store, c, func(id string) string { return id })
	}
	c, j := begin(run)
	const answers = 4
	told := func(n int, value float64) {
		t.Helper()
		if err := store.TellAnswers(ctx, []StoredSignal{{Key: AnswerKey("a", fmt.Sprint(n)), Kind: Thumbs, Value: value}}); err != nil {
			t.Fatal(err)
		}
	}
	count := func(want error) {
		t.Helper()
		if _, err := j.work(ctx); !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	for n := range answers {
		c.Observe("m", time.Now(), &Outcome{Rollout: "r", Arm: Candidate, ID: fmt.Sprint(n), Tenant: "a"})
	}
	count(nil)
	lost := errors.New("the connection is lost")
	told(0, 1)
	store.uncommitted = lost
	count(lost)
	told(1, 1)
	count(nil) // counts the first one no second time
	told(2, 0)
	store.unacknowledged = lost
	count(lost)
	told(2, 1) // instead
	told(3, 1)
	count(nil)
	want := SignalStatus{Mean: 1, Answers: answers}
	if got := c.List(time.Now())[0].Arms[Candidate].Signals["thumbs"]; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	kept, err := Restore(store.records["r"], time.Now()) // and all that the process had is gone
	if err != nil {
		t.Fatal(err)
	}
	c, j = begin(kept)
	count(nil)
	if got := c.List(time.Now())[0].Arms[Candidate].Signals["thumbs"]; got != want {
		t.Errorf("after a kill: %+v, want %+v", got, want)
	}
}
