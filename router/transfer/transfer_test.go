package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/router"
)

var identity = kvcache.Identity{ModelDigest: "abc", KVType: "q8_0/2", Compute: "avx2 v1", BlockTokens: 16, BlockBytes: 3000}

// cache holds some blocks of one domain.
type cache struct {
	id     kvcache.Identity
	domain string
	blocks []kvcache.TransferBlock
	err    error // after the first blocks
	most   int   // at a time
	read   int
}

func newCache(blocks int) *cache {
	c := &cache{id: identity, domain: "acme", most: 3}
	for i := range blocks {
		b := kvcache.TransferBlock{Hash: kvcache.Hash{byte(i + 1), 7}, IDs: make([]int32, identity.BlockTokens), Data: make([]byte, identity.BlockBytes)}
		for j := range b.Data {
			b.Data[j] = byte(i*7 + j*3)
		}
		for j := range b.IDs {
			b.IDs[j] = int32(100*i + j)
		}
		c.blocks = append(c.blocks, b)
	}
	return c
}

func (c *cache) KVIdentity() kvcache.Identity { return c.id }

func (c *cache) ReadBlocks(_ context.Context, domain string, hashes []kvcache.Hash) (found []kvcache.TransferBlock, err error) {
	if c.read++; c.err != nil && (c.read > 1 || errors.Is(c.err, inference.ErrInvalid)) {
		return nil, c.err
	}
	for _, h := range hashes {
		i := slices.IndexFunc(c.blocks, func(b kvcache.TransferBlock) bool { return b.Hash == h })
		if i < 0 || domain != c.domain || len(found) == c.most {
			break
		}
		found = append(found, c.blocks[i])
	}
	return found, nil
}

func (c *cache) hashes() (list []kvcache.Hash) {
	for _, b := range c.blocks {
		list = append(list, b.Hash)
	}
	return list
}

// taken keeps what a fetch brings.
type taken struct {
	blocks []kvcache.TransferBlock
	room   []byte
}

func (t *taken) Room() []byte {
	t.room = make([]byte, identity.BlockBytes)
	return t.room
}

func (t *taken) Take(ids []int32) error {
	t.blocks = append(t.blocks, kvcache.TransferBlock{IDs: slices.Clone(ids), Data: t.room})
	return nil
}

func verify(said string, _ time.Time) error {
	if said != "a peer" {
		return errors.New("no peer")
	}
	return nil
}

func sign(time.Time) string { return "a peer" }

