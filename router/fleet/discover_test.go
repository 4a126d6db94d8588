package fleet

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/router/balance"
)

// servers are those of a store.
type servers struct {
	mu   sync.Mutex
	list []Found
	err  error
}

func (s *servers) set(err error, list ...Found) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.err = list, err
}

func (s *servers) find(_ context.Context, model string) ([]Found, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if model != "theirs" {
		return nil, errors.New("another model is asked for: " + model)
	}
	return slices.Clone(s.list), s.err
}

// Replicas are those that the store has, with the region and the admin URL that they say; what cannot be asked for stays.
func TestReplicasFromTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &servers{}
		f, err := New(Config{
			Model: "chat", Discover: s.find, Balance: balance.Config{Policy: balance.LeastLoad},
			Sources: []Source{{Discover: DiscoverStore, Model: "theirs", NodeSelector: map[string]string{"role": "decode"}, APIKey: "secret"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		stop := f.sources.look(t.Context(), &all) // without probes: there is no server
		defer func() { stop(); all.Wait(); f.Close() }()
		ids := func() (list []string) {
			time.Sleep(2 * discoverEvery)
			for _, r := range f.members.Load().list {
				list = append(list, r.id+" "+r.target.Region+" "+r.target.AdminURL)
			}
			return list
		}
		decode := map[string]string{"role": "decode", "gpu": ""}
		a := Found{URL: "http://127.0.0.1:1", Region: "eu", AdminURL: "http://127.0.0.1:11", Labels: decode}
		b := Found{URL: "http://127.0.0.1:2", Region: "us", Labels: decode}
		if got := ids(); len(got) != 0 {
			t.Errorf("%q", got)
		}
		s.set(nil, a, b, Found{URL: "http://127.0.0.1:3", Labels: map[string]string{"role": "batch"}}, Found{URL: "http://127.0.0.1:4"})
		both := ids()
		if len(both) != 2 || f.members.Load().list[0].target.APIKey != "secret" || !f.Reaches([]string{"us"}) || f.Reaches([]string{"asia"}) {
			t.Errorf("%q", both)
		}
		s.set(errors.New("the database is away"))
		if got := ids(); !slices.Equal(got, both) {
			t.Errorf("without the store: %q", got)
		}
		moved := b
		moved.Region = "eu"
		s.set(nil, moved)
		if got := ids(); len(got) != 1 || f.Reaches([]string{"us"}) {
			t.Errorf("%q", got)
		}
		s.set(nil)
		if got := ids(); len(got) != 0 {
			t.Errorf("all are gone: %q", got)
		}
	})
}

func TestSourcesFromTheStoreAreChecked(t *testing.T) {
	for _, s := range []Source{
		{Discover: "consul"}, {Discover: DiscoverStore, URL: "http://127.0.0.1:1"}, {Discover: DiscoverStore, Kind: VLLM}, {Discover: DiscoverStore, Region: "eu"},
		{URL: "http://127.0.0.1:1", NodeSelector: map[string]string{"a": "b"}},
	} {
		if err := s.Check(); err == nil {
			t.Errorf("%+v is taken", s)
		}
	}
	if _, err := New(Config{Model: "chat", Sources: []Source{{Discover: DiscoverStore}}}); err == nil {
		t.Error("a source from the store is taken without one")
	}
}

// TestSourceIsGone has a look at a source end after the sources have changed to fewer ones: what it found is not taken.
func TestSourceIsGone(t *testing.T) {
	s := &servers{}
	one := Source{Discover: DiscoverStore, NodeSelector: map[string]string{"zone": "a"}}
	two := Source{Discover: DiscoverStore, NodeSelector: map[string]string{"zone": "b"}}
	f, err := New(Config{Model: "chat", Discover: s.find, Balance: balance.Config{Policy: balance.LeastLoad}, Sources: []Source{one, two}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	base, err := url.Parse("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	f.sources.replace(t.Context(), 1, two, []Target{{Base: base, Source: two}})
	if n := len(f.members.Load().list); n != 1 {
		t.Fatalf("%d replicas, want that of the second source", n)
	}
	if err := f.Reconfigure([]Source{two}); err != nil {
		t.Fatal(err)
	}
	f.sources.replace(t.Context(), 0, one, nil)                                 // its place is another one's
	f.sources.replace(t.Context(), 1, two, []Target{{Base: base, Source: two}}) // there is no such place any more
	if n := len(f.members.Load().list); n != 1 {
		t.Errorf("%d replicas, want that which was found before", n)
	}
}
