package batch

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/api/tenant"
)

// Config is what a Server is made of.
type Config struct {
	Callers *tenant.Authenticator
	Keys    *edge.Keys // of idempotency; nil: none are read
	Hooks   edge.Hooks // OnResponse, OnRefused and OnPanic
	Edge    Edge       // answers the lines
	Limits  Limits

	Store Store  // nil: Unavailable says why, and every request is refused with it
	Dir   string // of the files' bytes; made at need

	Cipher Cipher // of the files' bytes and the batches' answers; nil: they are in clear

	Unavailable string

	// Busy is how many other requests run or wait that are not of the lowest class.
	Busy func() int
	// Audit notes a change before it is made; an error prevents it. by names who asked.
	Audit func(ctx context.Context, by, action, object string, details map[string]any) error
	// Failed hears of failures in the background. It must not block.
	Failed func(error)

	DrainRetries bool // clients refused while the server drains should try again
}

// Edge answers requests that the process makes itself.
type Edge interface {
	HandleFor(ctx *fasthttp.RequestCtx, errand *edge.Errand)
	// Serves reports whether there is a path of this method.
	Serves(method, path string) bool
}

// Limits bound what tenants can make the server keep and do.
type Limits struct {
	FileBytes       int64         // of one file
	TenantBytes     int64         // of one tenant's files; 0: no bound
	LineBytes       int           // of one line of a batch
	Concurrency     int           // lines at a time while no other requests run
	BusyConcurrency int           // while others run; 0: none
	PricePercent    int           // of the models' prices
	FileTTL         time.Duration // life of a batch's files whose client sets none
}

// DefaultLimits are those of OpenAI, where it has any.
func DefaultLimits() Limits {
	return Limits{FileBytes: 512 << 20, TenantBytes: 8 << 30, LineBytes: 8<<20 + 4<<10, Concurrency: 8, BusyConcurrency: 1,
		PricePercent: 50, FileTTL: 30 * 24 * time.Hour}
}

// What OpenAI bounds, and the server with it.
const (
	maxLines      = 50_000
	maxInputBytes = 200 << 20 // of a batch's file

	maxUnfinished      = 256 // batches of a tenant
	maxUploads         = 16  // at a time
	maxTenantUploads   = 4
	maxMetadata        = 16
	maxMetadataKey     = 64
	maxMetadataValue   = 512
	leastFileSeconds   = 3600
	mostFileSeconds    = 2_592_000
	storeTimeout       = 10 * time.Second
	maxFilenameBytes   = 255
	settingFileBytes   = "--file-max-bytes"
	settingTenantBytes = "--file-tenant-bytes"
)

// Server answers requests for files and batches, passes all others on, and runs the batches.
type Server struct {
	config  Config
	next    api.Handler
	folder  *folder // nil: unavailable
	running *edge.Running
	ids     edge.IDs
	uploads uploads
	worker  *worker // nil: unavailable
}

// New returns a server in front of next, which gets what is not of this package. Start runs the batches.
func New(c Config, next api.Handler) (*Server, error) {
	switch {
	case c.Callers == nil || c.Edge == nil:
		return nil, errors.New("batch: callers and edge are needed")
	case c.Store == nil && c.Unavailable == "":
		return nil, errors.New("batch: without a store it takes a reason")
	}
	if c.Busy == nil {
		c.Busy = func() int { return 0 }
	}
	if c.Audit == nil {
		c.Audit = func(context.Context, string, string, string, map[string]any) error { return nil }
	}
	if c.Failed == nil {
		c.Failed = func(error) {}
	}
	s := &Server{config: c, next: next, running: edge.NewRunning(), uploads: uploads{byTenant: map[string]int{}}}
	if c.Store == nil {
		return s, nil
	}
	var err error
	if s.folder, err = openFolder(c.Dir, c.Cipher); err != nil {
		return nil, fmt.Errorf("the folder of files: %w", err)
	}
	s.worker = newWorker(&s.config, s.folder)
	return s, nil
}

// Start runs batches until Drain.
func (s *Server) Start() {
	if s.worker != nil {
		s.worker.start()
	}
}

// route is what one path asks for.
type route struct {
	pattern string
	method  string
	serve   func(*call) *api.Error
}

const (
	routeFiles   = "/v1/files"
	routeFile    = "/v1/files/{id}"
	routeContent = "/v1/files/{id}/content"
	routeBatches = "/v1/batches"
	routeBatch   = "/v1/batches/{id}"
	routeCancel  = "/v1/batches/{id}/cancel"
)

