package ledger

import (
	"context"
	"errors"
	"fmt"

	"weir/api/usage"
	"weir/internal/store"
)

// Report sums up usage, with all that was recorded here before the call.
func (l *Ledger) Report(ctx context.Context, q usage.Query) (usage.Report, error) {
	if err := errors.Join(store.CheckText("tenant", q.Tenant), store.CheckText("model", q.Model), store.CheckText("key", q.Key)); err != nil {
		return usage.Report{}, err
	}
	if err := l.Flush(ctx); err != nil {
		return usage.Report{}, err
	}
	report := usage.Report{From: q.From, To: q.To, Rows: []usage.Row{}}
	statement, args := reportQuery(&q)
	rows, err := l.db.Read.QueryContext(ctx, statement, args...)
	if err != nil {
		return usage.Report{}, err
	}
	defer rows.Close()
	for rows.Next() {
		var r usage.Row
		if err := rows.Scan(&r.Day, &r.Hour, &r.Tenant, &r.Model, &r.Key, &r.Requests, &r.Input, &r.Cached, &r.Output, &r.Compute, &r.Cost); err != nil {
			return usage.Report{}, err
		}
		report.Rows = append(report.Rows, r)
		report.Total.Add(r.Sums)
	}
	return report, rows.Err()
}

// reportQuery reads the sums per day where they answer the query, or else those per hour and key.
func reportQuery(q *usage.Query) (statement string, args []any) {
	const match = ` AND ($3 = '' AND NOT $5 OR tenant = $3) AND ($4 = '' OR model = $4)`
	if !q.Detailed() {
		return `SELECT day, 0, tenant, model, '', ` + sumColumns + ` FROM weir_usage WHERE day >= $1 AND day <= $2` + match +
			` ORDER BY day, tenant, model`, []any{int64(q.From), int64(q.To), q.Tenant, q.Model, q.Alone}
	}
	hour, key := "0", "''"
	if q.Hours {
		hour = "hour"
	}
	if q.Keys {
		key = "key"
	}
	// The sums of bigints are numeric with PostgreSQL; what fits in one each fits in their sum.
	sums := `CAST(sum(requests) AS BIGINT), CAST(sum(input) AS BIGINT), CAST(sum(cached) AS BIGINT), CAST(sum(output) AS BIGINT),
		CAST(sum(compute_ns) AS BIGINT), CAST(sum(cost_micros) AS BIGINT)`
	statement = fmt.Sprintf(`SELECT hour / %d AS d, %s AS h, tenant, model, %s AS k, %s FROM weir_usage_hours WHERE hour >= $1 AND hour <= $2%s
		AND ($6 = '' OR key = $6) GROUP BY d, h, tenant, model, k ORDER BY d, h, tenant, model, k`, usage.HoursPerDay, hour, key, sums, match)
	return statement, []any{int64(q.From.First()), int64(q.To.First()) + usage.HoursPerDay - 1, q.Tenant, q.Model, q.Alone, q.Key}
}
