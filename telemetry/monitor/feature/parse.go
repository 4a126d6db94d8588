package feature

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// file is a manifest as its file has it, in YAML or JSON.
type file struct {
	Version  int           `yaml:"version"`
	Project  string        `yaml:"project"`
	Layout   string        `yaml:"layout"`
	Schema   string        `yaml:"schema"`
	Timeout  duration      `yaml:"timeout"`
	Cache    fileCache     `yaml:"cache"`
	Entities []fileEntity  `yaml:"entities"`
	Features []fileFeature `yaml:"features"`
}

type fileCache struct {
	Entries *int      `yaml:"entries"`
	Fresh   *duration `yaml:"fresh"`
	Stale   *duration `yaml:"stale"`
}

type fileEntity struct {
	Name string    `yaml:"name"`
	Keys []fileKey `yaml:"keys"`
}

type fileKey struct {
	Input string `yaml:"input"`
	Type  string `yaml:"type"`
}

type fileFeature struct {
	Name         string   `yaml:"name"`
	Input        string   `yaml:"input"`
	Source       string   `yaml:"source"`
	Type         string   `yaml:"type"`
	Entity       string   `yaml:"entity"`
	View         string   `yaml:"view"`
	Field        string   `yaml:"field"`
	Value        *scalar  `yaml:"value"`
	Default      *scalar  `yaml:"default"`
	Required     bool     `yaml:"required"`
	MaxStaleness duration `yaml:"max_staleness"`
	Min          *float64 `yaml:"min"`
	Max          *float64 `yaml:"max"`
	Categories   []scalar `yaml:"categories"`
	OnViolation  string   `yaml:"on_violation"`
	Sensitive    bool     `yaml:"sensitive"`
}

// duration is written as Go writes it: 5ms, 24h.
type duration time.Duration

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		return fmt.Errorf("line %d: %.40q is no time; write 5ms, 30s or 24h", n.Line, n.Value)
	}
	*d = duration(v)
	return nil
}

// scalar keeps a value's text until the feature's type is known.
type scalar struct {
	text   string
	quoted bool
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *scalar) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" || len(n.Value) > maxTextBytes {
		return fmt.Errorf("line %d: a value is one number, truth value or string of at most %d bytes", n.Line, maxTextBytes)
	}
	s.text, s.quoted = n.Value, n.ShortTag() == "!!str"
	return nil
}

func (s *scalar) value(t Type) (Value, error) {
	if s == nil {
		return Value{}, nil
	}
	v := Parse(t, s.text)
	if !v.Present() || s.quoted && t != String {
		return v, fmt.Errorf("%.40q is not of type %v", s.text, t)
	}
	return v, nil
}

// ParseManifest reads a manifest in YAML or JSON. Unknown and repeated keys and aliases
// are errors.
func ParseManifest(data []byte) (*Manifest, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("the manifest has %d bytes, at most %d are read", len(data), MaxBytes)
	}
	if err := plainDocument(data); err != nil {
		return nil, err
	}
	var f file
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&f); err != nil {
		return nil, err
	}
	if f.Version != 1 {
		return nil, fmt.Errorf("version is %d; this weir reads version 1", f.Version)
	}
	m, err := f.manifest()
	if err != nil {
		return nil, err
	}
	return m, m.validate()
}

// plainDocument refuses what makes a small file a large value: aliases.
func plainDocument(data []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("the manifest is empty")
		}
		return err
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return errors.New("more than one document; keep one")
	}
	return withoutAliases(&document)
}

func withoutAliases(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return fmt.Errorf("line %d: anchors and aliases are not read", n.Line)
	}
	for _, c := range n.Content {
		if err := withoutAliases(c); err != nil {
			return err
		}
	}
	return nil
}

// What a manifest leaves out.
const (
	defaultTimeout = 5 * time.Millisecond
	defaultEntries = 10_000
	defaultFresh   = time.Second
	defaultStale   = time.Minute
)

