package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxIndexBytes bounds index.json: about 20,000 versions.
const maxIndexBytes = 16 << 20

// Annotations of ours, in index.json.
const (
	annotationName    = "weir.name"    // under which a version came, of versions without alias
	annotationSource  = "weir.source"  // where a version was pulled from
	annotationAdded   = "weir.added"   // when, as RFC 3339
	annotationLast    = "weir.last"    // of the index: the sequence of the last change
	annotationPending = "weir.pending" // of the index: changes that history and audit log may lack, as JSON
)

// Change is an alias that moved, or a version that came or went.
type Change struct {
	Sequence int64     `json:"sequence"` // in this folder, from 1
	Time     time.Time `json:"time"`
	Actor    string    `json:"actor"`
	Action   string    `json:"action"` // model.add, model.tag, model.untag, model.remove
	Object   string    `json:"object"` // the alias, or the name
	From     string    `json:"from,omitempty"`
	To       string    `json:"to,omitempty"`
	Source   string    `json:"source,omitempty"`
}

// entry is what index.json says of a version.
type entry struct {
	desc   ocispec.Descriptor // without annotations
	name   string
	source string // empty: it was imported here
	added  time.Time
}

// index is index.json: one consistent state, of which commit makes the next.
type index struct {
	entries map[digest.Digest]*entry
	aliases map[string]digest.Digest // by NAME:TAG
	foreign []ocispec.Descriptor     // of other tools, left as they are
	last    int64                    // sequence of the last change
	pending []Change
}

// Journal is the list of versions and aliases, and the record of who changed it.
type Journal struct {
	*layout

	// Actor is who changes aliases, for their history.
	Actor string
	// Audit, if set, is told each change of an alias after it is committed. What it fails for is told again by the next
	// change, and by Deliver: at least once, told apart by Sequence.
	Audit func(Change) error
}

// readIndex reads the present state, which is empty where nothing was written yet.
func (j *Journal) readIndex() (*index, error) {
	data, err := readSmall(j.path(ocispec.ImageIndexFile), maxIndexBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return &index{entries: map[digest.Digest]*entry{}, aliases: map[string]digest.Digest{}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of models: %w", err)
	}
	ix, err := parseIndex(data)
	if err != nil {
		return nil, fmt.Errorf("read the list of models %s: %w", j.path(ocispec.ImageIndexFile), err)
	}
	return ix, nil
}

func parseIndex(data []byte) (*index, error) {
	var doc ocispec.Index
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	ix := &index{entries: make(map[digest.Digest]*entry), aliases: make(map[string]digest.Digest)}
	for i, desc := range doc.Manifests {
		if err := desc.Digest.Validate(); err != nil {
			return nil, fmt.Errorf("%w: manifests[%d]: digest %.100q: %w; correct the entry or take it out", ErrFormat, i, desc.Digest, err)
		}
		ix.read(desc)
	}
	if text, ok := doc.Annotations[annotationLast]; ok {
		var err error
		if ix.last, err = strconv.ParseInt(text, 10, 64); err != nil || ix.last < 0 {
			return nil, fmt.Errorf("%w: its %s is %.40q", ErrFormat, annotationLast, text)
		}
	}
	if text := doc.Annotations[annotationPending]; text != "" {
		if err := json.Unmarshal([]byte(text), &ix.pending); err != nil {
			return nil, fmt.Errorf("%w: its %s: %w", ErrFormat, annotationPending, err)
		}
	}
	return ix, nil
}

// read takes a descriptor in. Manifests of one alias each that other tools wrote count, too.
func (ix *index) read(desc ocispec.Descriptor) {
	refName := desc.Annotations[ocispec.AnnotationRefName]
	name := desc.Annotations[annotationName]
	ref, err := ParseRef(cmp.Or(refName, name))
	if err != nil || ref.Digest != "" || checkDigest(desc.Digest) != nil || !isManifest(desc.MediaType) {
		ix.foreign = append(ix.foreign, desc)
		return
	}
	e := ix.entries[desc.Digest]
	if e == nil {
		e = &entry{
			desc: ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size, ArtifactType: desc.ArtifactType},
			name: cmp.Or(name, ref.Name), source: desc.Annotations[annotationSource],
		}
		e.added, _ = time.Parse(time.RFC3339, desc.Annotations[annotationAdded])
		ix.entries[desc.Digest] = e
	}
	if refName != "" {
		ix.aliases[ref.String()] = desc.Digest
	}
}

