package predictions

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"weir/internal/disk"
)

// Names of the columns that every file has.
const (
	ColumnID        = "id"
	ColumnRow       = "row"
	ColumnTime      = "time" // milliseconds since 1970, UTC
	ColumnTenant    = "tenant"
	ColumnModel     = "model"
	ColumnVersion   = "version"
	ColumnArm       = "arm" // of the rollout that chose the version; empty: of none
	ColumnDefaulted = "defaulted"

	// FeaturePrefix and OutputPrefix begin the names of the other columns.
	FeaturePrefix = "feature."
	OutputPrefix  = "output."
	// HashPrefix begins the name of a column with the hashes of what requests brought for a feature that other sources have as it is.
	HashPrefix = "hash."
)

// layout is the schema of a version's files, and where each value of a row stands.
type layout struct {
	config  *Config
	writer  func(to io.Writer) rowWriter
	key     []byte
	numbers int // features that are no strings
	texts   int
	at      map[string]int // columns by name
}

func newLayout(c *Config) (*layout, error) {
	l := &layout{config: c, key: c.Key, at: map[string]int{}}
	if len(l.key) == 0 {
		l.key = make([]byte, sha256.Size)
		_, _ = rand.Read(l.key) // never fails
	}
	repeated := func() parquet.Node { return parquet.Encoded(parquet.String(), &parquet.RLEDictionary) }
	group := parquet.Group{
		ColumnID: parquet.String(), ColumnRow: parquet.Int(32), ColumnTime: parquet.Timestamp(parquet.Millisecond),
		ColumnTenant: repeated(), ColumnModel: repeated(), ColumnVersion: repeated(), ColumnArm: repeated(), ColumnDefaulted: repeated(),
	}
	add := func(name string, node parquet.Node) error {
		if _, taken := group[name]; taken {
			return fmt.Errorf("the prediction log: two columns have the name %q", name)
		}
		group[name] = parquet.Optional(node)
		return nil
	}
	for _, f := range c.Features {
		node := parquet.Leaf(parquet.DoubleType)
		switch {
		case f.Text:
			l.texts++
			node = repeated()
		default:
			l.numbers++
			if f.Privacy == Hashed {
				node = repeated()
			}
		}
		if f.Privacy == Omitted {
			continue
		}
		if err := add(FeaturePrefix+f.Name, node); err != nil {
			return nil, err
		}
		if f.hashesApart() {
			if err := add(HashPrefix+f.Name, repeated()); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range c.Outputs {
		if err := add(OutputPrefix+name, parquet.Leaf(parquet.DoubleType)); err != nil {
			return nil, err
		}
	}
	schema := parquet.NewSchema("prediction", group)
	for i, path := range schema.Columns() {
		l.at[path[0]] = i
	}
	l.writer = func(to io.Writer) rowWriter {
		return parquet.NewGenericWriter[any](to, schema, parquet.Compression(&zstd.Codec{}),
			parquet.KeyValueMetadata("weir.schema", c.Schema), parquet.KeyValueMetadata("weir.model", c.Model),
			parquet.KeyValueMetadata("weir.version", c.Version))
	}
	return l, nil
}

// check says whether a batch has as many values as its rows need.
func (l *layout) check(b *Batch) error {
	if len(b.Numbers) != b.Rows*l.numbers || len(b.Texts) != b.Rows*l.texts || len(b.Outputs) != b.Rows*len(l.config.Outputs) ||
		b.Defaulted != nil && len(b.Defaulted) != b.Rows || b.Brought != nil && len(b.Brought) != b.Rows*len(l.config.Features) {
		return fmt.Errorf("a batch of %d rows has %d numbers, %d strings and %d scores, for %d, %d and %d columns", b.Rows,
			len(b.Numbers), len(b.Texts), len(b.Outputs), l.numbers, l.texts, len(l.config.Outputs))
	}
	return nil
}

// row makes one row, in the order of the columns.
func (l *layout) row(b *Batch, i int, into parquet.Row) parquet.Row {
	into = slices.Grow(into[:0], len(l.at))[:len(l.at)]
	set := func(name string, v parquet.Value, optional bool) {
		at, defined := l.at[name], 0
		if optional && !v.IsNull() {
			defined = 1
		}
		into[at] = v.Level(0, defined, at)
	}
	text := func(name, s string) { set(name, parquet.ByteArrayValue([]byte(s)), false) }
	text(ColumnID, b.ID)
	text(ColumnTenant, b.Tenant)
	text(ColumnModel, l.config.Model)
	text(ColumnVersion, l.config.Version)
	text(ColumnArm, b.Arm)
	defaulted := ""
	if b.Defaulted != nil {
		defaulted = b.Defaulted[i]
	}
	text(ColumnDefaulted, defaulted)
	set(ColumnRow, parquet.Int32Value(int32(i)), false) //nolint:gosec // rows of a request
	set(ColumnTime, parquet.Int64Value(b.At.UnixMilli()), false)
	numbers, texts := b.Numbers[i*l.numbers:], b.Texts[i*l.texts:]
	for j, f := range l.config.Features {
		brought := b.Brought != nil && b.Brought[i*len(l.config.Features)+j]
		p := f.Privacy
		if brought {
			p = max(p, f.Brought)
		}
		var v, apart parquet.Value
		if f.Text {
			v, texts = l.textValue(f, p, texts[0]), texts[1:]
		} else {
			v, numbers = l.numberValue(f, p, numbers[0]), numbers[1:]
		}
		if f.hashesApart() {
			if brought {
				v, apart = apart, v
			}
			set(HashPrefix+f.Name, apart, true)
		}
		if f.Privacy != Omitted {
			set(FeaturePrefix+f.Name, v, true)
		}
	}
	for j, name := range l.config.Outputs {
		set(OutputPrefix+name, number(b.Outputs[i*len(l.config.Outputs)+j]), true)
	}
	return into
}

func number(x float64) parquet.Value {
	if math.IsNaN(x) {
		return parquet.Value{}
	}
	return parquet.DoubleValue(x)
}

// hashesApart reports whether hashes of what requests bring need a column of their own: other values stand as they are, or rounded.
func (f *Feature) hashesApart() bool {
	return f.Brought == Hashed && f.Privacy < Hashed || f.Text && f.Brought == Summary && f.Privacy == Plain
}

func (l *layout) numberValue(f Feature, p Privacy, x float64) parquet.Value {
	switch {
	case math.IsNaN(x):
		return parquet.Value{}
	case p == Hashed:
		return l.hash(f, strconv.FormatFloat(x, 'g', -1, 64))
	case p == Summary:
		rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'e', 1, 64), 64)
		if err != nil { // beyond the largest number
			rounded = x
		}
		return parquet.DoubleValue(rounded)
	default:
		return parquet.DoubleValue(x)
	}
}

