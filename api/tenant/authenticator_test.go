package tenant

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/scheduler/quota"
)

// memory is a store of keys in a map. Create and Rotate have no bounds here.
type memory struct {
	mu      sync.Mutex
	keys    map[string]Key
	finds   int
	touched map[string]time.Time
	changes int64
	err     error         // of every call, if set
	gate    chan struct{} // Find waits for it, if set
}

func (m *memory) Create(_ context.Context, k Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == nil {
		m.keys = make(map[string]Key)
	}
	m.keys[k.ID] = k
	return m.err
}

func (m *memory) Rotate(ctx context.Context, _ string, _ time.Time, next Key) error {
	return m.Create(ctx, next)
}

func (m *memory) Change(_ context.Context, id string, f func(*Key) error) (Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.keys[id]
	err := f(&k)
	m.keys[id] = k
	m.changes++
	return k, err
}

func (m *memory) KeyChanges(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes, m.err
}

func (m *memory) List(context.Context, string) ([]Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Key
	for _, k := range m.keys {
		list = append(list, k)
	}
	return list, m.err
}

func (m *memory) Find(_ context.Context, id string) (Key, error) {
	if m.gate != nil {
		<-m.gate
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finds++
	if m.err != nil {
		return Key{}, m.err
	}
	k, ok := m.keys[id]
	if !ok {
		return Key{}, ErrNoKey
	}
	return k, nil
}

func (m *memory) Revoke(_ context.Context, id string, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.keys[id]
	k.Revoked = at
	m.keys[id] = k
	return nil
}

func (m *memory) Touch(_ context.Context, used map[string]time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.touched = used
	return m.err
}

func (m *memory) asked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.finds
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// issue puts a new key into the store.
func issue(t testing.TB, p Pepper, m *memory, tenant string, change func(*Key)) Issued {
	t.Helper()
	k := p.Issue()
	record := Key{ID: k.ID, Tenant: tenant, Scope: ScopeInference, Hash: k.Hash, Created: noon}
	if change != nil {
		change(&record)
	}
	if err := m.Create(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	return k
}

// Keys of a store that is made after the start are good once it is there, and are asked for once it has one.
func TestLateKeys(t *testing.T) {
	pepper, m := testPepper(t, 'a'), &memory{}
	var there bool
	a := newTestAuthenticator(t, Config{LateKeys: func(context.Context) (Keys, Pepper, error) {
		if !there {
			return nil, Pepper{}, nil
		}
		return m, pepper, nil
	}})
	a.look(t.Context())
	if !a.Open() {
		t.Fatal("without a store callers are asked who they are")
	}
	there = true
	a.look(t.Context())
	if !a.Open() {
		t.Error("a store without keys closes the server")
	}
	issued := issue(t, pepper, m, "acme", nil)
	a.look(t.Context())
	if c, err := a.Identify(Proof{Secret: issued.Text}, time.Now()); a.Open() || err != nil || c.Tenant.Name != "acme" {
		t.Errorf("open %v, %v %v", a.Open(), c, err)
	}
}

func newTestAuthenticator(t testing.TB, c Config) *Authenticator {
	t.Helper()
	a, err := NewAuthenticator(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// deniedFor checks that a proof is denied for a reason.
func deniedFor(t *testing.T, a *Authenticator, p Proof, now time.Time, reason *Denied) {
	t.Helper()
	var d *Denied
	if c, err := a.Identify(p, now); !errors.As(err, &d) || d != reason || c.Tenant != nil {
		t.Errorf("%.30q gives %+v, %v; want %v", p.Secret, c, err, reason)
	}
}

func TestKeysOfTheStore(t *testing.T) {
	p, m := testPepper(t, 'a'), &memory{}
	good := issue(t, p, m, "acme", func(k *Key) { k.Scope = ScopeInference | ScopeAdmin })
	expired := issue(t, p, m, "acme", func(k *Key) { k.Expires = noon })
	revoked := issue(t, p, m, "acme", func(k *Key) { k.Revoked = noon })
	stranger := issue(t, p, m, "stranger", nil)
	other := issue(t, p, m, "acme", func(k *Key) { k.Hash[0]++ })
	a := newTestAuthenticator(t, Config{Directory: mustDirectory(t, named("acme", nil)), Pepper: p, Keys: m})

	c, err := a.Identify(Proof{Secret: good.Text}, noon)
	if err != nil || c.Tenant.Name != "acme" || c.KeyID() != good.ID || c.Scope != ScopeInference|ScopeAdmin {
		t.Errorf("a good key gives %+v, %v", c, err)
	}
	deniedFor(t, a, Proof{}, noon, deniedNothing)
	deniedFor(t, a, Proof{Secret: "sk-something"}, noon, deniedUnknown)
	deniedFor(t, a, Proof{Secret: p.Issue().Text}, noon, deniedUnknown)
	deniedFor(t, a, Proof{Secret: testPepper(t, 'b').Issue().Text}, noon, deniedUnknown)
	deniedFor(t, a, Proof{Secret: other.Text}, noon, deniedUnknown)
	deniedFor(t, a, Proof{Secret: expired.Text}, noon, deniedExpired)
	deniedFor(t, a, Proof{Secret: revoked.Text}, noon, deniedRevoked)
	deniedFor(t, a, Proof{Secret: stranger.Text}, noon, deniedTenant)
	if !a.Guarded() || a.Open() {
		t.Error("a server with keys is open")
	}
}

// Invented keys, with a right checksum too, cost no question to the store and no
// memory.
func TestFloodOfInventedKeysAsksNoOne(t *testing.T) {
	p, m := testPepper(t, 'a'), &memory{}
	issue(t, p, m, "acme", nil)
	a, forger := newTestAuthenticator(t, Config{Pepper: p, Keys: m}), testPepper(t, 'f')
	for range 2000 {
		deniedFor(t, a, Proof{Secret: forger.Issue().Text}, noon, deniedUnknown)
	}
	if m.asked() != 0 || a.keyring.Load().known.Len() != 0 {
		t.Errorf("%d questions, %d keys remembered", m.asked(), a.keyring.Load().known.Len())
	}
}

func TestRevocationCountsWithinSecondsOrAtOnce(t *testing.T) {
	p, m := testPepper(t, 'a'), &memory{}
	one, two := issue(t, p, m, "acme", nil), issue(t, p, m, "acme", nil)
	a := newTestAuthenticator(t, Config{Pepper: p, Keys: m})
	for _, k := range []Issued{one, two} {
		for range 1000 {
			if _, err := a.Identify(Proof{Secret: k.Text}, noon); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Revoke(t.Context(), k.ID, noon); err != nil {
			t.Fatal(err)
		}
	}
	if m.asked() != 2 {
		t.Errorf("%d questions for two keys in 2000 requests", m.asked())
	}
	a.Forget(one.ID)
	deniedFor(t, a, Proof{Secret: one.Text}, noon, deniedRevoked)
	if _, err := a.Identify(Proof{Secret: two.Text}, noon.Add(freshFor-1)); err != nil {
		t.Errorf("an answer is asked for again before %v: %v", freshFor, err)
	}
	deniedFor(t, a, Proof{Secret: two.Text}, noon.Add(freshFor), deniedRevoked)
}

// While the store fails, a key that was good stays good for a while, and others
// are neither good nor denied; the store is asked once a second.
func TestStoreThatFails(t *testing.T) {
	p, m, failures := testPepper(t, 'a'), &memory{}, 0
	k, fresh := issue(t, p, m, "acme", nil), issue(t, p, m, "acme", nil)
	a := newTestAuthenticator(t, Config{Pepper: p, Keys: m, Failed: func(error) { failures++ }})
	if _, err := a.Identify(Proof{Secret: k.Text}, noon); err != nil {
		t.Fatal(err)
	}
	m.err = errors.New("disk on fire")
	for s := range 60 {
		for range 10 {
			if _, err := a.Identify(Proof{Secret: k.Text}, noon.Add(time.Duration(s)*time.Second)); err != nil {
				t.Fatalf("after %d s: %v", s, err)
			}
		}
	}
	if failures < 50 || failures > 60 {
		t.Errorf("%d questions in a minute", failures)
	}
	for _, c := range []struct {
		key Issued
		at  time.Time
	}{{fresh, noon}, {fresh, noon.Add(time.Hour)}, {k, noon.Add(goodWithout)}} {
		if _, err := a.Identify(Proof{Secret: c.key.Text}, c.at); !errors.Is(err, ErrUnverifiable) {
			t.Errorf("%s at %v: %v", c.key.ID, c.at, err)
		}
	}
	m.err = nil
	if _, err := a.Identify(Proof{Secret: k.Text}, noon.Add(goodWithout+retryAfter)); err != nil {
		t.Errorf("the store is back: %v", err)
	}
}

// Many first requests with one key wait for one question.
func TestOneQuestionForManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m := testPepper(t, 'a'), &memory{}
		k := issue(t, p, m, "acme", nil)
		a := newTestAuthenticator(t, Config{Pepper: p, Keys: m})
		m.gate = make(chan struct{})
		var done sync.WaitGroup
		for range 64 {
			done.Go(func() {
				if _, err := a.Identify(Proof{Secret: k.Text}, time.Now()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(m.gate)
		done.Wait()
		if m.asked() != 1 {
			t.Errorf("%d questions", m.asked())
		}

		// An answer that is a little old serves others while one caller asks.
		time.Sleep(freshFor)
		m.gate = make(chan struct{})
		answered := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := a.Identify(Proof{Secret: k.Text}, time.Now())
				answered <- err
			}()
			synctest.Wait()
		}
		if len(answered) != 1 {
			t.Errorf("%d of 2 callers were answered while one asks", len(answered))
		}
		close(m.gate)
		for range 2 {
			if err := <-answered; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestUseOfKeysIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m := testPepper(t, 'a'), &memory{}
		k, unused := issue(t, p, m, "acme", nil), issue(t, p, m, "acme", nil)
		a := newTestAuthenticator(t, Config{Pepper: p, Keys: m})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go a.Run(ctx)
		at := time.Now()
		if _, err := a.Identify(Proof{Secret: k.Text}, at); err != nil {
			t.Fatal(err)
		}
		time.Sleep(flushEvery + time.Second)
		synctest.Wait()
		if len(m.touched) != 1 || !m.touched[k.ID].Equal(at) || !m.touched[unused.ID].IsZero() {
			t.Errorf("noted %v", m.touched)
		}
		stop()
		synctest.Wait()
	})
}

// The first key that another process issues closes a server that was open, and no
// end of keys opens it again.
func TestFirstKeyClosesTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m := testPepper(t, 'a'), &memory{}
		a := newTestAuthenticator(t, Config{Pepper: p, Keys: m})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go a.Run(ctx)
		c, err := a.Identify(Proof{Secret: "unused"}, time.Now())
		if err != nil || c.Tenant.Name != "" || !c.Scope.Has(ScopeInference|ScopeAdmin|ScopeMetrics) || !a.Open() {
			t.Fatalf("an open server gives %+v, %v", c, err)
		}
		k := issue(t, p, m, "acme", nil)
		time.Sleep(lookEvery + time.Second)
		synctest.Wait()
		deniedFor(t, a, Proof{}, time.Now(), deniedNothing)
		if err := m.Revoke(t.Context(), k.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * lookEvery)
		deniedFor(t, a, Proof{}, time.Now(), deniedNothing)
		deniedFor(t, newTestAuthenticator(t, Config{Pepper: p, Keys: m}), Proof{}, time.Now(), deniedNothing)
		stop()
		synctest.Wait()
	})
}

func TestStaticKeysAndCertificates(t *testing.T) {
	d := mustDirectory(t, named("bob", func(t *Tenant) { t.Certificates = []string{"cn:bob"} }),
		named(Rest, func(t *Tenant) { t.Limits.RequestsPerMinute = 9 }))
	a := newTestAuthenticator(t, Config{Directory: d, StaticKeys: []string{"sk-0123456789"}})
	bob := &x509.Certificate{Subject: pkix.Name{CommonName: "bob"}}
	mallory := &x509.Certificate{Subject: pkix.Name{CommonName: "mallory"}}

	s, err := a.Identify(Proof{Secret: "sk-0123456789", Certificate: bob}, noon)
	if err != nil || s.Tenant.Name[:4] != "key-" || s.Tenant.Weight != 1 || s.Tenant.Limits.RequestsPerMinute != 9 || s.Scope.Has(ScopeAdmin) {
		t.Errorf("a static key gives %+v, %v", s, err)
	}
	for _, secret := range []string{"", "EMPTY"} { // SDKs send some key always
		c, err := a.Identify(Proof{Secret: secret, Certificate: bob}, noon)
		if err != nil || c.Tenant.Name != "bob" || c.Scope != ScopeInference {
			t.Errorf("bob's certificate and the key %q give %+v, %v", secret, c, err)
		}
	}
	deniedFor(t, a, Proof{Certificate: mallory}, noon, deniedNothing)
	deniedFor(t, a, Proof{Secret: "EMPTY", Certificate: mallory}, noon, deniedUnknown)
	if a.Guarded() {
		t.Error("the scope of admin cannot be had, and it is asked for")
	}
}

// Work that goes on without its caller finds the tenant by name, as long as some caller may be that tenant.
func TestTenantsByName(t *testing.T) {
	open := newTestAuthenticator(t, Config{})
	closed := newTestAuthenticator(t, Config{Directory: mustDirectory(t, named("bob", nil)), StaticKeys: []string{"sk-0123456789"}})
	static, err := closed.Identify(Proof{Secret: "sk-0123456789"}, noon)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		a     *Authenticator
		name  string
		found bool
	}{{open, "", true}, {open, "bob", false}, {closed, "", false}, {closed, "bob", true}, {closed, "eve", false},
		{closed, static.Tenant.Name, true}, {closed, "key-0011223344556677", false}} {
		if got, ok := tc.a.ByName(tc.name); ok != tc.found || ok && got.Name != tc.name {
			t.Errorf("%q: %+v, %v; want %v", tc.name, got, ok, tc.found)
		}
	}
}

func BenchmarkIdentify(b *testing.B) {
	p, m := testPepper(b, 'a'), &memory{}
	k := issue(b, p, m, "acme", nil)
	a := newTestAuthenticator(b, Config{Directory: mustDirectory(b, named("acme", nil)), Pepper: p, Keys: m})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Identify(Proof{Secret: k.Text}, noon); err != nil {
			b.Fatal(err)
		}
	}
}

