package answers

import (
	"testing"
	"time"

	"weir/internal/store"
	"weir/internal/store/storetest"
)

type opts struct {
	Lease                     time.Duration
	AnswerBytes, HistoryBytes int64
}

// transcriptsOf has a name that no method has.
type transcriptsOf = Transcripts

// Store is a store with what tenants were answered.
type Store struct {
	*store.DB
	*Claims
	*Responses
	*transcriptsOf
}

func openStore(t *testing.T, url string, o opts) *Store {
	t.Helper()
	db := storetest.Open(t, url, store.Options{Lease: o.Lease})
	return &Store{db, NewClaims(db, o.AnswerBytes), NewResponses(db, o.HistoryBytes), NewTranscripts(db)}
}