var routes = []route{
	{routeFiles, http.MethodGet, (*call).listFiles},
	{routeFiles, http.MethodPost, (*call).createFile},
	{routeFile, http.MethodGet, (*call).showFile},
	{routeFile, http.MethodDelete, (*call).deleteFile},
	{routeContent, http.MethodGet, (*call).fileContent},
	{routeBatches, http.MethodGet, (*call).listBatches},
	{routeBatches, http.MethodPost, (*call).createBatch},
	{routeBatch, http.MethodGet, (*call).showBatch},
	{routeCancel, http.MethodPost, (*call).cancelBatch},
}

// find is the route of a request, and the id in its path. ours: the path is of this package; a route without
// serve has another method.
func find(h *fasthttp.RequestHeader) (rt route, id string, ours bool) {
	path := edge.PathView(h.RequestURI())
	if !strings.HasPrefix(path, routeFiles) && !strings.HasPrefix(path, routeBatches) || !edge.IsNormal(path) {
		return route{}, "", false
	}
	method := edge.MethodName(h)
	var allowed []string
	for _, r := range routes {
		got, ok := match(r.pattern, path)
		if !ok {
			continue
		}
		if method == r.method || method == http.MethodHead && r.method == http.MethodGet {
			return r, strings.Clone(got), true
		}
		rt.pattern, ours, allowed = r.pattern, true, append(allowed, r.method)
	}
	rt.method = strings.Join(allowed, ", ")
	return rt, "", ours
}

// match reports whether a path is of a pattern, and what stands at its {id}.
func match(pattern, path string) (id string, ok bool) {
	before, after, found := strings.Cut(pattern, "{id}")
	if !found {
		return "", path == pattern
	}
	rest, ok := strings.CutPrefix(path, before)
	if !ok {
		return "", false
	}
	id, ok = strings.CutSuffix(rest, after)
	return id, ok && id != "" && !strings.Contains(id, "/")
}

// admit checks the method and the caller of a request.
func (s *Server) admit(rt *route, h *fasthttp.RequestHeader, peer *x509.Certificate, look bool) (c tenant.Caller, fault *api.Error, why string) {
	if c, fault, why = edge.Identify(s.config.Callers, edge.ProofOf(h, peer, look)); fault != nil {
		return c, fault, why
	}
	switch {
	case rt.serve == nil:
		fault = api.Refuse("method_not_allowed", fmt.Sprintf("%s does not take %s; it takes %s", rt.pattern, edge.MethodName(h), rt.method))
	case !c.Scope.Has(tenant.ScopeInference):
		fault = edge.LacksScope(tenant.ScopeInference)
	case s.folder == nil:
		fault = api.Refuse("unsupported_operation", s.config.Unavailable)
	}
	return c, fault, ""
}

// Takes reports whether the head of a request lets it pass.
func (s *Server) Takes(h *fasthttp.RequestHeader, peer *x509.Certificate) bool {
	rt, _, ours := find(h)
	if !ours {
		return s.next.Takes(h, peer)
	}
	_, fault, _ := s.admit(&rt, h, peer, true)
	return fault == nil
}

// Upload implements api.Uploads: the bodies of new files are read here.
func (s *Server) Upload(h *fasthttp.RequestHeader) (maxBytes int64, setting string) {
	if rt, _, ours := find(h); ours && rt.pattern == routeFiles && rt.method == http.MethodPost {
		return s.config.Limits.FileBytes + maxFormBytes, settingFileBytes
	}
	if next, ok := s.next.(api.Uploads); ok {
		return next.Upload(h)
	}
	return 0, ""
}

// call is one request on its way through the server.
type call struct {
	*Server
	ctx     *fasthttp.RequestCtx
	id      string // in the path
	caller  tenant.Caller
	arrived time.Time
}

// Handle answers one request.
func (s *Server) Handle(ctx *fasthttp.RequestCtx) {
	rt, id, ours := find(&ctx.Request.Header)
	if !ours {
		s.next.Handle(ctx)
		return
	}
	c := &call{Server: s, ctx: ctx, id: id, arrived: time.Now()}
	c.name()
	caller, fault, why := s.admit(&rt, &ctx.Request.Header, api.Peer(ctx), false)
	if c.caller = caller; fault == nil {
		fault = c.serve(&rt)
	}
	if fault != nil {
		fault.NoRetry = fault.NoRetry || s.running.IsDraining() && !s.config.DrainRetries
		fault.Write(ctx)
		switch fault.Status {
		case http.StatusUnauthorized:
			ctx.Response.Header.Set("WWW-Authenticate", "Bearer")
		case http.StatusMethodNotAllowed:
			ctx.Response.Header.Set("Allow", rt.method)
		}
		s.refused(c, &rt, fault, why)
	}
	if s.running.IsDraining() {
		ctx.SetConnectionClose()
	}
	s.responded(c, &rt)
}