// encode is the index as JSON, in a fixed order.
func (ix *index) encode() ([]byte, error) {
	doc := ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
		Manifests:   slices.Clone(ix.foreign),
		Annotations: map[string]string{annotationLast: strconv.FormatInt(ix.last, 10)},
	}
	if len(ix.pending) > 0 {
		text, err := json.Marshal(ix.pending)
		if err != nil {
			return nil, err
		}
		doc.Annotations[annotationPending] = string(text)
	}
	for _, e := range ix.sorted() {
		aliases := ix.aliasesOf(e.desc.Digest)
		if len(aliases) == 0 {
			aliases = []string{""}
		}
		for _, alias := range aliases {
			doc.Manifests = append(doc.Manifests, e.describe(alias))
		}
	}
	if doc.Manifests == nil {
		doc.Manifests = []ocispec.Descriptor{}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	err := enc.Encode(doc)
	if err == nil && buf.Len() > maxIndexBytes {
		err = fmt.Errorf("the list of models would have more than %d bytes; remove versions with weir models rm", maxIndexBytes)
	}
	return buf.Bytes(), err
}

func (e *entry) describe(alias string) ocispec.Descriptor {
	desc := e.desc
	desc.Annotations = map[string]string{annotationName: e.name, annotationAdded: e.added.UTC().Format(time.RFC3339)}
	if e.source != "" {
		desc.Annotations[annotationSource] = e.source
	}
	if alias != "" {
		desc.Annotations[ocispec.AnnotationRefName] = alias
	}
	return desc
}

// sorted are the versions, the oldest first.
func (ix *index) sorted() []*entry {
	return slices.SortedFunc(maps.Values(ix.entries), func(a, b *entry) int {
		return cmp.Or(a.added.Compare(b.added), cmp.Compare(a.desc.Digest, b.desc.Digest))
	})
}

func (ix *index) aliasesOf(d digest.Digest) []string {
	var aliases []string
	for alias, to := range ix.aliases {
		if to == d {
			aliases = append(aliases, alias)
		}
	}
	slices.Sort(aliases)
	return aliases
}

// find is the version that a reference names.
func (ix *index) find(ref Ref) (*entry, error) {
	if ref.Digest == "" {
		if d, ok := ix.aliases[ref.String()]; ok {
			return ix.entries[d], nil
		}
		return nil, fmt.Errorf("%w: %s%s", ErrNotFound, ref, ix.near(ref.Name))
	}
	var found *entry
	for d, e := range ix.entries {
		if !ref.matches(d) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%w: more than one digest begins with %s; give more of its digits", ErrNotFound, ref.Digest)
		}
		found = e
	}
	if found == nil {
		return nil, fmt.Errorf("%w: no version here has the digest %s", ErrNotFound, ref.Digest)
	}
	if ref.Name != "" && !ix.knows(found, ref.Name) {
		return nil, fmt.Errorf("%w: %s is a version of %s, not of %s", ErrNotFound, ref.Digest, found.name, ref.Name)
	}
	return found, nil
}

// knows reports whether a version has come or is tagged under a name.
func (ix *index) knows(e *entry, name string) bool {
	if e.name == name {
		return true
	}
	return slices.ContainsFunc(ix.aliasesOf(e.desc.Digest), func(alias string) bool {
		ref, err := ParseRef(alias)
		return err == nil && ref.Name == name
	})
}

// near names the aliases that a name has, for an error.
func (ix *index) near(name string) string {
	var tags []string
	for alias := range ix.aliases {
		if ref, err := ParseRef(alias); err == nil && ref.Name == name {
			tags = append(tags, ref.Tag)
		}
	}
	if len(tags) == 0 {
		return ""
	}
	slices.Sort(tags)
	return fmt.Sprintf("; %s has the tags %v", name, tags)
}

// change notes what an edit did.
func (j *Journal) change(ix *index, c Change) {
	ix.last++
	c.Sequence, c.Time, c.Actor = ix.last, j.now().UTC(), j.Actor
	ix.pending = append(ix.pending, c)
}

