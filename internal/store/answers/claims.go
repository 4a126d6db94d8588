// Package answers keeps in the store what tenants were answered: the answers of their idempotency keys, their responses that can be gone on
// from, and the prompts and answers of those that agreed to it. All of it is encrypted with the tenant's key where the store has keys.
package answers

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"weir/api/replay"
	"weir/internal/envelope"
	"weir/internal/store"
)

var _ replay.Claims = (*Claims)(nil)

// Claims are idempotency keys: who executes a request, and the answers of those that were executed.
type Claims struct {
	db     *store.DB
	bytes  int64 // of one tenant's answers; the oldest go first. The process lets them grow by a sixteenth before it looks. 0: no bound
	doubts unsureClaims
	grown  storedBytes
}

// NewClaims has the idempotency keys of a store, each tenant's answers within so many bytes; 0: no bound.
func NewClaims(db *store.DB, bytes int64) *Claims {
	s := &Claims{db: db, bytes: bytes}
	db.OnRenew(s.settleDoubts)
	db.OnSweep(s.sweep)
	return s
}

// sweep deletes idempotency keys whose time is over and that no request executes.
func (s *Claims) sweep(ctx context.Context) error {
	_, err := s.db.DeleteAll(ctx, s.db.SQL(`DELETE FROM weir_replay WHERE (tenant, key) IN
		(SELECT tenant, key FROM weir_replay WHERE expires <= NOW AND (answer IS NOT NULL OR
			NOT EXISTS (SELECT 1 FROM weir_owners o WHERE o.id = weir_replay.owner AND o.expires > NOW))
		ORDER BY expires LIMIT $1)`))
	return err
}

// settleDoubts takes back what is in doubt.
func (s *Claims) settleDoubts(ctx context.Context) error {
	claims := s.doubts.take()
	for i, c := range claims {
		if err := s.abandon(ctx, c); err != nil {
			s.doubts.add(claims[i:]...)
			return err
		}
	}
	return nil
}

// Look says where a key stands. It does not write, so that repetitions, however many,
// and requests that are refused leave the writer to others.
func (s *Claims) Look(ctx context.Context, r replay.Request) (replay.Outcome, error) {
	if err := store.CheckText("tenant", r.Tenant); err != nil {
		return replay.Outcome{}, err
	}
	return s.lookUp(ctx, sha256.Sum256([]byte(r.Key)), &r)
}

// Begin asks for the execution of a request.
func (s *Claims) Begin(ctx context.Context, r replay.Request) (replay.Outcome, error) {
	if err := store.CheckText("tenant", r.Tenant); err != nil {
		return replay.Outcome{}, err
	}
	claim := replay.Claim{Tenant: r.Tenant, Key: sha256.Sum256([]byte(r.Key)), ID: rand.Text()}
	for {
		won, err := s.take(ctx, claim, &r)
		if err != nil {
			s.doubts.add(claim) // its commit may have come through
			return replay.Outcome{}, keysFailed(err)
		}
		if won {
			return replay.Outcome{State: replay.Begun, Claim: claim}, nil
		}
		// Another one was faster: its state is what counts, unless it is gone by now.
		if found, err := s.lookUp(ctx, claim.Key, &r); err != nil || found.State != replay.Free {
			return found, err
		}
	}
}

func keysFailed(err error) error { return fmt.Errorf("the store of idempotency keys: %w", err) }

// takeable is the condition under which a key may be executed again, for the
// fingerprint $3: its answer's time is over, or its execution was cut off by the death of
// its process, for the same body while its time lasts. An execution that outlives the
// key's time still is the only one.
const takeable = `(weir_replay.expires <= NOW AND weir_replay.answer IS NOT NULL) OR (
	weir_replay.answer IS NULL AND (weir_replay.expires <= NOW OR weir_replay.fingerprint = $3) AND
	NOT EXISTS (SELECT 1 FROM weir_owners o WHERE o.id = weir_replay.owner AND COALESCE(o.claims, o.expires) > NOW))`

