package server

import (
	"net/http"
	"runtime"

	"go.uber.org/zap"

	"weir/api/tenant"
	"weir/engine/llm"
	"weir/internal/inference"
	"weir/router/transfer"
	"weir/telemetry"
)

// sharesBlocks reports whether KV blocks go from this weir to its peers and back: hashes mean the same at all of them, and each
// can prove that it is one.
func (s *Server) sharesBlocks() bool {
	return s.config.Engine.PrefixCacheKey != "" && s.callers.blocks != nil
}

// kvBlocks answers peers that ask for blocks of a model that is computed here; nil where no peer may.
func (s *Server) kvBlocks() http.Handler {
	if !s.sharesBlocks() {
		return nil
	}
	h := transfer.NewHandler(func(model string) transfer.Cache {
		if r := s.languages.named(model); r != nil && r.Engine != nil {
			return r.Engine
		}
		return nil
	}, s.callers.authenticator.Peers().VerifyFetch)
	h.Denied = func(reason error, remote string) { s.denied("admin", tenant.Reason(reason), remote) }
	return h
}

// transferBlocks lets a model's engine fetch blocks from the peers that routers name.
func (s *Server) transferBlocks(name string, o *llm.Options) {
	if !s.sharesBlocks() {
		return
	}
	b := s.about
	o.LeastFetch = s.leastFetch
	o.KVSource, o.Build = s.callers.blocks, b.Version+" "+b.Commit+" "+runtime.GOARCH
	trouble := &quietly{every: troubleEvery}
	o.OnFetchFailed = func(r *inference.Request, err error) {
		trouble.do(func(held int) {
			s.log.Warn("KV blocks did not come from another replica and are computed", zap.String("model", name), zap.String("request_id", r.ID),
				zap.Error(err), zap.Int("times_before", held))
		})
	}
}

// transferOf is what an engine counted, for its metrics.
func transferOf(t *llm.TransferStats) telemetry.KVTransfer {
	return telemetry.KVTransfer{
		Fetches: t.Fetches, Seconds: t.Time.Seconds(), QueryTokens: t.QueryTokens, HitTokens: t.HitTokens,
		ReceivedBlocks: t.Blocks, ReceivedBytes: t.Bytes, SentBlocks: t.SentBlocks, SentBytes: t.SentBytes,
		Failures: t.Failures, Skipped: t.Skipped,
	}
}

var _ llm.KVSource = (*transfer.Client)(nil)