func (f *file) manifest() (*Manifest, error) {
	m := &Manifest{
		Project: f.Project, Layout: Layout(f.Layout), Timeout: time.Duration(f.Timeout), stated: f.Schema,
		Cache: Cache{Entries: or(f.Cache.Entries, defaultEntries), Fresh: time.Duration(or(f.Cache.Fresh, duration(defaultFresh)))},
	}
	m.Cache.Stale = time.Duration(or(f.Cache.Stale, duration(max(defaultStale, m.Cache.Fresh))))
	if m.Layout == "" {
		m.Layout = Plain
	}
	if m.Timeout == 0 {
		m.Timeout = defaultTimeout
	}
	for _, e := range f.Entities {
		entity := Entity{Name: e.Name}
		for _, k := range e.Keys {
			t, err := parseType(k.Type)
			if err != nil {
				return nil, fmt.Errorf("entity %q: key %q: %w", e.Name, k.Input, err)
			}
			entity.Keys = append(entity.Keys, Key{k.Input, t})
		}
		m.Entities = append(m.Entities, entity)
	}
	if len(f.Features) > MaxFeatures {
		return nil, fmt.Errorf("features: %d entries, at most %d", len(f.Features), MaxFeatures)
	}
	for i := range f.Features {
		feature, err := f.Features[i].feature(m)
		if err != nil {
			return nil, fmt.Errorf("feature %q: %w", f.Features[i].Name, err)
		}
		m.Features = append(m.Features, feature)
	}
	return m, nil
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func (f *fileFeature) feature(m *Manifest) (Feature, error) {
	out := Feature{
		Name: f.Name, Input: f.Input, Field: f.Field, Required: f.Required, MaxStaleness: time.Duration(f.MaxStaleness),
		Min: or(f.Min, math.NaN()), Max: or(f.Max, math.NaN()), Sensitive: f.Sensitive,
	}
	if out.Input == "" {
		out.Input = f.Name
	}
	var err error
	if out.Type, err = parseType(f.Type); err != nil {
		return out, err
	}
	source, known := index(sourceNames[:], f.Source)
	if !known {
		return out, fmt.Errorf("source %q is unknown; known are request, store and constant", f.Source)
	}
	out.Source = Source(source) //nolint:gosec // one of three
	if f.OnViolation != "" {
		action, known := index(actionNames[:], f.OnViolation)
		if !known {
			return out, fmt.Errorf("on_violation %q is unknown; known are flag, clip and reject", f.OnViolation)
		}
		out.OnRange = Action(action) //nolint:gosec // one of three
	}
	if out.Constant, err = f.Value.value(out.Type); err != nil {
		return out, fmt.Errorf("value: %w", err)
	}
	if out.Default, err = f.Default.value(out.Type); err != nil {
		return out, fmt.Errorf("default: %w", err)
	}
	for _, c := range f.Categories {
		out.Categories = append(out.Categories, c.text)
	}
	return out, f.store(m, &out)
}

// store resolves the names of a feature of the store, and refuses keys that another
// source would ignore.
func (f *fileFeature) store(m *Manifest, out *Feature) error {
	if out.Source != FromConstant && f.Value != nil {
		return errors.New("value belongs to source: constant; a request or store has a default")
	}
	if out.Source == FromConstant && (f.Default != nil || f.Required) {
		return errors.New("a constant has a value, and neither default nor required")
	}
	if out.Source != FromStore {
		if f.Entity != "" || f.View != "" || f.Field != "" || f.MaxStaleness != 0 {
			return errors.New("entity, view, field and max_staleness belong to source: store")
		}
		return nil
	}
	if out.Entity = m.entity(f.Entity); out.Entity < 0 {
		return fmt.Errorf("entity %q is not in the list of entities", f.Entity)
	}
	if out.Field == "" {
		out.Field = f.Name
	}
	view, known := index(m.Views, f.View)
	if !known {
		view = len(m.Views)
		m.Views = append(m.Views, f.View)
	}
	out.View = view
	return nil
}

func index(names []string, name string) (int, bool) {
	for i, n := range names {
		if n == name {
			return i, true
		}
	}
	return 0, false
}

// Schema is the hash of what a caller who builds rows must agree on with the model:
// names, types, order and categories of the features.
func (m *Manifest) Schema() string { return m.hash }

func (m *Manifest) schema() string {
	h := sha256.New()
	for i := range m.Features {
		f := &m.Features[i]
		fmt.Fprintf(h, "%s\x00%v\x00%s\x00", f.Name, f.Type, f.Input)
		for _, c := range f.Categories {
			fmt.Fprintf(h, "%d:%s", len(c), c)
		}
		_, _ = io.WriteString(h, "\n") // a hash takes all
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// sameSchema compares the hash that a caller states, with or without its prefix.
func (m *Manifest) sameSchema(stated string) bool {
	return strings.TrimPrefix(stated, "sha256:") == strings.TrimPrefix(m.hash, "sha256:")
}
