package predict

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress their messages
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"weir/api"
	"weir/api/edge"
	"weir/api/predict/oip"
	"weir/api/tenant"
)

// GRPCConfig is what a GRPC is made of, beside the Server that it answers for.
type GRPCConfig struct {
	TLS           *tls.Config   // nil: plain text
	IdleTimeout   time.Duration // of a connection without calls
	HandshakeTime time.Duration // for TLS and HTTP/2 together
	MaxStreams    uint32        // calls at once of one connection
}

// GRPC serves the Open Inference Protocol over gRPC, and gRPC's own health service, for
// a Server's models: callers, limits, refusals and hooks are the Server's.
type GRPC struct {
	server *grpc.Server
}

// NewGRPC returns a server that does not listen yet.
func NewGRPC(s *Server, c GRPCConfig) *GRPC {
	g := &service{Server: s}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(s.config.MaxRequestBytes),
		grpc.MaxConcurrentStreams(c.MaxStreams),
		grpc.ConnectionTimeout(c.HandshakeTime),
		grpc.NumStreamWorkers(uint32(runtime.GOMAXPROCS(0))), //nolint:gosec // a few
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: c.IdleTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.UnaryInterceptor(g.unary),
		grpc.StreamInterceptor(g.stream),
	}
	if c.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(c.TLS)))
	}
	server := grpc.NewServer(options...)
	oip.RegisterGRPCInferenceServiceServer(server, g)
	grpc_health_v1.RegisterHealthServer(server, &health{Server: s})
	return &GRPC{server}
}

const maxHeaderBytes = 16 << 10

// Serve accepts connections until Shutdown or a failure of the listener, which it owns
// from here on.
func (g *GRPC) Serve(ln net.Listener) error {
	if err := g.server.Serve(ln); err != nil {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// Shutdown refuses new calls and waits for those that run until ctx ends, then cancels
// them.
func (g *GRPC) Shutdown(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.server.GracefulStop()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		g.server.Stop()
		<-done
	}
}

// service answers the protocol's calls.
type service struct {
	oip.UnimplementedGRPCInferenceServiceServer
	*Server
}

// scopes are what the methods ask of their callers; those that are not listed need no
// proof.
var scopes = map[string]tenant.Scope{
	oip.GRPCInferenceService_ModelReady_FullMethodName:            tenant.ScopeInference,
	oip.GRPCInferenceService_ServerMetadata_FullMethodName:        tenant.ScopeInference,
	oip.GRPCInferenceService_ModelMetadata_FullMethodName:         tenant.ScopeInference,
	oip.GRPCInferenceService_ModelInfer_FullMethodName:            tenant.ScopeInference,
	oip.GRPCInferenceService_ModelStreamInfer_FullMethodName:      tenant.ScopeInference,
	oip.GRPCInferenceService_ModelConfig_FullMethodName:           tenant.ScopeInference,
	oip.GRPCInferenceService_ModelStatistics_FullMethodName:       tenant.ScopeInference,
	oip.GRPCInferenceService_RepositoryIndex_FullMethodName:       tenant.ScopeInference,
	oip.GRPCInferenceService_RepositoryModelLoad_FullMethodName:   tenant.ScopeAdmin,
	oip.GRPCInferenceService_RepositoryModelUnload_FullMethodName: tenant.ScopeAdmin,
}

// remote is one call over gRPC: the counterpart of a call over HTTP.
type remote struct {
	*Server
	job
	method string
	meta   metadata.MD // what the client sent
	head   metadata.MD // what the answer's header says
	why    string
	from   string
}

type remoteKey struct{}

func remoteOf(ctx context.Context) *remote {
	r, _ := ctx.Value(remoteKey{}).(*remote) // the interceptors put it there
	return r
}

// begin identifies a call's caller and gives the call its id.
func (g *service) begin(ctx context.Context, method string) (*remote, *api.Error) {
	r := &remote{Server: g.Server, job: job{Exchange: &edge.Exchange{}}, method: method, head: make(metadata.MD, 4)}
	r.Arrived, r.endpoint = time.Now(), method
	r.meta, _ = metadata.FromIncomingContext(ctx)
	if !r.streams() { // the messages of a stream share its metadata
		r.name(r.value("x-request-id"))
	}
	if !r.named {
		r.id = g.ids.Next()
	}
	proof := tenant.Proof{}
	if p, ok := peer.FromContext(ctx); ok {
		r.from = p.Addr.String()
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			proof.Certificate = api.VerifiedPeer(info.State)
		}
	}
	if h := g.config.Hooks.StartTrace; h != nil && r.infers() {
		r.Trace = h(r.value("traceparent"), r.value("tracestate"))
		if r.Trace.Header != "" {
			r.head.Set("traceresponse", r.Trace.Header)
		}
	}
	scope := scopes[method]
	if scope == 0 {
		return r, nil
	}
	proof.Secret = tenant.SecretOf(r.value)
	var fault *api.Error
	if r.Caller, fault, r.why = edge.Identify(g.config.Callers, proof); fault == nil && !g.config.may(r.Caller, scope) {
		fault = edge.LacksScope(scope)
	}
	return r, fault
}

