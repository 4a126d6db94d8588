package usage

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
)

// MediaTypeCSV is that of WriteCSV's text.
const MediaTypeCSV = "text/csv; charset=utf-8"

// WantsCSV reports whether a client asks for CSV: by the parameter format, or else by the header Accept. A format that is
// neither csv nor json is an error.
func WantsCSV(format, accept string) (bool, error) {
	switch format {
	case "csv":
		return true, nil
	case "json":
		return false, nil
	case "":
		return strings.HasPrefix(strings.TrimSpace(accept), "text/csv"), nil
	}
	return false, &QueryError{"format", "format takes csv and json"}
}

// WriteCSV writes the rows under a line of names. Times are UTC.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"day", "hour", "tenant", "model", "key", "requests", "input_tokens", "cached_tokens", "output_tokens", "compute_seconds", "cost"}) // Flush has the error
	for i := range r.Rows {
		row := &r.Rows[i]
		hour := ""
		if row.Hour != 0 {
			hour = row.Hour.String()
		}
		compute, _ := row.Compute.MarshalJSON() // numbers read the same
		cost, _ := row.Cost.MarshalJSON()
		number := func(n int64) string { return strconv.FormatInt(n, 10) }
		_ = out.Write([]string{
			row.Day.String(), hour, safeCell(row.Tenant), safeCell(row.Model), row.Key, number(row.Requests), number(row.Input), number(row.Cached),
			number(row.Output), string(compute), string(cost),
		})
	}
	out.Flush()
	return out.Error()
}

// safeCell keeps spreadsheets from reading a name as a formula.
func safeCell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