// lookUp says where the key with this hash stands.
func (s *Claims) lookUp(ctx context.Context, key [sha256.Size]byte, r *replay.Request) (replay.Outcome, error) {
	var fingerprint, answer []byte
	var dataKey string
	var inFlight, free bool // an empty answer may be read as nil
	err := s.db.Read.QueryRowContext(ctx, s.db.SQL(`SELECT fingerprint, answer, data_key, answer IS NULL, `+takeable+`
		FROM weir_replay WHERE tenant = $1 AND key = $2`),
		r.Tenant, key[:], r.Fingerprint[:]).Scan(&fingerprint, &answer, &dataKey, &inFlight, &free)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return replay.Outcome{State: replay.Free}, nil
	case err != nil:
		return replay.Outcome{}, keysFailed(err)
	case free:
		return replay.Outcome{State: replay.Free}, nil
	case string(fingerprint) != string(r.Fingerprint[:]):
		return replay.Outcome{State: replay.Differs}, nil
	case inFlight:
		return replay.Outcome{State: replay.InFlight}, nil
	}
	return s.openAnswer(ctx, r.Tenant, key, dataKey, answer)
}

// openAnswer decrypts an answer. One whose key was destroyed was forgotten, and its idempotency key with it.
func (s *Claims) openAnswer(ctx context.Context, tenant string, key [sha256.Size]byte, dataKey string, answer []byte) (replay.Outcome, error) {
	k, err := s.db.KeyFor(ctx, tenant, dataKey)
	if errors.Is(err, envelope.ErrNoKey) {
		_, err = s.db.Write.ExecContext(ctx, `DELETE FROM weir_replay WHERE tenant = $1 AND key = $2 AND data_key = $3`, tenant, key[:], dataKey)
		if err == nil {
			return replay.Outcome{State: replay.Free}, nil
		}
	}
	if err == nil {
		answer, err = store.FieldReplayAnswer.Open(k, tenant, hex.EncodeToString(key[:]), answer)
	}
	if err != nil {
		return replay.Outcome{}, keysFailed(err)
	}
	return replay.Outcome{State: replay.Answered, Answer: answer}, nil
}

// take takes a key that is new or takeable. One statement decides, so of several at once
// one wins.
func (s *Claims) take(ctx context.Context, claim replay.Claim, r *replay.Request) (won bool, err error) {
	result, err := s.db.Write.ExecContext(ctx, s.db.SQL(`INSERT INTO weir_replay
		(tenant, key, fingerprint, owner, claim, expires, answer, data_key) VALUES ($1, $2, $3, $4, $5, NOW + $6, NULL, '')
		ON CONFLICT (tenant, key) DO UPDATE SET fingerprint = excluded.fingerprint, owner = excluded.owner,
			claim = excluded.claim, expires = excluded.expires, answer = NULL, data_key = ''
		WHERE `+takeable),
		claim.Tenant, claim.Key[:], r.Fingerprint[:], s.db.Owner(), claim.ID, r.TTL.Microseconds())
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows == 1, err
}

// Finish stores the answer of a claim.
func (s *Claims) Finish(ctx context.Context, c replay.Claim, answer []byte) error {
	if len(answer) > replay.MaxAnswerBytes {
		return fmt.Errorf("an answer of %d bytes is not kept; at most %d are", len(answer), replay.MaxAnswerBytes)
	}
	key, err := s.db.KeyOf(ctx, c.Tenant)
	if err != nil {
		return keysFailed(err)
	}
	answer = store.FieldReplayAnswer.Seal(key, c.Tenant, hex.EncodeToString(c.Key[:]), answer) // never null, which stands for "in flight"
	result, err := s.db.Write.ExecContext(ctx, `UPDATE weir_replay SET answer = $4, data_key = $5 WHERE tenant = $1 AND key = $2 AND claim = $3`,
		c.Tenant, c.Key[:], c.ID, answer, store.KeyID(key))
	if err := store.OneRow(result, err, replay.ErrClaimLost); err != nil {
		return s.taken(ctx, c, err)
	}
	if s.grown.add(c.Tenant, int64(len(answer))+answerRowBytes, s.bytes/16) {
		if err := s.trim(ctx, c.Tenant); err != nil {
			s.db.Failed(err) // the answer is stored; the next one that is due trims again
		}
	}
	return nil
}

