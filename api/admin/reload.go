package admin

import (
	"context"
	"fmt"
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

// ReloadFunc reads the configuration again and puts into force what a running
// process can change. by says who asked. After an error nothing has changed. Only with
// dropTenants may the new configuration have no tenants where the one in force has some.
type ReloadFunc func(ctx context.Context, by string, dropTenants bool) (Reloaded, error)

const reloadPath = "/admin/reload"

func (c Config) reload(w http.ResponseWriter, r *http.Request) {
	drop := r.URL.Query().Get("drop_tenants")
	if drop != "" && drop != "true" && drop != "false" {
		refuse(w, api.Refuse("invalid_value", fmt.Sprintf("drop_tenants is %.20q; it must be true or false", drop)))
		return
	}
	report, err := c.Reload(r.Context(), by(r), drop == "true")
	if err != nil {
		refuse(w, api.Refuse("invalid_configuration", "the last good configuration stays in force: "+err.Error()))
		return
	}
	write(w, http.StatusOK, report)
}
