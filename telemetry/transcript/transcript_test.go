package transcript

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// memory is a Log that can be held up and made to fail.
type memory struct {
	mu      sync.Mutex
	records []Record
	expired []time.Time
	fails   error
	hold    chan struct{} // where set, keeping waits for it
	entered chan struct{} // where set, hears of every call before it waits
}

func (m *memory) KeepTranscripts(_ context.Context, records []Record) error {
	if m.entered != nil {
		m.entered <- struct{}{}
	}
	if m.hold != nil {
		<-m.hold
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails == nil {
		m.records = append(m.records, records...)
	}
	return m.fails
}

func (m *memory) Transcripts(context.Context, string) iter.Seq2[Record, error] { return nil }

func (m *memory) ForgetTranscripts(_ context.Context, tenant string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.records)
	m.records = slices.DeleteFunc(m.records, func(r Record) bool { return r.Tenant == tenant })
	return int64(before - len(m.records)), nil
}

func (m *memory) ExpireTranscripts(_ context.Context, before time.Time) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expired = append(m.expired, before)
	return 0, nil
}

func source(tenant, prompt string) Source {
	return Source{Tenant: tenant, Bytes: len(prompt), Record: func() Record {
		return Record{Tenant: tenant, Prompts: []string{prompt}, Answers: []string{"write to ann@example.com"}}
	}}
}

func TestRecorderKeepsScrubbedTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		r := NewRecorder(Config{Log: log, Retention: time.Hour})
		for i := range 100 {
			r.Add(source("acme", "password=secret"+strconv.Itoa(i)+"\x00\xff"))
		}
		synctest.Wait()
		if len(log.records) != 100 || log.records[7].Prompts[0] != "password=[key]" || log.records[7].Answers[0] != "write to [email]" {
			t.Errorf("%d records, %+v", len(log.records), log.records)
		}
		if st := r.Stats(); st != (Stats{Kept: 100}) {
			t.Errorf("%+v", st)
		}
		r.Add(source("acme", "the last"))
		if err := r.Close(t.Context()); err != nil || log.records[100].Prompts[0] != "the last" {
			t.Errorf("after closing: %v, %d records", err, len(log.records))
		}
	})
}

// A log that hangs holds up no request, and costs no more memory than its bounds.
func TestRecorderNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{hold: make(chan struct{})}
		r := NewRecorder(Config{Log: log, Retention: time.Hour})
		r.Add(source("acme", "first"))
		synctest.Wait() // it is being written
		for range 2 * maxQueued {
			r.Add(source("acme", "x"))
		}
		if st := r.Stats(); st.Queued != maxQueued || st.Dropped != maxQueued {
			t.Errorf("%+v", st)
		}
		close(log.hold)
		synctest.Wait()
		big := source("acme", "y")
		big.Bytes = maxQueuedBytes + 1
		r.Add(big)
		if st := r.Stats(); st.Kept != maxQueued+1 || st.Dropped != maxQueued+1 || r.bytes != 0 {
			t.Errorf("%+v, %d bytes", st, r.bytes)
		}
		_ = r.Close(t.Context())
	})
}

func TestRecorderCountsWhatTheLogRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{fails: errors.New("disk full")}
		var failures []error
		r := NewRecorder(Config{Log: log, Retention: time.Hour, Failed: func(err error) { failures = append(failures, err) }})
		r.Add(source("acme", "x"))
		synctest.Wait()
		if st := r.Stats(); st.Dropped != 1 || len(failures) != 1 {
			t.Errorf("%+v, %v", st, failures)
		}
		_ = r.Close(t.Context())
	})
}

// Forget finds what is in the log, what is queued, and what is on its way.
func TestRecorderForgetsWhatIsOnItsWay(t *testing.T) {
	log := &memory{hold: make(chan struct{}), entered: make(chan struct{}, 3)}
	r := NewRecorder(Config{Log: log, Retention: time.Hour})
	r.Add(source("acme", "on its way"))
	<-log.entered
	r.Add(source("acme", "queued"))
	r.Add(source("other", "stays"))
	forgotten := make(chan int64)
	go func() {
		n, _ := r.Forget(t.Context(), "acme")
		forgotten <- n
	}()
	close(log.hold)
	n := <-forgotten
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n < 1 || len(log.records) != 1 || log.records[0].Tenant != "other" {
		t.Errorf("%d forgotten, left: %+v", n, log.records)
	}
}

func TestRecorderLetsRecordsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		start := time.Now()
		r := NewRecorder(Config{Log: log, Retention: 24 * time.Hour})
		time.Sleep(expireEvery + time.Second)
		synctest.Wait()
		if len(log.expired) != 2 || !log.expired[1].Equal(start.Add(expireEvery-24*time.Hour)) {
			t.Errorf("%v", log.expired)
		}
		_ = r.Close(t.Context())
	})
}

func TestLongTextsAreCutWhereNoSecretIsHalved(t *testing.T) {
	key := "sk-abcdefghijklmnopqrstuvwxyz0123456789"
	for _, before := range []int{MaxTextBytes - 10, 2*MaxTextBytes - 10, MaxTextBytes - len(key)} {
		got := clean(strings.Repeat("é ", before/3) + strings.Repeat(" ", before%3) + key + strings.Repeat(" more", 100))
		if len(got) > MaxTextBytes+len(cutMark) || !utf8.ValidString(got) || strings.Contains(got, "sk-a") {
			t.Errorf("%d bytes before: %d bytes, ends in %q", before, len(got), got[len(got)-30:])
		}
		if !strings.HasSuffix(got, cutMark) {
			t.Errorf("ends in %q", got[len(got)-30:])
		}
	}
}