// serve starts a server with one model m, and answers with its address as a router tells it.
func serve(t *testing.T, c *cache, wrap func(http.Handler) http.Handler) inference.KVTransfer {
	t.Helper()
	var h http.Handler = NewHandler(func(model string) Cache {
		if model != "m" {
			return nil
		}
		return c
	}, verify)
	if wrap != nil {
		h = wrap(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return inference.KVTransfer{RemoteURL: s.URL, RemoteModel: "m"}
}

func fetch(c *Client, from inference.KVTransfer, have *cache, domain string) (*taken, error) {
	got := &taken{}
	err := c.Fetch(context.Background(), from, &kvcache.TransferAsk{Model: from.RemoteModel, Domain: domain, Identity: identity, Hashes: have.hashes()}, got)
	return got, err
}

func (t *taken) same(want []kvcache.TransferBlock) bool {
	return slices.EqualFunc(t.blocks, want, func(a, b kvcache.TransferBlock) bool {
		return bytes.Equal(a.Data, b.Data) && slices.Equal(a.IDs, b.IDs)
	})
}

func TestBlocksComeAsTheyAre(t *testing.T) {
	have := newCache(20)
	client := NewClient(sign)
	defer client.Close()
	from := serve(t, have, nil)
	if got, err := fetch(client, from, have, "acme"); err != nil || !got.same(have.blocks) {
		t.Fatalf("%d blocks, %v", len(got.blocks), err)
	}
	all := newCache(20)
	have.blocks = have.blocks[:5] // the others were evicted
	if got, err := fetch(client, from, all, "acme"); err != nil || !got.same(have.blocks) {
		t.Errorf("%d blocks, %v", len(got.blocks), err)
	}
	if got, err := fetch(client, from, all, "another"); err != nil || len(got.blocks) > 0 {
		t.Errorf("another tenant gets %d blocks, %v", len(got.blocks), err)
	}
}

// What is wrong has a reason, and the blocks before it are good.
func TestWrongAnswersHaveAReason(t *testing.T) {
	answer := func(change func(b []byte) []byte) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rec := httptest.NewRecorder()
				next.ServeHTTP(rec, r)
				w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
				w.WriteHeader(rec.Code)
				_, _ = w.Write(change(rec.Body.Bytes()))
			})
		}
	}
	frame := 1 + 16 + 4*identity.BlockTokens + identity.BlockBytes + 4
	head := len(magic) + 32
	flip := func(at int) func(http.Handler) http.Handler {
		return answer(func(b []byte) []byte { b[at] ^= 1; return b })
	}
	for name, c := range map[string]struct {
		wrap   func(http.Handler) http.Handler
		cache  func(c *cache)
		model  string
		secret func(time.Time) string
		blocks int
		reason string
	}{
		"a bit of a block":  {wrap: flip(head + 2*frame + 100), blocks: 2, reason: kvcache.TransferCorrupt},
		"a bit of an id":    {wrap: flip(head + 2*frame + 20), blocks: 2, reason: kvcache.TransferCorrupt},
		"a bit of a hash":   {wrap: flip(head + 2*frame + 3), blocks: 2, reason: kvcache.TransferCorrupt},
		"a bit of the sum":  {wrap: flip(head + 3*frame - 1), blocks: 2, reason: kvcache.TransferCorrupt},
		"a frame's kind":    {wrap: flip(head + frame), blocks: 1, reason: kvcache.TransferCorrupt},
		"the count":         {wrap: flip(head + 20*frame + 1), blocks: 20, reason: kvcache.TransferCorrupt},
		"the version":       {wrap: flip(6), reason: kvcache.TransferCorrupt},
		"the identity":      {wrap: flip(10), reason: kvcache.TransferMismatch},
		"cut":               {wrap: answer(func(b []byte) []byte { return b[:head+3*frame+50] }), blocks: 3, reason: kvcache.TransferTruncated},
		"without an end":    {wrap: answer(func(b []byte) []byte { return b[:head+20*frame] }), blocks: 20, reason: kvcache.TransferTruncated},
		"nothing":           {wrap: answer(func([]byte) []byte { return nil }), reason: kvcache.TransferTruncated},
		"blocks that stay":  {cache: func(c *cache) { c.err = inference.ErrInvalid }, reason: kvcache.TransferMismatch},
		"the cache is gone": {cache: func(c *cache) { c.err = errors.New("closing") }, blocks: 3, reason: kvcache.TransferTruncated},
		"another model":     {cache: func(c *cache) { c.id.ModelDigest = "abd" }, reason: kvcache.TransferMismatch},
		"another layout":    {cache: func(c *cache) { c.id.KVType = "f16" }, reason: kvcache.TransferMismatch},
		"other kernels":     {cache: func(c *cache) { c.id.Compute = "avx512 v1" }, reason: kvcache.TransferMismatch},
		"no such model":     {model: "n", reason: kvcache.TransferRefused},
		"no peer":           {secret: func(time.Time) string { return "" }, reason: kvcache.TransferRefused},
		"a page":            {wrap: func(http.Handler) http.Handler { return http.NotFoundHandler() }, reason: kvcache.TransferRefused},
		"a redirect":        {wrap: func(http.Handler) http.Handler { return http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound) }, reason: kvcache.TransferRefused},
	} {
		t.Run(name, func(t *testing.T) {
			have := newCache(20)
			from := serve(t, have, c.wrap)
			if c.cache != nil {
				c.cache(have)
			}
			if c.model != "" {
				from.RemoteModel = c.model
			}
			client := NewClient(sign)
			if c.secret != nil {
				client = NewClient(c.secret)
			}
			defer client.Close()
			got, err := fetch(client, from, have, "acme")
			fault, _ := errors.AsType[*kvcache.TransferFault](err)
			if fault == nil || fault.Reason != c.reason || !got.same(have.blocks[:c.blocks]) {
				t.Errorf("%d blocks, %v; want %d, %s", len(got.blocks), err, c.blocks, c.reason)
			}
			if _, ok := client.Estimate(from, 1); ok {
				t.Error("the replica is asked again at once")
			}
		})
	}
	t.Run("no server", func(t *testing.T) {
		client := NewClient(sign)
		_, err := fetch(client, inference.KVTransfer{RemoteURL: "http://127.0.0.1:1", RemoteModel: "m"}, newCache(1), "acme")
		if fault, _ := errors.AsType[*kvcache.TransferFault](err); fault == nil || fault.Reason != kvcache.TransferUnreachable {
			t.Error(err)
		}
	})
	t.Run("no URL", func(t *testing.T) {
		for _, address := range []string{"file:///etc/passwd", "", "gopher://a", "http://"} {
			_, err := fetch(NewClient(sign), inference.KVTransfer{RemoteURL: address}, newCache(1), "acme")
			if fault, _ := errors.AsType[*kvcache.TransferFault](err); fault == nil || fault.Reason != kvcache.TransferRefused {
				t.Error(address, err)
			}
		}
	})
}

