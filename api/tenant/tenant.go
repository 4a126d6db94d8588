package tenant

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/inference"
	"weir/scheduler/quota"
)

// Tenant is who calls: the unit of fairness, of quotas and of cache privacy. It is
// immutable once it is part of a Directory.
type Tenant struct {
	Name   string // IsName, or Rest; "" on a server that asks for no proof
	Weight int    // share of the service beside other tenants', 1 to MaxWeight

	Class        inference.Class // of requests that ask for none
	HighestClass inference.Class // requests that ask for a higher one get this one

	Models      []string                // names of models that the tenant may use; empty: all
	Limits      quota.Limits            // of all models together
	ModelLimits map[string]quota.Limits // of one model, beside Limits

	// Deadlines: the most that a request may ask for, and what one has that asks
	// for none. 0 is no deadline.
	FirstTokenTimeout time.Duration // from a request's arrival to its first token
	TotalTimeout      time.Duration // to its last one
	QueueTimeout      time.Duration // how long a request may wait; 0 is the server's setting, which bounds it

	CacheGroup string // tenants of one group share prefixes of prompts; "": not shared
	LogPrompts bool   // prompts and answers are kept in the store, scrubbed
	Retention  string // RetentionDefault, or RetentionNone; "" is the default

	// Residency is the regions where the tenant's data stays: no server of another one gets a request of it. None: anywhere.
	Residency []string

	Certificates []string // subjects of client certificates that stand for the tenant; see CertificateNames
	Claims       []Claim  // tokens that stand for the tenant
}

// How long texts of a tenant are kept.
const (
	RetentionDefault = "default" // as the settings say
	RetentionNone    = "none"    // not at all: no responses, answers of idempotency keys, cached answers, files or batches
)

// KeepsNothing reports whether no text of the tenant may be kept.
func (t *Tenant) KeepsNothing() bool { return t.Retention == RetentionNone }

// MayStayIn reports whether a server of a region may have data of the tenant; "" is a server of which no region is known.
func (t *Tenant) MayStayIn(region string) bool {
	return len(t.Residency) == 0 || region != "" && slices.Contains(t.Residency, region)
}

// Claim is a statement in the tokens of an issuer: the claim is Value, or a list
// that has it.
type Claim struct {
	Issuer string // name of an issuer
	Claim  string
	Value  string
}

// MaxWeight bounds a tenant's share.
const MaxWeight = 4096

// New is a tenant without limits.
func New(name string) Tenant {
	return Tenant{Name: name, Weight: 1, Retention: RetentionDefault, Class: inference.Default, HighestClass: inference.Default}
}

// Rest is the name of the tenant whose settings all tenants have that are not
// listed.
const Rest = "*"

const (
	maxNameChars  = 64
	maxModels     = 1024
	maxIdentities = 1024 // certificates or claims of one tenant
	maxRegions    = 32

	// staticPrefix begins the names of the tenants of keys that a setting holds.
	staticPrefix = "key-"
)

// IsName reports whether a tenant may be called so: 1 to 64 letters, digits, dots,
// dashes and underscores, a letter or digit first.
func IsName(name string) bool {
	return len(name) <= maxNameChars && name != "" && isLetterOrDigit(name[0]) &&
		!slices.ContainsFunc([]byte(name), func(b byte) bool { return !isLetterOrDigit(b) && !strings.ContainsRune("._-", rune(b)) })
}

func isLetterOrDigit(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}

// NameForm says what IsName takes.
const NameForm = "1 to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit"

// CacheDomain is the isolation domain of the tenant's prefixes of prompts: the
// tenant's own, or that of its group.
func (t *Tenant) CacheDomain() string {
	if t.CacheGroup != "" {
		return "group " + t.CacheGroup // no tenant's name has a space
	}
	return t.Name
}

// MayUse reports whether the tenant may use a model that has these names.
func (t *Tenant) MayUse(names ...string) bool { return mayUse(t.Models, names) }

func mayUse(models, names []string) bool {
	return len(models) == 0 || slices.ContainsFunc(names, func(n string) bool { return slices.Contains(models, n) })
}

// LimitsOf are the tenant's limits of one model, beside Limits; the model's names in
// order. Nil is none.
func (t *Tenant) LimitsOf(names ...string) *quota.Limits {
	if len(t.ModelLimits) == 0 {
		return nil
	}
	for _, n := range names {
		if l, ok := t.ModelLimits[n]; ok {
			return &l
		}
	}
	return nil
}

