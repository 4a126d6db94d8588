package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"weir/api"
	"weir/api/edge"
	"weir/internal/semaphore"
)

// A file comes as multipart/form-data: a part called file, and the fields purpose, expires_after[anchor] and
// expires_after[seconds] before or behind it. Its bytes go to the disk as they arrive.

const (
	maxFormBytes  = 64 << 10 // of a form, beside the file's bytes
	maxFormParts  = 16
	maxFieldBytes = 1 << 10
)

// form is what an upload says.
type form struct {
	id      string // that the file gets
	file    *draft // nil: no part is the file
	name    string
	purpose string
	anchor  string
	seconds string
}

func (c *call) createFile() *api.Error {
	body := api.UploadOf(c.ctx)
	if body == nil {
		return api.RefuseParam("missing_required_parameter", "file", "the request has no body; send multipart/form-data with the parts file and purpose")
	}
	if fault := c.keepable(); fault != nil {
		return fault
	}
	who := c.caller.Tenant.Name
	if fault := c.uploads.enter(who); fault != nil {
		return fault
	}
	defer c.uploads.leave(who)
	room, fault := c.room(who, c.ctx.Request.Header.ContentLength())
	if fault != nil {
		return fault
	}
	f := form{id: newID("file-")}
	defer func() {
		if f.file != nil {
			f.file.discard()
		}
	}()
	if fault := c.readForm(&f, body, room); fault != nil {
		return fault
	}
	file, fault := f.read(time.Now(), c.config.Limits.FileTTL)
	if fault != nil {
		return fault
	}
	file.ID, file.Tenant, file.Place, file.DataKey = f.id, who, c.folder.place, f.file.key
	if fault := c.keep(&f, file); fault != nil {
		return fault
	}
	api.WriteJSON(c.ctx, 200, objectOf(file))
	return nil
}

// keepable refuses what would keep texts of a tenant of which nothing is kept.
func (c *call) keepable() *api.Error {
	if c.caller.Tenant.KeepsNothing() {
		return api.Refuse("retention_none", "nothing of this tenant is kept (retention: none), and files and batches are; send the requests one by one")
	}
	return nil
}

// room is how many bytes the tenant's files may still take. declared is the length of the request's body; below 0
// it is not known.
func (c *call) room(who string, declared int) (int64, *api.Error) {
	most := c.config.Limits.TenantBytes
	if most == 0 {
		return c.config.Limits.FileBytes, nil
	}
	ctx, cancel := storeContext()
	defer cancel()
	held, err := c.config.Store.FileBytes(ctx, who)
	if err != nil {
		return 0, c.stored(err, "", "")
	}
	room := most - held
	if room < LeastBytes || int64(declared) > room+maxFormBytes {
		return 0, c.full(held)
	}
	return min(room, c.config.Limits.FileBytes), nil
}

func (c *call) full(held int64) *api.Error {
	return api.Refuse("insufficient_quota", fmt.Sprintf("the tenant's files hold %d of %d bytes, and this one does not fit beside them; delete some, or ask the operator for more (%s)",
		held, c.config.Limits.TenantBytes, settingTenantBytes))
}

// readForm reads the parts of an upload. The file may have room bytes.
func (c *call) readForm(f *form, body *api.Upload, room int64) *api.Error {
	kind, parameters, err := mime.ParseMediaType(string(c.ctx.Request.Header.ContentType()))
	if err != nil || kind != "multipart/form-data" || parameters["boundary"] == "" {
		return api.RefuseParam("unsupported_media_type", "", "the content type is %.80q; a file comes as multipart/form-data with the parts file and purpose",
			c.ctx.Request.Header.ContentType())
	}
	if fault := edge.Uncoded(&c.ctx.Request.Header); fault != nil {
		return fault
	}
	parts := multipart.NewReader(body, parameters["boundary"])
	for n := 0; ; n++ {
		part, err := parts.NextRawPart()
		switch {
		case errors.Is(err, io.EOF):
			return c.rest(body)
		case err != nil:
			return formFault(body, err)
		case n == maxFormParts:
			return api.RefuseParam("invalid_value", "", "the form has more than %d parts; a file has file, purpose and expires_after", maxFormParts)
		}
		if fault := c.readPart(f, part, body, room); fault != nil {
			return fault
		}
	}
}

// rest reads what follows the last part: nothing, as a rule.
func (c *call) rest(body *api.Upload) *api.Error {
	if n, err := io.Copy(io.Discard, io.LimitReader(body, maxFormBytes+1)); err != nil {
		return formFault(body, err)
	} else if n > maxFormBytes {
		return api.RefuseParam("malformed_request", "", "more follows the form's end")
	}
	return nil
}

// formFault is what went wrong while a form was read.
func formFault(body *api.Upload, err error) *api.Error {
	if fault := body.Fault(); fault != nil {
		return fault
	}
	return api.RefuseParam("malformed_request", "", "the body is no multipart form: %v", err)
}

func (c *call) readPart(f *form, part *multipart.Part, body *api.Upload, room int64) *api.Error {
	var into *string
	switch part.FormName() {
	case "file":
		return c.readFile(f, part, body, room)
	case "purpose":
		into = &f.purpose
	case "expires_after[anchor]":
		into = &f.anchor
	case "expires_after[seconds]":
		into = &f.seconds
	default:
		return api.RefuseParam("unknown_parameter", "", "the form has a part %.80q; a file has file, purpose, expires_after[anchor] and expires_after[seconds]", part.FormName())
	}
	text, err := io.ReadAll(io.LimitReader(part, maxFieldBytes+1))
	switch {
	case err != nil:
		return formFault(body, err)
	case len(text) > maxFieldBytes:
		return api.RefuseParam("invalid_value", part.FormName(), "%s has more than %d bytes", part.FormName(), maxFieldBytes)
	case *into != "":
		return api.RefuseParam("duplicate_parameter", part.FormName(), "%s stands twice in the form", part.FormName())
	}
	*into = string(text)
	return nil
}

