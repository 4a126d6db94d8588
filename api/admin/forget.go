package admin

import (
	"context"
	"errors"
	"net/http"

	"weir/api"
	"weir/api/tenant"
)

// DeletedCounts counts what was deleted of a tenant.
type DeletedCounts struct {
	Prompts int64 `json:"prompts"`      // that log_prompts kept, with their answers
	Answers int64 `json:"answers"`      // of idempotency keys and of the response cache
	Files   int64 `json:"files"`        // uploaded, or made by batches; the batches with them
	Blocks  int   `json:"freed_blocks"` // of the prefix cache, which is emptied for all
}

// ErrNoTenant is the error of a name that no tenant has, and of which nothing was kept.
var ErrNoTenant = errors.New("there is no such tenant")

// ForgetFunc deletes what a tenant's clients asked and were answered. by says who
// asked. The error may wrap ErrNoTenant.
type ForgetFunc func(ctx context.Context, tenant, by string) (DeletedCounts, error)

const forgetPath = "/admin/tenants/{name}/forget"

func (c Config) forget(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if !tenant.IsName(name) {
		refuse(w, api.Refuse("invalid_value", "the path names no tenant; a tenant's name is "+tenant.NameForm))
		return
	}
	done, err := c.Forget(r.Context(), name, by(r))
	if errors.Is(err, ErrNoTenant) {
		refuse(w, api.Refuse("tenant_not_found", err.Error()))
		return
	}
	if err != nil {
		refuse(w, api.Refuse("tenant_not_forgotten", "delete what the tenant asked and was answered: "+err.Error()))
		return
	}
	write(w, http.StatusOK, done)
}
