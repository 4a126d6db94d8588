package predict

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/api/meter"
	"weir/api/tenant"
	"weir/router"
	"weir/scheduler/quota"
)

// Config is what a Server is made of.
type Config struct {
	Callers *tenant.Authenticator
	Models  router.Predictors
	Meter   meter.Meter                             // nil counts nothing, and no limit holds
	Price   func(model, version string) quota.Price // of rows, as input tokens; nil: none
	Ready   func() (ready bool, why string)
	// Language reports whether a language model can answer a caller, and whether the caller has one of this name; nil: there are none.
	Language func(caller *tenant.Caller, name string) (ready, known bool)
	Keys     *edge.Keys // of idempotency; nil: none are read
	Hooks    edge.Hooks
	Version  string // of the program

	Insecure        bool          // other machines reach listeners that ask for no key: callers there may not load or unload models
	ClientTimeouts  bool          // what clients say of how long they wait is a deadline, see edge.ClientTimeout
	Strict          bool          // refuse what is otherwise ignored and named in x-weir-warnings
	DrainRetries    bool          // clients refused while the server drains should try again
	MaxRequestBytes int           // of a gRPC message
	AbortTimeout    time.Duration // at shutdown, what cancelled requests get to end
}

// may reports whether a caller may use what needs a scope. Where no key is asked for,
// callers have every scope; those of other machines are no operators for that.
func (c *Config) may(who tenant.Caller, scope tenant.Scope) bool {
	return who.Scope.Has(scope) && (scope != tenant.ScopeAdmin || !c.Insecure || !c.Callers.Open())
}

// barsOperators refuses callers who are no operators.
func (c *Config) barsOperators(_ *fasthttp.RequestHeader, who tenant.Caller) *api.Error {
	if !c.may(who, tenant.ScopeAdmin) {
		return edge.LacksScope(tenant.ScopeAdmin)
	}
	return nil
}

func (c *Config) validate() error {
	switch {
	case c.Callers == nil || c.Models == nil || c.Ready == nil:
		return errors.New("predict: callers, models and readiness are needed")
	case c.MaxRequestBytes < 1<<10:
		return fmt.Errorf("predict: MaxRequestBytes is %d; it must be at least 1024", c.MaxRequestBytes)
	case c.AbortTimeout <= 0:
		return fmt.Errorf("predict: AbortTimeout is %v; it must be above 0", c.AbortTimeout)
	}
	return nil
}

// Server answers predict requests.
type Server struct {
	config  Config
	routes  routes
	running *edge.Running
	ids     edge.IDs // of gRPC's requests
	stats   statistics
}

// New returns a server.
func New(c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Server{config: c, running: edge.NewRunning()}
	s.routes = s.routeTable()
	return s, nil
}

// Hooks implements edge.Protocol.
func (s *Server) Hooks() *edge.Hooks { return &s.config.Hooks }

// IsDraining implements edge.Protocol.
func (s *Server) IsDraining() bool { return s.running.IsDraining() }

// Drain refuses new predictions and waits for those that run.
func (s *Server) Drain(ctx context.Context) error { return s.running.Drain(ctx, s.config.AbortTimeout) }

var _ edge.Protocol = (*Server)(nil)
