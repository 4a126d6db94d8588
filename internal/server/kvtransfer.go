package server

import (
	"net/http"
	"runtime"
	"time"

	"go.uber.org/zap"

	"weir/api/tenant"
	"weir/engine/llm"
	"weir/internal/inference"
	"weir/router/transfer"
	"weir/telemetry"
)

// transfers bring KV blocks from peers, and to them.
type transfers struct {
	client *transfer.Client // nil: blocks are not shared
	build  telemetry.Build
	least  time.Duration // Config.LeastFetch
	log    *zap.Logger
}

// on reports whether KV blocks go from this weir to its peers and back: hashes mean the same at all of them, and each
// can prove that it is one.
func (t *transfers) on() bool { return t.client != nil }

// handler answers peers that ask for blocks of a model that is computed here; nil where no peer may.
func (t *transfers) handler(languages *languages, peers *tenant.Peers, denied func(listener, reason, remote string)) http.Handler {
	if !t.on() {
		return nil
	}
	h := transfer.NewHandler(func(model string) transfer.Cache {
		if r := languages.named(model); r != nil && r.Engine != nil {
			return r.Engine
		}
		return nil
	}, peers.VerifyFetch)
	h.Denied = func(reason error, remote string) { denied("admin", tenant.Reason(reason), remote) }
	return h
}

// configure lets a model's engine fetch blocks from the peers that routers name.
func (t *transfers) configure(name string, o *llm.Options) {
	if !t.on() {
		return
	}
	o.LeastFetch, o.KVSource, o.Build = t.least, t.client, t.build.Version+" "+t.build.Commit+" "+runtime.GOARCH
	trouble := &telemetry.LogLimiter{Every: telemetry.TroubleEvery}
	o.OnFetchFailed = func(r *inference.Request, err error) {
		trouble.Do(func(held int) {
			t.log.Warn("KV blocks did not come from another replica and are computed", zap.String("model", name), zap.String("request_id", r.ID),
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
