package admin

import (
	"context"
	"net/http"

	"weir/api"
)

// Reloaded is what a reload of the configuration did: names of settings and of lists,
// never values.
type Reloaded struct {
	Applied      []string `json:"applied"`       // changed, and in force now
	NeedsRestart []string `json:"needs_restart"` // changed, and not in force before a restart
	Warnings     []string `json:"warnings,omitempty"`
}

// ReloadFunc reads the configuration anew and puts into force what a running
// process can change. by says who asked. After an error nothing has changed.
type ReloadFunc func(ctx context.Context, by string) (Reloaded, error)

const reloadPath = "/admin/reload"

func (c Config) reload(w http.ResponseWriter, r *http.Request) {
	report, err := c.Reload(r.Context(), by(r))
	if err != nil {
		refuse(w, api.Refuse("invalid_configuration", "the last good configuration stays in force: "+err.Error()))
		return
	}
	write(w, http.StatusOK, report)
}