func (l *layout) textValue(f Feature, p Privacy, s string) parquet.Value {
	switch {
	case s == "":
		return parquet.Value{}
	case p == Plain:
		return parquet.ByteArrayValue([]byte(s))
	default:
		return l.hash(f, s)
	}
}

// hash is 16 hexadecimal digits by the log's key, the feature and the value.
func (l *layout) hash(f Feature, s string) parquet.Value {
	h := hmac.New(sha256.New, l.key)
	_, _ = io.WriteString(h, f.Name+"\x00"+s) // a hash takes all
	return parquet.ByteArrayValue([]byte(hex.EncodeToString(h.Sum(nil)[:8])))
}

// file is one that is being written. It has its name only once it is whole.
type file struct {
	layout  *layout
	path    string // when it is whole
	out     *os.File
	writer  rowWriter
	written *counter
	began   time.Time
	rows    int
	group   int // values of the row group
	row     parquet.Row
}

// rowWriter is parquet-go's generic writer. It is an interface so that packages which import
// this one do not compile the library's generic methods.
type rowWriter interface {
	WriteRows([]parquet.Row) (int, error)
	Flush() error
	Close() error
}

// counter counts the bytes that reach the disk.
type counter struct {
	out io.Writer
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	c.n += int64(n)
	return n, err
}

func create(folder string, l *layout, now time.Time) (*file, error) {
	name := now.UTC().Format("20060102T150405Z") + "-" + rand.Text()[:10] + fileEnd
	path := filepath.Join(folder, name)
	out, err := os.OpenFile(path+partialEnd, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	f := &file{layout: l, path: path, out: out, written: &counter{out: out}, began: now}
	f.writer = l.writer(f.written)
	return f, nil
}

// add writes a batch; a row group reaches the disk when it is full.
func (f *file) add(b *Batch) error {
	for i := range b.Rows {
		f.row = f.layout.row(b, i, f.row)
		if _, err := f.writer.WriteRows([]parquet.Row{f.row}); err != nil {
			return err
		}
	}
	f.rows += b.Rows
	if f.group += b.Rows * len(f.layout.at); f.group < flushValues {
		return nil
	}
	f.group = 0
	return f.writer.Flush()
}

// finish makes the file whole on the disk, then gives it its name.
func (f *file) finish() error {
	err := f.writer.Close()
	if err == nil {
		err = f.out.Sync()
	}
	if err = errors.Join(err, f.out.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.path+partialEnd, f.path); err != nil {
		return err
	}
	return disk.SyncFolder(filepath.Dir(f.path))
}

// remove deletes a file that failed, whole or not.
func (f *file) remove() error {
	_ = f.out.Close() // closed before, or of no more use
	if err := os.Remove(f.path + partialEnd); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// folderName is a model's name as that of a folder.
func folderName(name string) string {
	if name = url.PathEscape(name); name == "" || strings.Trim(name, ".") == "" {
		return "_" + name
	}
	return name
}

// clean deletes files that are older than they are kept, the oldest beyond the bytes
// that are kept, and what dead processes left unfinished.
func (l *Log) clean(now time.Time) {
	list, err := os.ReadDir(l.folder)
	if err != nil {
		l.drop(0, err)
		return
	}
	slices.Reverse(list) // names begin with the time: the newest first
	var bytes int64
	for _, entry := range list {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		age, gone := now.Sub(info.ModTime()), false
		switch {
		case strings.HasSuffix(entry.Name(), fileEnd+partialEnd):
			gone = age > max(orphanAge, 2*l.config.MaxAge)
		case strings.HasSuffix(entry.Name(), fileEnd):
			bytes += info.Size()
			gone = l.config.Keep > 0 && age > l.config.Keep || l.config.KeepBytes > 0 && bytes > l.config.KeepBytes
		}
		if gone {
			if err := os.Remove(filepath.Join(l.folder, entry.Name())); err != nil {
				l.drop(0, err)
			}
		}
	}
}
