package tenant

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// knownKeys bounds the keys in memory, at some 400 bytes each. Only keys that
	// were issued get there, since others fail by their tag.
	knownKeys = 8192

	// freshFor is how long the store is not asked again about a key that was not changed: see follow.
	freshFor = 2 * time.Second
	// waitAfter is the age from which callers wait for the store's answer instead
	// of leaving the question to one of them.
	waitAfter = 3 * freshFor
	// goodWithout is how long the last answer counts while the store fails.
	goodWithout = 5 * time.Minute
	// retryAfter is the pause between questions that failed.
	retryAfter = time.Second
	// askTimeout bounds one question.
	askTimeout = 2 * time.Second
)

// keyring verifies keys of the store, and remembers what the store said.
type keyring struct {
	pepper Pepper
	store  Keys
	failed func(error)

	changes atomic.Int64 // of the store's keys, as far as they are seen: what was known before is asked for again

	mu    sync.Mutex // guards adding to known
	known recent[string, *knownKey]

	useMu sync.Mutex
	used  map[string]time.Time // since the last flush
}

// knownKey is what is known of one id.
type knownKey struct {
	asking chan struct{} // capacity 1: holds a value while somebody asks the store

	mu       sync.Mutex
	key      Key
	exists   bool
	at       time.Time // of the last answer; zero: never
	changes  int64     // of the store's keys that were seen before it
	failedAt time.Time // of the last question without answer
}

func newKeyring(pepper Pepper, store Keys, failed func(error)) *keyring {
	return &keyring{
		pepper: pepper, store: store, failed: failed, known: newRecent[string, *knownKey](knownKeys), used: make(map[string]time.Time),
	}
}

// verify computes one keyed hash, and asks the store at most once in freshFor for
// each key that was issued.
func (r *keyring) verify(text string, now time.Time) (Key, error) {
	id, hash, err := r.pepper.Open(text)
	if err != nil {
		return Key{}, deniedUnknown
	}
	k := r.entry(id)
	key, exists, err := k.current(r, id, now)
	switch {
	case err != nil:
		return Key{}, err
	case !exists || !key.Hash.Equal(hash):
		return Key{}, deniedUnknown
	case !key.Revoked.IsZero():
		return Key{}, deniedRevoked
	case !key.Live(now):
		return Key{}, deniedExpired
	}
	r.useMu.Lock()
	r.used[id] = now
	r.useMu.Unlock()
	return key, nil
}

func (r *keyring) entry(id string) *knownKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.known.Get(id)
	if !ok {
		k = &knownKey{asking: make(chan struct{}, 1)}
		r.known.Add(id, k)
	}
	return k
}

// forget makes the next request ask the store.
func (r *keyring) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known.Remove(id)
}

// current is the store's answer about the key, as fresh as it must be.
func (k *knownKey) current(r *keyring, id string, now time.Time) (Key, bool, error) {
	age, answered := k.age(r, now)
	if answered && age < freshFor {
		return k.answer()
	}
	if answered && age < waitAfter {
		select {
		case k.asking <- struct{}{}:
		default:
			return k.answer() // somebody asks
		}
	} else {
		k.asking <- struct{}{}
	}
	defer func() { <-k.asking }()
	if age, answered := k.age(r, now); answered && age < freshFor {
		return k.answer() // who held the lock asked
	}
	if !k.ask(r, id, now) && !k.usable(now) {
		return Key{}, false, ErrUnverifiable
	}
	return k.answer()
}

// age is that of the last answer; there is none where keys were changed since.
func (k *knownKey) age(r *keyring, now time.Time) (age time.Duration, answered bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return now.Sub(k.at), !k.at.IsZero() && k.changes == r.changes.Load()
}

func (k *knownKey) answer() (Key, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.key, k.exists, nil
}

func (k *knownKey) usable(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.at.IsZero() && now.Sub(k.at) < goodWithout
}

// ask is false when the store did not answer, or was not asked so soon after it
// did not.
func (k *knownKey) ask(r *keyring, id string, now time.Time) bool {
	k.mu.Lock()
	tooSoon := !k.failedAt.IsZero() && now.Sub(k.failedAt) < retryAfter
	k.mu.Unlock()
	if tooSoon {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	changes := r.changes.Load()
	key, err := r.store.Find(ctx, id)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil && !errors.Is(err, ErrNoKey) {
		k.failedAt = now
		r.failed(fmt.Errorf("look up key %s: %w", id, err))
		return false
	}
	k.key, k.exists, k.at, k.changes, k.failedAt = key, err == nil, now, changes, time.Time{}
	return true
}

// follow sees whether keys were changed, by whatever process. A store that does not answer is told of by requests.
func (r *keyring) follow(ctx context.Context) {
	if n, err := r.store.KeyChanges(ctx); err == nil {
		r.changes.Store(n)
	}
}

// flush writes when keys were used.
func (r *keyring) flush(ctx context.Context) {
	r.useMu.Lock()
	used := r.used
	r.used = make(map[string]time.Time)
	r.useMu.Unlock()
	if len(used) == 0 {
		return
	}
	if err := r.store.Touch(ctx, used); err != nil {
		r.failed(fmt.Errorf("note the last use of %d keys: %w", len(used), err))
	}
}
