package fleet

import (
	"testing"
	"time"
)

// A replica of the router's own zone is asked; one of another zone is where no other is.
func TestReplicasOfTheOwnZoneAreNearer(t *testing.T) {
	here, there := newFake(t, "here", ""), newFake(t, "there", "")
	f, err := New(Config{Model: "m", Routing: Routing{Zone: "a", ZoneDistance: time.Minute}, Sources: []Source{
		{URL: there.URL + "/v1", Zone: "b"}, {URL: here.URL + "/v1", Zone: "a"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 20 {
		if a, _, err := take(t, f, call("")); err != nil || a.Replica != here.id() {
			t.Fatalf("%+v was asked, with %v; %s is in the router's zone", a, err, here.id())
		}
	}
	if err := f.Reconfigure([]Source{{URL: there.URL + "/v1", Zone: "b"}}); err != nil {
		t.Fatal(err)
	}
	if a, _, err := take(t, f, call("")); err != nil || a.Replica != there.id() {
		t.Errorf("%+v, %v", a, err)
	}
}

// No share of retries is no retries, and not the default.
func TestNoRetriesWhereNoneAreAllowed(t *testing.T) {
	now := time.Now()
	b := newBudget(Routing{RetryShare: -1}.withDefaults().RetryShare, time.Second)
	for range 1000 {
		b.request(now)
	}
	if b.take(now) {
		t.Error("a retry was granted")
	}
}
