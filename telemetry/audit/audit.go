// Package audit records changes that people and rules make to a server, as a chain in
// which each entry holds the hash of the one before it: an entry that was altered,
// removed or put in shows. Who can rewrite the whole store can also rewrite the chain
// from some entry on; only a Head that was noted elsewhere, such as in a log, shows
// that, or that entries are missing at the end.
package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Change is what somebody did. Its texts are UTF-8 without NUL.
type Change struct {
	Time    time.Time // kept in whole microseconds
	Actor   string    // who: the id of a key, the subject of a token, "rule:NAME", "command line"
	Action  string    // what: "key.create", "config.reload"
	Object  string    // on what: the id of a key, the name of a tenant
	Details string    // more, as JSON; never a secret
}

// The longest texts of a change, in bytes.
const (
	MaxTextBytes    = 1 << 10 // Actor, Action, Object
	MaxDetailsBytes = 64 << 10
)

// Check says what is wrong with a change, if anything is.
func (c *Change) Check() error {
	for _, field := range []struct {
		name, text string
		most       int
	}{
		{"actor", c.Actor, MaxTextBytes}, {"action", c.Action, MaxTextBytes}, {"object", c.Object, MaxTextBytes},
		{"details", c.Details, MaxDetailsBytes},
	} {
		switch {
		case len(field.text) > field.most:
			return fmt.Errorf("audit: the %s has %d bytes; at most %d are kept", field.name, len(field.text), field.most)
		case !utf8.ValidString(field.text) || strings.ContainsRune(field.text, 0):
			return fmt.Errorf("audit: the %s %.60q is no UTF-8 text without NUL", field.name, field.text)
		}
	}
	if c.Actor == "" || c.Action == "" {
		return errors.New("audit: a change needs an actor and an action")
	}
	return nil
}

// Hash is the SHA-256 of an entry.
type Hash [sha256.Size]byte

// String is the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Head names an entry: all entries up to it are what they were when it was noted.
type Head struct {
	Sequence int64 // 1 is the first; 0 stands for an empty log
	Hash     Hash
}

// String reads "17:4f0c…", for ParseHead.
func (h Head) String() string { return fmt.Sprintf("%d:%s", h.Sequence, h.Hash) }

// ParseHead reads what String writes.
func ParseHead(text string) (Head, error) {
	number, digest, _ := strings.Cut(text, ":")
	var h Head
	raw, err := hex.DecodeString(digest)
	if err != nil || len(raw) != len(h.Hash) {
		return Head{}, fmt.Errorf("%.100q is no head of the audit log; one reads SEQUENCE:HASH, as verify prints it", text)
	}
	copy(h.Hash[:], raw)
	if h.Sequence, err = strconv.ParseInt(number, 10, 64); err != nil || h.Sequence < 0 {
		return Head{}, fmt.Errorf("%.100q is no number of an entry of the audit log", number)
	}
	return h, nil
}

// Entry is a change in its place of the chain.
type Entry struct {
	Change
	Sequence int64
	Previous Hash // of the entry before; zero for the first
	Hash     Hash
}

// Head is the entry's name.
func (e *Entry) Head() Head { return Head{e.Sequence, e.Hash} }

// Next puts a change after the entry that last names.
func Next(last Head, c Change) Entry {
	c.Time = c.Time.UTC().Truncate(time.Microsecond)
	e := Entry{Change: c, Sequence: last.Sequence + 1, Previous: last.Hash}
	e.Hash = e.sum()
	return e
}

// sum hashes all fields, each text after its length, so that no two entries have the
// same bytes.
func (e *Entry) sum() Hash {
	b := append([]byte("weir audit 1\x00"), e.Previous[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Sequence))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Time.UnixMicro()))
	for _, text := range []string{e.Actor, e.Action, e.Object, e.Details} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
		b = append(b, text...)
	}
	return sha256.Sum256(b)
}

// Log is an audit log; internal/store has it.
type Log interface {
	// Append adds a change at the end and returns its entry once it is durable.
	Append(ctx context.Context, c Change) (Entry, error)
	// Entries are those after a sequence number, 0 for all, in their order. An
	// error is the last thing they yield.
	Entries(ctx context.Context, after int64) iter.Seq2[Entry, error]
}

// ErrBroken is what Verify says of a log that was tampered with or damaged.
var ErrBroken = errors.New("the audit log is broken")

// Verify goes through a whole log. It returns the last entry's name, to be noted
// elsewhere. noted are heads from earlier: the log must contain each. An error that
// is no ErrBroken came from reading.
func Verify(entries iter.Seq2[Entry, error], noted ...Head) (Head, error) {
	expected := make(map[int64]Hash, len(noted))
	for _, h := range noted {
		if other, twice := expected[h.Sequence]; twice && other != h.Hash {
			return Head{}, fmt.Errorf("%w: two heads that were noted differ at entry %d", ErrBroken, h.Sequence)
		}
		expected[h.Sequence] = h.Hash
	}
	delete(expected, 0)
	var last Head
	for e, err := range entries {
		if err != nil {
			return last, err
		}
		if err := follows(last, &e); err != nil {
			return last, err
		}
		if hash, ok := expected[e.Sequence]; ok && hash != e.Hash {
			return last, fmt.Errorf("%w: entry %d is not the one whose hash was noted", ErrBroken, e.Sequence)
		}
		delete(expected, e.Sequence)
		last = e.Head()
	}
	for sequence := range expected {
		return last, fmt.Errorf("%w: it ends with entry %d, but entry %d was noted", ErrBroken, last.Sequence, sequence)
	}
	return last, nil
}

func follows(last Head, e *Entry) error {
	switch {
	case e.Sequence != last.Sequence+1:
		return fmt.Errorf("%w: entry %d follows entry %d", ErrBroken, e.Sequence, last.Sequence)
	case e.Previous != last.Hash:
		return fmt.Errorf("%w: entry %d does not hold the hash of the one before it", ErrBroken, e.Sequence)
	case e.sum() != e.Hash:
		return fmt.Errorf("%w: entry %d was altered", ErrBroken, e.Sequence)
	}
	return nil
}
