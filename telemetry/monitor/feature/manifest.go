// Package feature joins the inputs of a classical model from their sources: the request,
// an online store, constants. A manifest beside the model's version says which feature
// comes from where, how old it may be and what stands in for it.
//
// The ladder of a feature: the request's value, else the store's (by way of a bounded
// cache), else an older value of the cache while the store does not answer, else the
// manifest's default; where there is none the request fails if the feature is required,
// and else the model gets a missing value.
package feature

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Source says where a feature comes from first.
type Source uint8

// The sources by their names in a manifest. A request may override FromStore.
const (
	FromRequest Source = iota
	FromStore
	FromConstant
)

var sourceNames = [...]string{"request", "store", "constant"}

func (s Source) String() string { return sourceNames[s] }

// Action says what happens to a value that breaks its range or is no known category.
type Action uint8

// The actions by their names in a manifest.
const (
	Flag   Action = iota // the value is used and counted
	Clip                 // a number is moved to the bound; an unknown category becomes the default
	Reject               // the request is refused
)

var actionNames = [...]string{"flag", "clip", "reject"}

func (a Action) String() string { return actionNames[a] }

// Limits of a manifest.
const (
	MaxBytes      = 4 << 20
	MaxFeatures   = 8192
	maxEntities   = 16
	maxKeys       = 4  // parts of an entity's key
	maxViews      = 64 // they are labels of metrics
	maxNameBytes  = 128
	maxCategories = 1 << 16 // of all features together
	maxTextBytes  = 1024    // of a default, constant or category
	// MaxEntryBytes bounds a string that the store holds; a longer one counts as of the
	// wrong type.
	MaxEntryBytes = 4 << 10
)

// Manifest says where the inputs of a model's version come from. Parse and Derive make
// one; it is not changed afterwards.
type Manifest struct {
	Project  string
	Layout   Layout
	Timeout  time.Duration // for the read of the store, of a request that has time enough
	Cache    Cache
	Entities []Entity
	Views    []string  // of all entities, in the order of their first feature
	Features []Feature // in the model's order

	derived bool   // of a model's own inputs, whose names are as they are
	stated  string // the schema hash that the file states; "": none
	hash    string
}

// Layout is how the online store's keys and values are written.
type Layout string

// The layouts.
const (
	Plain Layout = "weir"
	Feast Layout = "feast"
)

// Cache bounds the values that a process remembers of the store.
type Cache struct {
	Entries int           // entities; 0: nothing is remembered
	Fresh   time.Duration // within it the store is not asked again
	Stale   time.Duration // within it a value stands in while the store does not answer
}

// Entity is what rows are about: a user, an article.
type Entity struct {
	Name string
	Keys []Key // the parts of its id

	fields  []Field // what is read of it
	members []int   // its features
	must    bool    // a feature of it is required: requests must name the entity, or all of its features
}

// Key is a part of an entity's id: an input of the request.
type Key struct {
	Input string
	Type  Type // Integer or String
}

// Feature is an input of the model.
type Feature struct {
	Name   string // in requests, reports and logs
	Input  string // of the model, where it takes one input per feature
	Source Source
	Type   Type

	Entity int    // index; of FromStore
	View   int    // index; of FromStore
	Field  string // in the store

	Constant     Value
	Default      Value // missing: none
	Required     bool
	MaxStaleness time.Duration // of the event behind the stored value; 0: any age

	Min, Max   float64  // numbers; NaN: no bound
	Categories []string // of a string; nil: any
	OnRange    Action
	Sensitive  bool // hashed in the prediction log, whatever its settings

	codes map[string]int
	slot  int // in its entity's fields
}

// Code is the index of a category; -1 where it is unknown.
func (f *Feature) Code(text string) int {
	if code, known := f.codes[text]; known {
		return code
	}
	return -1
}

// entity finds an entity by name, or -1.
func (m *Manifest) entity(name string) int {
	return slices.IndexFunc(m.Entities, func(e Entity) bool { return e.Name == name })
}

// validate checks the manifest and fills what is derived from it.
func (m *Manifest) validate() error {
	switch {
	case len(m.Features) == 0:
		return errors.New("features: the list is empty")
	case len(m.Features) > MaxFeatures:
		return fmt.Errorf("features: %d entries, at most %d", len(m.Features), MaxFeatures)
	case len(m.Entities) > maxEntities:
		return fmt.Errorf("entities: %d entries, at most %d", len(m.Entities), maxEntities)
	case m.Layout != Plain && m.Layout != Feast:
		return fmt.Errorf("layout %q is unknown; known are %s and %s", m.Layout, Plain, Feast)
	case m.Timeout <= 0 || m.Timeout > time.Minute:
		return fmt.Errorf("timeout is %v; it must be above 0 and at most 1m", m.Timeout)
	case m.Cache.Entries < 0 || m.Cache.Entries > 1<<24:
		return fmt.Errorf("cache.entries is %d; it must be from 0 to %d", m.Cache.Entries, 1<<24)
	case m.Cache.Fresh < 0 || m.Cache.Stale < m.Cache.Fresh:
		return fmt.Errorf("cache: fresh is %v and stale %v; it must be 0 <= fresh <= stale", m.Cache.Fresh, m.Cache.Stale)
	}
	if err := m.validateNames(); err != nil {
		return err
	}
	categories := 0
	for i := range m.Features {
		f := &m.Features[i]
		if err := m.validateFeature(f); err != nil {
			return fmt.Errorf("feature %q: %w", f.Name, err)
		}
		if categories += len(f.Categories); categories > maxCategories {
			return fmt.Errorf("feature %q: the features have more than %d categories together", f.Name, maxCategories)
		}
		if f.Source == FromStore {
			e := &m.Entities[f.Entity]
			f.slot = len(e.fields)
			e.fields = append(e.fields, Field{View: f.View, Name: f.Field, Type: f.Type})
			e.members = append(e.members, i)
			e.must = e.must || f.Required
			if f.MaxStaleness > 0 && m.Cache.Fresh > f.MaxStaleness {
				return fmt.Errorf("feature %q: cache.fresh %v is above its max_staleness %v", f.Name, m.Cache.Fresh, f.MaxStaleness)
			}
		}
	}
	m.hash = m.schema()
	if m.stated != "" && m.stated != m.hash {
		return fmt.Errorf("schema is %.80q, but the features have %s: they are not those that the hash was made of", m.stated, m.hash)
	}
	return nil
}