// commit makes the next state of index.json in one step that other processes see whole or not at all. An edit that
// fails changes nothing. Changes ride in the same file until history and audit log have them, so a process that is
// killed on the way loses none.
func (j *Journal) commit(ctx context.Context, edit func(*index) error) error {
	unlock, err := j.lock(ctx, true)
	if err != nil {
		return err
	}
	defer unlock()
	ix, err := j.readIndex()
	if err != nil {
		return err
	}
	if err := edit(ix); err != nil {
		return err
	}
	if err := j.writeIndex(ix); err != nil {
		return err
	}
	return j.deliver(ix)
}

func (j *Journal) writeIndex(ix *index) error {
	data, err := ix.encode()
	if err == nil {
		err = writeWhole(j.path(ocispec.ImageIndexFile), data)
	}
	if err != nil {
		return fmt.Errorf("write the list of models: %w", err)
	}
	return nil
}

// AuditError says that an alias was moved, and that the audit log does not have it yet.
type AuditError struct{ Err error }

func (e *AuditError) Error() string {
	return fmt.Sprintf("the change is made, and the audit log could not be told: %v; the next command on models tells it", e.Err)
}

// Unwrap is why.
func (e *AuditError) Unwrap() error { return e.Err }

// Deliver tells history and audit log what a process that was killed, or a log that failed, left pending.
func (j *Journal) Deliver(ctx context.Context) error {
	if ix, err := j.readIndex(); err != nil || len(ix.pending) == 0 {
		return err
	}
	unlock, err := j.lock(ctx, true)
	if err != nil {
		return err
	}
	defer unlock()
	ix, err := j.readIndex()
	if err != nil {
		return err
	}
	return j.deliver(ix)
}

// deliver tells pending changes and notes that it did. The caller has the lock.
func (j *Journal) deliver(ix *index) error {
	if len(ix.pending) == 0 {
		return nil
	}
	if err := j.appendHistory(ix.pending); err != nil {
		return &AuditError{err}
	}
	if j.Audit != nil {
		for i, c := range ix.pending {
			if err := j.Audit(c); err != nil {
				ix.pending = ix.pending[i:]
				return &AuditError{errors.Join(err, j.writeIndex(ix))}
			}
		}
	}
	ix.pending = nil
	return j.writeIndex(ix)
}

// appendHistory writes the changes that history lacks. A last line that a killed process left in halves is cut off.
func (j *Journal) appendHistory(changes []Change) error {
	path := j.path(changesFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	last, end, err := historyEnd(f)
	if err == nil {
		err = f.Truncate(end)
	}
	var buf bytes.Buffer
	for _, c := range changes {
		if c.Sequence > last {
			line, marshalErr := json.Marshal(c)
			err = errors.Join(err, marshalErr)
			buf.Write(append(line, '\n'))
		}
	}
	if err == nil {
		_, err = f.WriteAt(buf.Bytes(), end)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// historyEnd is the sequence of the last whole line, and where the line ends.
func historyEnd(f *os.File) (last, end int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	const tail = 64 << 10 // many times the longest line
	begin := max(info.Size()-tail, 0)
	buf := make([]byte, info.Size()-begin)
	if _, err := f.ReadAt(buf, begin); err != nil {
		return 0, 0, err
	}
	stop := bytes.LastIndexByte(buf, '\n') + 1
	line := buf[bytes.LastIndexByte(buf[:max(stop-1, 0)], '\n')+1 : stop]
	var c Change
	if len(line) > 0 {
		if err := json.Unmarshal(line, &c); err != nil {
			return 0, 0, fmt.Errorf("the last line of %s: %w", f.Name(), err)
		}
	}
	return c.Sequence, begin + int64(stop), nil
}

// History are the changes of this folder, the oldest first.
func (j *Journal) History() ([]Change, error) {
	data, err := readSmall(j.path(changesFile), 1<<30)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var changes []Change
	for line := range bytes.Lines(data) {
		var c Change
		if json.Unmarshal(line, &c) == nil {
			changes = append(changes, c)
		}
	}
	return changes, err
}

// move points an alias at a version.
func (j *Journal) move(ix *index, ref Ref, to digest.Digest) {
	alias := ref.String()
	from := ix.aliases[alias]
	if from == to {
		return
	}
	ix.aliases[alias] = to
	j.change(ix, Change{Action: "model.tag", Object: alias, From: string(from), To: string(to)})
}
