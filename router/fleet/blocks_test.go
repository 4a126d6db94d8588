package fleet

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"weir/kvcache"
	"weir/router"
	"weir/router/balance"
)

// cached is a weir whose admin listener tells what its cache holds.
type cached struct {
	*httptest.Server
	asked chan string // what a reader has, as it asks

	mu   sync.Mutex
	told router.BlockEvents
	news chan struct{}
}

func newCached(t *testing.T, told router.BlockEvents) *cached {
	t.Helper()
	c := &cached{told: told, news: make(chan struct{}), asked: make(chan string, 100)}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

func (c *cached) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != router.BlockEventsPath {
		return
	}
	q := r.URL.Query()
	after, _ := strconv.ParseUint(q.Get("after"), 10, 64)
	epoch, _ := strconv.ParseUint(q.Get("epoch"), 10, 64)
	select {
	case c.asked <- q.Get("model") + " " + q.Get("after"):
	default:
	}
	c.mu.Lock()
	told, news := c.told, c.news
	c.mu.Unlock()
	if last := told.First + uint64(len(told.Events)) - 1; epoch == told.Epoch && after >= last {
		select {
		case <-news:
			c.mu.Lock()
			told = c.told
			c.mu.Unlock()
		case <-r.Context().Done():
			return
		}
	}
	if epoch == told.Epoch && after >= told.First {
		told.Events = told.Events[after-told.First+1:]
		told.First = after + 1
	}
	_ = json.NewEncoder(w).Encode(told)
}

// add makes further events known.
func (c *cached) add(events ...kvcache.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range events {
		c.told.Events = append(c.told.Events, router.BlockEvent{Event: e})
	}
	close(c.news)
	c.news = make(chan struct{})
}

// holds waits until a replica holds so many keys in a fleet's index.
func holds(t *testing.T, f *Fleet, i, keys int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		r := f.members.Load().list[i]
		if n := f.balancer.Index().Entries(r.number); n == keys {
			return
		} else if time.Now().After(end) {
			t.Fatalf("%s holds %d keys, want %d", r.id, n, keys)
		}
	}
}