// Work that goes on without its caller counts for the key that was shown, also once that has ended, and waits where the
// store does not say what the key may.
func TestReturnedCallersHaveTheirKeys(t *testing.T) {
	p, m := testPepper(t, 'a'), &memory{}
	limits := quota.Limits{DailyTokens: 7}
	ended := issue(t, p, m, "acme", func(k *Key) { k.Revoked, k.Limits, k.Models, k.Account = noon, limits, []string{"small"}, "first" })
	a := newTestAuthenticator(t, Config{Keys: m, Pepper: p})
	c, known := a.Returned("acme", ended.ID, noon)
	who := c.Holder("small", "small")
	if !known || c.KeyID() != ended.ID || who.Tenant != "acme" || who.Key != ended.ID || who.KeyAccount != "first" || *who.KeyLimits != limits {
		t.Errorf("%+v, %v", who, known)
	}
	if !c.MayUse("small") || c.MayUse("large") || c.UsesAll() {
		t.Error("the key's models are not those of its work")
	}
	for _, id := range []string{"", "0000000000"} {
		if c, known := a.Returned("acme", id, noon); !known || c.Key != nil || !c.UsesAll() {
			t.Errorf("%q: %+v, %v", id, c, known)
		}
	}
	if _, known := a.Returned("not a name", ended.ID, noon); known {
		t.Error("no proof is a tenant")
	}
	m.err = errors.New("away")
	if _, known := a.Returned("acme", "1111111111", noon); known {
		t.Error("a key that cannot be looked up has no limits")
	}
	peer := Caller{Tenant: c.Tenant, Key: c.Key, Peer: true}
	if who := peer.Holder("small"); who.Key != "" || who.KeyLimits != nil {
		t.Errorf("what a peer asks for counts for the peer's key: %+v", who)
	}
}

