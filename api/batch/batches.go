package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/internal/jsonfault"
)

// batchObject is a batch as clients read it.
type batchObject struct {
	ID               string            `json:"id"`
	Object           string            `json:"object"`
	Endpoint         string            `json:"endpoint"`
	Model            *string           `json:"model"`
	Errors           *lineErrors       `json:"errors"`
	InputFileID      string            `json:"input_file_id"`
	CompletionWindow string            `json:"completion_window"`
	Status           Status            `json:"status"`
	OutputFileID     *string           `json:"output_file_id"`
	ErrorFileID      *string           `json:"error_file_id"`
	CreatedAt        int64             `json:"created_at"`
	InProgressAt     *int64            `json:"in_progress_at"`
	ExpiresAt        *int64            `json:"expires_at"`
	FinalizingAt     *int64            `json:"finalizing_at"`
	CompletedAt      *int64            `json:"completed_at"`
	FailedAt         *int64            `json:"failed_at"`
	ExpiredAt        *int64            `json:"expired_at"`
	CancellingAt     *int64            `json:"cancelling_at"`
	CancelledAt      *int64            `json:"cancelled_at"`
	RequestCounts    requestCounts     `json:"request_counts"`
	Usage            usageObject       `json:"usage"`
	Metadata         map[string]string `json:"metadata"`
}

type lineErrors struct {
	Object string       `json:"object"`
	Data   []errorEntry `json:"data"`
}

type errorEntry struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
	Line    *int    `json:"line"`
}

type requestCounts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

type usageObject struct {
	InputTokens   int64           `json:"input_tokens"`
	InputDetails  cachedTokens    `json:"input_tokens_details"`
	OutputTokens  int64           `json:"output_tokens"`
	OutputDetails reasoningTokens `json:"output_tokens_details"`
	TotalTokens   int64           `json:"total_tokens"`
}

type cachedTokens struct {
	Cached int64 `json:"cached_tokens"`
}

type reasoningTokens struct {
	Reasoning int64 `json:"reasoning_tokens"`
}

func shownStatus(b *Batch) Status {
	if !b.Cancelling.IsZero() && (b.Status == StatusValidating || b.Status == StatusInProgress) {
		return StatusCancelling
	}
	return b.Status
}

func batchObjectOf(b *Batch) batchObject {
	o := batchObject{
		ID: b.ID, Object: "batch", Endpoint: b.Endpoint, Model: filled(b.Model), InputFileID: b.Input, CompletionWindow: b.Window, Status: shownStatus(b),
		CreatedAt: b.Created.Unix(), InProgressAt: unix(b.Started), ExpiresAt: unix(b.Expires), FinalizingAt: unix(b.Finalizing),
		CancellingAt: unix(b.Cancelling), RequestCounts: requestCounts{b.Total, b.Completed, b.Failed}, Metadata: b.Metadata,
		Usage: usageObject{b.Usage.Input, cachedTokens{b.Usage.Cached}, b.Usage.Output, reasoningTokens{b.Usage.Reasoning}, b.Usage.Input + b.Usage.Output},
	}
	switch b.Status {
	case StatusCompleted:
		o.CompletedAt = unix(b.Ended)
	case StatusFailed:
		o.FailedAt = unix(b.Ended)
	case StatusExpired:
		o.ExpiredAt = unix(b.Ended)
	case StatusCancelled:
		o.CancelledAt = unix(b.Ended)
	default:
	}
	if b.Status.Over() { // before, the files are not there
		o.OutputFileID, o.ErrorFileID = filled(b.Output), filled(b.Faults)
	}
	if len(b.Errors) > 0 {
		o.Errors = &lineErrors{Object: "list"}
		for _, e := range b.Errors {
			entry := errorEntry{Code: e.Code, Message: e.Message, Param: filled(e.Param)}
			if e.Line > 0 {
				entry.Line = &e.Line
			}
			o.Errors.Data = append(o.Errors.Data, entry)
		}
	}
	return o
}

