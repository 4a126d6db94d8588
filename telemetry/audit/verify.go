package audit

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// ErrBroken is what Verify says of a log that was tampered with or damaged.
var ErrBroken = errors.New("the audit log is broken")

// Actions of entries about the log itself.
const (
	// ActionKeyed ends a chain without a key, which an earlier weir has left: the entry is the first that is keyed.
	ActionKeyed = "audit.keyed"
	// ActionAccept says that somebody has seen what was wrong with the entries before it. What is wrong there no
	// longer makes the log a broken one, as long as they stay as they were then: its details are an Acceptance.
	ActionAccept = "audit.accept"
)

// Acceptance is in the details of an ActionAccept.
type Acceptance struct {
	Found  string `json:"found"`  // what was wrong
	Reason string `json:"reason"` // as somebody explains it
	Before string `json:"before"` // Digest of all entries before, as they were
}

// Digest is one hash of entries from the beginning of a log, as they are.
func (k Key) Digest(entries iter.Seq2[Entry, error]) (Hash, error) {
	w := walk{key: k}
	for e, err := range entries {
		if err != nil {
			return Hash{}, err
		}
		w.step(&e)
	}
	return w.digest, nil
}

// Verify goes through a log from the entry that after names; zero is its beginning. It returns the last entry's
// name, to be noted elsewhere. noted are heads from earlier: the log must contain each. An error that is no
// ErrBroken came from reading.
//
// Entries of weirs without a key may stand at the beginning alone: once an entry is keyed, all that follow are.
func (k Key) Verify(after Head, entries iter.Seq2[Entry, error], noted ...Head) (Head, error) {
	expected := make(map[int64]Hash, len(noted))
	for _, h := range noted {
		if other, twice := expected[h.Sequence]; twice && other != h.Hash {
			return after, fmt.Errorf("%w: two heads that were noted differ at entry %d", ErrBroken, h.Sequence)
		}
		expected[h.Sequence] = h.Hash
	}
	delete(expected, 0)
	w := walk{key: k, last: after, whole: after, keyed: after != Head{}}
	for e, err := range entries {
		if err != nil {
			return w.whole, err
		}
		w.step(&e)
		if hash, ok := expected[e.Sequence]; ok && hash != e.Hash {
			w.found("entry %d is not the one whose hash was noted", e.Sequence)
		}
		delete(expected, e.Sequence)
		if w.broken == nil {
			w.whole = w.last
		}
	}
	for sequence := range expected {
		if sequence > w.last.Sequence {
			w.found("it ends with entry %d, but entry %d was noted", w.last.Sequence, sequence)
		}
	}
	if w.broken == nil && !k.IsZero() && !w.keyed && w.last.Sequence > 0 {
		w.found("none of its entries is keyed")
	}
	return w.whole, w.broken
}

// walk is a way through a chain.
type walk struct {
	key    Key
	keyed  bool // an entry with the key was seen
	last   Head
	whole  Head  // the last one before what is wrong
	digest Hash  // of what was passed
	broken error // the first thing that is wrong since somebody accepted what was
}

func (w *walk) found(format string, args ...any) {
	if w.broken == nil {
		w.broken = fmt.Errorf("%w: "+format, append([]any{ErrBroken}, args...)...)
	}
}

// step looks at the next entry.
func (w *walk) step(e *Entry) {
	made := w.key.Made(e)
	switch {
	case e.Sequence != w.last.Sequence+1:
		w.found("entry %d follows entry %d", e.Sequence, w.last.Sequence)
	case e.Previous != w.last.Hash:
		w.found("entry %d does not hold the hash of the one before it", e.Sequence)
	case made:
	case !(Key{}).Made(e):
		w.found("entry %d was altered, or is keyed with another secret", e.Sequence)
	case w.keyed:
		w.found("entry %d is not keyed, and entries before it are", e.Sequence)
	}
	w.last = e.Head()
	if made && !w.key.IsZero() {
		w.keyed = true
		if w.broken != nil && e.Action == ActionAccept && w.accepted(e.Details) { // such an entry takes the key
			w.broken = nil
		}
	}
	sum := w.key.sum(e)
	w.digest = sha256.Sum256(slices.Concat(w.digest[:], sum[:], e.Hash[:]))
}

// accepted reports whether the details of an acceptance are about what was passed.
func (w *walk) accepted(details string) bool {
	var a Acceptance
	return json.Unmarshal([]byte(details), &a) == nil && a.Before == w.digest.String()
}
