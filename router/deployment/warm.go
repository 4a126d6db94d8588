package deployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// keepWarm holds the versions in memory that shall stay there, and lets others go; the error says which it cannot hold.
func (t *task) keepWarm(ctx context.Context, r *Record, wanted Revision) error {
	kept, cold := t.bringKept(ctx, r)
	t.release(kept)
	if err := t.setVersions(ctx, r, wanted, kept); err != nil {
		return errors.Join(cold, err)
	}
	for i := range kept {
		label := kept[i].Label
		if t.warm[label] != nil {
			continue
		}
		if !t.f.place(ctx) {
			return context.Cause(ctx)
		}
		release, err := t.f.host.KeepLoaded(ctx, t.model, label)
		t.f.leave()
		if err != nil {
			cold = errors.Join(cold, fmt.Errorf("the version %s is not warm: %w", label, err))
			continue
		}
		t.warm[label] = release
	}
	return cold
}

// release lets all warm versions go but some.
func (t *task) release(but []Revision) {
	for label, release := range t.warm {
		if !slices.ContainsFunc(but, func(v Revision) bool { return v.Label == label }) {
			release()
			delete(t.warm, label)
		}
	}
}