func filled(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// live is a batch with the counts of this moment, where this process runs it.
func (s *Server) live(b Batch) Batch {
	if now, ok := s.worker.progress(b.ID); ok && !b.Status.Over() {
		b.Total, b.Completed, b.Failed, b.Usage = now.Total, now.Completed, now.Failed, now.Usage
	}
	return b
}

func (c *call) listBatches() *api.Error {
	p, fault := c.page(100, 20)
	if fault != nil {
		return fault
	}
	ctx, cancel := storeContext()
	defer cancel()
	batches, more, err := c.config.Store.Batches(ctx, c.caller.Tenant.Name, p)
	if err != nil {
		return c.listFault(err, p)
	}
	objects := make([]batchObject, len(batches))
	for i := range batches {
		b := c.live(batches[i])
		objects[i] = batchObjectOf(&b)
	}
	api.WriteJSON(c.ctx, 200, listOf(objects, func(b *batchObject) string { return b.ID }, more))
	return nil
}

// find is a batch of the caller's tenant, as it stands now.
func (c *call) find(id string) (Batch, *api.Error) {
	ctx, cancel := storeContext()
	defer cancel()
	b, err := c.config.Store.FindBatch(ctx, c.caller.Tenant.Name, id)
	if err != nil {
		return b, c.stored(err, "batch", id)
	}
	return c.live(b), nil
}

func (c *call) showBatch() *api.Error {
	b, fault := c.find(c.id)
	if fault == nil {
		api.WriteJSON(c.ctx, 200, batchObjectOf(&b))
	}
	return fault
}

func (c *call) cancelBatch() *api.Error {
	b, fault := c.cancel(c.id)
	switch {
	case fault != nil:
		return fault
	case b.Status.Over() && b.Status != StatusCancelled:
		return api.Refuse("batch_ended", fmt.Sprintf("the batch %s is %s already and cannot be cancelled", b.ID, b.Status))
	}
	api.WriteJSON(c.ctx, 200, batchObjectOf(&b))
	return nil
}

// cancel asks for the end of a batch. One that has ended is returned as it is.
func (c *call) cancel(id string) (Batch, *api.Error) {
	if b, fault := c.find(id); fault != nil {
		return b, fault
	}
	ctx, cancel := storeContext()
	defer cancel()
	if err := c.config.Audit(ctx, c.by(), "batch.cancel", id, nil); err != nil {
		return Batch{}, c.stored(err, "", "")
	}
	b, err := c.config.Store.CancelBatch(ctx, c.caller.Tenant.Name, id, time.Now())
	if err != nil {
		return b, c.stored(err, "batch", id)
	}
	c.worker.nudge(b.ID)
	return c.live(b), nil
}

// batchRequest is what a client asks for.
type batchRequest struct {
	Input    string            `json:"input_file_id"`
	Endpoint string            `json:"endpoint"`
	Window   string            `json:"completion_window"`
	Metadata map[string]string `json:"metadata"`
	Output   *struct {
		Anchor  string      `json:"anchor"`
		Seconds json.Number `json:"seconds"`
	} `json:"output_expires_after"`
}

// createBatch makes a batch, once under an idempotency key.
func (c *call) createBatch() *api.Error {
	if c.config.Keys == nil {
		return c.makeBatch()
	}
	return c.config.Keys.Once(c.ctx, c.caller.Tenant, routeBatches, func(e *api.Error) []byte { return e.AppendJSON(nil) }, c.makeBatch)
}

func (c *call) makeBatch() *api.Error {
	if fault := c.keepable(); fault != nil {
		return fault
	}
	b, fault := c.readOrder(time.Now())
	if fault != nil {
		return fault
	}
	ctx, cancel := storeContext()
	defer cancel()
	f, err := c.config.Store.FindFile(ctx, b.Tenant, b.Input, b.Created)
	switch {
	case errors.Is(err, ErrUnknown):
		fault := notFound("file", b.Input)
		fault.Param = "input_file_id"
		return fault
	case err != nil:
		return c.stored(err, "", "")
	case f.Purpose != PurposeBatch:
		return api.RefuseParam("invalid_value", "input_file_id", "the purpose of %s is %s; a batch reads a file of the purpose batch", f.ID, f.Purpose)
	case f.Bytes > maxInputBytes:
		return api.RefuseParam("invalid_value", "input_file_id", "%s has %d bytes; a batch takes at most %d", f.ID, f.Bytes, maxInputBytes)
	case f.Place != c.folder.place:
		return elsewhere(f)
	}
	if fault := c.add(ctx, b); fault != nil {
		return fault
	}
	api.WriteJSON(c.ctx, 200, batchObjectOf(&b))
	return nil
}

// add adds a batch to those that are to be run.
func (c *call) add(ctx context.Context, b Batch) *api.Error {
	if err := c.config.Audit(ctx, c.by(), "batch.create", b.ID, map[string]any{"file": b.Input, "endpoint": b.Endpoint}); err != nil {
		return c.stored(err, "", "")
	}
	switch err := c.config.Store.AddBatch(ctx, b, maxUnfinished); {
	case errors.Is(err, ErrQuota):
		return api.Refuse("rate_limit_exceeded", fmt.Sprintf("the tenant has %d unfinished batches; create the next one when one of them has ended", maxUnfinished))
	case err != nil:
		return c.stored(err, "file", b.Input)
	}
	c.worker.look()
	return nil
}

// readOrder reads the body of a request for a batch.
func (c *call) readOrder(now time.Time) (Batch, *api.Error) {
	var o batchRequest
	if err := json.Unmarshal(c.ctx.PostBody(), &o); err != nil {
		said := jsonfault.Describe(err, c.ctx.PostBody())
		if t, is := errors.AsType[*json.UnmarshalTypeError](err); is {
			return Batch{}, api.RefuseParam("invalid_type", t.Field, "the body: %v", said)
		}
		return Batch{}, api.RefuseParam("invalid_json", "", "the body is no JSON: %v", said)
	}
	b := Batch{ID: newID("batch_"), Tenant: c.caller.Tenant.Name, Key: c.caller.KeyID(), Place: c.folder.place, Input: o.Input, Status: StatusValidating, Created: now,
		Endpoint: o.Endpoint, Window: o.Window, Metadata: o.Metadata}
	window, fault := readWindow(o.Window)
	switch {
	case o.Input == "":
		return b, api.RefuseParam("missing_required_parameter", "input_file_id", "input_file_id is missing; it must be the id of a file of the purpose batch")
	case o.Endpoint == "":
		return b, api.RefuseParam("missing_required_parameter", "endpoint", "endpoint is missing; it must be one of %s", strings.Join(c.served(), ", "))
	case !c.serves(o.Endpoint):
		return b, api.RefuseParam("invalid_value", "endpoint", "endpoint is %.80q; it must be one of %s", o.Endpoint, strings.Join(c.served(), ", "))
	case fault != nil:
		return b, fault
	}
	b.Expires = now.Add(window)
	if fault := checkMetadata(o.Metadata); fault != nil {
		return b, fault
	}
	if o.Output != nil {
		if b.OutputSeconds, fault = readExpiry(o.Output.Anchor, o.Output.Seconds.String()); fault != nil {
			fault.Param = strings.Replace(fault.Param, "expires_after", "output_expires_after", 1)
			return b, fault
		}
		if b.OutputSeconds == 0 {
			return b, api.RefuseParam("missing_required_parameter", "output_expires_after", "output_expires_after is empty; it has anchor and seconds")
		}
	}
	return b, nil
}

// mostWindow is the longest completion_window.
const mostWindow = 7 * 24 * time.Hour

// readWindow reads a completion window in hours: 24h is OpenAI's only one.
func readWindow(text string) (time.Duration, *api.Error) {
	if text == "" {
		return 0, api.RefuseParam("missing_required_parameter", "completion_window", "completion_window is missing; 24h is usual")
	}
	hours, found := strings.CutSuffix(text, "h")
	n, err := strconv.ParseUint(hours, 10, 16)
	window := time.Duration(n) * time.Hour
	if !found || err != nil || window < time.Hour || window > mostWindow {
		return 0, api.RefuseParam("invalid_value", "completion_window", "completion_window is %.40q; it must be from 1h to %dh, and 24h for OpenAI", text, int(mostWindow.Hours()))
	}
	return window, nil
}

func checkMetadata(m map[string]string) *api.Error {
	if len(m) > maxMetadata {
		return api.RefuseParam("invalid_value", "metadata", "metadata has %d entries; it may have %d", len(m), maxMetadata)
	}
	for key, value := range m {
		if utf8.RuneCountInString(key) > maxMetadataKey || utf8.RuneCountInString(value) > maxMetadataValue {
			return api.RefuseParam("invalid_value", "metadata", "the entry %.64q is too long: keys have at most %d characters, values %d", key, maxMetadataKey, maxMetadataValue)
		}
	}
	return nil
}

// newInternalRequest is a request without a connection.
func newInternalRequest(method, path string, body []byte) *fasthttp.RequestCtx {
	ctx := &fasthttp.RequestCtx{}
	ctx.Init(&fasthttp.Request{}, nil, nil)
	ctx.Request.Header.SetMethod(method)
	ctx.Request.SetRequestURI(path)
	if body != nil {
		ctx.Request.Header.SetContentType("application/json")
		ctx.Request.SetBodyRaw(body)
	}
	return ctx
}