func (r *remote) infers() bool {
	return r.method == oip.GRPCInferenceService_ModelInfer_FullMethodName || r.streams()
}

func (r *remote) streams() bool {
	return r.method == oip.GRPCInferenceService_ModelStreamInfer_FullMethodName
}

// value is a field of the client's metadata.
func (r *remote) value(name string) string {
	if v := r.meta.Get(name); len(v) > 0 {
		return v[0]
	}
	return ""
}

// unary answers one call.
func (g *service) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	if !strings.HasPrefix(info.FullMethod, "/"+oip.GRPCInferenceService_ServiceDesc.ServiceName) {
		return handler(ctx, req)
	}
	r, fault := g.begin(ctx, info.FullMethod)
	if fault == nil {
		resp, fault = r.handle(ctx, req, handler)
	}
	r.finish(fault)
	r.head.Set("x-request-id", r.id)
	_ = grpc.SetHeader(ctx, r.head) // of a call that has ended there is no header to set
	if fault == nil {
		return resp, nil
	}
	trailer := metadata.MD{}
	fault.Headers(func(name, value string) {
		trailer.Set(strings.ToLower(name), value)
		if name == "Retry-After-Ms" && fault.Retries() {
			trailer.Set("grpc-retry-pushback-ms", value)
		}
	})
	_ = grpc.SetTrailer(ctx, trailer) // as above
	return nil, statusOf(fault)
}

// handle calls the method; a panic in it is the call's error alone.
func (r *remote) handle(ctx context.Context, req any, handler grpc.UnaryHandler) (resp any, fault *api.Error) {
	defer func() {
		if v := recover(); v != nil {
			r.panicked("grpc", v)
			fault = api.Refuse("internal_error", "the server hit a bug while it handled this request; the process goes on")
		}
	}()
	resp, err := handler(context.WithValue(ctx, remoteKey{}, r), req)
	if err != nil && !errors.As(err, &fault) {
		fault = api.Refuse("internal_error", err.Error())
	}
	return resp, fault
}

// finish tells the hooks how the call ended.
func (r *remote) finish(fault *api.Error) {
	r.release()
	code := statusOK
	hooks := &r.config.Hooks
	if fault != nil {
		code = fault.Status
		fault.NoRetry = fault.NoRetry || r.running.IsDraining() && !r.config.DrainRetries
		if hooks.OnRefused != nil && code != edge.StatusHungUp {
			told := edge.Refusal{ID: r.id, Route: r.method, Method: "gRPC", Remote: r.from, Status: fault.Status, Code: fault.Code, Trace: r.Trace,
				Arrived: r.Arrived, Reason: r.why, Early: r.infers() && !r.started}
			told.By(&r.Caller)
			r.describe(&told)
			hooks.OnRefused(told)
		}
	}
	if hooks.OnResponse != nil {
		hooks.OnResponse(r.method, "gRPC", code, time.Since(r.Arrived))
	}
}

// grpcCodes are gRPC's codes of HTTP statuses; those that are not listed are
// InvalidArgument, the client's mistake.
var grpcCodes = map[int]codes.Code{
	http.StatusUnauthorized:        codes.Unauthenticated,
	http.StatusForbidden:           codes.PermissionDenied,
	http.StatusNotFound:            codes.NotFound,
	http.StatusRequestTimeout:      codes.DeadlineExceeded,
	http.StatusTooManyRequests:     codes.ResourceExhausted,
	edge.StatusHungUp:              codes.Canceled,
	http.StatusInternalServerError: codes.Internal,
	http.StatusNotImplemented:      codes.Unimplemented,
	http.StatusServiceUnavailable:  codes.Unavailable,
}

func statusOf(fault *api.Error) error {
	code, ok := grpcCodes[fault.Status]
	if !ok {
		code = codes.InvalidArgument
	}
	return status.Error(code, fault.Message)
}

// stream lets a caller open ModelStreamInfer, whose messages are calls of their own.
func (g *service) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if !strings.HasPrefix(info.FullMethod, "/"+oip.GRPCInferenceService_ServiceDesc.ServiceName) {
		return handler(srv, ss)
	}
	r, fault := g.begin(ss.Context(), info.FullMethod)
	if fault != nil {
		r.finish(fault)
		return statusOf(fault)
	}
	return handler(srv, ss)
}

// health is gRPC's health service, for probes; every service of the process has one
// health.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	*Server
}

// Check reports whether the server takes requests.
func (h *health) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	answer := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if ready, _ := h.isReady(); ready {
		answer = grpc_health_v1.HealthCheckResponse_SERVING
	}
	return &grpc_health_v1.HealthCheckResponse{Status: answer}, nil
}
