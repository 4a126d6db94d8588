package batch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/tenant"
)

// Desk takes the orders of one request of a protocol that has another form of batches: their lines come in the request's body, and their
// results go in one list.
type Desk struct{ call }

// Desk is that of a request.
func (s *Server) Desk(ctx *fasthttp.RequestCtx, caller tenant.Caller) *Desk {
	return &Desk{call{Server: s, ctx: ctx, caller: caller}}
}

// Closed is why no orders are taken; nil: they are.
func (s *Server) Closed() *api.Error {
	if s.folder == nil {
		return api.Refuse("unsupported_operation", s.config.Unavailable)
	}
	return nil
}

// Order makes a batch of count requests to an endpoint, which write writes as lines of an input file. It has a day.
func (d *Desk) Order(prefix, endpoint string, count int, write func(io.Writer) error) (Batch, *api.Error) {
	if fault := d.keepable(); fault != nil {
		return Batch{}, fault
	}
	who := d.caller.Tenant.Name
	if fault := d.uploads.enter(who); fault != nil {
		return Batch{}, fault
	}
	defer d.uploads.leave(who)
	input, fault := d.input(write)
	if fault != nil {
		return Batch{}, fault
	}
	b := Batch{ID: newID(prefix), Tenant: who, Key: d.caller.KeyID(), Place: input.Place, Input: input.ID, Status: StatusValidating, Created: input.Created,
		Endpoint: endpoint, Window: "24h", Expires: input.Created.Add(24 * time.Hour), Total: count}
	ctx, cancel := storeContext()
	defer cancel()
	fault = d.add(ctx, b)
	if fault != nil {
		_ = d.remove(input) // else it expires
	}
	return b, fault
}

// input keeps the lines of a batch as a file of the tenant's.
func (d *Desk) input(write func(io.Writer) error) (File, *api.Error) {
	room, fault := d.room(d.caller.Tenant.Name, len(d.ctx.PostBody()))
	if fault != nil {
		return File{}, fault
	}
	draft, err := d.folder.create()
	if err != nil {
		return File{}, d.diskFault(err)
	}
	defer draft.discard()
	now := time.Now()
	file := File{ID: newID("file-"), Tenant: d.caller.Tenant.Name, Place: d.folder.place, Purpose: PurposeBatch, Name: "requests.jsonl", Created: now,
		Expires: now.Add(d.config.Limits.FileTTL)}
	if err := draft.encrypt(file.Tenant, file.ID, ""); err != nil {
		return File{}, d.diskFault(err)
	}
	if err := write(draft); err != nil {
		return File{}, d.diskFault(err)
	}
	if file.Bytes, file.DataKey = draft.bytes, draft.key; file.Bytes > room {
		return File{}, d.full(d.config.Limits.TenantBytes - room)
	}
	return file, d.keep(&form{file: draft}, file)
}

// Find is a batch of the caller's tenant.
func (d *Desk) Find(id string) (Batch, *api.Error) { return d.find(id) }

// List is a page of the tenant's batches whose requests are still there, the newest first.
func (d *Desk) List(p Page) (list []Batch, more bool, fault *api.Error) {
	ctx, cancel := storeContext()
	defer cancel()
	p.Kept = time.Now()
	list, more, err := d.config.Store.Batches(ctx, d.caller.Tenant.Name, p)
	if err != nil {
		return nil, false, d.listFault(err, p)
	}
	for i := range list {
		list[i] = d.live(list[i])
	}
	return list, more, nil
}

// Cancel asks for the end of a batch. One that has ended is returned as it is.
func (d *Desk) Cancel(id string) (Batch, *api.Error) { return d.cancel(id) }

