package tenant

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/scheduler/quota"
)

func mustDirectory(t testing.TB, tenants ...Tenant) *Directory {
	t.Helper()
	d, err := NewDirectory(tenants)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// named is a tenant with one change.
func named(name string, change func(*Tenant)) Tenant {
	t := New(name)
	if change != nil {
		change(&t)
	}
	return t
}

func TestWhoIsNotListedIsNoTenant(t *testing.T) {
	d := mustDirectory(t, named("acme", func(t *Tenant) { t.Weight = 3 }))
	if a, ok := d.Find("acme"); !ok || a.Weight != 3 {
		t.Errorf("acme is %+v, %v", a, ok)
	}
	for _, name := range []string{"other", "", "*", "a b"} {
		if _, ok := d.Find(name); ok {
			t.Errorf("%q is a tenant", name)
		}
	}
	if !d.Closed() || mustDirectory(t).Closed() {
		t.Error("a list closes the directory, and only a list")
	}
	if o, ok := mustDirectory(t).Find("anybody"); !ok || o.Name != "anybody" || o.Weight != 1 || !o.Limits.Unlimited() {
		t.Errorf("without a list, anybody is %+v, %v", o, ok)
	}
}

func TestRestIsEveryTenantThatIsNotListed(t *testing.T) {
	d := mustDirectory(t, named("acme", nil), named(Rest, func(t *Tenant) { t.Limits.RequestsPerMinute = 7 }))
	o, ok := d.Find("other")
	if !ok || o.Name != "other" || o.Limits.RequestsPerMinute != 7 || o.CacheDomain() != "other" {
		t.Errorf("other is %+v, %v", o, ok)
	}
	if a, _ := d.Find("acme"); a.Limits.RequestsPerMinute != 0 {
		t.Error("a listed tenant has limits of the rest")
	}
	if u := d.Unlisted(""); u.Limits.RequestsPerMinute != 7 || u.Name != "" {
		t.Errorf("the tenant of an open server is %+v", u)
	}
	if len(d.List()) != 1 || d.List()[0].Name != "acme" {
		t.Errorf("listed are %v", d.List())
	}
}

// A domain is shared by those of one group, and not by one who only chose a
// name that looks like it.
func TestCacheDomains(t *testing.T) {
	a, b := named("a", func(t *Tenant) { t.CacheGroup = "g" }), named("b", func(t *Tenant) { t.CacheGroup = "g" })
	g := New("g")
	if a.CacheDomain() != b.CacheDomain() || a.CacheDomain() == g.CacheDomain() || g.CacheDomain() != "g" {
		t.Errorf("domains %q %q %q", a.CacheDomain(), b.CacheDomain(), g.CacheDomain())
	}
}

func TestModelsOfATenant(t *testing.T) {
	a := named("a", func(t *Tenant) {
		t.Models = []string{"small"}
		t.ModelLimits = map[string]quota.Limits{"small": {MaxStreams: 2}}
	})
	all := New("b")
	if !a.MayUse("llama-1b", "small") || a.MayUse("large") || !all.MayUse("large") {
		t.Error("MayUse is wrong")
	}
	if l := a.LimitsOf("llama-1b", "small"); l == nil || l.MaxStreams != 2 || a.LimitsOf("large") != nil {
		t.Error("LimitsOf is wrong")
	}
}

func TestWrongTenantsAreNamed(t *testing.T) {
	for _, c := range []struct {
		change func(*Tenant)
		says   string
	}{
		{func(t *Tenant) { t.Name = "" }, `name is ""; it must be 1 to 64 letters`},
		{func(t *Tenant) { t.Name = "a/b" }, `name is "a/b"; it must be`},
		{func(t *Tenant) { t.Name = strings.Repeat("a", 65) }, "name is"},
		{func(t *Tenant) { t.Name = "key-0011" }, "kept for the keys of --api-key"},
		{func(t *Tenant) { t.Weight = 0 }, "weight is 0; it must be from 1 to 4096"},
		{func(t *Tenant) { t.Weight = 5000 }, "weight is 5000"},
		{func(t *Tenant) { t.HighestClass = inference.Batch }, "class is default, above highest_class batch"},
		{func(t *Tenant) { t.FirstTokenTimeout = -time.Second }, "first_token_timeout is -1s"},
		{func(t *Tenant) { t.FirstTokenTimeout, t.TotalTimeout = time.Minute, time.Second }, "above total_timeout 1s"},
		{func(t *Tenant) { t.CacheGroup = "a b" }, `cache_group is "a b"`},
		{func(t *Tenant) { t.Limits.MaxStreams = -1 }, "limits: max_streams is -1"},
		{func(t *Tenant) { t.ModelLimits = map[string]quota.Limits{"m": {DailyTokens: -1}} }, `model_limits of "m": daily_tokens is -1`},
		{func(t *Tenant) {
			t.Models, t.ModelLimits = []string{"x"}, map[string]quota.Limits{"m": {}}
		}, `model_limits names "m", which models leaves out`},
		{func(t *Tenant) { t.Models = []string{""} }, "models has an empty name"},
		{func(t *Tenant) { t.Certificates = []string{"alice"} }, `certificates has "alice"; it must begin with one of uri:`},
		{func(t *Tenant) { t.Certificates = []string{"cn:"} }, `certificates has "cn:"`},
		{func(t *Tenant) { t.Claims = []Claim{{Issuer: "corp", Claim: "org"}} }, "all three are needed"},
		{func(t *Tenant) { t.Name, t.Certificates = Rest, []string{"cn:a"} }, "need a tenant with a name"},
	} {
		_, err := NewDirectory([]Tenant{New("fine"), named("wrong", c.change)})
		var f *Fault
		if !errors.As(err, &f) || f.Index != 1 || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error is %v, want index 1 and %q", err, c.says)
		}
	}
}

