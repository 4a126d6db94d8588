package batch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
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

	// Models are the names that lines may ask for here, the one of lines without a model first. A batch that another server has begun is
	// left to it where its model is none of these. nil: this server has all.
	Models func() []string
	// Busy is how many other requests run or wait that are not of the lowest class.
	Busy func() int
	// Audit notes a change before it is made; an error prevents it. by names who asked.
	Audit func(ctx context.Context, by, action, object string, details map[string]any) error
	// Failed hears of failures in the background. It must not block.
	Failed func(error)
}

// Edge answers requests that the process makes itself.
type Edge interface {
	HandleFor(ctx *fasthttp.RequestCtx, r *edge.InternalRequest)
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

// Server answers requests for files and batches, and runs the batches.
type Server struct {
	config  Config
	routes  []*route
	folder  *folder // nil: unavailable
	running *edge.Running
	uploads uploads
	worker  *worker // nil: unavailable
}

// New returns a server. Start runs the batches.
func New(c Config) (*Server, error) {
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
	s := &Server{config: c, running: edge.NewRunning(), uploads: uploads{byTenant: map[string]int{}}}
	if c.Store == nil {
		s.routes = s.routeTable()
		return s, nil
	}
	var err error
	if s.folder, err = openFolder(c.Dir, c.Cipher); err != nil {
		return nil, fmt.Errorf("the folder of files: %w", err)
	}
	s.routes, s.worker = s.routeTable(), newWorker(&s.config, s.folder)
	return s, nil
}

// Start runs batches until Drain.
func (s *Server) Start() {
	if s.worker != nil {
		s.worker.start()
	}
}

const (
	routeFiles   = "/v1/files"
	routeFile    = "/v1/files/{id}"
	routeContent = "/v1/files/{id}/content"
	routeBatches = "/v1/batches"
	routeBatch   = "/v1/batches/{id}"
	routeCancel  = "/v1/batches/{id}/cancel"
)

// route is one path, with what each of its methods does.
type route struct {
	edge.Route
	server *Server
	serve  map[string]func(*call) *api.Error // by method
}

func (s *Server) routeTable() []*route {
	type verbs = map[string]func(*call) *api.Error
	table := []*route{
		{Route: edge.Route{Pattern: routeFiles}, serve: verbs{http.MethodGet: (*call).listFiles, http.MethodPost: (*call).createFile}},
		{Route: edge.Route{Pattern: routeFile}, serve: verbs{http.MethodGet: (*call).showFile, http.MethodDelete: (*call).deleteFile}},
		{Route: edge.Route{Pattern: routeContent}, serve: verbs{http.MethodGet: (*call).fileContent}},
		{Route: edge.Route{Pattern: routeBatches}, serve: verbs{http.MethodGet: (*call).listBatches, http.MethodPost: (*call).createBatch}},
		{Route: edge.Route{Pattern: routeBatch}, serve: verbs{http.MethodGet: (*call).showBatch}},
		{Route: edge.Route{Pattern: routeCancel}, serve: verbs{http.MethodPost: (*call).cancelBatch}},
	}
	for _, rt := range table {
		rt.server, rt.Scope = s, tenant.ScopeInference
		rt.Methods = slices.Sorted(maps.Keys(rt.serve))
		if s.folder == nil {
			rt.Bars = func(*fasthttp.RequestHeader, tenant.Caller) *api.Error {
				return api.Refuse("unsupported_operation", s.config.Unavailable)
			}
		}
	}
	return table
}

// Find implements edge.Protocol.
func (s *Server) Find(path string) (edge.Endpoint, edge.Params) {
	if !strings.HasPrefix(path, routeFiles) && !strings.HasPrefix(path, routeBatches) || !edge.IsNormal(path) {
		return nil, edge.Params{}
	}
	for _, rt := range s.routes {
		if id, ok := match(rt.Pattern, path); ok {
			return rt, edge.Params{Name: id}
		}
	}
	return nil, edge.Params{}
}

// Routes implements edge.Protocol.
func (s *Server) Routes() (list []*edge.Route) {
	for _, rt := range s.routes {
		list = append(list, &rt.Route)
	}
	return list
}

// Hooks implements edge.Protocol.
func (s *Server) Hooks() *edge.Hooks { return &s.config.Hooks }

// IsDraining implements edge.Protocol.
func (s *Server) IsDraining() bool { return s.running.IsDraining() }

// About implements edge.Endpoint.
func (rt *route) About() *edge.Route { return &rt.Route }

// Begin implements edge.Endpoint.
func (rt *route) Begin(x *edge.Exchange) edge.Call {
	return &call{Server: rt.server, route: rt, ctx: x.Ctx, id: x.Params.Name, caller: x.Caller, arrived: x.Arrived}
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

// Upload implements api.Uploads: the bodies of new files are read here.
func (s *Server) Upload(h *fasthttp.RequestHeader) (maxBytes int64, setting string) {
	if edge.PathView(h.RequestURI()) == routeFiles && edge.MethodName(h) == http.MethodPost {
		return s.config.Limits.FileBytes + maxFormBytes, settingFileBytes
	}
	return 0, ""
}

// call is one request on its way through the server.
type call struct {
	*Server
	route   *route
	ctx     *fasthttp.RequestCtx
	id      string // in the path
	caller  tenant.Caller
	arrived time.Time
}

// Serve implements edge.Call.
func (c *call) Serve() *api.Error {
	if !c.running.Enter() {
		return edge.ShuttingDown()
	}
	defer c.running.Leave()
	method := edge.MethodName(&c.ctx.Request.Header)
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return c.route.serve[method](c)
}

// Refuse implements edge.Call.
func (c *call) Refuse(fault *api.Error) { fault.Write(c.ctx) }

// Describe implements edge.Call.
func (c *call) Describe(*api.Error, *edge.Refusal) {}

// End implements edge.Call.
func (c *call) End() {}

// Stop implements edge.Stopper: no more lines are started.
func (s *Server) Stop() {
	if s.worker != nil {
		s.worker.stop()
	}
}

// Drain refuses new requests and waits for those that run, and for the lines that run: those that end while the others' protocols drain count,
// the next process does the rest.
func (s *Server) Drain(ctx context.Context) error {
	s.Stop()
	err := s.running.Drain(ctx, abortTimeout)
	if s.worker != nil {
		s.worker.wait()
	}
	return err
}

// abortTimeout is what uploads and downloads get at the end of a drain.
const abortTimeout = time.Second

var (
	_ edge.Protocol = (*Server)(nil)
	_ edge.Stopper  = (*Server)(nil)
)

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

// page reads the parameters of a list.
func (c *call) page(most, usual int) (Page, *api.Error) {
	args := c.ctx.QueryArgs()
	p := Page{After: string(args.Peek("after")), Limit: usual, Purpose: string(args.Peek("purpose"))}
	if args.Has("limit") {
		n, err := args.GetUint("limit")
		if err != nil || n < 1 || n > most {
			return p, api.RefuseParam("invalid_value", "limit", "limit is %.40q; it must be a whole number from 1 to %d", args.Peek("limit"), most)
		}
		p.Limit = n
	}
	switch order := string(args.Peek("order")); order {
	case "asc":
		p.Ascending = true
	case "", "desc":
	default:
		return p, api.RefuseParam("invalid_value", "order", "order is %.40q; it must be asc or desc", order)
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