// A statement is asked for before anything else, and a body that is no request is refused.
func TestRequestsAreChecked(t *testing.T) {
	have := newCache(2)
	from := serve(t, have, nil)
	post := func(said, body string) (int, string) {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, from.RemoteURL, strings.NewReader(body))
		r.Header.Set(router.CallerHeader, said)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text)
	}
	good := fmt.Sprintf(`{"model":"m","cache_domain":"acme","block_hashes":["%v"]}`, have.blocks[0].Hash)
	for body, want := range map[string]int{
		good: http.StatusConflict, "": 400, "{}": 400, `{"block_hashes":["zz"]}`: 400, `{"block_hashes":["` + strings.Repeat("00", 17) + `"]}`: 400,
		`{"x":1}`: 400, `{"block_hashes":["` + strings.Repeat("0", 1<<21) + `"]}`: 400,
		`{"block_hashes":[` + strings.Repeat(`"",`, MostBlocks) + `""]}`: 400,
	} {
		if status, text := post("a peer", body); status != want {
			t.Errorf("%.60q: %d %s, want %d", body, status, text, want)
		}
		if status, text := post("a tenant", body); status != http.StatusUnauthorized || strings.Contains(text, "model") {
			t.Errorf("%.60q of no peer: %d %s", body, status, text)
		}
	}
}

// Few are answered at a time: who reads slowly holds some memory and no more.
func TestFewAreAnsweredAtATime(t *testing.T) {
	wait, entered := make(chan struct{}), make(chan struct{}, mostAsks)
	h := NewHandler(func(string) Cache {
		entered <- struct{}{}
		<-wait
		return nil
	}, verify)
	ask := func() int {
		r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(fmt.Sprintf(`{"model":"m","block_hashes":["%v"]}`, kvcache.Hash{})))
		r.Header.Set(router.CallerHeader, "a peer")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		return rec.Code
	}
	done := make(chan int)
	for range mostAsks {
		go func() { done <- ask() }()
	}
	for range mostAsks {
		<-entered
	}
	if status := ask(); status != http.StatusServiceUnavailable {
		t.Error(status)
	}
	close(wait)
	for range mostAsks {
		if status := <-done; status != http.StatusNotFound {
			t.Error(status)
		}
	}
}

// What is expected follows what was measured.
func TestEstimatesFollowMeasurements(t *testing.T) {
	c, from := NewClient(sign), inference.KVTransfer{RemoteURL: "http://a", RemoteModel: "m"}
	estimate := func() time.Duration {
		d, _ := c.Estimate(from, 50_000_000)
		return d
	}
	if d := estimate(); d < 400*time.Millisecond || d > 600*time.Millisecond {
		t.Errorf("of one that was never asked: %v", d)
	}
	for range 10 {
		c.learn(&from, time.Millisecond, 50_000_000, 50*time.Millisecond)
	}
	if d := estimate(); d > 60*time.Millisecond || c.Rate() < 900e6 {
		t.Errorf("of a fast one: %v, %g bytes a second", d, c.Rate())
	}
	for range 10 {
		c.learn(&from, time.Millisecond, 0, time.Second)
	}
	if d := estimate(); d < 10*time.Second {
		t.Errorf("of one that has become slow: %v", d)
	}
}

// A reader takes in any bytes without a panic and with bounded memory, and gives no block whose checksum is wrong.
func FuzzReader(f *testing.F) {
	id := kvcache.Identity{BlockTokens: 2, BlockBytes: 5}
	var good bytes.Buffer
	w, _ := NewWriter(&good, id)
	_ = w.Block(kvcache.Hash{1}, []int32{1, 2}, []byte("hello"))
	_ = w.Block(kvcache.Hash{2}, []int32{3, 4}, []byte("world"))
	_ = w.End()
	f.Add(good.Bytes())
	f.Add(good.Bytes()[:70])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b), id)
		if err != nil {
			return
		}
		var out bytes.Buffer
		again, _ := NewWriter(&out, id)
		room := make([]byte, id.BlockBytes)
		for i := byte(1); ; i++ {
			ids, err := r.Next(kvcache.Hash{i}, room)
			if err != nil {
				if fault, ok := errors.AsType[*kvcache.TransferFault](err); !ok || fault.Reason == "" {
					t.Fatalf("an error without a reason: %v", err)
				}
				return
			}
			if ids == nil {
				break
			}
			_ = again.Block(kvcache.Hash{i}, ids, room)
		}
		if _ = again.End(); !bytes.HasPrefix(b, out.Bytes()) {
			t.Fatal("what was read is not what is written")
		}
	})
}