// readFile writes the file's bytes to the disk.
func (c *call) readFile(f *form, part *multipart.Part, body *api.Upload, room int64) *api.Error {
	if f.file != nil {
		return api.RefuseParam("duplicate_parameter", "file", "the form has two files; send one at a time")
	}
	d, err := c.folder.create()
	if err != nil {
		return c.diskFault(err)
	}
	f.file, f.name = d, part.FileName()
	if err := d.encrypt(c.caller.Tenant.Name, f.id, ""); err != nil {
		return c.diskFault(err)
	}
	source := &sourceErrors{Reader: io.LimitReader(part, room+1)}
	if _, err := io.Copy(&pacedWriter{d, c.worker.permits, c.caller.Tenant.Name}, source); err != nil {
		if source.err != nil {
			return formFault(body, err)
		}
		return c.diskFault(err)
	}
	switch {
	case d.bytes > c.config.Limits.FileBytes:
		return api.Refuse("request_too_large", fmt.Sprintf("the file is larger than %d bytes (%s)", c.config.Limits.FileBytes, settingFileBytes))
	case d.bytes > room:
		return c.full(c.config.Limits.TenantBytes - room)
	}
	return nil
}

// pacedWriter acquires a permit for each piece that it writes: beside other requests a file comes no faster than the
// rests of its work let it.
type pacedWriter struct {
	to      io.Writer
	permits *semaphore.Semaphore
	tenant  string
}

func (w *pacedWriter) Write(p []byte) (int, error) {
	permit, err := w.permits.Acquire(nil, w.tenant)
	if err != nil {
		return 0, err
	}
	defer permit.Release()
	return w.to.Write(p)
}

// sourceErrors notes what reading failed with, to be told from failures to write.
type sourceErrors struct {
	io.Reader
	err error
}

func (s *sourceErrors) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func (c *call) diskFault(err error) *api.Error {
	c.config.Failed(fmt.Errorf("the folder of files: %w", err))
	return api.Refuse("files_unavailable", "the file cannot be written to the server's disk; retry")
}

// read checks a whole form.
func (f *form) read(now time.Time, ttl time.Duration) (File, *api.Error) {
	file := File{Created: now, Purpose: f.purpose}
	switch {
	case f.file == nil:
		return file, api.RefuseParam("missing_required_parameter", "file", "the form has no part file")
	case f.purpose == "":
		return file, api.RefuseParam("missing_required_parameter", "purpose", "the form has no part purpose; it must be %s or %s", PurposeBatch, PurposeUser)
	case f.purpose != PurposeBatch && f.purpose != PurposeUser:
		return file, api.RefuseParam("invalid_value", "purpose", "purpose is %.40q; it must be %s or %s", f.purpose, PurposeBatch, PurposeUser)
	}
	file.Bytes, file.Name = f.file.bytes, cleanName(f.name)
	seconds, fault := readExpiry(f.anchor, f.seconds)
	if fault != nil {
		return file, fault
	}
	if seconds > 0 {
		file.Expires = now.Add(time.Duration(seconds) * time.Second)
	} else if f.purpose == PurposeBatch {
		file.Expires = now.Add(ttl)
	}
	return file, nil
}

// readExpiry reads expires_after; 0 is none.
func readExpiry(anchor, seconds string) (int64, *api.Error) {
	switch {
	case anchor == "" && seconds == "":
		return 0, nil
	case anchor != "created_at":
		return 0, api.RefuseParam("invalid_value", "expires_after[anchor]", "anchor is %.40q; it must be created_at", anchor)
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || n < leastFileSeconds || n > mostFileSeconds {
		return 0, api.RefuseParam("invalid_value", "expires_after[seconds]", "seconds is %.40q; it must be a whole number from %d to %d", seconds, leastFileSeconds, mostFileSeconds)
	}
	return n, nil
}

// cleanName is a client's name of a file as it is kept: its last part, valid UTF-8 and short.
func cleanName(name string) string {
	name = strings.ReplaceAll(strings.ToValidUTF8(name, "_"), "\x00", "_")
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	for len(name) > maxFilenameBytes {
		_, last := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-last]
	}
	if name == "" {
		return "file"
	}
	return name
}

// keep publishes an upload's bytes and adds the file to the store.
func (c *call) keep(f *form, file File) *api.Error {
	ctx, cancel := storeContext()
	defer cancel()
	if err := c.config.Audit(ctx, c.by(), "file.create", file.ID, map[string]any{"bytes": file.Bytes, "purpose": file.Purpose}); err != nil {
		return c.stored(err, "", "")
	}
	if err := f.file.publish(file.ID); err != nil {
		return c.diskFault(err)
	}
	err := c.config.Store.AddFile(ctx, file, c.config.Limits.TenantBytes)
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrQuota) { // others came first; where the store failed, its commit may have come through
		if err := c.folder.remove(file.ID); err != nil {
			c.config.Failed(fmt.Errorf("delete the bytes of a file: %w", err))
		}
		held, _ := c.config.Store.FileBytes(context.WithoutCancel(ctx), file.Tenant)
		return c.full(held)
	}
	return c.stored(err, "", "")
}
