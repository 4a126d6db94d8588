package answers

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"
	"weir/internal/store/storetest"

	"weir/api/replay"
	"weir/telemetry/transcript"
)

var _ transcript.Log = (*Store)(nil)

func transcripts(t *testing.T, s *Store, tenant string) (list []transcript.Record) {
	t.Helper()
	for r, err := range s.Transcripts(t.Context(), tenant) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

func TestTranscriptsAreKeptListedAndForgotten(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{})
		ctx, start := t.Context(), time.Date(2026, 11, 22, 12, 0, 0, 5000, time.UTC)
		var want []transcript.Record
		for i := range 2*transcriptPage + 1 {
			want = append(want, transcript.Record{
				Time: start.Add(time.Duration(i/3) * time.Second), Tenant: "acme", Request: strconv.Itoa(i), Endpoint: "/v1/completions", Model: "m",
				Status: 200, Prompts: []string{"p", "\"é\n"}, Answers: []string{strconv.Itoa(i)},
			})
		}
		other := transcript.Record{Time: start.Add(time.Hour), Tenant: "other", Request: "r", Prompts: []string{}, Answers: []string{}}
		if err := s.KeepTranscripts(ctx, append([]transcript.Record{other}, want...)); err != nil {
			t.Fatal(err)
		}
		got := transcripts(t, s, "acme")
		if len(got) != len(want) {
			t.Fatalf("%d of %d", len(got), len(want))
		}
		seen := map[string]bool{}
		for i, r := range got {
			seen[r.Request] = true
			n, _ := strconv.Atoi(r.Request)
			if !reflect.DeepEqual(r, want[n]) || i > 0 && r.Time.Before(got[i-1].Time) {
				t.Errorf("%d: %+v", i, r)
			}
		}
		if len(seen) != len(want) {
			t.Errorf("%d different ones", len(seen))
		}
		if n, err := s.ExpireTranscripts(ctx, start.Add(time.Second)); n != 3 || err != nil {
			t.Errorf("%d expired, %v", n, err)
		}
		if n, err := s.ForgetTranscripts(ctx, "acme"); n != int64(len(want))-3 || err != nil {
			t.Errorf("%d forgotten, %v", n, err)
		}
		if len(transcripts(t, s, "acme")) != 0 || !reflect.DeepEqual(transcripts(t, s, "other"), []transcript.Record{other}) {
			t.Errorf("left: %v, %v", transcripts(t, s, "acme"), transcripts(t, s, "other"))
		}
		if err := s.KeepTranscripts(ctx, []transcript.Record{{Tenant: "a\x00"}}); err == nil {
			t.Error("a NUL is taken")
		}
	})
}

func TestForgetAnswersLeavesOtherTenantsAndKeysInFlight(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{})
		ctx := t.Context()
		answered := func(tenant string, key string) replay.Request {
			r := request(key, 1)
			r.Tenant = tenant
			if err := s.Finish(ctx, begin(t, s, r, replay.Begun).Claim, []byte("answer")); err != nil {
				t.Fatal(err)
			}
			return r
		}
		mine, theirs := answered("acme", "a"), answered("other", "a")
		running := request("b", 1)
		running.Tenant = "acme"
		begin(t, s, running, replay.Begun)
		if n, err := s.ForgetAnswers(ctx, "acme"); n != 1 || err != nil {
			t.Errorf("%d forgotten, %v", n, err)
		}
		begin(t, s, theirs, replay.Answered)
		begin(t, s, running, replay.InFlight)
		begin(t, s, mine, replay.Begun)
	})
}

// What was forgotten is in none of SQLite's files.
func TestForgottenTextsAreWiped(t *testing.T) {
	folder := t.TempDir()
	s := openStore(t, "sqlite:"+filepath.Join(folder, "weir.db"), opts{})
	const canary = "a canary of more than forty letters, to be found"
	holds := func() (in []string) {
		paths, _ := filepath.Glob(filepath.Join(folder, "*"))
		for _, path := range paths {
			if b, err := os.ReadFile(path); err != nil {
				t.Fatal(err)
			} else if bytes.Contains(b, []byte(canary)) {
				in = append(in, filepath.Base(path))
			}
		}
		return in
	}
	var records []transcript.Record
	for range 50 {
		records = append(records, transcript.Record{Time: time.Now(), Tenant: "acme", Prompts: []string{canary}})
	}
	if err := s.KeepTranscripts(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, s.DB, `PRAGMA wal_checkpoint(PASSIVE)`) // in the file, and in the log
	if len(holds()) == 0 {
		t.Fatal("the canary is nowhere")
	}
	if _, err := s.ForgetTranscripts(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	if in := holds(); len(in) > 0 {
		t.Errorf("the canary is still in %v", in)
	}
}
