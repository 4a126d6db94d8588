package tenant

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"

	"weir/internal/inference"
)

// Directory is an immutable set of tenants. A reload makes another one; a request
// keeps the one that it began with.
type Directory struct {
	list          []*Tenant // listed tenants, in their order; Rest is not among them
	byName        map[string]*Tenant
	byCertificate map[string]*Tenant
	byClaim       map[Claim]*Tenant
	rest          Tenant // of tenants that are not listed; its name is replaced
	nameless      Tenant // the tenant "", whom every request without a name shares
	empty         bool   // the list was
	open          bool   // tenants that are not listed exist
}

// Fault is what is wrong with one of the tenants given to NewDirectory.
type Fault struct {
	Index int // in the list
	Name  string
	Err   error
}

func (f *Fault) Error() string { return fmt.Sprintf("tenants[%d] %.80q: %v", f.Index, f.Name, f.Err) }

func (f *Fault) Unwrap() error { return f.Err }

// NewDirectory checks the tenants, by themselves and together, and reports every
// *Fault. With an empty list, every name is a tenant without limits. Otherwise a
// name that is not listed is no tenant, unless the list has one called Rest.
func NewDirectory(tenants []Tenant) (*Directory, error) {
	d := &Directory{
		byName: make(map[string]*Tenant), byCertificate: make(map[string]*Tenant), byClaim: make(map[Claim]*Tenant),
		rest: New(Rest), empty: len(tenants) == 0, open: len(tenants) == 0,
	}
	var errs []error
	for i := range tenants {
		t := tenants[i]
		if err := errors.Join(t.Validate(), d.add(&t)); err != nil {
			errs = append(errs, &Fault{i, t.Name, err})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return d.complete(), nil
}

// complete makes the tenant "" of callers without a key. On a server without tenants it may ask for every class, since no other
// tenant is delayed by it.
func (d *Directory) complete() *Directory {
	d.nameless = d.rest
	if d.nameless.Name = ""; d.empty {
		d.nameless.HighestClass = inference.Interactive
	}
	return d
}

// add enters a tenant under its name, certificates and claims.
func (d *Directory) add(t *Tenant) error {
	if t.Name == Rest {
		if d.open {
			return errors.New("there are two tenants called *; keep one")
		}
		d.rest, d.open = *t, true
		return nil
	}
	if d.byName[t.Name] != nil {
		return fmt.Errorf("there are two tenants called %q; keep one", t.Name)
	}
	d.byName[t.Name] = t
	d.list = append(d.list, t)
	return errors.Join(enter(d.byCertificate, "certificate", t.Certificates, t), enter(d.byClaim, "claim", t.Claims, t))
}

// enter refuses what stands for another tenant already.
func enter[K comparable](table map[K]*Tenant, what string, keys []K, t *Tenant) error {
	var errs []error
	for _, k := range keys {
		if other := table[k]; other != nil {
			errs = append(errs, fmt.Errorf("%s %v stands for %q already; a caller is one tenant", what, k, other.Name))
			continue
		}
		table[k] = t
	}
	return errors.Join(errs...)
}

// With is the directory with more tenants behind its own: those that were made by the API. They do not close it. One that is
// not valid, or stands for what another stands for, is left out, and its *Fault returned.
func (d *Directory) With(more []Tenant) (*Directory, []*Fault) {
	w := &Directory{
		list: slices.Clone(d.list), byName: maps.Clone(d.byName), byCertificate: maps.Clone(d.byCertificate), byClaim: maps.Clone(d.byClaim),
		rest: d.rest, open: d.open,
	}
	var faults []*Fault
	for i := range more {
		t := more[i]
		err := t.Validate()
		if t.Name == Rest {
			err = errors.New("the settings of all tenants that are not listed stand in the configuration only")
		}
		if err == nil {
			err = w.taken(&t)
		}
		if err == nil {
			err = w.add(&t)
		}
		if err != nil {
			faults = append(faults, &Fault{i, t.Name, err})
		}
	}
	return w.complete(), faults
}

// taken is why a tenant cannot join, whose entries would be made otherwise.
func (d *Directory) taken(t *Tenant) error {
	for _, c := range t.Certificates {
		if other := d.byCertificate[c]; other != nil {
			return fmt.Errorf("certificate %v stands for %q already; a caller is one tenant", c, other.Name)
		}
	}
	for _, c := range t.Claims {
		if other := d.byClaim[c]; other != nil {
			return fmt.Errorf("claim %v stands for %q already; a caller is one tenant", c, other.Name)
		}
	}
	return nil
}

// Find is the tenant of a name; false where there is none.
func (d *Directory) Find(name string) (*Tenant, bool) {
	if t := d.byName[name]; t != nil {
		return t, true
	}
	if !d.open || !IsName(name) {
		return nil, false
	}
	return d.Unlisted(name), true
}

// Unlisted is the tenant of a name that is not listed: with the settings of Rest
// where the list has it, otherwise without limits.
func (d *Directory) Unlisted(name string) *Tenant {
	if name == "" {
		return &d.nameless
	}
	t := d.rest
	t.Name = name
	return &t
}

// ofStatic is the tenant of a key that a setting holds: with settings of its own where it is listed.
func (d *Directory) ofStatic(name string) *Tenant {
	if t := d.byName[name]; t != nil {
		return t
	}
	return d.Unlisted(name)
}

// Lists reports whether a tenant is listed by its name.
func (d *Directory) Lists(name string) bool { return d.byName[name] != nil }

// List is all listed tenants, in their order.
func (d *Directory) List() []*Tenant { return slices.Clone(d.list) }

// Closed reports whether only listed names are tenants.
func (d *Directory) Closed() bool { return !d.open }

// OfCertificate is the tenant of a verified client certificate; false where none
// has one of its names. A certificate whose names stand for different tenants is
// none of them.
func (d *Directory) OfCertificate(c *x509.Certificate) (*Tenant, bool) {
	var found *Tenant
	for _, name := range CertificateNames(c) {
		t := d.byCertificate[name]
		if t != nil && found != nil && t != found {
			return nil, false
		}
		if t != nil {
			found = t
		}
	}
	return found, found != nil
}

// HasCertificates reports whether a certificate stands for any tenant.
func (d *Directory) HasCertificates() bool { return len(d.byCertificate) > 0 }

// Issuers are the names of issuers that tenants' claims mention, in order.
func (d *Directory) Issuers() []string {
	var names []string
	for c := range d.byClaim {
		if !slices.Contains(names, c.Issuer) {
			names = append(names, c.Issuer)
		}
	}
	slices.Sort(names)
	return names
}
