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
	answers map[string]KeptAnswer
	told    map[string]map[SignalKind]*keptWord
}

type keptWord struct {
	value   float64
	counted *float64
}

func (m *memoryAnswers) SaveAnswers(_ context.Context, list []KeptAnswer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range list {
		if m.down == nil {
			m.answers[a.Key], m.told[a.Key] = a, make(map[SignalKind]*keptWord)
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

func (m *memoryAnswers) TellAnswers(_ context.Context, list []KeptSignal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range list {
		if words := m.told[s.Key]; words != nil && words[s.Kind] == nil {
			words[s.Kind] = &keptWord{value: s.Value}
		} else if words != nil {
			words[s.Kind].value = s.Value
		}
	}
	return m.down
}

func (m *memoryAnswers) TakeUncounted(_ context.Context, home string) (list []Uncounted, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, a := range m.answers {
		for kind, w := range m.told[key] {
			if a.Home == home && (w.counted == nil || *w.counted != w.value) {
				list = append(list, Uncounted{a.Arm, a.Step, kind, w.value, w.counted})
				value := w.value
				w.counted = &value
			}
		}
	}
	return list, m.down
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
	c, store := NewController(), &memoryAnswers{answers: make(map[string]KeptAnswer), told: make(map[string]map[SignalKind]*keptWord)}
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
