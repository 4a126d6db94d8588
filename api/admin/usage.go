package admin

import (
	"errors"
	"net/http"
	"time"

	"weir/api"
	"weir/api/usage"
)

const usagePath = "/admin/usage"

// usage answers with what tenants have used: ?from=2026-11-01&to=2026-11-30&tenant=NAME&model=ID&key=ID&by=hour,key, all of
// them optional, as JSON or, with format=csv or Accept: text/csv, as CSV. Without dates it is the running month.
func (c Config) usage(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	q, err := usage.ParseQuery(v, time.Now(), "tenant")
	csv := false
	if err == nil {
		csv, err = usage.WantsCSV(v.Get("format"), r.Header.Get("Accept"))
	}
	if err != nil {
		refuse(w, usageFault(err))
		return
	}
	q.Tenant = v.Get("tenant")
	report, err := c.Usage.Report(r.Context(), q)
	if err != nil {
		refuse(w, api.Refuse("usage_unavailable", "read the usage: "+err.Error()))
		return
	}
	if !csv {
		write(w, http.StatusOK, report)
		return
	}
	w.Header().Set("Content-Type", usage.MediaTypeCSV)
	_ = report.WriteCSV(w) // a broken peer is no news
}

func usageFault(err error) *api.Error {
	e := api.Refuse("invalid_value", err.Error())
	if q, ok := errors.AsType[*usage.QueryError](err); ok {
		e.Param = q.Param
	}
	return e
}