// A change of a key by another process counts from the next request on, once it is seen; while the store does not answer
// then, a key that was good stays good.
func TestAKeyIsChangedElsewhere(t *testing.T) {
	p, m := testPepper(t, 'a'), &memory{}
	key := issue(t, p, m, "acme", nil)
	a := newTestAuthenticator(t, Config{Keys: m, Pepper: p})
	streams := func() int64 {
		t.Helper()
		c, err := a.Identify(Proof{Secret: key.Text}, noon)
		if err != nil {
			t.Fatal(err)
		}
		return c.Key.Limits.MaxStreams
	}
	streams()
	if _, err := m.Change(t.Context(), key.ID, func(k *Key) error { k.Limits.MaxStreams = 3; return nil }); err != nil {
		t.Fatal(err)
	}
	if n := streams(); n != 0 || m.finds != 1 {
		t.Errorf("%d streams after %d questions: it is not seen yet", n, m.finds)
	}
	a.keyring.Load().follow(t.Context())
	m.err = errors.New("away")
	if n := streams(); n != 0 {
		t.Errorf("%d streams", n)
	}
	m.err = nil
	later := noon.Add(retryAfter)
	if c, err := a.Identify(Proof{Secret: key.Text}, later); err != nil || c.Key.Limits.MaxStreams != 3 {
		t.Errorf("%+v, %v", c.Key, err)
	}
	finds := m.finds
	for range 3 {
		if c, err := a.Identify(Proof{Secret: key.Text}, later); err != nil || c.Key.Limits.MaxStreams != 3 || m.finds != finds {
			t.Errorf("it was asked %d times, %v", m.finds-finds, err)
		}
	}
}

// A key that a setting holds has settings of its own where its tenant is listed.
func TestAStaticKeyWithSettingsOfItsOwn(t *testing.T) {
	const key = "sk-0123456789"
	name := staticName(sha256.Sum256([]byte(key)))
	a := newTestAuthenticator(t, Config{
		Directory:  mustDirectory(t, named(name, func(t *Tenant) { t.Limits.RequestsPerMinute = 7 }), named(Rest, func(t *Tenant) { t.Limits.RequestsPerMinute = 9 })),
		StaticKeys: []string{key, "sk-another-one"},
	})
	for secret, want := range map[string]int64{key: 7, "sk-another-one": 9} {
		c, err := a.Identify(Proof{Secret: secret}, noon)
		if err != nil || c.Tenant.Limits.RequestsPerMinute != want {
			t.Errorf("%s: %+v, %v", secret, c.Tenant, err)
			continue
		}
		if again, ok := a.ByName(c.Tenant.Name); !ok || again.Limits.RequestsPerMinute != want {
			t.Errorf("%s by its name: %+v", secret, again)
		}
	}
}