// Delete deletes the requests and the results of a batch that is over.
func (d *Desk) Delete(b *Batch) *api.Error {
	if !b.Status.Over() {
		return api.Refuse("file_in_use", fmt.Sprintf("the batch %s is not over; cancel it first", b.ID))
	}
	ctx, cancel := storeContext()
	defer cancel()
	for _, id := range []string{b.Output, b.Faults, b.Input} {
		f, err := d.config.Store.FindFile(ctx, b.Tenant, id, time.Now())
		switch {
		case errors.Is(err, ErrUnknown):
			continue
		case err != nil:
			return d.stored(err, "", "")
		}
		if fault := d.remove(f); fault != nil {
			return fault
		}
	}
	return nil
}

// Has reports whether the requests of a batch are still there: they are deleted with it, or expire.
func (d *Desk) Has(b *Batch) bool {
	ctx, cancel := storeContext()
	defer cancel()
	_, err := d.config.Store.FindFile(ctx, b.Tenant, b.Input, time.Now())
	return !errors.Is(err, ErrUnknown)
}

// Result is how one request of a batch that is over ended.
type Result struct {
	CustomID string
	Status   int             // of the answer; 0: there is none
	Body     json.RawMessage // of the answer
	Code     string          // why there is no answer: batch_expired, batch_cancelled, request_timeout
	Message  string
}

// Results is a stream of the results of a batch that is over, each as form has it.
func (d *Desk) Results(b *Batch, form func(dst []byte, r *Result) []byte) (io.ReadCloser, *api.Error) {
	r := &resultStream{form: form}
	ctx, cancel := storeContext()
	defer cancel()
	files := []string{b.Output, b.Faults}
	if b.Output == "" && b.Faults == "" { // none was run: the requests are the results
		files = []string{b.Input}
	}
	for _, id := range files {
		if id == "" {
			continue
		}
		if fault := d.addFile(ctx, r, b.Tenant, id); fault != nil {
			_ = r.Close()
			return nil, fault
		}
	}
	return r, nil
}

func (d *Desk) addFile(ctx context.Context, r *resultStream, who, id string) *api.Error {
	f, err := d.config.Store.FindFile(ctx, who, id, time.Now())
	switch {
	case err != nil:
		return d.stored(err, "file", id)
	case f.Place != d.folder.place:
		return elsewhere(f)
	}
	file, err := d.folder.open(f.Tenant, f.ID)
	if err != nil {
		d.config.Failed(fmt.Errorf("the bytes of a file: %w", err))
		return api.Refuse("internal_error", "the batch's results cannot be read")
	}
	r.files = append(r.files, file)
	return nil
}

// resultStream reads lines of files and gives them in another form.
type resultStream struct {
	files []io.ReadCloser // that are left, the first one being read
	in    *bufio.Reader   // of the first; nil: not begun
	form  func([]byte, *Result) []byte
	out   []byte // that was not read yet
	buf   []byte // of out
}

// Read implements io.Reader.
func (r *resultStream) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if len(r.files) == 0 {
			return 0, io.EOF
		}
		if r.in == nil {
			r.in = bufio.NewReaderSize(r.files[0], 64<<10)
		}
		text, err := r.in.ReadBytes('\n')
		if len(text) > 0 {
			r.buf = r.append(r.buf[:0], text)
			r.out = r.buf
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = r.files[0].Close()
			r.files, r.in = r.files[1:], nil
		case err != nil:
			return 0, err
		}
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

func (r *resultStream) append(dst, text []byte) []byte {
	var l outputLine
	if json.Unmarshal(text, &l) != nil {
		return dst
	}
	var of Result
	if l.CustomID != nil {
		of.CustomID = *l.CustomID
	}
	if l.Response != nil {
		of.Status, of.Body = l.Response.Status, l.Response.Body
	}
	if l.Error != nil {
		of.Code, of.Message = l.Error.Code, l.Error.Message
	}
	return r.form(dst, &of)
}

// Close implements io.Closer.
func (r *resultStream) Close() (err error) {
	for _, f := range r.files {
		err = errors.Join(err, f.Close())
	}
	r.files = nil
	return err
}

var _ io.ReadCloser = (*resultStream)(nil)
