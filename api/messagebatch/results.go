package messagebatch

import (
	"io"
	"sync"

	"weir/api"
	"weir/api/batch"
	"weir/api/openai/messages"
)

// appendFault is an error as Anthropic's clients read it.
func (c *call) appendFault(fault *api.Error) []byte {
	return messages.AppendFault(nil, fault, c.requestID())
}

// results answers with a line for each request of a batch that is over, in no order.
func (c *call) results() *api.Error {
	b, fault := c.found()
	if fault != nil {
		return fault
	}
	if !b.Status.Over() {
		return api.RefuseParam("batch_not_found", "id", "the batch %s has no results yet; its processing_status becomes ended", b.ID)
	}
	body, fault := c.desk().Results(&b, func(dst []byte, r *batch.Result) []byte { return appendResult(dst, &b, r) })
	if fault != nil {
		return fault
	}
	leave := func() {}
	if c.running.Enter() { // a drain that has begun meanwhile does not wait for it
		leave = sync.OnceFunc(c.running.Leave)
	}
	c.ctx.Response.Header.SetContentType("application/x-jsonl")
	c.ctx.Response.Header.Set("X-Content-Type-Options", "nosniff")
	c.ctx.SetBodyStream(&download{ReadCloser: body, leave: leave}, -1)
	return nil
}

// download is results that are being sent. fasthttp closes them in the end.
type download struct {
	io.ReadCloser
	leave func()
}

// Close implements io.Closer.
func (d *download) Close() error {
	d.leave()
	return d.ReadCloser.Close()
}

var _ io.ReadCloser = (*download)(nil)

// appendResult appends {"custom_id","result":{"type":…}} and the end of the line.
func appendResult(dst []byte, b *batch.Batch, r *batch.Result) []byte {
	dst = api.AppendString(append(dst, `{"custom_id":`...), r.CustomID)
	dst = append(dst, `,"result":{"type":`...)
	switch {
	case r.Status >= 200 && r.Status < 300:
		dst = append(append(dst, `"succeeded","message":`...), r.Body...)
	case r.Status != 0:
		dst = append(append(dst, `"errored","error":`...), r.Body...)
	case r.Code == "batch_cancelled", r.Code == "" && b.Status == batch.StatusCancelled:
		dst = append(dst, `"canceled"`...)
	case r.Code == "batch_expired", r.Code == "" && b.Status == batch.StatusExpired:
		dst = append(dst, `"expired"`...)
	case r.Code == "request_timeout":
		dst = messages.AppendFault(append(dst, `"errored","error":`...), api.Refuse("deadline_exceeded", r.Message), "")
	default:
		dst = messages.AppendFault(append(dst, `"errored","error":`...), api.Refuse("invalid_value", r.Message), "")
	}
	return append(dst, "}}\n"...)
}
