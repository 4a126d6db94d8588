package tenant

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/inference"
)

const peerKey = "0123456789abcdef0123456789abcdef"

func mustPeers(t testing.TB, keys ...string) *Peers {
	t.Helper()
	p, err := NewPeers(keys)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What a router says of a tenant, its replica sees; a statement counts once, for a minute,
// and with the key of the peers.
func TestPeersBelieveOneAnother(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	acme := New("acme")
	acme.Weight, acme.Class, acme.HighestClass, acme.CacheGroup = 7, inference.Batch, inference.Default, "family"
	acme.Residency = []string{"eu", "us"}
	acme.Limits.TokensPerMinute = 5
	router, replica := mustPeers(t, peerKey), mustPeers(t, strings.Repeat("other", 8), peerKey)
	said := router.Sign(&acme, inference.KVTransfer{}, now)
	if _, _, err := replica.Verify(said, true, now); err != nil {
		t.Errorf("a look: %v", err)
	}
	got, _, err := replica.Verify(said, false, now.Add(20*time.Second))
	if err != nil || got.Name != "acme" || got.Weight != 7 || got.Class != inference.Batch || got.HighestClass != inference.Default ||
		got.CacheDomain() != acme.CacheDomain() || !slices.Equal(got.Residency, acme.Residency) || got.Limits.TokensPerMinute != 0 {
		t.Fatalf("%+v %v", got, err)
	}
	if _, _, err := replica.Verify(said, false, now); !errors.Is(err, deniedReplay) {
		t.Errorf("a second time: %v", err)
	}
	for name, tc := range map[string]struct {
		text string
		at   time.Duration
		want error
	}{
		"too late":         {router.Sign(&acme, inference.KVTransfer{}, now), peerLife + peerSkew + time.Second, deniedPeerTime},
		"a late clock":     {router.Sign(&acme, inference.KVTransfer{}, now), -peerSkew - time.Second, deniedPeerTime},
		"within the skew":  {router.Sign(&acme, inference.KVTransfer{}, now), -peerSkew + time.Second, nil},
		"30 s ahead":       {router.Sign(&acme, inference.KVTransfer{}, now), -30 * time.Second, nil},
		"30 s behind":      {router.Sign(&acme, inference.KVTransfer{}, now), 30 * time.Second, nil},
		"another key":      {mustPeers(t, strings.Repeat("wrong", 8)).Sign(&acme, inference.KVTransfer{}, now), 0, deniedPeer},
		"nothing":          {"", 0, deniedPeer},
		"no JWS":           {"a.b.c", 0, deniedPeer},
		"unsigned":         {base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + strings.Split(said, ".")[1] + ".", 0, deniedPeer},
		"changed":          {strings.Split(said, ".")[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"tenant":"evil"}`)) + "." + strings.Split(said, ".")[2], 0, deniedPeer},
		"very long":        {strings.Repeat("x", 1<<20), 0, deniedPeer},
		"of no valid name": {router.Sign(&Tenant{Name: "a b", Weight: 1}, inference.KVTransfer{}, now), 0, deniedPeer},
		"of no region":     {router.Sign(&Tenant{Name: "a", Weight: 1, Residency: []string{"a b"}}, inference.KVTransfer{}, now), 0, deniedPeer},
		"of no weight":     {router.Sign(&Tenant{Name: "a"}, inference.KVTransfer{}, now), 0, deniedPeer},
	} {
		if _, _, err := replica.Verify(tc.text, false, now.Add(tc.at)); !errors.Is(err, tc.want) && (tc.want != nil || err != nil) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	for _, keys := range [][]string{nil, {"short"}, {peerKey, "short"}} {
		if _, err := NewPeers(keys); err == nil {
			t.Errorf("%q were accepted", keys)
		}
	}
}

// Without a peer key the header is nothing; with it, the caller must be known as well.
func TestIdentifyTakesThePeersWord(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	acme := New("acme")
	said := func() string { return mustPeers(t, peerKey).Sign(&acme, inference.KVTransfer{}, now) }
	deaf, err := NewAuthenticator(t.Context(), Config{StaticKeys: []string{"sk-router-key"}})
	if err != nil {
		t.Fatal(err)
	}
	hears, err := NewAuthenticator(t.Context(), Config{StaticKeys: []string{"sk-router-key"}, Peers: mustPeers(t, peerKey)})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := deaf.Identify(Proof{Secret: "sk-router-key", Caller: said()}, now); err != nil || c.Tenant.Name == "acme" || c.Peer {
		t.Errorf("without a peer key: %+v %v", c, err)
	}
	if c, err := hears.Identify(Proof{Secret: "sk-router-key", Caller: said()}, now); err != nil || c.Tenant.Name != "acme" || !c.Peer || !c.Scope.Has(ScopeInference) {
		t.Errorf("with it: %+v %v", c, err)
	}
	if c, err := hears.Identify(Proof{Secret: "sk-router-key"}, now); err != nil || c.Tenant.Name == "acme" || c.Peer {
		t.Errorf("a client: %+v %v", c, err)
	}
	for name, p := range map[string]Proof{
		"no key of its own": {Caller: said()}, "a wrong statement": {Secret: "sk-router-key", Caller: "x"},
	} {
		if c, err := hears.Identify(p, now); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func FuzzPeerStatement(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	p := mustPeers(f, peerKey)
	acme := New("acme")
	f.Add(p.Sign(&acme, inference.KVTransfer{}, now))
	f.Add("a.b.c")
	f.Add(`{"payload":"e30","signatures":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, _, err := p.Verify(text, true, now)
		if (got == nil) == (err == nil) {
			t.Errorf("%v and %v", got, err)
		}
	})
}

// A server refuses tenants whose data stays in other regions, its peers' tenants among them; without a region it believes its peers that
// they have looked.
func TestTenantsOfOtherRegionsAreRefused(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	acme, free := New("acme"), New("free")
	acme.Residency = []string{"eu"}
	directory, err := NewDirectory([]Tenant{acme, free})
	if err != nil {
		t.Fatal(err)
	}
	router := mustPeers(t, peerKey)
	for region, want := range map[string]struct{ own, peers bool }{"eu": {true, true}, "us": {false, false}, "": {false, true}} {
		const key = "sk-of-a-router"
		a, err := NewAuthenticator(t.Context(), Config{Directory: directory, StaticKeys: []string{key}, Peers: mustPeers(t, peerKey), Region: region})
		if err != nil {
			t.Fatal(err)
		}
		static := New(staticName(sha256.Sum256([]byte(key))))
		static.Residency = acme.Residency
		own, err := NewDirectory([]Tenant{static})
		if err != nil {
			t.Fatal(err)
		}
		a.Replace(own, []string{key}, nil)
		_, err = a.Identify(Proof{Secret: key}, now)
		if elsewhere, refused := errors.AsType[*ResidencyError](err); refused == want.own || refused && (elsewhere.Region != region || DenialKind(Reason(err)) != DeniedRegion) {
			t.Errorf("%q, its own tenant: %v", region, err)
		}
		if _, known := a.Returned(static.Name, "", now); known != want.own {
			t.Errorf("%q: work goes on for its own tenant: %v", region, known)
		}
		a.Replace(directory, []string{key}, nil)
		if _, err = a.Identify(Proof{Secret: key, Caller: router.Sign(&acme, inference.KVTransfer{}, now)}, now); (err == nil) != want.peers {
			t.Errorf("%q, a peer's tenant: %v", region, err)
		}
		if _, err = a.Identify(Proof{Secret: key, Caller: router.Sign(&free, inference.KVTransfer{}, now)}, now); err != nil {
			t.Errorf("%q, a tenant without a residency: %v", region, err)
		}
	}
}

// A statement says where KV blocks are; one that fetches them is good for nothing else, once, and no request's is good for that.
func TestPeersFetchBlocks(t *testing.T) {
	now, acme := time.Unix(1_800_000_000, 0), New("acme")
	router, replica := mustPeers(t, peerKey), mustPeers(t, peerKey)
	want := inference.KVTransfer{DoRemotePrefill: true, RemoteURL: "http://a:9090", RemoteModel: "m", RemoteTokens: 4096}
	said := router.Sign(&acme, want, now)
	if err := replica.VerifyFetch(said, now); err == nil {
		t.Error("a request's statement fetches blocks")
	}
	if _, got, err := replica.Verify(said, false, now); err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
	said = router.SignFetch(now)
	if _, _, err := replica.Verify(said, false, now); err == nil {
		t.Error("a statement that fetches blocks names a tenant")
	}
	if err := replica.VerifyFetch(said, now); err != nil {
		t.Error(err)
	}
	if err := replica.VerifyFetch(said, now); !errors.Is(err, deniedReplay) {
		t.Errorf("a second time: %v", err)
	}
	for _, text := range []string{"", "x", mustPeers(t, strings.Repeat("wrong", 8)).SignFetch(now), router.SignFetch(now.Add(-time.Hour))} {
		if err := replica.VerifyFetch(text, now); err == nil {
			t.Errorf("%.40q fetches blocks", text)
		}
	}
}
