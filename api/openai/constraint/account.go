package constraint

import (
	"sync"
	"time"

	"weir/internal/work"
)

// allowance is what the grammars of a tenant may take, those of running answers included.
type allowance struct {
	work *work.Account

	mu   sync.Mutex
	left int64 // bytes after the last Reclaim
}

// account is that of a tenant's grammars, with the room that can be had. Where less than
// half is free, the tenant's cached grammars give way, and what no request uses any more is
// reclaimed: whenever another eighth was added, and else once a second.
func (g *Compiler) account(tenant string) *work.Account {
	a := g.accountOf(tenant)
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.work.Bytes()
	a.left = min(a.left, taken)
	if taken <= g.bytes/2 {
		return a.work
	}
	g.cache.Shrink(tenant, g.bytes/4, func(c *compiledRules) int64 {
		if c.Grammar == nil {
			return 0
		}
		return c.Grammar.Bytes()
	})
	if g.mayCollect(taken-a.left > g.bytes/8) {
		a.work.Reclaim()
		a.left = a.work.Bytes()
	}
	return a.work
}

func (g *Compiler) accountOf(tenant string) *allowance {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.accounts[tenant]; a != nil {
		return a
	}
	const many = 1000
	if len(g.accounts) >= many {
		for name, a := range g.accounts {
			if a.work.Bytes() == 0 {
				delete(g.accounts, name)
			}
		}
	}
	a := &allowance{work: work.NewAccount(g.bytes, nil)}
	g.accounts[tenant] = a
	return a
}

// mayCollect reports whether the garbage collector may be asked, and notes that it is.
func (g *Compiler) mayCollect(due bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !due && time.Since(g.collected) <= time.Second {
		return false
	}
	g.collected = time.Now()
	return true
}