// Validate reports all that is wrong with the tenant by itself.
func (t *Tenant) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if t.Name != Rest && !IsName(t.Name) {
		wrong("name is %.80q; it must be %s, or * for all tenants that are not listed", t.Name, NameForm)
	}
	if strings.HasPrefix(t.Name, staticPrefix) && !isStaticName(t.Name) {
		wrong("name is %q; names that begin with %s are kept for the keys of --api-key, as %s and the first 16 digits of a key's SHA-256",
			t.Name, staticPrefix, staticPrefix)
	}
	if t.Weight < 1 || t.Weight > MaxWeight {
		wrong("weight is %d; it must be from 1 to %d", t.Weight, MaxWeight)
	}
	if t.Class < t.HighestClass {
		wrong("class is %s, above highest_class %s; lower the one or raise the other", t.Class, t.HighestClass)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"first_token_timeout", t.FirstTokenTimeout}, {"total_timeout", t.TotalTimeout}, {"queue_timeout", t.QueueTimeout}} {
		if d.value < 0 {
			wrong("%s is %v; it must be above 0, or 0 for none", d.name, d.value)
		}
	}
	if t.TotalTimeout > 0 && t.FirstTokenTimeout > t.TotalTimeout {
		wrong("first_token_timeout is %v, above total_timeout %v; the first token comes before the last", t.FirstTokenTimeout, t.TotalTimeout)
	}
	if t.KeepsNothing() && t.LogPrompts {
		wrong("log_prompts is true and retention is none; keep prompts, or nothing")
	}
	if t.CacheGroup != "" && !IsName(t.CacheGroup) {
		wrong("cache_group is %.80q; it must be %s", t.CacheGroup, NameForm)
	}
	errs = append(errs, validateResidency(t.Residency), t.validateLimits(), t.validateIdentities())
	return errors.Join(errs...)
}

func validateResidency(regions []string) error {
	if len(regions) > maxRegions {
		return fmt.Errorf("residency has %d regions, limit %d; name fewer, or none for all", len(regions), maxRegions)
	}
	for _, r := range regions {
		if !IsName(r) {
			return fmt.Errorf("residency has the region %.80q; it must be %s", r, NameForm)
		}
	}
	return nil
}

func (t *Tenant) validateLimits() error {
	var errs []error
	if len(t.Models) > maxModels || len(t.ModelLimits) > maxModels {
		errs = append(errs, fmt.Errorf("models or model_limits have more than %d entries; name fewer, or none for all models", maxModels))
	}
	if slices.Contains(t.Models, "") {
		errs = append(errs, errors.New("models has an empty name; leave the entry out"))
	}
	if err := t.Limits.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("limits: %w", err))
	}
	for model, l := range t.ModelLimits {
		if err := l.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("model_limits of %q: %w", model, err))
		}
		if !t.MayUse(model) {
			errs = append(errs, fmt.Errorf("model_limits names %q, which models leaves out; add it there, or remove its limits", model))
		}
	}
	return errors.Join(errs...)
}

func (t *Tenant) validateIdentities() error {
	var errs []error
	if t.Name == Rest && len(t.Certificates)+len(t.Claims) > 0 {
		errs = append(errs, errors.New("certificates and claims need a tenant with a name"))
	}
	if len(t.Certificates) > maxIdentities || len(t.Claims) > maxIdentities {
		errs = append(errs, fmt.Errorf("certificates or claims have more than %d entries; use an issuer's tenant_claim", maxIdentities))
	}
	for _, c := range t.Certificates {
		if !isCertificateName(c) {
			errs = append(errs, fmt.Errorf("certificates has %.80q; it must begin with one of %s",
				c, strings.Join(certificateKinds, " ")))
		}
	}
	for _, c := range t.Claims {
		if c.Issuer == "" || c.Claim == "" || c.Value == "" {
			errs = append(errs, fmt.Errorf("claims has issuer %q, claim %q, value %q; all three are needed", c.Issuer, c.Claim, c.Value))
		}
	}
	return errors.Join(errs...)
}

// classNames are the classes' names in order of precedence.
var classNames = [inference.NumClasses]string{
	inference.Interactive.String(), inference.Default.String(), inference.Batch.String(),
}

// ParseClass is the inverse of a class's String.
func ParseClass(word string) (inference.Class, bool) {
	i := slices.Index(classNames[:], word)
	return inference.Class(max(i, 0)), i >= 0
}

// ClassNames lists the classes' names in order of precedence.
func ClassNames() []string { return slices.Clone(classNames[:]) }
