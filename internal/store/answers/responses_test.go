package answers

import (
	"errors"
	"strings"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/internal/store/storetest"

	"weir/api/conversation"
)

func keepResponse(t *testing.T, s *Store, id, previous, status string) {
	t.Helper()
	r := &conversation.Response{Tenant: "acme", ID: id, Previous: previous, Status: status, Input: []byte(`[{"a":"` + id + `"}]`), Object: []byte(`{"id":"` + id + `"}`)}
	if err := s.KeepResponse(t.Context(), r, time.Hour); err != nil {
		t.Fatal(err)
	}
}

func TestResponses(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, other := openStore(t, url, opts{}), openStore(t, url, opts{})
		keepResponse(t, s, "a", "", "completed")
		keepResponse(t, other, "b", "a", "completed")
		keepResponse(t, s, "c", "b", conversation.InProgress)
		keepResponse(t, s, "c", "b", "completed")
		late := &conversation.Response{Tenant: "acme", ID: "c", Status: "failed"}
		if err := other.KeepResponse(t.Context(), late, time.Hour); !errors.Is(err, conversation.ErrFinished) {
			t.Errorf("a finished response is replaced: %v", err)
		}
		chain, err := other.Conversation(t.Context(), "acme", "c")
		if err != nil || len(chain) != 3 || chain[0].ID != "a" || chain[2].ID != "c" || string(chain[1].Input) != `[{"a":"b"}]` || chain[1].Previous != "a" {
			t.Errorf("the chain is %+v, %v", chain, err)
		}
		found, err := s.FindResponse(t.Context(), "acme", "b")
		if err != nil || string(found.Object) != `{"id":"b"}` || found.Status != "completed" || found.Lost {
			t.Errorf("found %+v, %v", found, err)
		}
		for _, id := range []string{"x", "a\x00", "\xff"} {
			if _, err := s.FindResponse(t.Context(), "acme", id); !errors.Is(err, conversation.ErrUnknown) {
				t.Errorf("%q is found: %v", id, err)
			}
		}
		_, err1 := s.FindResponse(t.Context(), "zeta", "a")
		_, err2 := s.Conversation(t.Context(), "zeta", "a")
		err3 := s.DeleteResponse(t.Context(), "zeta", "a")
		if !errors.Is(err1, conversation.ErrUnknown) || !errors.Is(err2, conversation.ErrUnknown) || !errors.Is(err3, conversation.ErrUnknown) {
			t.Errorf("another tenant reaches it: %v, %v, %v", err1, err2, err3)
		}
		if err := s.DeleteResponse(t.Context(), "acme", "a"); err != nil {
			t.Error(err)
		}
		_, err = s.Conversation(t.Context(), "acme", "c")
		if broken, ok := errors.AsType[*conversation.BrokenError](err); !ok || broken.Missing != "a" {
			t.Errorf("a chain without its beginning: %v", err)
		}
		if n, err := s.ForgetResponses(t.Context(), "acme"); n != 2 || err != nil {
			t.Errorf("%d were forgotten, %v", n, err)
		}
	})
}

// TestResponsesAreReplaced: a finished response takes another state in the place of the one that is named, and of no other.
func TestResponsesAreReplaced(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, other := openStore(t, url, opts{}), openStore(t, url, opts{})
		keepResponse(t, s, "a", "", "1")
		replace := func(s *Store, id, before, after string) error {
			return s.KeepResponse(t.Context(), &conversation.Response{Tenant: "acme", ID: id, Status: after, Replaces: before, Input: []byte(after)}, time.Hour)
		}
		if err := replace(other, "a", "1", "2"); err != nil {
			t.Error(err)
		}
		if err := replace(s, "a", "1", "3"); !errors.Is(err, conversation.ErrChanged) {
			t.Errorf("a state that is over is replaced: %v", err)
		}
		if err := replace(s, "b", "1", "2"); !errors.Is(err, conversation.ErrUnknown) {
			t.Errorf("what is not there is replaced: %v", err)
		}
		if r, err := s.FindResponse(t.Context(), "acme", "a"); err != nil || r.Status != "2" || string(r.Input) != "2" {
			t.Errorf("found %+v, %v", r, err)
		}
	})
}

func TestResponsesOfTheDeadAreLost(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, dead := openStore(t, url, opts{}), openStore(t, url, opts{})
		keepResponse(t, dead, "r", "", conversation.Queued)
		if r, err := s.FindResponse(t.Context(), "acme", "r"); err != nil || r.Lost {
			t.Errorf("a response whose process lives: %+v, %v", r, err)
		}
		storetest.Exec(t, s.DB, `DELETE FROM weir_owners WHERE id = '`+dead.Owner()+`'`)
		if r, err := s.FindResponse(t.Context(), "acme", "r"); err != nil || !r.Lost || r.Finished() {
			t.Errorf("a response whose process is gone: %+v, %v", r, err)
		}
	})
}