// validateNames checks names of entities, keys and features, which requests use.
func (m *Manifest) validateNames() error {
	inputs := map[string]string{}
	take := func(name, what string) error {
		if err := checkName(name, what); err != nil && !m.derived {
			return err
		}
		if other, taken := inputs[name]; taken {
			return fmt.Errorf("%s %q has the name of %s", what, name, other)
		}
		inputs[name] = "another " + what
		return nil
	}
	for i, e := range m.Entities {
		if err := checkName(e.Name, "entity"); err != nil {
			return err
		}
		if m.entity(e.Name) != i {
			return fmt.Errorf("entity %q is listed twice", e.Name)
		}
		if len(e.Keys) == 0 || len(e.Keys) > maxKeys {
			return fmt.Errorf("entity %q: %d keys; it must have 1 to %d", e.Name, len(e.Keys), maxKeys)
		}
		for _, k := range e.Keys {
			if k.Type != Integer && k.Type != String {
				return fmt.Errorf("entity %q: key %q is of type %v; a key is integer or string", e.Name, k.Input, k.Type)
			}
			if err := take(k.Input, "key"); err != nil {
				return err
			}
		}
	}
	if m.Project != "" || len(m.Entities) > 0 {
		if err := checkName(m.Project, "project"); err != nil {
			return err
		}
	}
	for i := range m.Features {
		if err := take(m.Features[i].Name, "feature"); err != nil {
			return err
		}
	}
	for _, v := range m.Views {
		if err := checkName(v, "view"); err != nil {
			return err
		}
	}
	if len(m.Views) > maxViews {
		return fmt.Errorf("%d views, at most %d", len(m.Views), maxViews)
	}
	return nil
}

// checkName keeps to what is safe in keys, headers, labels and logs.
func checkName(name, what string) error {
	if name == "" || len(name) > maxNameBytes {
		return fmt.Errorf("%s %.40q has %d bytes; it must have 1 to %d", what, name, len(name), maxNameBytes)
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c > '~' || c == '"' || c == ',' || c == ';' || c == ':' || c == '\\' {
			return fmt.Errorf(`%s %q: a name has printable ASCII without spaces and " , ; : \`, what, name)
		}
	}
	return nil
}

func (m *Manifest) validateFeature(f *Feature) error {
	if f.Source == FromStore {
		if err := checkName(f.Field, "field"); err != nil {
			return err
		}
		if f.MaxStaleness < 0 {
			return fmt.Errorf("max_staleness is %v; it must not be negative", f.MaxStaleness)
		}
	}
	numbers := f.Type == Number || f.Type == Integer
	switch {
	case f.Source == FromConstant && !f.Constant.Present():
		return errors.New("a constant needs a value")
	case f.Required && f.Default.Present():
		return errors.New("required and default exclude each other: a required feature fails the request where it is missing")
	case f.Min > f.Max:
		return fmt.Errorf("min %v is above max %v", f.Min, f.Max)
	case !numbers && (!math.IsNaN(f.Min) || !math.IsNaN(f.Max)):
		return fmt.Errorf("min and max bound numbers, and its type is %v", f.Type)
	case f.Type != String && f.Categories != nil:
		return fmt.Errorf("categories are those of strings, and its type is %v", f.Type)
	case f.OnRange == Clip && f.Categories != nil && !f.Default.Present():
		return errors.New("on_violation clip makes an unknown category the default, and there is none")
	}
	if f.Categories != nil {
		f.codes = make(map[string]int, len(f.Categories))
		for code, c := range f.Categories {
			if _, twice := f.codes[c]; twice || len(c) > maxTextBytes {
				return fmt.Errorf("category %.40q is listed twice, or has more than %d bytes", c, maxTextBytes)
			}
			f.codes[c] = code
		}
	}
	for what, v := range map[string]Value{"default": f.Default, "value": f.Constant} {
		if v.Present() && !f.allows(v) {
			return fmt.Errorf("its %s %q is outside of its own range", what, v.String())
		}
	}
	return nil
}

// allows reports whether a value that is present keeps to the feature's range.
func (f *Feature) allows(v Value) bool {
	if v.Kind == Text {
		return f.codes == nil || f.Code(v.text) >= 0
	}
	x := v.Float()
	return !(x < f.Min || x > f.Max) // NaN bounds compare false
}
