package answers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/internal/store/deployments"
	"weir/internal/store/storetest"

	"weir/api/replay"
	"weir/router/deployment"
)

func request(key string, body byte) replay.Request {
	return replay.Request{Tenant: "acme", Key: key, Fingerprint: [32]byte{body}, TTL: time.Hour}
}

// begin asks for an execution and checks what is answered.
func begin(t *testing.T, s *Store, r replay.Request, want replay.State) replay.Outcome {
	t.Helper()
	got, err := s.Begin(t.Context(), r)
	if err != nil || got.State != want {
		t.Fatalf("%s: state %v, want %v; %v", r.Key, got.State, want, err)
	}
	return got
}

// look asks where a key stands and checks what is answered.
func look(t *testing.T, s *Store, r replay.Request, want replay.State) replay.Outcome {
	t.Helper()
	got, err := s.Look(t.Context(), r)
	if err != nil || got.State != want {
		t.Fatalf("%s: state %v, want %v; %v", r.Key, got.State, want, err)
	}
	return got
}

func finish(t *testing.T, s *Store, c replay.Claim, answer []byte) {
	t.Helper()
	if err := s.Finish(t.Context(), c, answer); err != nil {
		t.Fatal(err)
	}
}

func TestIdempotencyKeys(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, other := openStore(t, url, opts{}), openStore(t, url, opts{})
		look(t, other, request("k", 1), replay.Free)
		look(t, s, request("k", 2), replay.Free) // looking takes nothing
		claim := begin(t, s, request("k", 1), replay.Begun).Claim
		begin(t, other, request("k", 1), replay.InFlight)
		look(t, other, request("k", 1), replay.InFlight)
		begin(t, other, request("k", 2), replay.Differs)
		look(t, other, request("k", 2), replay.Differs)
		elsewhere := request("k", 2)
		elsewhere.Tenant = "zeta"
		begin(t, other, elsewhere, replay.Begun)

		answer := bytes.Repeat([]byte{0, 0xff, 'x'}, 100_000)
		finish(t, s, claim, answer)
		finish(t, s, claim, answer) // after an answer of the database that was lost
		if got := begin(t, other, request("k", 1), replay.Answered); !bytes.Equal(got.Answer, answer) {
			t.Errorf("the answer came back with %d bytes", len(got.Answer))
		}
		if got := look(t, s, request("k", 1), replay.Answered); !bytes.Equal(got.Answer, answer) {
			t.Errorf("the answer was found with %d bytes", len(got.Answer))
		}
		begin(t, other, request("k", 2), replay.Differs)
		if err := s.Abandon(t.Context(), claim); err != nil { // too late
			t.Error(err)
		}
		begin(t, other, request("k", 1), replay.Answered)

		given := begin(t, s, request("g", 1), replay.Begun).Claim
		if err := s.Abandon(t.Context(), given); err != nil {
			t.Fatal(err)
		}
		look(t, other, request("g", 2), replay.Free)
		begin(t, other, request("g", 2), replay.Begun)
		if err := s.Finish(t.Context(), given, nil); !errors.Is(err, replay.ErrClaimTaken) {
			t.Errorf("a claim that was abandoned, and its key taken: %v", err)
		}
		gone := begin(t, s, request("gone", 1), replay.Begun).Claim
		if err := s.Abandon(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		if err := s.Finish(t.Context(), gone, nil); !errors.Is(err, replay.ErrClaimLost) || errors.Is(err, replay.ErrClaimTaken) {
			t.Errorf("a claim that was abandoned: %v", err)
		}

		empty := begin(t, s, request("e", 1), replay.Begun).Claim
		finish(t, s, empty, nil)
		begin(t, s, request("e", 1), replay.Answered)
		odd := request("odd \x00\xff", 1) // clients send what they like
		begin(t, s, odd, replay.Begun)
		begin(t, s, odd, replay.InFlight)
		if err := s.Finish(t.Context(), claim, make([]byte, replay.MaxAnswerBytes+1)); err == nil {
			t.Error("an answer that is too large is taken")
		}
		long := replay.Request{Tenant: strings.Repeat("x", 2000)}
		_, lookErr := s.Look(t.Context(), long)
		if _, err := s.Begin(t.Context(), long); err == nil || lookErr == nil {
			t.Error("a tenant's name of 2000 bytes is taken")
		}
	})
}

