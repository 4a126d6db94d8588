package work

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"
)

// Account counts bytes that are kept, within its own limit and that of every account above it: a grammar's within its tenant's, say. A nil
// Account counts nothing. All methods may be called at the same time.
type Account struct {
	limit int64
	above *Account
	bytes atomic.Int64

	mu     sync.Mutex
	owners map[*Account]func() (gone bool) // of a topmost account: the accounts below it that Of made
}

// NewAccount is an account with a limit in bytes, 0 for none, below another one, which may be nil.
func NewAccount(limit int64, above *Account) *Account { return &Account{limit: limit, above: above} }

// Of is an account, below another one and with a limit as NewAccount has it, of what an owner keeps. Its bytes are given back once the owner is unreachable: when
// the garbage collector finds it, at the next Reclaim at the latest.
func Of[T any](owner *T, limit int64, above *Account) *Account {
	a := NewAccount(limit, above)
	top, weakly := a.top(), weak.Make(owner)
	top.mu.Lock()
	defer top.mu.Unlock()
	if top.owners == nil {
		top.owners = map[*Account]func() bool{}
	}
	top.owners[a] = func() bool { return weakly.Value() == nil }
	runtime.AddCleanup(owner, (*Account).close, a)
	return a
}

// Reclaim runs the garbage collector and has what is not referred to any more given back when it returns: the collector's own cleanups come
// by some time later.
func (a *Account) Reclaim() {
	if a == nil {
		return
	}
	runtime.GC()
	for _, b := range a.top().ownerless() {
		b.close()
	}
}

// ownerless are the accounts below this one whose owners are gone.
func (a *Account) ownerless() (all []*Account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for b, gone := range a.owners {
		if gone() {
			all = append(all, b)
		}
	}
	return all
}

// close gives back all that the account holds. It may be called again: a second caller waits until all is given back.
func (a *Account) close() {
	top := a.top()
	top.mu.Lock()
	defer top.mu.Unlock()
	a.Keep(-a.Bytes())
	delete(top.owners, a)
}

func (a *Account) top() *Account {
	for a.above != nil {
		a = a.above
	}
	return a
}

// Keep counts bytes; a negative number gives them back. Room says whether there was room for them: who makes things asks before.
func (a *Account) Keep(bytes int64) {
	for ; a != nil; a = a.above {
		a.bytes.Add(bytes)
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
