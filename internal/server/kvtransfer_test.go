package server_test

import (
	"bytes"
	"encoding/json"
	stdflag "flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/router"
	"weir/router/transfer"
)

const (
	sharedPeerKey   = "a key that all peers of this test share"
	sharedPrefixKey = "a secret of all replicas"
)

// sharing is a weir that gives and takes KV blocks.
func sharing(more func(*configs.Config)) func(*configs.Config) {
	return func(c *configs.Config) {
		c.Server.PeerKeys, c.Engine.PrefixCacheKey = []string{sharedPeerKey}, sharedPrefixKey
		if more != nil {
			more(c)
		}
	}
}

// asPeer asks for the completion of token ids in a tenant's name, as a router that knows where blocks of it are.
func asPeer(s *servertest.Server, of string, kv inference.KVTransfer, ids []int, tokens int) (text string, took time.Duration) {
	s.T.Helper()
	peers, err := tenant.NewPeers([]string{sharedPeerKey})
	if err != nil {
		s.T.Fatal(err)
	}
	t := tenant.New(of)
	list, _ := json.Marshal(ids)
	r, _ := http.NewRequestWithContext(s.T.Context(), http.MethodPost, s.API+"/v1/completions",
		strings.NewReader(fmt.Sprintf(`{"prompt":%s,"max_tokens":%d,"temperature":0,"ignore_eos":true}`, list, tokens)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(router.CallerHeader, peers.Sign(&t, kv, time.Now()))
	began := time.Now()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct{ Choices []struct{ Text string } }
	body, _ := io.ReadAll(res.Body)
	if took = time.Since(began); json.Unmarshal(body, &answer) != nil || len(answer.Choices) != 1 {
		s.T.Fatalf("%d %s", res.StatusCode, body)
	}
	return answer.Choices[0].Text, took
}

func randomIDs(seed uint64, n, below int) []int {
	r, ids := rand.New(rand.NewPCG(seed, 3)), make([]int, n)
	for i := range ids {
		ids[i] = 5 + r.IntN(below-5)
	}
	return ids
}

func place(s *servertest.Server) inference.KVTransfer {
	return inference.KVTransfer{DoRemotePrefill: true, RemoteURL: s.Admin}
}

// A weir fetches a prefix from the peer that a router names, and answers as if it had computed it; of another tenant, of
// another cache and of a peer that is gone it computes it, and says why.
func TestPrefixesComeFromAnotherWeir(t *testing.T) {
	far, near, alone := servertest.Start(t, sharing(nil)), servertest.Start(t, sharing(nil)), servertest.Start(t, sharing(nil))
	ids := randomIDs(1, 203, 300)
	asPeer(far, "acme", inference.KVTransfer{}, ids, 1)
	want, _ := asPeer(alone, "acme", inference.KVTransfer{}, ids, 20)
	if got, _ := asPeer(near, "acme", place(far), ids, 20); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	received := func(s *servertest.Server) int { return s.Counter("weir_kv_transfer_blocks_total", "received") }
	if n, sent := received(near), far.Counter("weir_kv_transfer_blocks_total", "sent"); n != 12 || sent != 12 {
		t.Errorf("%d blocks came, %d went; want 12", n, sent)
	}
	again := servertest.Start(t, sharing(nil)) // one that has computed knows that it computes so small a model sooner
	if got, _ := asPeer(again, "other", place(far), ids, 20); got != want || received(again) != 0 || again.Counter("weir_kv_transfer_failures_total", "missing") != 1 {
		t.Errorf("another tenant: %q, %d blocks", got, received(again))
	}
	other := servertest.Start(t, sharing(func(c *configs.Config) { c.Engine.KVType = "f32" }))
	asPeer(other, "acme", place(far), ids, 20)
	if n := other.Counter("weir_kv_transfer_failures_total", "mismatch"); n != 1 || received(other) != 0 {
		t.Errorf("another cache: %d mismatches, %d blocks", n, received(other))
	}
	gone := place(far)
	gone.RemoteURL = "http://127.0.0.1:1"
	more := randomIDs(2, 203, 300)
	want, _ = asPeer(alone, "acme", inference.KVTransfer{}, more, 20)
	cold := servertest.Start(t, sharing(nil))
	if got, _ := asPeer(cold, "acme", gone, more, 20); got != want || cold.Counter("weir_kv_transfer_failures_total", "unreachable") != 1 {
		t.Errorf("a peer that is gone: %q, want %q", got, want)
	}
}

// A peer whose answer is damaged, cut or never ends costs a request no right answer, and others nothing.
func TestABadPeerIsComputedAround(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	far, alone := servertest.Start(t, sharing(nil)), servertest.Start(t, sharing(nil))
	ids := randomIDs(3, 203, 300)
	asPeer(far, "acme", inference.KVTransfer{}, ids, 1)
	want, _ := asPeer(alone, "acme", inference.KVTransfer{}, ids, 20)
	for reason, change := range map[string]func(w http.ResponseWriter, r *http.Request, body []byte){
		"corrupt": func(w http.ResponseWriter, _ *http.Request, body []byte) {
			body[len(body)/2] ^= 4
			_, _ = w.Write(body)
		},
		"truncated": func(w http.ResponseWriter, _ *http.Request, body []byte) {
			_, _ = w.Write(body[:len(body)/2])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"timeout": func(w http.ResponseWriter, r *http.Request, body []byte) {
			_, _ = w.Write(body[:len(body)/2])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(reason, func(t *testing.T) {
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				said, _ := io.ReadAll(r.Body)
				sent, _ := http.NewRequestWithContext(r.Context(), r.Method, far.Admin+r.URL.Path, bytes.NewReader(said))
				sent.Header = r.Header
				res, err := http.DefaultClient.Do(sent)
				if err != nil {
					t.Error(err)
					return
				}
				defer res.Body.Close()
				body, _ := io.ReadAll(res.Body)
				w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
				change(w, r, body)
			}))
			defer proxy.Close()
			near, at := servertest.Start(t, sharing(nil)), place(far)
			at.RemoteURL = proxy.URL
			if got, _ := asPeer(near, "acme", at, ids, 20); got != want || near.Counter("weir_kv_transfer_failures_total", `reason="`+reason+`"`) != 1 {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// A router that sends a prompt to another weir than the one that has it cached tells it where its blocks are.
func TestRouteTellsWhereBlocksAre(t *testing.T) {
	a, b := servertest.Start(t, sharing(nil)), servertest.Start(t, sharing(nil))
	r := servertest.Start(t, sharing(func(c *configs.Config) {
		routedTo("consistent_hash", a.API, b.API)(c)
		c.Models[0].Tokenizer = configs.BuiltinPath
		c.Models[0].Replicas[0].AdminURL, c.Models[0].Replicas[1].AdminURL = a.Admin, b.Admin
	}))
	for i := range 20 {
		question := fmt.Sprintf(`"messages":[{"role":"user","content":"%d %s"}],"temperature":0,"max_tokens":8`, i, strings.Repeat("What is weir? ", 70))
		keys := stored(a, r)
		whole := servertest.Body(t, a.Post("/v1/chat/completions", "{"+question+"}"))
		for end := time.Now().Add(servertest.Patience); stored(a, r) < keys+leastBlocks; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the router knows %d blocks of %s: %.200s", stored(a, r), a.API, whole)
			}
		}
		got := r.Post("/v1/chat/completions", `{"model":"front",`+question+`}`)
		if got.StatusCode != http.StatusOK {
			t.Fatalf("%d", got.StatusCode)
		}
		if got.Header.Get("X-Weir-Replica") == strings.TrimPrefix(b.API, "http://") {
			var want, have struct {
				Choices []struct{ Message struct{ Content string } }
			}
			_, _ = json.Unmarshal([]byte(whole), &want), json.Unmarshal([]byte(servertest.Body(t, got)), &have)
			if len(want.Choices) == 0 || !slices.Equal(want.Choices, have.Choices) {
				t.Errorf("%+v, want %+v", have, want)
			}
			if n := b.Counter("weir_kv_transfer_blocks_total", "received"); n < leastBlocks {
				t.Errorf("%d blocks came", n)
			}
			return
		}
	}
	t.Error("none of 20 prompts went to the other replica")
}

const leastBlocks = 16 // of a prompt, for a router to tell of them

// stored is how many keys a router knows of this replica.
func stored(s *servertest.Server, r *servertest.Server) int {
	s.T.Helper()
	var replicas struct {
		Models []struct{ Replicas []shownReplica }
	}
	if _, text := r.Get(r.Admin + "/admin/replicas"); json.Unmarshal([]byte(text), &replicas) != nil || len(replicas.Models) != 1 {
		s.T.Fatal(text)
	}
	for _, v := range replicas.Models[0].Replicas {
		if v.Replica == strings.TrimPrefix(s.API, "http://") {
			return v.Keys
		}
	}
	s.T.Fatal("no such replica")
	return 0
}

// Blocks are for peers: neither a tenant nor an operator gets them, nor anybody where no peer key is set.
func TestBlocksAreForPeers(t *testing.T) {
	s := servertest.Start(t, sharing(nil))
	if got := postTo(s, s.Admin+transfer.Path); got != http.StatusUnauthorized {
		t.Errorf("status %d on the admin listener", got)
	}
	if got := postTo(s, s.API+transfer.Path); got != http.StatusNotFound {
		t.Errorf("status %d on the API's", got)
	}
	if plain := servertest.Start(t, nil); postTo(plain, plain.Admin+transfer.Path) == http.StatusOK {
		t.Error("blocks without a peer key")
	}
}

func postTo(s *servertest.Server, address string) int {
	s.T.Helper()
	res, err := http.Post(address, "application/json", strings.NewReader(`{"model":"","block_hashes":["00000000000000000000000000000000"]}`))
	if err != nil {
		s.T.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

var (
	transferTokens = stdflag.Int("transfer-tokens", 256, "tokens of the prefix that is fetched and computed")
	transferRounds = stdflag.Int("transfer-rounds", 1, "prefixes of each real model")
)

// A prefix of a real model that was fetched gives the answer of one that was computed. What both take, between two weirs on loopback, is
// printed with -v as medians.
func TestFetchedAgainstComputedPrefix(t *testing.T) {
	rounds, tokens := *transferRounds, *transferTokens
	overRealModels(t, func(t *testing.T, m realModel) {
		m.inAMoment(t)
		path := reference.Model(t, m.name)
		with := sharing(func(c *configs.Config) { c.Model.Path, c.Engine.KVMemoryBytes = path, 1<<30 })
		far, near := servertest.Start(t, with), servertest.Start(t, with)
		asPeer(near, "acme", inference.KVTransfer{}, randomIDs(99, 300, 40000), 1)
		var computed, fetched, cached []time.Duration
		for i := range rounds {
			ids := randomIDs(uint64(i), tokens+1, 40000) //nolint:gosec // few
			want, slow := asPeer(far, "acme", inference.KVTransfer{}, ids, 1)
			got, fast := asPeer(near, "acme", place(far), ids, 1)
			again, most := asPeer(near, "acme", inference.KVTransfer{}, ids, 1)
			if got != want || again != want {
				t.Errorf("%q and %q, want %q", got, again, want)
			}
			computed, fetched, cached = append(computed, slow), append(fetched, fast), append(cached, most)
		}
		if n := near.Counter("weir_kv_transfer_blocks_total", "received"); n != rounds*tokens/16 {
			t.Logf("%d blocks came of %d: the times of what came late, or was not worth it, are of computing", n, rounds*tokens/16) // a busy machine
		}
		median := func(list []time.Duration) time.Duration {
			slices.Sort(list)
			return list[len(list)/2].Round(time.Millisecond / 10)
		}
		t.Logf("%d tokens, %d MiB: computed %v, fetched %v, cached %v", tokens,
			near.Counter("weir_kv_transfer_bytes_total", "received")/rounds>>20, median(computed), median(fetched), median(cached))
	})
}
