package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"weir/api"
	"weir/api/usage"
)

const usagePath = "/admin/usage"

// maxReportDays bounds what one report reads.
const maxReportDays = 400

// usage answers with what tenants have used, per tenant, model and day of UTC:
// ?from=2026-11-01&to=2026-11-30&tenant=NAME&model=ID, all of them optional. Without
// dates it is the running month.
func (c Config) usage(w http.ResponseWriter, r *http.Request) {
	q, fault := readUsageQuery(r.URL.Query(), time.Now())
	if fault != nil {
		refuse(w, fault)
		return
	}
	report, err := c.Usage.Report(r.Context(), q)
	if err != nil {
		refuse(w, api.Refuse("usage_unavailable", "read the usage: "+err.Error()))
		return
	}
	write(w, http.StatusOK, report)
}

func readUsageQuery(v url.Values, now time.Time) (usage.Query, *api.Error) {
	now = now.UTC()
	q := usage.Query{
		Tenant: v.Get("tenant"), Model: v.Get("model"),
		From: usage.DayOf(time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)), To: usage.DayOf(now),
	}
	wrong := func(param, format string, args ...any) *api.Error {
		e := api.Refuse("invalid_value", fmt.Sprintf(format, args...))
		e.Param = param
		return e
	}
	for name, values := range v {
		if !slices.Contains([]string{"from", "to", "tenant", "model"}, name) {
			return q, wrong(name, "unknown parameter %.40q; known are from, to, tenant and model", name)
		}
		if len(values) != 1 {
			return q, wrong(name, "%s is given %d times; give it once", name, len(values))
		}
	}
	for _, p := range []struct {
		name string
		day  *usage.Day
	}{{"from", &q.From}, {"to", &q.To}} {
		text := v.Get(p.name)
		if text == "" {
			continue
		}
		date, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return q, wrong(p.name, "%s is %.40q; it must be a date of UTC such as 2026-11-30", p.name, text)
		}
		*p.day = usage.DayOf(date)
	}
	if v.Get("from") != "" && v.Get("to") == "" {
		q.To = max(q.To, q.From)
	}
	if q.To < q.From || q.To-q.From >= maxReportDays {
		return q, wrong("from", "from %v to %v is no span of 1 to %d days", q.From, q.To, maxReportDays)
	}
	return q, nil
}
