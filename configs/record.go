package configs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Lists of records stand in the file only, beside its sections: no flag and no
// variable sets them.

// recordList is one of them.
type recordList struct {
	name   string
	decode func(d *fileDecoder, n *yaml.Node) error // of the sequence
}

// field is one key of a record. It takes a plain value or a list of them, by its
// binding, or whatever nested takes.
type field struct {
	key string
	binding
	nested func(d *fileDecoder, n *yaml.Node, path string) error // nil: binding counts
}

// Entry is a value that the file sets in one of its lists of records.
type Entry struct {
	Key    string // "tenants[0].limits.max_streams"
	Value  string
	Origin Origin
}

// Entries are the values that the file sets in its lists of records, in the
// file's order.
func (s *Sources) Entries() []Entry { return slices.Clone(s.entries) }

// records calls each for every entry of a sequence, with the entry's path.
func (d *fileDecoder) records(n *yaml.Node, path string, each func(n *yaml.Node, path string) error) error {
	if isNull(n) {
		return nil // a list whose entries are all commented out
	}
	if n.Kind != yaml.SequenceNode {
		return d.errorf(n, "%s must be a list, with a dash before each entry", path)
	}
	var errs []error
	for i, item := range n.Content {
		errs = append(errs, each(item, fmt.Sprintf("%s[%d]", path, i)))
	}
	return errors.Join(errs...)
}

// record reads one mapping into the fields of a record.
func (d *fileDecoder) record(n *yaml.Node, path string, fields []field) error {
	return d.pairs(n, path, func(key, value *yaml.Node) error {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key.Value })
		if i < 0 {
			return d.errorf(key, "unknown key %s.%s; known are %s", path, key.Value, keysOfRecord(fields))
		}
		if f := &fields[i]; f.nested != nil {
			return f.nested(d, value, path+"."+f.key)
		}
		return d.fieldValue(&Setting{Key: path + "." + key.Value, binding: fields[i].binding}, value)
	})
}

func keysOfRecord(fields []field) string {
	keys := make([]string, len(fields))
	for i := range fields {
		keys[i] = fields[i].key
	}
	return strings.Join(keys, ", ")
}

// fieldValue gives a record's setting its value, and notes it.
func (d *fileDecoder) fieldValue(setting *Setting, n *yaml.Node) error {
	items, err := d.items(setting, n)
	if err != nil {
		return err
	}
	if err := setting.take(d.where(n), items); err != nil {
		return err
	}
	d.sources.entries = append(d.sources.entries, Entry{setting.Key, setting.Value(), Origin{FromFile, d.where(n)}})
	return nil
}
