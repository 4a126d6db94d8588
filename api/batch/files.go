package batch

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"weir/api"
)

// fileObject is a file as clients read it.
type fileObject struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt *int64 `json:"expires_at"`
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"`
}

func objectOf(f File) fileObject {
	return fileObject{ID: f.ID, Object: "file", Bytes: f.Bytes, CreatedAt: f.Created.Unix(), ExpiresAt: unix(f.Expires), Filename: f.Name,
		Purpose: f.Purpose, Status: "processed"}
}

// unix is a time in seconds; nil for the zero time.
func unix(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	n := t.Unix()
	return &n
}

func (c *call) listFiles() *api.Error {
	p, fault := c.page(10_000, 10_000)
	if fault != nil {
		return fault
	}
	ctx, cancel := storeContext()
	defer cancel()
	files, more, err := c.config.Store.Files(ctx, c.caller.Tenant.Name, p, time.Now())
	if err != nil {
		return c.listFault(err, p)
	}
	objects := make([]fileObject, len(files))
	for i, f := range files {
		objects[i] = objectOf(f)
	}
	api.WriteJSON(c.ctx, 200, listOf(objects, func(f *fileObject) string { return f.ID }, more))
	return nil
}

// listFault is the fault of a page that begins behind what is not there.
func (c *call) listFault(err error, p Page) *api.Error {
	if errors.Is(err, ErrUnknown) {
		return api.RefuseParam("invalid_value", "after", "after is %.80q; it must be an id of the list", p.After)
	}
	return c.stored(err, "", "")
}

// file finds the file of the path.
func (c *call) file() (File, *api.Error) {
	ctx, cancel := storeContext()
	defer cancel()
	f, err := c.config.Store.FindFile(ctx, c.caller.Tenant.Name, c.id, time.Now())
	if err != nil {
		return f, c.stored(err, "file", c.id)
	}
	return f, nil
}

func (c *call) showFile() *api.Error {
	f, fault := c.file()
	if fault == nil {
		api.WriteJSON(c.ctx, 200, objectOf(f))
	}
	return fault
}

// fileContent answers with a file's bytes, as they are read.
func (c *call) fileContent() *api.Error {
	f, fault := c.file()
	if fault != nil {
		return fault
	}
	if f.Place != c.folder.place {
		return elsewhere(f)
	}
	file, err := c.folder.open(f.Tenant, f.ID)
	if err != nil {
		c.config.Failed(fmt.Errorf("the bytes of a file: %w", err))
		return api.Refuse("internal_error", "the file's bytes cannot be read")
	}
	h := &c.ctx.Response.Header
	h.SetContentType("application/octet-stream")
	if f.Purpose == PurposeOutput {
		h.SetContentType("application/jsonl")
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", `attachment; filename="`+plainName(f.Name)+`"`)
	leave := func() {}
	if c.running.Enter() { // a drain that has begun meanwhile does not wait for it
		leave = sync.OnceFunc(c.running.Leave)
	}
	c.ctx.SetBodyStream(&download{ReadCloser: file, leave: leave}, int(f.Bytes))
	return nil
}

// download is a file that is being sent. fasthttp closes it in the end.
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

// elsewhere refuses a file that another server's folder has.
func elsewhere(f File) *api.Error {
	return api.Refuse("files_unavailable", fmt.Sprintf("the bytes of %s are in the folder of another server; servers that share a store share one folder (--file-dir)", f.ID))
}

// plainName is a name that may stand in a header.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' || r == '/' {
			return '_'
		}
		return r
	}, name)
}

func (c *call) deleteFile() *api.Error {
	f, fault := c.file()
	if fault == nil {
		fault = c.remove(f)
	}
	if fault == nil {
		api.WriteJSON(c.ctx, 200, map[string]any{"id": f.ID, "object": "file", "deleted": true})
	}
	return fault
}

// remove deletes a file that no unfinished batch reads.
func (c *call) remove(f File) *api.Error {
	ctx, cancel := storeContext()
	defer cancel()
	if err := c.config.Audit(ctx, c.by(), "file.delete", f.ID, nil); err != nil {
		return c.stored(err, "", "")
	}
	switch err := c.config.Store.RemoveFile(ctx, f.Tenant, f.ID); {
	case errors.Is(err, ErrInUse):
		return api.Refuse("file_in_use", fmt.Sprintf("an unfinished batch reads %s; cancel the batch first", f.ID))
	case err != nil:
		return c.stored(err, "file", f.ID)
	}
	if f.Place == c.folder.place {
		if err := c.folder.remove(f.ID); err != nil { // the sweep deletes it
			c.config.Failed(fmt.Errorf("delete the bytes of a file: %w", err))
		}
	}
	return nil
}

// by names the caller in the audit log.
func (c *call) by() string {
	if by := c.caller.By(c.ctx.RemoteIP().String()); by != "" {
		return by
	}
	return c.ctx.RemoteIP().String()
}

// uploads counts those that are under way.
type uploads struct {
	mu       sync.Mutex
	all      int
	byTenant map[string]int
}

// enter takes a place for one upload of a tenant; why there is none.
func (u *uploads) enter(tenant string) *api.Error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.byTenant[tenant] >= maxTenantUploads:
		return api.Refuse("rate_limit_exceeded", fmt.Sprintf("%d uploads of the tenant are under way; send the next one when one of them has ended", maxTenantUploads))
	case u.all >= maxUploads:
		return api.Refuse("server_is_overloaded", fmt.Sprintf("%d uploads are under way; retry", maxUploads))
	}
	u.all++
	u.byTenant[tenant]++
	return nil
}

func (u *uploads) leave(tenant string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all--
	if u.byTenant[tenant]--; u.byTenant[tenant] == 0 {
		delete(u.byTenant, tenant)
	}
}
