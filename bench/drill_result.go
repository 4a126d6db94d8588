package bench

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// DrillResult is what a drill measured. Times are seconds.
type DrillResult struct {
	Fault    string `json:"fault"`
	Store    string `json:"store"`
	Replicas int    `json:"replicas"` // of each region
	Clients  int    `json:"clients"`

	RTO       float64 `json:"rto_seconds"`                 // from the fault until requests are answered, from then on at least 99 % of them
	Detected  float64 `json:"detected_seconds"`            // of it, until enough looks at /ready?deep had failed
	Restored  float64 `json:"restored_seconds,omitempty"`  // of it, for the backup
	Restarted float64 `json:"restarted_seconds,omitempty"` // that the command took which restarts the store
	RPO       float64 `json:"rpo_seconds"`                 // from the oldest write that was acknowledged and is lost to the fault
	Backups   int     `json:"backups,omitempty"`           // that were whole before the fault

	Held        int     `json:"held"`         // requests that ran at the fault: their idempotency keys were held for the process that is gone
	HeldSeconds float64 `json:"held_seconds"` // from the fault until the last of them was answered

	Attempts int        `json:"attempts"` // of requests, after the fault
	Failed   int        `json:"failed"`   // of these
	Rows     []DrillRow `json:"writes"`

	faultAt time.Duration
}

// DrillRow is one kind of writes that region a has acknowledged.
type DrillRow struct {
	What         string  `json:"what"`
	Acknowledged int64   `json:"acknowledged"`
	Lost         int64   `json:"lost"`
	Seconds      float64 `json:"rpo_seconds"` // from the oldest that is lost to the fault
}

// lose counts a write that was acknowledged and is not there.
func (r *DrillRow) lose(acked, fault time.Duration) {
	r.Lost++
	r.Seconds = max(r.Seconds, seconds(fault-acked))
}

// seconds has no negative ones: what was acknowledged after the fault is lost with it.
func seconds(d time.Duration) float64 { return max(d, 0).Round(time.Millisecond).Seconds() }

// recovery is the end of the first successful attempt after a fault from which on at least 99 % of attempts succeed, however many of them
// are looked at: a success that fewer than 99 others follow before the next failure is none.
func recovery(attempts []attempt, fault time.Duration) (at time.Duration, ok bool) {
	after := slices.DeleteFunc(slices.Clone(attempts), func(a attempt) bool { return a.at <= fault || a.held })
	slices.SortStableFunc(after, func(a, b attempt) int { return int(a.at - b.at) })
	least := 0 // of the balances of all that begin with the next attempt: 1 of a success, -99 of a failure
	for _, a := range slices.Backward(after) {
		own := -99
		if a.ok {
			own = 1
		}
		if least = own + min(least, 0); least >= 0 && a.ok {
			at, ok = a.at, true
		}
	}
	return at, ok
}

// ledger compares requests and tokens of region a's key with those that its clients were told. A row that is missing is one of the
// latest, since rows are written in their order. A request that was charged, and whose answer no client got, may hide a row.
func (d *drill) ledger(ctx context.Context, standing *drillRegion, before, all []ack) ([]DrillRow, error) {
	var answers []ack
	var toldRequests, told int64
	for _, a := range all {
		if a.response != "" {
			toldRequests++
			told += a.input + a.output
		}
	}
	requests, tokens := DrillRow{What: "usage: requests"}, DrillRow{What: "usage: tokens"}
	for _, a := range before {
		if a.response != "" {
			answers = append(answers, a)
			requests.Acknowledged++
			tokens.Acknowledged += a.input + a.output
		}
	}
	var kept, used int64
	for range 20 { // a server writes what it has in memory within half a second
		var err error
		if kept, used, err = d.used(ctx, standing); err != nil {
			return nil, err
		}
		if kept >= toldRequests || d.o.Fault == FaultRegion {
			break
		}
		sleep(ctx, 200*time.Millisecond)
	}
	requests.Lost, tokens.Lost = max(toldRequests-kept, 0), max(told-used, 0)
	if n := min(requests.Lost, int64(len(answers))); n > 0 {
		slices.SortFunc(answers, func(a, b ack) int { return int(a.at - b.at) })
		requests.Seconds = seconds(d.result.faultAt - answers[int64(len(answers))-n].at)
		tokens.Seconds = requests.Seconds
	}
	return []DrillRow{requests, tokens}, nil
}

