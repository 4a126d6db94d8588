// Package admin is the admin listener: metrics, profiles, state and the reset of
// the prefix cache, for operators. It uses net/http, whose pprof and promhttp
// handlers work as they are, and must not be reachable by clients of the API.
package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/pprof"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/replay"
	"weir/api/signin"
	"weir/api/tenant"
	"weir/api/usage"
	"weir/api/web"
	"weir/router"
	"weir/router/transfer"
)

// Config is what the handlers of the admin listener are made of.
type Config struct {
	Metrics     http.Handler                    // GET /metrics; nil: 404
	Ready       func() (ready bool, why string) // GET /health and /ready; nil: always ready
	Readiness   ReadinessFunc                   // GET /ready?deep and ?model=NAME; nil: as /ready
	Debug       map[string]func() any           // GET /debug/NAME: a snapshot as JSON
	Journal     *Journal                        // GET /admin/requests; nil: 404
	States      StatesFunc                      // what the engines say of running requests; nil: nothing
	Engines     EnginesFunc                     // with Journal GET /admin/events, what the console shows; nil: 404
	Reset       ResetFunc                       // POST /reset_prefix_cache; nil: 404
	Reload      ReloadFunc                      // POST /admin/reload; nil: 404
	Forget      ForgetFunc                      // POST /admin/tenants/{name}/forget; nil: 404
	Drift       http.Handler                    // GET /admin/drift; nil: 404
	Fleets      func() any                      // GET /admin/replicas: models and their replicas as JSON; nil: 404
	BlockEvents BlockEventsFunc                 // GET /admin/kv-events; nil: 404
	Blocks      http.Handler                    // POST /admin/kv-blocks, which asks for a peer's statement itself; nil: 404
	Batches     BatchesFunc                     // GET /admin/batches: unfinished batches as JSON; nil: 404
	Models      Models                          // GET /admin/models, POST /admin/models/{action}; nil: 404
	Tenants     Tenants                         // /admin/tenants and /admin/keys; nil: 404
	Audit       AuditFunc                       // GET /admin/audit; nil: 404
	Usage       usage.Ledger                    // GET /admin/usage; nil: 404
	Rollouts    Rollouts                        // /v1/rollouts, and those of /v1/deployments; nil: 404
	Deployer    Deployer                        // what all servers on the store shall answer with; nil: there is no store
	Claims      replay.Claims                   // idempotency keys of deployments; nil: none are kept
	KeyTTL      time.Duration                   // for which they stand
	SignIn      *signin.Service                 // where people sign in to the console; nil: nowhere
	Outcomes    edge.OutcomeFunc                // POST /v1/outcomes, of any tenant; nil: 404
	Access      api.Access                      // names to answer under, and pages that may call
	Callers     *tenant.Authenticator           // says who calls; nil: no proof is asked for
	Exposed     bool                            // other machines reach the listener
	Denied      func(reason, remote string)     // is told of callers whose key stands for no tenant; nil: not told
	Version     string
}

// ResetFunc evicts the prefix cache's blocks that no running request uses, and
// returns how many it freed. by says who asked.
type ResetFunc func(ctx context.Context, by string) (freedBlocks int, err error)

// BatchesFunc lists the unfinished batches of all tenants.
type BatchesFunc func(ctx context.Context) (any, error)

const batchesPath = "/admin/batches"

func (c Config) batches(w http.ResponseWriter, r *http.Request) {
	list, err := c.Batches(r.Context())
	if err != nil {
		refuse(w, api.Refuse("files_unavailable", "list the batches: "+err.Error()))
		return
	}
	write(w, http.StatusOK, map[string]any{"batches": list})
}

