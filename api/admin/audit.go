package admin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"weir/api"
)

// AuditFunc gives the entries of the audit log before one, the newest first, mostAudited of them at most. before is 0 for the newest of all.
type AuditFunc func(ctx context.Context, before int64, most int) ([]AuditEntry, error)

// AuditEntry is a change by a person or a rule, as GET /admin/audit shows it.
type AuditEntry struct {
	Sequence int64     `json:"sequence"`
	Time     time.Time `json:"time"`
	Actor    string    `json:"actor"`
	Action   string    `json:"action"`
	Object   string    `json:"object"`
	Details  string    `json:"details,omitempty"` // JSON
}

const (
	auditPath   = "/admin/audit"
	mostAudited = 100
)

// audit answers GET /admin/audit?before=SEQUENCE.
func audit(entries AuditFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var before int64
		if text := r.URL.Query().Get("before"); text != "" {
			var err error
			if before, err = strconv.ParseInt(text, 10, 64); err != nil || before < 1 {
				e := api.Refuse("invalid_value", fmt.Sprintf("before is %.32q; it takes the sequence number of an entry", text))
				e.Param = "before"
				refuse(w, e)
				return
			}
		}
		list, err := entries(r.Context(), before, mostAudited)
		answer(w, http.StatusOK, map[string]any{"entries": orEmpty(list)}, err)
	}
}