// A response that another process deletes or forgets while it is computed does not come back with its end, and one that is computed makes no room
// for others.
func TestDeletedResponsesStayDeleted(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, other := openStore(t, url, opts{HistoryBytes: 16 << 10}), openStore(t, url, opts{})
		end := func(id string) error {
			return s.KeepResponse(t.Context(), &conversation.Response{Tenant: "acme", ID: id, Status: "completed", Begun: true}, time.Hour)
		}
		keepResponse(t, s, "a", "", conversation.InProgress)
		if err := other.DeleteResponse(t.Context(), "acme", "a"); err != nil {
			t.Fatal(err)
		}
		if err := end("a"); !errors.Is(err, conversation.ErrUnknown) {
			t.Errorf("the end of a deleted response: %v", err)
		}
		keepResponse(t, s, "b", "", conversation.InProgress)
		if _, err := other.ForgetResponses(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		if err := end("b"); !errors.Is(err, conversation.ErrUnknown) {
			t.Errorf("the end of a forgotten response: %v", err)
		}
		keepResponse(t, s, "c", "", conversation.InProgress)
		storetest.Exec(t, s.DB, `UPDATE weir_responses SET used = used - 1000000`)
		for i := range 12 {
			r := &conversation.Response{Tenant: "acme", ID: "r" + string(rune('a'+i)), Status: "completed", Object: []byte(strings.Repeat("x", 2000))}
			if err := s.KeepResponse(t.Context(), r, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if err := end("c"); err != nil {
			t.Errorf("the end of a response beside many: %v", err)
		}
	})
}

func TestResponsesMakeRoom(t *testing.T) {
	reference.Slow(t)
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{HistoryBytes: 16 << 10})
		for i := range 20 {
			previous := ""
			if i == 4 { // goes on from the first one, which is used so
				previous = "ra"
			}
			r := &conversation.Response{Tenant: "acme", ID: "r" + string(rune('a'+i)), Previous: previous, Status: "completed", Object: []byte(strings.Repeat("x", 2000))}
			if err := s.KeepResponse(t.Context(), r, time.Hour); err != nil {
				t.Fatal(err)
			}
			storetest.Exec(t, s.DB, `UPDATE weir_responses SET used = used - 1000000`) // each is older than the next, whatever the clock's steps are
			if i == 8 {
				_, used := s.FindResponse(t.Context(), "acme", "ra")
				if _, unused := s.FindResponse(t.Context(), "acme", "rb"); used != nil || !errors.Is(unused, conversation.ErrUnknown) {
					t.Errorf("of nine responses the first, which was used, is there: %v; the second: %v", used, unused)
				}
			}
		}
		var left int
		if err := s.Read.QueryRow(`SELECT count(*) FROM weir_responses`).Scan(&left); err != nil || left > 9 {
			t.Errorf("%d responses of 2 KB are left, %v", left, err)
		}
		if _, err := s.FindResponse(t.Context(), "acme", "rb"); !errors.Is(err, conversation.ErrUnknown) {
			t.Errorf("an old one is there: %v", err)
		}
		storetest.Exec(t, s.DB, `UPDATE weir_responses SET expires = 0`)
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Read.QueryRow(`SELECT count(*) FROM weir_responses`).Scan(&left); err != nil || left != 0 {
			t.Errorf("%d responses are left after their time, %v", left, err)
		}
	})
}

// Responses are listed by their own tenant, in the order of their use, by pages and by the beginning of their ids.
func TestResponsesAreListed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{})
		// Those of one moment are in the order of their ids.
		for _, id := range []string{"x-1", "x-2", "x-3", "y-1"} {
			keepResponse(t, s, id, "", "completed")
		}
		list := func(tenant string, q conversation.Listing) (ids []string) {
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
			q      conversation.Listing
			want   string
		}{
			{"acme", conversation.Listing{Prefix: "x-", Limit: 9}, "x-1 x-2 x-3"}, {"acme", conversation.Listing{Prefix: "x-", Limit: 2, Newest: true}, "x-3 x-2"},
			{"acme", conversation.Listing{Prefix: "x-", After: "x-1", Limit: 1}, "x-2"}, {"acme", conversation.Listing{Prefix: "x-", After: "x-2", Limit: 9, Newest: true}, "x-1"},
			{"acme", conversation.Listing{Prefix: "x-", After: "none", Limit: 9}, ""}, {"acme", conversation.Listing{Limit: 9}, "x-1 x-2 x-3 y-1"}, {"zeta", conversation.Listing{Limit: 9}, ""},
		} {
			if got := strings.Join(list(c.tenant, c.q), " "); got != c.want {
				t.Errorf("%s %+v: %s, want %s", c.tenant, c.q, got, c.want)
			}
		}
	})
}