// New returns the handler of the admin listener.
func New(c Config) http.Handler {
	mux := http.NewServeMux()
	if c.Metrics != nil {
		mux.Handle("GET /metrics", c.Metrics)
	}
	mux.HandleFunc("GET /health", c.ready)
	mux.HandleFunc("GET /ready", c.readyOrDeep)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, map[string]string{"version": c.Version})
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the command line is not shown: it may hold the API key", http.StatusNotFound)
	})
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	for name, snapshot := range c.Debug {
		mux.HandleFunc("GET /debug/"+name, func(w http.ResponseWriter, _ *http.Request) {
			write(w, http.StatusOK, snapshot())
		})
	}
	if c.Journal != nil {
		mux.HandleFunc("GET /admin/requests", c.requests)
		mux.HandleFunc("GET /admin/requests/{id}", c.request)
		mux.HandleFunc("GET "+explainPath, func(w http.ResponseWriter, r *http.Request) {
			r.SetPathValue("id", r.URL.Query().Get("request"))
			c.explain(w, r)
		})
	}
	if c.Journal != nil && c.Engines != nil {
		mux.Handle("GET "+eventsPath, events(c))
	}
	if c.Reload != nil {
		mux.HandleFunc("POST "+reloadPath, c.reload)
	}
	if c.Forget != nil {
		mux.HandleFunc("POST "+forgetPath, c.forget)
	}
	if c.Models != nil {
		mux.HandleFunc("GET "+modelsPath, c.models)
		mux.HandleFunc("POST "+modelsPath+"/{action}", c.changeModel)
	}
	if c.Rollouts != nil {
		c.handleRollouts(mux)
	}
	if c.Deployer != nil {
		c.handleDeployer(mux)
	}
	if c.Outcomes != nil {
		mux.HandleFunc("POST "+edge.OutcomesPath, c.outcomes)
	}
	if c.Fleets != nil {
		mux.HandleFunc("GET "+replicasPath, func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, c.Fleets()) })
	}
	if c.BlockEvents != nil {
		mux.HandleFunc("GET "+router.BlockEventsPath, c.blockEvents)
	}
	if c.Blocks != nil {
		mux.Handle("POST "+transfer.Path, c.Blocks)
	}
	if c.Batches != nil {
		mux.HandleFunc("GET "+batchesPath, c.batches)
	}
	if c.Drift != nil {
		mux.Handle("GET "+driftPath, c.Drift)
	}
	if c.Tenants != nil {
		c.handleTenants(mux)
	}
	if c.Audit != nil {
		mux.HandleFunc("GET "+auditPath, audit(c.Audit))
	}
	if c.Usage != nil {
		mux.HandleFunc("GET "+usagePath, c.usage)
	}
	if c.Reset != nil {
		mux.HandleFunc("POST "+resetPath, c.reset)
	}
	if c.SignIn != nil {
		mux.HandleFunc("GET "+web.Console.SignInPath(), func(w http.ResponseWriter, r *http.Request) { writeFresh(w, c.SignIn.Offer(r.Context())) })
		mux.HandleFunc("POST "+web.Console.SignInPath(), signIn(c.SignIn))
	}
	mux.Handle("GET "+web.Console.Path(), web.Console)
	mux.Handle("GET "+web.Console.Path()+"/", web.Console)
	mux.HandleFunc("GET /", c.index)
	return c.guard(mux)
}

// guard keeps out web pages that reach this listener through a browser.
func (c Config) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := c.Access.Check(r.Method, r.Host, r.Header.Get("Origin"))
		if e == nil { // profiles and events cost something, even where the page cannot read them
			e = c.Access.CheckPage(r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Dest"), r.Host, r.Header.Get("Origin"))
		}
		if e != nil {
			refuse(w, e)
			return
		}
		caller, e := c.caller(r)
		if e != nil {
			refuse(w, e)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
	})
}

// ReadinessFunc answers a query for which api.AsksModels holds.
type ReadinessFunc func(query url.Values) (status int, answer any)

func (c Config) readyOrDeep(w http.ResponseWriter, r *http.Request) {
	if query := r.URL.Query(); c.Readiness != nil && api.AsksModels(query) {
		status, answer := c.Readiness(query)
		write(w, status, answer)
		return
	}
	c.ready(w, r)
}