// taken tells a claim that was lost to another execution from one whose key is gone.
func (s *Claims) taken(ctx context.Context, c replay.Claim, err error) error {
	if !errors.Is(err, replay.ErrClaimLost) {
		return err
	}
	var others int
	if failed := s.db.Write.QueryRowContext(ctx, `SELECT count(*) FROM weir_replay WHERE tenant = $1 AND key = $2`, c.Tenant, c.Key[:]).Scan(&others); failed != nil {
		return failed
	}
	if others > 0 {
		return replay.ErrClaimTaken
	}
	return err
}

// answerRowBytes is what a stored answer costs beside itself.
const answerRowBytes = 256

// trim deletes the oldest answers of a tenant that has more than it may.
func (s *Claims) trim(ctx context.Context, tenant string) error {
	if s.bytes <= 0 {
		return nil
	}
	_, err := s.db.Write.ExecContext(ctx, `DELETE FROM weir_replay WHERE tenant = $1 AND answer IS NOT NULL AND key IN (
		SELECT key FROM (SELECT key, sum(length(answer) + CAST($2 AS bigint)) OVER (ORDER BY expires DESC, key) AS bytes
			FROM weir_replay WHERE tenant = $1 AND answer IS NOT NULL) AS sums WHERE bytes > $3)`,
		tenant, answerRowBytes, s.bytes)
	return err
}

// storedBytes is how much tenants have stored since their answers were trimmed last: adding
// up what a tenant has reads all of its rows, so it is not done for each of them.
type storedBytes struct {
	mu    sync.Mutex
	bytes map[string]int64
}

// add reports whether a tenant has stored more than so many bytes.
func (g *storedBytes) add(tenant string, bytes, most int64) (due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bytes == nil {
		g.bytes = map[string]int64{}
	}
	if g.bytes[tenant] += bytes; g.bytes[tenant] <= most {
		return false
	}
	delete(g.bytes, tenant)
	return true
}

// Abandon gives a claim up. Where the database does not answer, the store goes on
// trying after the error.
func (s *Claims) Abandon(ctx context.Context, c replay.Claim) error {
	err := s.abandon(ctx, c)
	if err != nil {
		s.doubts.add(c)
	}
	return err
}

func (s *Claims) abandon(ctx context.Context, c replay.Claim) error {
	_, err := s.db.Write.ExecContext(ctx, `DELETE FROM weir_replay WHERE tenant = $1 AND key = $2 AND claim = $3 AND answer IS NULL`,
		c.Tenant, c.Key[:], c.ID)
	return err
}

// ForgetAnswers deletes the answers that are stored for a tenant's idempotency keys, with
// the keys: a repetition executes again. Keys in flight stay.
func (s *Claims) ForgetAnswers(ctx context.Context, tenant string) (int64, error) {
	return s.db.Wiped(ctx, `DELETE FROM weir_replay WHERE (tenant, key) IN
		(SELECT tenant, key FROM weir_replay WHERE tenant = $1 AND answer IS NOT NULL LIMIT $2)`, tenant)
}

// unsureClaims are claims that no request executes but that the database may have: they are
// abandoned as soon as it answers. Past maxDoubts a key waits for the end of its time.
type unsureClaims struct {
	mu     sync.Mutex
	claims []replay.Claim
}

const maxDoubts = 65536

func (d *unsureClaims) add(claims ...replay.Claim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.claims = append(d.claims, claims[:min(len(claims), maxDoubts-len(d.claims))]...)
}

func (d *unsureClaims) take() []replay.Claim {
	d.mu.Lock()
	defer d.mu.Unlock()
	claims := d.claims
	d.claims = nil
	return claims
}
