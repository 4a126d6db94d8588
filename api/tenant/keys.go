package tenant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/scheduler/quota"
)

// Scope is a set of what a caller may do.
type Scope uint8

// The scopes. None includes another.
const (
	ScopeInference Scope = 1 << iota // the API
	ScopeAdmin                       // the operator's endpoints
	ScopeMetrics                     // /metrics
)

var scopeNames = []struct {
	scope Scope
	name  string
}{{ScopeInference, "inference"}, {ScopeAdmin, "admin"}, {ScopeMetrics, "metrics"}}

// Has reports whether all of want are in s.
func (s Scope) Has(want Scope) bool { return s&want == want }

// String lists the scopes with commas, as ParseScope takes them.
func (s Scope) String() string {
	var names []string
	for _, n := range scopeNames {
		if s.Has(n.scope) {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ",")
}

// ParseScope reads a list such as "inference,metrics".
func ParseScope(text string) (Scope, error) {
	var s Scope
	for word := range strings.SplitSeq(text, ",") {
		scope := scopeNamed(strings.TrimSpace(word))
		if scope == 0 {
			return 0, fmt.Errorf("there is no scope %q; there are inference, admin and metrics", word)
		}
		s |= scope
	}
	return s, nil
}

// scopeNamed is 0 for words that name none.
func scopeNamed(word string) Scope {
	for _, n := range scopeNames {
		if n.name == word {
			return n.scope
		}
	}
	return 0
}

// Key is a key as the store keeps it: all but the secret. Times are UTC and whole
// milliseconds; the zero time stands for "never".
type Key struct {
	ID       string // IDChars characters
	Tenant   string
	Label    string // the keys of a tenant with one label take turns: two of them live at most
	Scope    Scope
	Hash     Hash
	Created  time.Time
	Expires  time.Time // the key ends then
	Revoked  time.Time // the key ended then
	LastUsed time.Time // some seconds late

	KeyTerms
	Account string // id of the first of the keys that took each other's place, whose limits go on; "": its own
}

// KeyTerms are what a key may beside what its tenant may.
type KeyTerms struct {
	Limits quota.Limits `json:"limits,omitzero"`  // of all models together
	Models []string     `json:"models,omitempty"` // names of models that may be used; empty: all of the tenant's
}

// Plain reports whether there is nothing of its own.
func (t *KeyTerms) Plain() bool { return t.Limits == quota.Limits{} && len(t.Models) == 0 }

// MayUse reports whether a model that has these names may be used with the key.
func (t *KeyTerms) MayUse(names ...string) bool { return mayUse(t.Models, names) }

// Validate reports what is wrong with the terms.
func (t *KeyTerms) Validate() error {
	var errs []error
	if len(t.Models) > maxModels || slices.Contains(t.Models, "") {
		errs = append(errs, fmt.Errorf("models has an empty name, or more than %d", maxModels))
	}
	if err := t.Limits.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("limits: %w", err))
	}
	return errors.Join(errs...)
}

// account is what the key's use is counted as.
func (k *Key) account() string { return cmp.Or(k.Account, k.ID) }

// Follow makes the key one that takes the place of old: it may the same, and its use goes on where that of old stands.
func (k *Key) Follow(old *Key) {
	k.Tenant, k.Label, k.Scope, k.KeyTerms, k.Account = old.Tenant, old.Label, old.Scope, old.KeyTerms, old.account()
}

// Holder is what counts for the key alone.
func (k *Key) Holder() quota.Holder {
	return quota.Holder{Tenant: k.Tenant, Key: k.ID, KeyAccount: k.account(), KeyLimits: &k.Limits}
}

// MaxLiveKeys is how many keys of one tenant and label may live at once: the one in
// use, and the one that takes its place.
const MaxLiveKeys = 2

// Live reports whether the key is good at a moment.
func (k *Key) Live(now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires))
}

// What a store of keys answers.
var (
	ErrNoKey      = errors.New("there is no such key")
	ErrKeyExists  = errors.New("a key with this id exists")
	ErrKeysAtMost = errors.New("as many keys of this tenant and label live as may") // MaxLiveKeys
)

// Keys is a store of keys; internal/store has it. Keys are never deleted, so that a
// list shows which there were. All methods may be called at the same time, also from
// several processes.
type Keys interface {
	// Create adds a key. ErrKeyExists: its id is taken. ErrKeysAtMost: MaxLiveKeys
	// keys of its tenant and label are live at k.Created.
	Create(ctx context.Context, k Key) error
	// Rotate adds next and lets the key id end at oldEnds, or at its own end where
	// that comes first: both or neither happen. ErrNoKey: there is no key id, or it
	// is not live at next.Created. Otherwise it fails as Create does.
	Rotate(ctx context.Context, id string, oldEnds time.Time, next Key) error
	// Change has f change a key, and returns it as it is then. It is not changed elsewhere meanwhile; what f may change are
	// its terms and its end. ErrNoKey: there is none. An error of f leaves it as it was.
	Change(ctx context.Context, id string, f func(*Key) error) (Key, error)
	// List is all keys of a tenant, or of all tenants for "", in the order of
	// tenant, label, creation and id.
	List(ctx context.Context, tenant string) ([]Key, error)
	// Find is the key of an id. ErrNoKey: there is none.
	Find(ctx context.Context, id string) (Key, error)
	// Revoke ends a key. One that was revoked keeps its first time. ErrNoKey: there
	// is none.
	Revoke(ctx context.Context, id string, at time.Time) error
	// KeyChanges is how many changes there were by Change, Rotate and Revoke, in all processes together.
	KeyChanges(ctx context.Context) (int64, error)
	// Touch sets when keys were last used, by id; a later time that is there stays.
	// Unknown ids are passed over.
	Touch(ctx context.Context, used map[string]time.Time) error
}