func (c Config) ready(w http.ResponseWriter, _ *http.Request) {
	ready, why := true, "ready"
	if c.Ready != nil {
		ready, why = c.Ready()
	}
	if !ready {
		write(w, http.StatusServiceUnavailable, map[string]string{"status": why})
		return
	}
	write(w, http.StatusOK, map[string]string{"status": "ready"})
}

const (
	explainPath  = "/admin/explain"
	replicasPath = "/admin/replicas"
)

const driftPath = "/admin/drift"

const resetPath = "/reset_prefix_cache"

// reset answers vLLM's request of this name. Blocks in use stay, so vLLM's
// parameter that takes them from running requests is refused.
func (c Config) reset(w http.ResponseWriter, r *http.Request) {
	const running = "reset_running_requests"
	if v := r.URL.Query().Get(running); v != "" && !strings.EqualFold(v, "false") {
		e := api.Refuse("unsupported_parameter", fmt.Sprintf("%s is %.16q: blocks of running requests stay; "+
			"leave the parameter out, or wait until no request is running", running, v))
		e.Param = running
		refuse(w, e)
		return
	}
	freed, err := c.Reset(r.Context(), by(r))
	if err != nil {
		refuse(w, api.Refuse("prefix_cache_not_reset", "reset the prefix cache: "+err.Error()))
		return
	}
	write(w, http.StatusOK, map[string]int{"freed_blocks": freed})
}

// index lists what there is, as the answer to every other path.
func (c Config) index(w http.ResponseWriter, r *http.Request) {
	paths := []string{web.Console.Path() + "/", "/debug/pprof/", "/health", "/metrics", "/ready", "/version"}
	for _, name := range slices.Sorted(maps.Keys(c.Debug)) {
		paths = append(paths, "/debug/"+name)
	}
	if c.Journal != nil {
		paths = append(paths, explainPath+"?request=", "/admin/requests")
	}
	if c.Journal != nil && c.Engines != nil {
		paths = append(paths, eventsPath)
	}
	if c.Reload != nil {
		paths = append(paths, "POST "+reloadPath)
	}
	if c.Forget != nil {
		paths = append(paths, "POST "+forgetPath)
	}
	if c.Models != nil {
		paths = append(paths, modelsPath, "POST "+modelsPath+"/{"+strings.Join(modelActions, "|")+"}")
	}
	if c.Rollouts != nil {
		paths = append(paths, rolloutsPath, "POST "+rolloutsPath, "POST "+rolloutsPath+"/{promote|abort|pause|resume|kill}")
		paths = append(paths, deploymentsPath, "POST "+deploymentsPath, "POST "+deploymentsPath+"/{promote|abort|pause|resume|kill}")
	}
	if c.Deployer != nil {
		paths = append(paths, "GET, DELETE "+deploymentsPath+"/{modelId}")
	}
	if c.Outcomes != nil {
		paths = append(paths, "POST "+edge.OutcomesPath)
	}
	if c.Fleets != nil {
		paths = append(paths, replicasPath)
	}
	if c.BlockEvents != nil {
		paths = append(paths, router.BlockEventsPath+"?model=")
	}
	if c.Blocks != nil {
		paths = append(paths, "POST "+transfer.Path)
	}
	if c.Batches != nil {
		paths = append(paths, batchesPath)
	}
	if c.Drift != nil {
		paths = append(paths, driftPath)
	}
	if c.Tenants != nil {
		paths = append(paths, tenantsPath, "POST "+tenantsPath, "GET, PATCH, DELETE "+tenantsPath+"/{name}",
			keysPath+"?tenant=", "POST "+keysPath, "GET, PATCH, DELETE "+keysPath+"/{id}", "POST "+keysPath+"/{id}/rotate")
	}
	if c.Audit != nil {
		paths = append(paths, auditPath)
	}
	if c.Usage != nil {
		paths = append(paths, usagePath)
	}
	if c.Reset != nil {
		paths = append(paths, "POST "+resetPath)
	}
	status := http.StatusNotFound
	if r.URL.Path == "/" {
		status = http.StatusOK
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(strings.Join(paths, "\n") + "\n")) // a broken peer is no news
}

func write(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, "encode snapshot: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a broken peer is no news
}