func TestKeysAreForgottenAfterTheirTime(t *testing.T) {
	reference.Slow(t)
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{})
		for i := range 500 + 20 {
			short := request(fmt.Sprint("short", i), 1)
			short.TTL = time.Millisecond
			finish(t, s, begin(t, s, short, replay.Begun).Claim, []byte("old"))
			if i == 0 { // its time is over: it stands for anything again
				time.Sleep(5 * time.Millisecond)
				short.Fingerprint = [32]byte{2}
				finish(t, s, begin(t, s, short, replay.Begun).Claim, nil)
			}
		}
		finish(t, s, begin(t, s, request("long", 1), replay.Begun).Claim, []byte("new"))
		time.Sleep(5 * time.Millisecond)
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		var left int
		if err := s.Read.QueryRow(`SELECT count(*) FROM weir_replay`).Scan(&left); err != nil || left != 1 {
			t.Errorf("%d keys are left, %v", left, err)
		}
		begin(t, s, request("long", 1), replay.Answered)
	})
}

// An execution that outlives its key's time is not joined by another one; that of a dead
// process is forgotten then.
func TestExecutionsOutliveTheTimeOfTheirKeys(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, dying := openStore(t, url, opts{Lease: time.Hour}), openStore(t, url, opts{Lease: time.Hour})
		brief := func(key string, body byte) replay.Request {
			r := request(key, body)
			r.TTL = time.Millisecond
			return r
		}
		claim := begin(t, s, brief("long", 1), replay.Begun).Claim
		begin(t, dying, brief("dead", 1), replay.Begun)
		time.Sleep(5 * time.Millisecond)
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		begin(t, s, brief("long", 1), replay.InFlight)
		begin(t, s, brief("long", 2), replay.Differs)
		begin(t, s, brief("dead", 1), replay.InFlight)
		finish(t, s, claim, []byte("late"))
		finish(t, s, begin(t, s, brief("long", 2), replay.Begun).Claim, nil)

		dying.Stop()
		passLeases(t, s)
		begin(t, s, brief("dead", 2), replay.Begun) // another body: what died is over
	})
}

// Keys are held for a fifth of the lease, and those of a weir that knows no such lease for the whole of it.
func TestKeysAreHeldForLessThanTheLease(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, dead := openStore(t, url, opts{Lease: time.Hour}), openStore(t, url, opts{Lease: time.Hour})
		begin(t, dead, request("k", 1), replay.Begun)
		if err := deployments.NewRecords(dead.DB, nil).Observe(t.Context(), deployment.Observation{Model: "m", Instance: "i"}); err != nil {
			t.Fatal(err)
		}
		storetest.Exec(t, s.DB, `UPDATE weir_owners SET claims = NULL WHERE id = '`+dead.Owner()+`'`)
		begin(t, s, request("k", 1), replay.InFlight)
		storetest.Exec(t, s.DB, `UPDATE weir_owners SET claims = 1 WHERE id = '`+dead.Owner()+`'`)
		begin(t, s, request("k", 1), replay.Begun)
		if list, err := deployments.NewRecords(s.DB, nil).Observations(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("what it has beside keys: %+v, %v", list, err)
		}
		held, whole := int64(0), leaseOf(t, s)
		if err := s.Read.QueryRow(`SELECT claims FROM weir_owners WHERE id = '` + s.Owner() + `'`).Scan(&held); err != nil || (time.Duration(whole-held)*time.Microsecond-48*time.Minute).Abs() > time.Minute {
			t.Errorf("keys until %d of %d, %v", held, whole, err)
		}
	})
}

// passLeases lets the leases of all processes but that of s run out, as if their time had passed.
func passLeases(t *testing.T, s *Store) {
	t.Helper()
	storetest.Exec(t, s.DB, `UPDATE weir_owners SET expires = 1, claims = 1 WHERE id <> '`+s.Owner()+`'`)
}

// leaseOf is when the lease of a store's process ends, in microseconds of the database's clock.
func leaseOf(t *testing.T, s *Store) (at int64) {
	t.Helper()
	if err := s.Read.QueryRow(`SELECT expires FROM weir_owners WHERE id = '` + s.Owner() + `'`).Scan(&at); err != nil {
		t.Fatal(err)
	}
	return at
}

// A living process renews its lease by itself.
func TestLeasesAreRenewed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{Lease: 30 * time.Millisecond})
		for range 2 {
			before := leaseOf(t, s)
			storetest.WaitUntil(t, func() bool { return leaseOf(t, s) > before })
		}
	})
}

func TestOldestAnswersOfATenantGo(t *testing.T) {
	reference.Slow(t)
	storetest.Each(t, func(t *testing.T, url string) {
		const each = 1000
		s := openStore(t, url, opts{AnswerBytes: 20 * (each + answerRowBytes)})
		elsewhere := request("k", 1)
		elsewhere.Tenant = "zeta"
		finish(t, s, begin(t, s, elsewhere, replay.Begun).Claim, make([]byte, each))
		running := begin(t, s, request("running", 1), replay.Begun).Claim
		const keys = 100
		for i := range keys {
			finish(t, s, begin(t, s, request(fmt.Sprint(i), 1), replay.Begun).Claim, make([]byte, each))
			time.Sleep(time.Millisecond) // their times tell which is oldest
		}
		for i := range keys {
			got, err := s.Begin(t.Context(), request(fmt.Sprint(i), 1))
			if err != nil {
				t.Fatal(err)
			}
			if newest := i >= keys-20; newest && got.State != replay.Answered || i < keys-22 && got.State == replay.Answered {
				t.Errorf("key %d of %d is %v", i, keys, got.State)
			}
		}
		finish(t, s, running, nil)
		begin(t, s, elsewhere, replay.Answered)
	})
}

