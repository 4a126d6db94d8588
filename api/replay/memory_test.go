package replay

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func request(tenant, key string, body byte) Request {
	return Request{Tenant: tenant, Key: key, Fingerprint: [32]byte{body}, TTL: time.Hour}
}

func begin(t *testing.T, m *Memory, r Request, want State) Outcome {
	t.Helper()
	got, err := m.Begin(t.Context(), r)
	if err != nil || got.State != want {
		t.Fatalf("%s of %q: state %v, want %v; %v", r.Key, r.Tenant, got.State, want, err)
	}
	return got
}

func look(t *testing.T, m *Memory, r Request, want State) {
	t.Helper()
	if got, err := m.Look(t.Context(), r); err != nil || got.State != want {
		t.Fatalf("%s of %q: state %v, want %v; %v", r.Key, r.Tenant, got.State, want, err)
	}
}

func finish(t *testing.T, m *Memory, c Claim, answer string) {
	t.Helper()
	if err := m.Finish(t.Context(), c, []byte(answer)); err != nil {
		t.Fatal(err)
	}
}

func TestStatesOfAKey(t *testing.T) {
	m := NewMemory(1 << 20)
	look(t, m, request("a", "k", 2), Free) // looking takes nothing
	claim := begin(t, m, request("a", "k", 1), Begun).Claim
	look(t, m, request("a", "k", 1), InFlight)
	look(t, m, request("a", "k", 2), Differs)
	begin(t, m, request("a", "k", 1), InFlight)
	begin(t, m, request("a", "k", 2), Differs)
	other := begin(t, m, request("b", "k", 2), Begun).Claim
	finish(t, m, claim, "one")
	finish(t, m, claim, "again") // only the first counts
	if got := begin(t, m, request("a", "k", 1), Answered); string(got.Answer) != "one" {
		t.Errorf("the answer is %q", got.Answer)
	}
	look(t, m, request("a", "k", 1), Answered)
	begin(t, m, request("a", "k", 2), Differs)
	if err := m.Abandon(t.Context(), claim); err != nil {
		t.Error(err)
	}
	begin(t, m, request("a", "k", 1), Answered)

	if err := m.Abandon(t.Context(), other); err != nil {
		t.Error(err)
	}
	if err := m.Finish(t.Context(), other, nil); !errors.Is(err, ErrClaimLost) {
		t.Errorf("an abandoned claim: %v", err)
	}
	next := begin(t, m, request("b", "k", 3), Begun).Claim
	if err := m.Abandon(t.Context(), other); err != nil { // of an execution before
		t.Error(err)
	}
	begin(t, m, request("b", "k", 3), InFlight)
	finish(t, m, next, "")
	if err := m.Finish(t.Context(), next, make([]byte, MaxAnswerBytes+1)); err == nil {
		t.Error("an answer that is too large is taken")
	}
}

func TestAnswersGoAfterTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(1 << 20)
		finish(t, m, begin(t, m, request("a", "done", 1), Begun).Claim, "x")
		long := begin(t, m, request("a", "long", 1), Begun).Claim
		time.Sleep(time.Hour - time.Nanosecond)
		begin(t, m, request("a", "done", 1), Answered)
		time.Sleep(time.Nanosecond)
		begin(t, m, request("a", "long", 1), InFlight) // it still runs
		look(t, m, request("a", "done", 1), Free)
		begin(t, m, request("a", "done", 2), Begun)
		finish(t, m, long, "x")
		time.Sleep(2 * time.Hour)
		begin(t, m, request("a", "other", 1), Begun)
		if _, found := m.tenants["a"]; found || len(m.entries) != 2 { // done and other, in flight
			t.Errorf("%d entries are left, and answers: %v", len(m.entries), found)
		}
	})
}

func TestOldestAnswersGoFirst(t *testing.T) {
	m := NewMemory(4 * (entryBytes + 10))
	for i := range 6 {
		finish(t, m, begin(t, m, request("a", fmt.Sprint(i), 1), Begun).Claim, "ten bytes.")
	}
	finish(t, m, begin(t, m, request("b", "0", 1), Begun).Claim, "ten bytes.")
	for i, want := range []State{Begun, Begun, Answered, Answered, Answered, Answered} {
		begin(t, m, request("a", fmt.Sprint(i), 1), want)
	}
	begin(t, m, request("b", "0", 1), Answered)
	finish(t, m, begin(t, m, request("c", "0", 1), Begun).Claim, string(make([]byte, 10000)))
	begin(t, m, request("c", "0", 1), Begun) // larger than all that a tenant may hold
	if b := m.tenants["a"].bytes; b != 4*(entryBytes+10) {
		t.Errorf("a holds %d bytes", b)
	}
}

func TestOneOfManyBegins(t *testing.T) {
	m := NewMemory(1 << 20)
	var begun [20]atomic.Int32
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for k := range begun {
				got, err := m.Begin(t.Context(), request("a", fmt.Sprint(k), 1))
				if err != nil {
					t.Error(err)
				}
				if got.State == Begun {
					begun[k].Add(1)
					if err := m.Finish(t.Context(), got.Claim, nil); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wait.Wait()
	for k := range begun {
		if n := begun[k].Load(); n != 1 {
			t.Errorf("key %d was executed %d times", k, n)
		}
	}
}

func TestMemoryForgetsATenant(t *testing.T) {
	m := NewMemory(1 << 20)
	finish(t, m, begin(t, m, request("a", "done", 1), Begun).Claim, "x")
	finish(t, m, begin(t, m, request("b", "done", 1), Begun).Claim, "x")
	running := begin(t, m, request("a", "running", 1), Begun).Claim
	if n := m.Forget("a") + m.Forget("nobody"); n != 1 {
		t.Errorf("%d forgotten", n)
	}
	begin(t, m, request("b", "done", 1), Answered)
	begin(t, m, request("a", "done", 2), Begun)
	finish(t, m, running, "y")
	begin(t, m, request("a", "running", 1), Answered)
}
