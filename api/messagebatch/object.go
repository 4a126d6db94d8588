package messagebatch

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/api"
	"weir/api/batch"
)

// idPrefix begins the ids of message batches.
const idPrefix = "msgbatch_"

// object is a batch as Anthropic's clients read it.
type object struct {
	ID              string  `json:"id"`
	Type            string  `json:"type"`
	Status          string  `json:"processing_status"`
	Counts          counts  `json:"request_counts"`
	CreatedAt       string  `json:"created_at"`
	ExpiresAt       string  `json:"expires_at"`
	EndedAt         *string `json:"ended_at"`
	ArchivedAt      *string `json:"archived_at"`
	CancelInitiated *string `json:"cancel_initiated_at"`
	ResultsURL      *string `json:"results_url"`
}

// counts are requests by their end. While a batch is not over, all of them count as processing.
type counts struct {
	Processing int `json:"processing"`
	Succeeded  int `json:"succeeded"`
	Errored    int `json:"errored"`
	Canceled   int `json:"canceled"`
	Expired    int `json:"expired"`
}

func objectOf(b *batch.Batch) object {
	o := object{ID: b.ID, Type: "message_batch", Status: "in_progress", CreatedAt: formatTime(b.Created), ExpiresAt: formatTime(b.Expires),
		EndedAt: optionalTime(b.Ended), CancelInitiated: optionalTime(b.Cancelling)}
	switch {
	case b.Status.Over():
		o.Status, o.Counts = "ended", countsOf(b)
		url := strings.Replace(routeResults, "{id}", b.ID, 1) // below the client's own base URL, whatever proxies call the server
		o.ResultsURL = &url
	case !b.Cancelling.IsZero():
		o.Status, o.Counts = "canceling", counts{Processing: b.Total}
	default:
		o.Counts.Processing = b.Total
	}
	return o
}

// countsOf are those of a batch that is over.
func countsOf(b *batch.Batch) counts {
	c := counts{Succeeded: b.Completed, Errored: b.Failed}
	left := b.Total - b.Completed - b.Failed
	switch b.Status {
	case batch.StatusCancelled:
		c.Canceled = left
	case batch.StatusExpired:
		c.Expired = left
	default:
		c.Errored += left
	}
	return c
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func optionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := formatTime(t)
	return &text
}

// found is the batch of the path.
func (c *call) found() (batch.Batch, *api.Error) {
	if !strings.HasPrefix(c.id, idPrefix) {
		return batch.Batch{}, notFound(c.id)
	}
	d := c.desk()
	b, fault := d.Find(c.id)
	if fault == nil && b.Status.Over() && !d.Has(&b) {
		fault = notFound(c.id)
	}
	return b, fault
}

func notFound(id string) *api.Error {
	return api.RefuseParam("batch_not_found", "id", "there is no message batch %.80q; batches are deleted, and go some time after their end", id)
}

func (c *call) show() *api.Error {
	b, fault := c.found()
	if fault == nil {
		api.WriteJSON(c.ctx, http.StatusOK, objectOf(&b))
	}
	return fault
}

func (c *call) cancel() *api.Error {
	b, fault := c.found()
	if fault == nil && !b.Status.Over() {
		b, fault = c.desk().Cancel(b.ID)
	}
	if fault == nil {
		api.WriteJSON(c.ctx, http.StatusOK, objectOf(&b))
	}
	return fault
}

func (c *call) remove() *api.Error {
	b, fault := c.found()
	if fault == nil {
		fault = c.desk().Delete(&b)
	}
	if fault == nil {
		api.WriteJSON(c.ctx, http.StatusOK, map[string]string{"id": b.ID, "type": "message_batch_deleted"})
	}
	return fault
}

// list answers with a page: limit, and after_id or before_id.
func (c *call) list() *api.Error {
	args := c.ctx.QueryArgs()
	p := batch.Page{Limit: 20, Prefix: idPrefix, After: string(args.Peek("after_id"))}
	if args.Has("limit") {
		n, err := args.GetUint("limit")
		if err != nil || n < 1 || n > 1000 {
			return api.RefuseParam("invalid_value", "limit", "limit is %.40q; it must be a whole number from 1 to 1000", args.Peek("limit"))
		}
		p.Limit = n
	}
	if before := args.Peek("before_id"); len(before) > 0 {
		if p.After != "" {
			return api.RefuseParam("invalid_value", "before_id", "after_id and before_id are both given; send one of them")
		}
		p.After, p.Ascending = string(before), true
	}
	list, more, fault := c.desk().List(p)
	if fault != nil {
		if fault.Param == "after" {
			name := "after_id"
			if p.Ascending {
				name = "before_id"
			}
			return api.RefuseParam(fault.Code, name, "%s is %.80q; it must be an id of the list", name, p.After)
		}
		return fault
	}
	if p.Ascending {
		slices.Reverse(list)
	}
	page := struct {
		Data    []object `json:"data"`
		HasMore bool     `json:"has_more"`
		FirstID *string  `json:"first_id"`
		LastID  *string  `json:"last_id"`
	}{Data: []object{}, HasMore: more}
	for i := range list {
		page.Data = append(page.Data, objectOf(&list[i]))
	}
	if n := len(list); n > 0 {
		page.FirstID, page.LastID = &list[0].ID, &list[n-1].ID
	}
	api.WriteJSON(c.ctx, http.StatusOK, page)
	return nil
}