// Repetitions are answered while another transaction holds the writer.
func TestRepetitionsDoNotWrite(t *testing.T) {
	s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "weir.db"), opts{})
	finish(t, s, begin(t, s, request("done", 1), replay.Begun).Claim, []byte("x"))
	begin(t, s, request("running", 1), replay.Begun)
	tx, err := s.Write.Begin() // takes the write lock
	if err != nil {
		t.Fatal(err)
	}
	look(t, s, request("done", 1), replay.Answered)
	look(t, s, request("done", 2), replay.Differs)
	look(t, s, request("running", 1), replay.InFlight)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

// Many begin at once: exactly one executes, and all others see its answer.
func TestOneOfManyBegins(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		var stores []*Store
		for range 4 {
			stores = append(stores, openStore(t, url, opts{}))
		}
		const keys, callers = 30, 8
		counts := make([]int, keys)
		var mu sync.Mutex
		var wait sync.WaitGroup
		for c := range callers {
			wait.Go(func() {
				for k := range keys {
					s := stores[(c+k)%len(stores)]
					got, err := s.Begin(t.Context(), request(fmt.Sprint(k), 1))
					if err != nil {
						t.Error(err)
						return
					}
					switch got.State {
					case replay.Begun:
						mu.Lock()
						counts[k]++
						mu.Unlock()
						if err := s.Finish(t.Context(), got.Claim, []byte(fmt.Sprint(k))); err != nil {
							t.Error(err)
						}
					case replay.Answered:
						if string(got.Answer) != fmt.Sprint(k) {
							t.Errorf("key %d has the answer %s", k, got.Answer)
						}
					case replay.InFlight:
					default:
						t.Errorf("state %v", got.State)
					}
				}
			})
		}
		wait.Wait()
		for k, n := range counts {
			if n != 1 {
				t.Errorf("key %d was executed %d times", k, n)
			}
		}
	})
}

// A process that dies holds its keys until its lease has run out; one that was only
// slow cannot store its answer over that of its successor.
func TestDeadProcessLosesItsClaims(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{Lease: time.Hour})
		dead := openStore(t, url, opts{Lease: time.Hour})
		claim := begin(t, dead, request("k", 1), replay.Begun).Claim
		mine := begin(t, s, request("mine", 1), replay.Begun).Claim

		dead.Stop()
		begin(t, s, request("k", 1), replay.InFlight)
		passLeases(t, s)
		begin(t, s, request("k", 2), replay.Differs) // the rule asks for the same body
		again := begin(t, s, request("k", 1), replay.Begun).Claim
		begin(t, s, request("k", 1), replay.InFlight)
		if err := dead.Finish(t.Context(), claim, []byte("slow")); !errors.Is(err, replay.ErrClaimTaken) {
			t.Errorf("the slow process: %v", err)
		}
		if err := dead.Abandon(t.Context(), claim); err != nil {
			t.Error(err)
		}
		finish(t, s, again, []byte("second"))
		if got := begin(t, s, request("k", 1), replay.Answered); string(got.Answer) != "second" {
			t.Errorf("the answer is %s", got.Answer)
		}
		finish(t, s, mine, nil)
	})
}

func TestCloseFreesClaimsAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		first := openStore(t, url, opts{})
		begin(t, first, request("k", 1), replay.Begun)
		storetest.Close(t, first.DB)
		begin(t, openStore(t, url, opts{}), request("k", 1), replay.Begun)
	})
}

// An error leaves no claim behind, even where the database carried out what the caller
// heard of as a failure.
func TestClaimsInDoubtAreGivenBack(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{Lease: 150 * time.Millisecond})
		claim := begin(t, s, request("k", 1), replay.Begun).Claim
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Abandon(ended, claim); err == nil {
			t.Fatal("an ended context is no error")
		}
		deadline := time.Now().Add(10 * time.Second)
		for {
			got, err := s.Begin(t.Context(), request("k", 1))
			if err != nil {
				t.Fatal(err)
			}
			if got.State == replay.Begun {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("still %v", got.State)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

func TestDoubtsAreBounded(t *testing.T) {
	var d unsureClaims
	for range maxDoubts + 5 {
		d.add(replay.Claim{})
	}
	if n := len(d.take()); n != maxDoubts {
		t.Errorf("%d are kept", n)
	}
}
