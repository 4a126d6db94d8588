// Package audit records changes that people and rules make to a server, as a chain in
// which each entry holds the hash of the one before it: an entry that was altered,
// removed or put in shows. The hashes are keyed (Key): who can rewrite the whole store
// cannot compute the chain again. What is missing at its end shows against a Head that was
// noted elsewhere: in a file apart from the store (Heads), or in a log.
package audit

import (
	"context"
	"crypto/sha256"
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

// Hash is the keyed hash of an entry.
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

// Log is an audit log; internal/store has it.
type Log interface {
	// Append adds a change at the end and returns its entry once it is durable.
	Append(ctx context.Context, c Change) (Entry, error)
	// Entries are those after a sequence number, 0 for all, in their order. An
	// error is the last thing they yield.
	Entries(ctx context.Context, after int64) iter.Seq2[Entry, error]
}
