package state

import (
	"context"
	"errors"
	"time"

	"weir/internal/store"
	"weir/internal/store/answers"
	"weir/internal/store/auditlog"
	"weir/internal/store/batches"
	"weir/internal/store/deployments"
	"weir/internal/store/ledger"
	"weir/internal/store/tenants"
)

// Options of Open. The zero value takes the defaults of package store.
type Options struct {
	Lease         time.Duration // of store.Options
	AnswerBytes   int64         // of a tenant's idempotency keys; 0: no bound
	ResponseBytes int64         // of a tenant's responses; 0: no bound
	Failed        func(error)   // hears of failures in the background
}

// Store is the open store: the database, and what its tables hold by subject.
type Store struct {
	*store.DB
	Audit       *auditlog.Log
	Keys        *tenants.Keys
	Tenants     *tenants.Records
	Usage       *ledger.Ledger
	Deployments *deployments.Records
	Rollouts    *deployments.Rollouts
	Claims      *answers.Claims
	Responses   *answers.Responses
	Transcripts *answers.Transcripts
	Batches     *batches.Batches
	Cipher      *batches.Cipher
}

// open opens the database, and has each subject's tables.
func (p *place) open(ctx context.Context, options Options) (*Store, error) {
	db, err := store.Open(ctx, p.url, p.options)
	if err != nil {
		return nil, err
	}
	log, err := auditlog.Open(ctx, db, p.audit)
	if err != nil {
		return nil, errors.Join(err, db.Close(ctx))
	}
	s := &Store{
		DB: db, Audit: log,
		Keys: tenants.NewKeys(db), Tenants: tenants.NewRecords(db), Usage: ledger.New(db, ledger.Options{}),
		Claims: answers.NewClaims(db, options.AnswerBytes), Responses: answers.NewResponses(db, options.ResponseBytes), Transcripts: answers.NewTranscripts(db),
		Deployments: deployments.NewRecords(db, log), Batches: batches.New(db), Cipher: batches.NewCipher(db),
	}
	s.Rollouts = deployments.NewRollouts(s.Deployments)
	return s, nil
}