func TestTenantsThatClaimTheSameAreNamed(t *testing.T) {
	certificate := func(t *Tenant) { t.Certificates = []string{"cn:x"} }
	claim := func(t *Tenant) { t.Claims = []Claim{{"corp", "org", "x"}} }
	for _, c := range []struct {
		tenants []Tenant
		says    string
	}{
		{[]Tenant{New("a"), New("a")}, `two tenants called "a"`},
		{[]Tenant{New(Rest), New(Rest)}, "two tenants called *"},
		{[]Tenant{named("a", certificate), named("b", certificate)}, `certificate cn:x stands for "a" already`},
		{[]Tenant{named("a", claim), named("b", claim)}, `stands for "a" already`},
	} {
		if _, err := NewDirectory(c.tenants); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error is %v, want %q", err, c.says)
		}
	}
}

func TestCertificatesFindTheirTenant(t *testing.T) {
	spiffe, err := url.Parse("spiffe://corp/ns/a")
	if err != nil {
		t.Fatal(err)
	}
	d := mustDirectory(t,
		named("a", func(t *Tenant) { t.Certificates = []string{"uri:spiffe://corp/ns/a"} }),
		named("b", func(t *Tenant) { t.Certificates = []string{"dns:b.example", "cn:bob", "email:b@b.example"} }))
	for _, c := range []struct {
		certificate x509.Certificate
		tenant      string
	}{
		{x509.Certificate{URIs: []*url.URL{spiffe}}, "a"},
		{x509.Certificate{Subject: pkix.Name{CommonName: "bob"}, DNSNames: []string{"other", "b.example"}}, "b"},
		{x509.Certificate{EmailAddresses: []string{"b@b.example"}}, "b"},
		{x509.Certificate{Subject: pkix.Name{CommonName: "b.example"}}, ""},          // a common name is no DNS name
		{x509.Certificate{Subject: pkix.Name{CommonName: "spiffe://corp/ns/a"}}, ""}, // nor a URI
		{x509.Certificate{DNSNames: []string{"bob"}}, ""},
		{x509.Certificate{URIs: []*url.URL{spiffe}, DNSNames: []string{"b.example"}}, ""}, // two tenants: neither
		{x509.Certificate{}, ""},
	} {
		got, ok := d.OfCertificate(&c.certificate)
		if ok != (c.tenant != "") || ok && got.Name != c.tenant {
			t.Errorf("%v is %+v, want %q", CertificateNames(&c.certificate), got, c.tenant)
		}
	}
}

func TestClassNames(t *testing.T) {
	for c := range inference.Class(inference.NumClasses) {
		if got, ok := ParseClass(c.String()); !ok || got != c {
			t.Errorf("%s reads as %d, %v", c.String(), got, ok)
		}
	}
	if _, ok := ParseClass("bulk"); ok {
		t.Error("bulk is a class")
	}
}

// A tenant's highest class is its own class unless the configuration raises it; only the
// caller of a server without tenants may ask for every class.
func TestHighestClassIsTheOwnClass(t *testing.T) {
	listed := New("acme")
	d, err := NewDirectory([]Tenant{listed, New(Rest)})
	if err != nil {
		t.Fatal(err)
	}
	empty, err := NewDirectory(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		directory *Directory
		name      string
		want      inference.Class
	}{
		{d, "acme", inference.Default}, {d, "other", inference.Default}, {d, "", inference.Default},
		{empty, "acme", inference.Default}, {empty, "", inference.Interactive},
	} {
		if got := c.directory.Unlisted(c.name).HighestClass; got != c.want {
			t.Errorf("%q: highest class %v, want %v", c.name, got, c.want)
		}
	}
}
