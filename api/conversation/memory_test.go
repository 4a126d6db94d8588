package conversation

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func kept(t *testing.T, m *Memory, id, previous, status string) {
	t.Helper()
	r := &Response{Tenant: "acme", ID: id, Previous: previous, Status: status, Input: []byte("[]"), Object: []byte("{}")}
	if err := m.KeepResponse(t.Context(), r, time.Hour); err != nil {
		t.Fatal(err)
	}
}

func TestConversationsAreChains(t *testing.T) {
	m := NewMemory(1 << 20)
	kept(t, m, "a", "", "completed")
	kept(t, m, "b", "a", "completed")
	kept(t, m, "c", "b", InProgress)
	kept(t, m, "c", "b", "completed")
	if err := m.KeepResponse(t.Context(), &Response{Tenant: "acme", ID: "c", Status: "failed"}, time.Hour); !errors.Is(err, ErrFinished) {
		t.Errorf("a finished response is replaced: %v", err)
	}
	chain, err := m.Conversation(t.Context(), "acme", "c")
	if err != nil || len(chain) != 3 || chain[0].ID != "a" || chain[2].ID != "c" {
		t.Errorf("the chain is %v, %v", chain, err)
	}
	if _, err := m.Conversation(t.Context(), "zeta", "c"); !errors.Is(err, ErrUnknown) {
		t.Errorf("another tenant finds it: %v", err)
	}
	if _, err := m.FindResponse(t.Context(), "zeta", "c"); !errors.Is(err, ErrUnknown) {
		t.Errorf("another tenant finds it: %v", err)
	}
	if err := m.DeleteResponse(t.Context(), "zeta", "c"); !errors.Is(err, ErrUnknown) {
		t.Errorf("another tenant deletes it: %v", err)
	}
	if err := m.DeleteResponse(t.Context(), "acme", "a"); err != nil {
		t.Error(err)
	}
	_, err = m.Conversation(t.Context(), "acme", "c")
	if broken, ok := errors.AsType[*BrokenError](err); !ok || broken.Missing != "a" || !errors.Is(err, ErrUnknown) {
		t.Errorf("a chain without its beginning: %v", err)
	}
	if n, err := m.ForgetResponses(t.Context(), "acme"); n != 2 || err != nil {
		t.Errorf("%d were forgotten, %v", n, err)
	}
	if _, err := m.FindResponse(t.Context(), "acme", "c"); !errors.Is(err, ErrUnknown) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestStatesAreReplaced: a finished response takes another state in the place of the one that is named, and of no other.
func TestStatesAreReplaced(t *testing.T) {
	m := NewMemory(1 << 20)
	kept(t, m, "a", "", "1")
	replace := func(id, before, after string) error {
		return m.KeepResponse(t.Context(), &Response{Tenant: "acme", ID: id, Status: after, Replaces: before, Input: []byte(after)}, time.Hour)
	}
	if err := replace("a", "1", "2"); err != nil {
		t.Error(err)
	}
	if err := replace("a", "1", "3"); !errors.Is(err, ErrChanged) {
		t.Errorf("a state that is over is replaced: %v", err)
	}
	if err := replace("b", "1", "2"); !errors.Is(err, ErrUnknown) {
		t.Errorf("what is not there is replaced: %v", err)
	}
	if r, err := m.FindResponse(t.Context(), "acme", "a"); err != nil || r.Status != "2" || string(r.Input) != "2" {
		t.Errorf("found %+v, %v", r, err)
	}
}

func TestTheLongestUnusedGoesFirst(t *testing.T) {
	m := NewMemory(4 * 1500)
	now := time.Unix(1, 0)
	m.now = func() time.Time { return now }
	long := []byte(strings.Repeat("x", 1000))
	keep := func(id, previous string) {
		r := &Response{Tenant: "acme", ID: id, Previous: previous, Status: "completed", Object: long}
		if err := m.KeepResponse(t.Context(), r, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	keep("a", "")
	keep("b", "")
	keep("c", "a") // uses a
	keep("d", "")  // no room: b goes
	for id, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if _, err := m.FindResponse(t.Context(), "acme", id); (err == nil) != want {
			t.Errorf("%s: %v", id, err)
		}
	}
	now = now.Add(30 * time.Minute)
	keep("e", "c") // the time of a and c starts over; there is no room for d
	now = now.Add(45 * time.Minute)
	if _, err := m.Conversation(t.Context(), "acme", "e"); err != nil {
		t.Errorf("a conversation that was used has ended: %v", err)
	}
	now = now.Add(time.Hour)
	kept(t, m, "f", "", "completed") // sweeps
	if n := m.tenants["acme"].used.Len(); n != 1 {
		t.Errorf("%d responses are left", n)
	}
}

// A response that is deleted while it is computed does not come back with its end, and one that is computed makes no room for others.
func TestDeletedResponsesStayDeleted(t *testing.T) {
	m := NewMemory(4 << 10)
	kept(t, m, "a", "", InProgress)
	for i := range 20 {
		kept(t, m, string(rune('b'+i)), "", "completed")
	}
	end := &Response{Tenant: "acme", ID: "a", Status: "completed", Begun: true}
	if err := m.KeepResponse(t.Context(), end, time.Hour); err != nil {
		t.Errorf("the end of a response that is computed: %v", err)
	}
	kept(t, m, "z", "", InProgress)
	if err := m.DeleteResponse(t.Context(), "acme", "z"); err != nil {
		t.Fatal(err)
	}
	end.ID = "z"
	if err := m.KeepResponse(t.Context(), end, time.Hour); !errors.Is(err, ErrUnknown) {
		t.Errorf("the end of a deleted response: %v", err)
	}
}

// Responses are listed by their own tenant, in the order of their use, by pages and by the beginning of their ids.
func TestResponsesAreListed(t *testing.T) {
	s := NewMemory(1 << 20)
	for _, id := range []string{"x-1", "y-1", "x-2", "x-3"} {
		kept(t, s, id, "", "completed")
	}
	list := func(tenant string, q Listing) (ids []string) {
		t.Helper()
		found, err := s.ListResponses(t.Context(), tenant, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range found {
			ids = append(ids, r.ID)
		}
		return ids
	}
	for _, c := range []struct {
		tenant string
		q      Listing
		want   string
	}{
		{"acme", Listing{Prefix: "x-", Limit: 9}, "x-1 x-2 x-3"}, {"acme", Listing{Prefix: "x-", Limit: 2, Newest: true}, "x-3 x-2"},
		{"acme", Listing{Prefix: "x-", After: "x-1", Limit: 1}, "x-2"}, {"acme", Listing{Prefix: "x-", After: "x-2", Limit: 9, Newest: true}, "x-1"},
		{"acme", Listing{Prefix: "x-", After: "none", Limit: 9}, ""}, {"acme", Listing{Limit: 9}, "x-1 y-1 x-2 x-3"}, {"zeta", Listing{Limit: 9}, ""},
	} {
		if got := strings.Join(list(c.tenant, c.q), " "); got != c.want {
			t.Errorf("%s %+v: %s, want %s", c.tenant, c.q, got, c.want)
		}
	}
}