// used reads the store's usage of region a's key.
func (d *drill) used(ctx context.Context, r *drillRegion) (requests, tokens int64, err error) {
	text, err := d.command(ctx, "usage", drillTenant, "--by", "key", "--csv", "--store", r.store)
	if err != nil {
		return 0, 0, err
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) == 0 {
		return 0, 0, errors.Join(errors.New("weir usage printed no CSV"), err)
	}
	column := func(row []string, name string) string { return row[slices.Index(rows[0], name)] }
	for _, row := range rows[1:] {
		if id := column(row, "key"); id == "" || !strings.Contains(d.a.key, "_"+id+"_") {
			continue
		}
		for name, to := range map[string]*int64{"requests": &requests, "input_tokens": &tokens, "output_tokens": &tokens} {
			n, err := strconv.ParseInt(column(row, name), 10, 64)
			if err != nil {
				return 0, 0, err
			}
			*to += n
		}
	}
	return requests, tokens, nil
}

// found asks the router whether something is there. What is neither yes nor no is asked again.
func (r *drillRegion) found(ctx context.Context, path, key string) (bool, error) {
	for range 50 {
		switch status, _, _ := r.ask(ctx, http.MethodGet, path, key, "", nil); status {
		case http.StatusOK:
			return true, nil
		case http.StatusNotFound, http.StatusUnauthorized:
			return false, nil
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return false, ctx.Err()
		}
	}
	return false, fmt.Errorf("GET %s of region %s does not answer", path, r.name)
}

func hasResponse(ctx context.Context, r *drillRegion, a *ack) (bool, error) {
	return r.found(ctx, "/v1/responses/"+a.response, r.key)
}

func hasFile(ctx context.Context, r *drillRegion, a *ack) (bool, error) {
	return r.found(ctx, "/v1/files/"+a.file+"/content", r.key)
}

func hasBatch(ctx context.Context, r *drillRegion, a *ack) (bool, error) {
	return r.found(ctx, "/v1/batches/"+a.batch, r.key)
}

func hasKey(ctx context.Context, r *drillRegion, a *ack) (bool, error) {
	return r.found(ctx, "/v1/models", a.apiKey)
}

// hasIdempotencyKey repeats the request: one whose key is lost is executed again. One that the backup knows as running (409) is lost, too:
// its answer came after the backup, and once the dead server's lease has ended it is executed again.
func hasIdempotencyKey(ctx context.Context, r *drillRegion, a *ack) (bool, error) {
	for range 50 {
		status, h, _ := r.ask(ctx, http.MethodPost, "/v1/responses", r.key, "application/json", a.body, "Idempotency-Key", a.idempotencyKey)
		if status == http.StatusOK || status == http.StatusConflict {
			return h.Get("X-Weir-Replayed") == "true", nil
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return false, ctx.Err()
		}
	}
	return false, fmt.Errorf("a repeated request is not answered by region %s", r.name)
}

// WriteMarkdown prints the result as tables.
func (r *DrillResult) WriteMarkdown(w io.Writer) error {
	fmt.Fprintf(w, "fault: %s; store: %s; %d replicas in each region, %d clients\n\n", r.Fault, r.Store, r.Replicas, r.Clients)
	fmt.Fprintf(w, "RTO %.2f s", r.RTO)
	if r.Fault == FaultRegion {
		fmt.Fprintf(w, ": %.2f s until the region counted as lost", r.Detected)
	}
	if r.Fault == FaultStore {
		fmt.Fprintf(w, ": %.2f s until the command that restarts the store had ended", r.Restarted)
	}
	if r.Backups > 0 {
		fmt.Fprintf(w, ", %.2f s to restore backup %d", r.Restored, r.Backups)
	}
	fmt.Fprintf(w, "\nRPO %.2f s\n%d of %d attempts failed after the fault\n", r.RPO, r.Failed, r.Attempts)
	if r.Held > 0 {
		fmt.Fprintf(w, "%d requests that ran at the fault had their idempotency keys held, the last for %.2f s\n", r.Held, r.HeldSeconds)
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(table, "| acknowledged before the fault\t| writes\t| lost\t| RPO\t|")
	fmt.Fprintln(table, "|---\t|---\t|---\t|---\t|")
	for _, row := range r.Rows {
		fmt.Fprintf(table, "| %s\t| %d\t| %d\t| %.2f s\t|\n", row.What, row.Acknowledged, row.Lost, row.Seconds)
	}
	return table.Flush()
}