// A prompt goes to the replica whose cache holds it, which the router was told by the replica
// and has never sent anything; what the replica evicts, or loses at a restart, is forgotten.
func TestPromptsGoWhereTheirBlocksAre(t *testing.T) {
	secret := []byte("s")
	config := kvcache.Config{BlockTokens: 4, ModelDigest: "d", KVType: "f16", Secret: secret}
	tokens := make([]int32, 40)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	chain := config.Domain("acme").Chain(nil, tokens, 4)
	first := router.BlockEvents{Digest: "d", KVType: "f16", BlockTokens: 4, Epoch: 7, First: 1,
		Events: []router.BlockEvent{{Event: kvcache.Event{Kind: kvcache.Cleared}}}}
	empty, full := newCached(t, first), newCached(t, first)
	for i, h := range chain {
		e := kvcache.Event{Hash: h}
		if i > 0 {
			e.Parent = chain[i-1]
		}
		full.add(e)
	}
	a, b := newFake(t, "a", ""), newFake(t, "b", "")
	f, err := New(Config{Model: "m", Secret: secret, Sources: []Source{
		{URL: a.URL + "/v1", AdminURL: empty.URL}, {URL: b.URL + "/v1", AdminURL: full.URL, Model: "theirs"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	go f.Run(t.Context())
	at := 0 // of b in the list
	if f.members.Load().list[1].id == b.id() {
		at = 1
	}
	holds(t, f, at, len(chain))
	if got := <-full.asked; got != "theirs 0" {
		t.Errorf("a reader that has nothing asks for %q", got)
	}
	c := call("")
	c.Tokens, c.Domain = tokens, "acme"
	for range 10 {
		answer, _, err := take(t, f, c)
		if err != nil || answer.Replica != b.id() || answer.Reason != "prefix 10/10 blocks" {
			t.Fatalf("%+v, %v; %s has the blocks", answer, err, b.id())
		}
	}
	full.add(kvcache.Event{Kind: kvcache.Removed, Hash: chain[9]}, kvcache.Event{Kind: kvcache.Removed, Hash: chain[8]})
	holds(t, f, at, len(chain)-2)
	full.mu.Lock()
	full.told.Epoch, full.told.Events = 8, first.Events
	full.mu.Unlock()
	full.add()
	holds(t, f, at, 0)
}

// Replicas whose hashes are made otherwise than most are told apart by nothing that they tell;
// when most have been updated, the others are those.
func TestReplicasThatHashOtherwise(t *testing.T) {
	f := fleetOf(t, Config{Secret: []byte("s"), Balance: balance.Config{}}, newFake(t, "a", ""), newFake(t, "b", ""), newFake(t, "c", ""))
	list := f.members.Load().list
	told := func(digest string) *router.BlockEvents {
		return &router.BlockEvents{Digest: digest, KVType: "f16", BlockTokens: 16, Epoch: 1, First: 1,
			Events: []router.BlockEvent{{Event: kvcache.Event{Kind: kvcache.Cleared}}}}
	}
	for i, step := range []struct {
		replica int
		digest  string
		taken   bool
	}{{0, "old", true}, {1, "old", true}, {2, "new", false}, {1, "new", true}, {2, "new", true}, {0, "old", false}, {0, "new", true}} {
		if err := f.blocks.takeBlocks(list[step.replica], told(step.digest)); (err == nil) != step.taken {
			t.Errorf("step %d: %v", i, err)
		}
	}
	if err := f.blocks.takeBlocks(list[0], &router.BlockEvents{}); err == nil {
		t.Error("blocks without tokens are taken in")
	}
}

// A replica that is picked is told where blocks are that it lacks, if that is worth asking, and if both can share them.
func TestReplicasAreToldWhereBlocksAre(t *testing.T) {
	f, err := New(Config{Model: "m", Secret: []byte("s"), Sources: []Source{
		{URL: "http://127.0.0.1:1/v1", AdminURL: "http://127.0.0.1:11", Region: "eu"},
		{URL: "http://127.0.0.1:2/v1", AdminURL: "http://127.0.0.1:12", Region: "us", Model: "theirs"},
		{URL: "http://127.0.0.1:3/v1"}, {URL: "http://127.0.0.1:4/v1", Kind: VLLM, AdminURL: "http://127.0.0.1:14"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	f.blocks.root.Store(&hashRoots{digest: "d", kvType: "f16", blockTokens: 16})
	keys := kvcache.Config{Secret: []byte("s")}.Domain("acme").Chain(nil, make([]int32, 16*40), 16)
	list := f.members.Load().list
	f.balancer.Index().Hold(list[1].number, keys[:30], 0)
	f.balancer.Index().Hold(list[2].number, keys, 0) // which has no admin listener here
	var residency []string
	told := func(to int) string {
		fl := &flight{fleet: f, call: &router.Call{Residency: residency}, holders: f.blocks.holders(keys)}
		kv := fl.transfer(list[to])
		if kv.DoRemotePrefill != (kv.RemoteURL != "") {
			t.Errorf("%+v", kv)
		}
		return kv.RemoteURL + " " + kv.RemoteModel + " " + strconv.Itoa(kv.RemoteTokens)
	}
	const there, nowhere = "http://127.0.0.1:12 theirs 480", "  0"
	if got := []string{told(0), told(1), told(2), told(3)}; !slices.Equal(got, []string{there, nowhere, nowhere, nowhere}) {
		t.Errorf("%q", got)
	}
	for _, region := range []string{"eu", "us"} {
		residency = []string{region}
		if got := told(0); (got == there) != (region == "us") {
			t.Errorf("%q for a tenant whose data stays in %s", got, region)
		}
	}
	residency = nil
	if f.balancer.Index().Hold(list[0].number, keys[:20], 0); told(0) != nowhere {
		t.Errorf("%q for ten blocks", told(0))
	}
	list[1].set(Down, "a test", time.Now())
	if f.balancer.Index().Drop(list[0].number); told(0) != nowhere {
		t.Errorf("%q, which is down", told(0))
	}
}
