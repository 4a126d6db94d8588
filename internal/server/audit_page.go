package server

import (
	"context"

	"weir/api/admin"
)

// page is what GET /admin/audit answers; nil where no audit log is kept.
func (a *auditor) page() admin.AuditFunc {
	if a.kept == nil {
		return nil
	}
	return func(ctx context.Context, before int64, most int) ([]admin.AuditEntry, error) {
		head, err := a.kept.Head(ctx)
		if err != nil {
			return nil, err
		}
		end := head.Sequence + 1
		if before > 0 {
			end = min(end, before)
		}
		var list []admin.AuditEntry
		for e, err := range a.kept.Entries(ctx, max(0, end-1-int64(most))) {
			if err != nil {
				return nil, err
			}
			if e.Sequence >= end {
				break
			}
			list = append([]admin.AuditEntry{{Sequence: e.Sequence, Time: e.Time, Actor: e.Actor, Action: e.Action, Object: e.Object, Details: e.Details}}, list...)
		}
		return list, nil
	}
}
