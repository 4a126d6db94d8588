package transfer

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/router"
)

// Path is where blocks are asked for, on the admin listener.
const Path = "/admin/kv-blocks"

// ContentType is that of an answer.
const ContentType = "application/vnd.weir.kv-blocks"

const (
	mostAsks      = 4                // that are answered at the same time
	maxAskBytes   = 1 << 20          // of the request's JSON
	longestAnswer = 30 * time.Second // in which all of it is written
)

// ask is the request's body.
type ask struct {
	Model    string           `json:"model"`
	Domain   string           `json:"cache_domain"`
	Identity kvcache.Identity `json:"identity"`
	Hashes   []string         `json:"block_hashes"`
}

// Cache is the prefix cache of a model.
type Cache interface {
	KVIdentity() kvcache.Identity
	// ReadBlocks copies blocks up to the first that is not cached, and some at a time. An error that wraps inference.ErrInvalid says
	// that blocks of the model go nowhere.
	ReadBlocks(ctx context.Context, domain string, hashes []kvcache.Hash) ([]kvcache.TransferBlock, error)
}

// Handler answers peers that ask for blocks. A caller without the peer key learns nothing, not even whether a hash is known; a
// caller with it gets blocks of the domain that it names only.
type Handler struct {
	Find   func(model string) Cache                    // nil: no such model is in memory here
	Verify func(statement string, now time.Time) error // of who asks
	Denied func(reason error, remote string)           // is called for each peer that is refused; may be nil
	slots  chan struct{}
}

// NewHandler makes a handler.
func NewHandler(find func(model string) Cache, verify func(statement string, now time.Time) error) *Handler {
	return &Handler{Find: find, Verify: verify, slots: make(chan struct{}, mostAsks)}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.Verify(r.Header.Get(router.CallerHeader), time.Now()); err != nil {
		if h.Denied != nil {
			h.Denied(err, r.RemoteAddr)
		}
		refuse(w, http.StatusUnauthorized, "invalid_peer", "KV blocks are for weirs that share this one's --peer-key, which sign what they ask for")
		return
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		refuse(w, http.StatusServiceUnavailable, "kv_blocks_busy", fmt.Sprintf("%d peers are being sent KV blocks, which is the most at a time; compute the prompt", mostAsks))
		return
	}
	var a ask
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAskBytes))
	body.DisallowUnknownFields()
	hashes, err := a.read(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	cache := h.Find(a.Model)
	if cache == nil {
		refuse(w, http.StatusNotFound, "model_not_found", fmt.Sprintf("no model %.100q is in memory here", a.Model))
		return
	}
	if why := cache.KVIdentity().Differs(a.Identity); why != "" {
		refuse(w, http.StatusConflict, "kv_identity_differs", why+"; blocks would not have the bits that are computed there")
		return
	}
	h.send(w, r, cache, &a, hashes)
}

// read decodes a request.
func (a *ask) read(from *json.Decoder) ([]kvcache.Hash, error) {
	if err := from.Decode(a); err != nil {
		return nil, fmt.Errorf("the body: %w", err)
	}
	if n := len(a.Hashes); n < 1 || n > MostBlocks {
		return nil, fmt.Errorf("block_hashes has %d, want 1 to %d", n, MostBlocks)
	}
	hashes := make([]kvcache.Hash, len(a.Hashes))
	for i, text := range a.Hashes {
		if n, err := hex.Decode(hashes[i][:], []byte(text[:min(len(text), 2*len(hashes[i]))])); err != nil || n != len(hashes[i]) || len(text) != 2*n {
			return nil, fmt.Errorf("block_hashes[%d] is %.40q, want %d hexadecimal digits", i, text, 2*len(hashes[i]))
		}
	}
	return hashes, nil
}

// send writes the answer. Memory is that of the blocks which are copied at a time, whatever the reader does.
func (h *Handler) send(w http.ResponseWriter, r *http.Request, cache Cache, a *ask, hashes []kvcache.Hash) {
	ctx, cancel := context.WithTimeout(r.Context(), longestAnswer)
	defer cancel()
	wire := http.NewResponseController(w)
	_ = wire.SetWriteDeadline(time.Now().Add(longestAnswer)) // where it cannot be set, the server's own counts
	blocks, err := cache.ReadBlocks(ctx, a.Domain, hashes)
	switch {
	case errors.Is(err, inference.ErrInvalid):
		refuse(w, http.StatusConflict, "kv_blocks_stay", err.Error())
		return
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, "kv_blocks_unavailable", err.Error())
		return
	}
	w.Header().Set("Content-Type", ContentType)
	out, err := NewWriter(w, cache.KVIdentity())
	for err == nil && len(blocks) > 0 {
		for i := range blocks {
			if err = out.Block(blocks[i].Hash, blocks[i].IDs, blocks[i].Data); err != nil {
				return
			}
		}
		if hashes = hashes[len(blocks):]; len(hashes) == 0 {
			break
		}
		_ = wire.Flush() // the reader takes these in while the next ones are copied
		blocks, err = cache.ReadBlocks(ctx, a.Domain, hashes)
	}
	if err != nil { // the status is out: only a cut tells the reader; net/http recovers this and closes the connection
		panic(http.ErrAbortHandler)
	}
	_ = out.End() // who reads no longer needs no end
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	text, _ := json.Marshal(map[string]any{"error": map[string]string{"message": message, "type": "invalid_request_error", "code": code}}) //nolint:errchkjson // strings
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = w.Write(text) // a broken peer is no news
}
