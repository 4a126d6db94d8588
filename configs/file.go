package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Decode applies a YAML document; name stands for it in errors. The document
// holds sections (server, engine …) of scalars and lists, and lists of records
// (tenants, issuers). Unknown and repeated
// keys, aliases and further documents are errors. All that is wrong is
// reported, not only the first.
func (s *Sources) Decode(name string, data []byte) error {
	if len(data) > maxFileBytes {
		return fmt.Errorf("read configuration: %s has %d bytes, limit %d", name, len(data), maxFileBytes)
	}
	root, err := parseDocument(data)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	if root == nil {
		return nil
	}
	return (&fileDecoder{sources: s, name: name}).sections(root)
}

// parseDocument returns the content of the only document, nil if there is
// none.
func parseDocument(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document; keep one")
	}
	if len(document.Content) == 0 || isNull(document.Content[0]) {
		return nil, nil
	}
	return document.Content[0], nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// fileDecoder walks one document.
type fileDecoder struct {
	sources *Sources
	name    string
}

func (d *fileDecoder) errorf(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s: %s", d.where(n), fmt.Sprintf(format, args...))
}

func (d *fileDecoder) where(n *yaml.Node) string { return fmt.Sprintf("%s:%d", d.name, n.Line) }

func (d *fileDecoder) sections(root *yaml.Node) error {
	return d.pairs(root, "the file", func(key, value *yaml.Node) error {
		names := d.sources.sectionNames()
		for _, l := range d.sources.lists() {
			if l.name == key.Value {
				return l.decode(d, value)
			}
			names = append(names, l.name)
		}
		if !slices.Contains(names, key.Value) {
			return d.errorf(key, "unknown section %s; known are %s", key.Value, strings.Join(names, ", "))
		}
		if isNull(value) {
			return nil // a section whose entries are all commented out
		}
		return d.section(key.Value, value)
	})
}

func (d *fileDecoder) section(section string, n *yaml.Node) error {
	return d.pairs(n, "section "+section, func(key, value *yaml.Node) error {
		path := section + "." + key.Value
		i := slices.IndexFunc(d.sources.table, func(x Setting) bool { return x.Key == path })
		if i < 0 {
			return d.errorf(key, "unknown key %s; section %s has %s", path, section,
				strings.Join(d.sources.keysOf(section), ", "))
		}
		return d.value(i, value)
	})
}

// pairs calls each for every entry of a mapping and joins what goes wrong.
func (d *fileDecoder) pairs(n *yaml.Node, what string, each func(key, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return d.errorf(n, "%s must be a mapping of keys to values", what)
	}
	var errs []error
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			errs = append(errs, d.errorf(key, "a key of %s is not a plain word", what))
		case seen[key.Value]:
			errs = append(errs, d.errorf(key, "key %s appears twice in %s", key.Value, what))
		default:
			seen[key.Value] = true
			errs = append(errs, each(key, value))
		}
	}
	return errors.Join(errs...)
}

func (d *fileDecoder) value(i int, n *yaml.Node) error {
	items, err := d.items(&d.sources.table[i], n)
	if err != nil {
		return err
	}
	return d.sources.apply(i, Origin{FromFile, d.where(n)}, items)
}

// items are the texts of a setting's value.
func (d *fileDecoder) items(setting *Setting, n *yaml.Node) ([]string, error) {
	nodes := []*yaml.Node{n}
	if setting.IsList() && n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	items := make([]string, 0, len(nodes))
	for _, item := range nodes {
		if reason := wrongNode(setting.kind, item); reason != "" {
			return nil, &ValueError{Where: d.where(n), Setting: setting, Value: item.Value, Reason: reason}
		}
		items = append(items, item.Value)
	}
	return items, nil
}

// tagNames are the words for YAML types in errors.
var tagNames = map[string]string{
	"!!str": "text", "!!int": "a number", "!!float": "a fraction", "!!bool": "true or false",
	"!!null": "empty", "!!timestamp": "a date", "!!binary": "binary data",
}

// wrongNode says why a node cannot be a value of a kind; "" if it can.
func wrongNode(k kind, n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "is a mapping"
	case yaml.SequenceNode:
		return "is a list"
	case yaml.AliasNode:
		return "is an alias, which this file may not use"
	case yaml.ScalarNode:
	default:
		return "is not a plain value"
	}
	if tag := shortTag(n); !slices.Contains(acceptedTags(k), tag) {
		name, known := tagNames[tag]
		if !known {
			name = "of type " + tag
		}
		if k == text || k == list {
			return "is " + name + " here (put quotes around it)"
		}
		return "is " + name
	}
	return ""
}

// shortTag is a node's YAML type. A whole number that fits no integer is one all
// the same, so that the error calls it out of range, where the YAML library
// calls it a float.
func shortTag(n *yaml.Node) string {
	tag := n.ShortTag()
	if digits := strings.TrimLeft(n.Value, "+-"); tag == "!!float" && strings.Trim(digits, "0123456789") == "" {
		return "!!int"
	}
	return tag
}

func acceptedTags(k kind) []string {
	switch k {
	case integer:
		return []string{"!!int"}
	case boolean:
		return []string{"!!bool"}
	case amount:
		return []string{"!!int", "!!str"}
	case decimal:
		return []string{"!!int", "!!float", "!!str"}
	case text, list:
	}
	return []string{"!!str"}
}

func (s *Sources) sectionNames() []string {
	var names []string
	for i := range s.table {
		section, _, _ := strings.Cut(s.table[i].Key, ".")
		if !slices.Contains(names, section) {
			names = append(names, section)
		}
	}
	return names
}

func (s *Sources) keysOf(section string) []string {
	var keys []string
	for i := range s.table {
		if key, found := strings.CutPrefix(s.table[i].Key, section+"."); found {
			keys = append(keys, key)
		}
	}
	return keys
}