// serve answers a request that was admitted, unless the server drains.
func (c *call) serve(rt *route) *api.Error {
	if !c.running.Enter() {
		return edge.ShuttingDown()
	}
	defer c.running.Leave()
	return rt.serve(c)
}

// name sends the request's id.
func (c *call) name() {
	name := c.ids.Next()
	if own := c.ctx.Request.Header.Peek("X-Request-Id"); edge.IsPlain(own) {
		name = string(own)
	}
	c.ctx.Response.Header.Set("X-Request-Id", name)
}

func (s *Server) refused(c *call, rt *route, fault *api.Error, why string) {
	if h := s.config.Hooks.OnRefused; h != nil {
		r := edge.Refusal{
			ID: string(c.ctx.Response.Header.Peek("X-Request-Id")), Route: rt.pattern, Method: edge.MethodName(&c.ctx.Request.Header),
			Remote: c.ctx.RemoteAddr().String(), Status: fault.Status, Code: fault.Code, Arrived: c.arrived, Reason: why,
		}
		r.By(&c.caller)
		h(r)
	}
}

func (s *Server) responded(c *call, rt *route) {
	if h := s.config.Hooks.OnResponse; h != nil {
		h(rt.pattern, edge.MethodName(&c.ctx.Request.Header), c.ctx.Response.StatusCode(), time.Since(c.arrived))
	}
}

// Refused is told of a request that package api refused.
func (s *Server) Refused(ctx *fasthttp.RequestCtx, fault *api.Error) {
	rt, _, ours := find(&ctx.Request.Header)
	if !ours {
		s.next.Refused(ctx, fault)
		return
	}
	c := &call{Server: s, ctx: ctx, arrived: time.Now()}
	c.name()
	s.refused(c, &rt, fault, "")
	s.responded(c, &rt)
}

// Drain starts no more lines, refuses new requests, and drains what is behind this handler, to which the lines
// that run belong: those that end count, the others are done by the next process.
func (s *Server) Drain(ctx context.Context) error {
	if s.worker != nil {
		s.worker.stop()
	}
	behind := make(chan error, 1)
	go func() { behind <- s.next.Drain(ctx) }()
	err := s.running.Drain(ctx, abortTimeout)
	err = errors.Join(err, <-behind)
	if s.worker != nil {
		s.worker.wait()
	}
	return err
}

// abortTimeout is what uploads and downloads get at the end of a drain.
const abortTimeout = time.Second

// Panicked is told of a panic of Handle.
func (s *Server) Panicked(value any, stack []byte) { s.next.Panicked(value, stack) }

var _ api.Uploads = (*Server)(nil)

// storeContext bounds a question to the store.
func storeContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), storeTimeout)
}

// stored is what a client is told of an error of the store.
func (s *Server) stored(err error, what, id string) *api.Error {
	switch {
	case errors.Is(err, ErrUnknown):
		return notFound(what, id)
	default:
		s.config.Failed(fmt.Errorf("the store of files and batches: %w", err))
		return api.Refuse("files_unavailable", "the store of files and batches does not answer; retry")
	}
}

func notFound(what, id string) *api.Error {
	code := "file_not_found"
	if what == "batch" {
		code = "batch_not_found"
	}
	e := api.Refuse(code, fmt.Sprintf("there is no %s %.80q", what, id))
	e.Param = "id"
	return e
}

func invalid(code, param, format string, args ...any) *api.Error {
	e := api.Refuse(code, fmt.Sprintf(format, args...))
	e.Param = param
	return e
}

// page reads the parameters of a list.
func (c *call) page(most, usual int) (Page, *api.Error) {
	args := c.ctx.QueryArgs()
	p := Page{After: string(args.Peek("after")), Limit: usual, Purpose: string(args.Peek("purpose"))}
	if args.Has("limit") {
		n, err := args.GetUint("limit")
		if err != nil || n < 1 || n > most {
			return p, invalid("invalid_value", "limit", "limit is %.40q; it must be a whole number from 1 to %d", args.Peek("limit"), most)
		}
		p.Limit = n
	}
	switch order := string(args.Peek("order")); order {
	case "asc":
		p.Ascending = true
	case "", "desc":
	default:
		return p, invalid("invalid_value", "order", "order is %.40q; it must be asc or desc", order)
	}
	return p, nil
}

// list is a page as clients read it.
type list[T any] struct {
	Object  string  `json:"object"`
	Data    []T     `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

func listOf[T any](items []T, id func(*T) string, more bool) list[T] {
	l := list[T]{Object: "list", Data: items, HasMore: more}
	if len(items) > 0 {
		first, last := id(&items[0]), id(&items[len(items)-1])
		l.FirstID, l.LastID = &first, &last
	} else {
		l.Data = []T{}
	}
	return l
}
