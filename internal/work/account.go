package work

import (
	"math"
	"sync/atomic"
)

// Account counts bytes that are kept, within its own limit and that of every account above it: a grammar's within its tenant's, say. A nil
// Account counts nothing. All methods may be called at the same time.
type Account struct {
	limit int64
	above *Account
	bytes atomic.Int64
}

// NewAccount is an account with a limit in bytes, 0 for none, below another one, which may be nil.
func NewAccount(limit int64, above *Account) *Account { return &Account{limit: limit, above: above} }

// Keep counts bytes; a negative number gives them back. Room says whether there was room for them: who makes things asks before.
func (a *Account) Keep(bytes int64) {
	for ; a != nil; a = a.above {
		a.bytes.Add(bytes)
	}
}

// Close gives back all that the account holds.
func (a *Account) Close() {
	if a != nil {
		a.Keep(-a.bytes.Load())
	}
}

// Bytes is what the account and those below it hold.
func (a *Account) Bytes() int64 {
	if a == nil {
		return 0
	}
	return a.bytes.Load()
}

// Room is how many bytes may be added, below 1 where there is none.
func (a *Account) Room() int64 {
	room := int64(math.MaxInt64)
	for ; a != nil; a = a.above {
		if a.limit > 0 {
			room = min(room, a.limit-a.bytes.Load())
		}
	}
	return room
}
