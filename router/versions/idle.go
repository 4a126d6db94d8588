package versions

import (
	"fmt"
	"time"
)

// SetIdle gives the version, if it is in memory, another time without a request after which it leaves, in place of Spec.IdleUnload; negative: it
// stays. It counts until the version leaves. The error says what keeps the version in memory.
func (l *Lease) SetIdle(after time.Duration) error {
	v := l.Version
	v.manager.mu.Lock()
	defer v.manager.mu.Unlock()
	if v.state != loaded && v.state != loading {
		return nil
	}
	if err := v.held(); err != nil {
		return err
	}
	v.idle = &after
	return nil
}

// held says what keeps a version in memory whatever clients want. The caller holds Manager.mu.
func (v *Version) held() error {
	switch {
	case v.spec.Pinned:
		return fmt.Errorf("model %q version %s is pinned", v.spec.Name, v.spec.Label)
	case v.keeps > 0:
		return fmt.Errorf("model %q version %s is held by a deployment or a rollout", v.spec.Name, v.spec.Label)
	}
	return nil
}

// idleAfter is how long a version may be without a request; false: it stays.
func (v *Version) idleAfter() (time.Duration, bool) {
	if v.idle != nil {
		return *v.idle, *v.idle >= 0
	}
	return v.spec.IdleUnload, v.spec.IdleUnload > 0
}

// leaves is when a version leaves memory where no request comes; zero: it stays. The caller holds Manager.mu.
func (v *Version) leaves(now time.Time) time.Time {
	after, ok := v.idleAfter()
	if v.state != loaded || !ok || v.keeps > 0 {
		return time.Time{}
	}
	if v.holders+v.waiters > 0 {
		return now.Add(after)
	}
	return v.used.Add(after)
}
