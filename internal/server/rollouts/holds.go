package rollouts

import (
	"context"
	"sync"

	"weir/router/rollout"
)

// holds keep versions in memory, by the rollout that they are held for.
type holds struct {
	mu       sync.Mutex
	releases map[string]func()
}

// hold keeps both versions of a plan ready: those of this process in memory.
func hold(ctx context.Context, m Models, p *rollout.Plan) (release func(), err error) {
	var held []func()
	release = func() {
		for _, f := range held {
			f()
		}
	}
	for _, label := range []string{p.Stable, p.Candidate} {
		f, err := m.Keep(ctx, p.Model, label)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, f)
	}
	return release, nil
}

// keep remembers what lets the versions of a rollout leave memory.
func (h *holds) keep(id string, release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.releases[id] = release
}

// release lets the versions of a rollout leave memory, once.
func (h *holds) release(id string) {
	h.mu.Lock()
	release := h.releases[id]
	delete(h.releases, id)
	h.mu.Unlock()
	if release != nil {
		release()
	}
}
