package classic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"weir/internal/inference"
)

// Entry is a version that a repository serves.
type Entry struct {
	Name   string
	Path   string // of the model's file
	Golden string // file of golden rows; empty: MODEL.golden.json beside the model, if it exists
	Pinned bool   // it is never evicted

	Candidate bool // requests that name no version do not get it, unless there is no other
	Options

	Data, GoldenData string // the files' contents, where there are no files
}

// key names a version.
type key struct{ name, version string }

func (e *Entry) key() key { return key{e.Name, cmp.Or(e.Version, "1")} }

// RepositoryOptions say what a repository may use.
type RepositoryOptions struct {
	// MaxBytes is the memory for loaded versions. Beyond it the one that was used least
	// recently is evicted; the next request for it loads it again. 0 is no limit.
	MaxBytes int64
	// OnChange, if set, is called after a version was loaded or left memory. It must be quick.
	OnChange func(Change)
}

// Change is what happened to a version.
type Change struct {
	Name, Version string
	What          string   // "load", "unload", "evict", "fail"
	Why           error    // of a failed load
	Notes         []string // of a load: what a user should know of the file
}

// Repository holds versions by name: those that are configured, of which some are in
// memory. A version that is loaded is published at once and whole, and one that leaves
// finishes the requests that it has. It is safe for concurrent use.
type Repository struct {
	lane *Lane
	opts RepositoryOptions

	mu    sync.Mutex
	table map[key]*Served
	bytes int64      // of loaded versions
	left  []*Version // that have left memory; unlock closes them
	clock uint64     // of uses
}

// NewRepository returns an empty repository over a lane.
func NewRepository(l *Lane, o RepositoryOptions) *Repository {
	return &Repository{lane: l, opts: o, table: make(map[key]*Served)}
}

// Served is a version under its name, in memory or not. Its Predict loads what is not
// in memory, unless an operator has unloaded it.
type Served struct {
	repository *Repository
	entry      Entry

	loading sync.Mutex // held while the files are read

	// Guarded by Repository.mu.
	version *Version // nil: not in memory
	about   *inference.Description
	off     bool // unloaded by an operator
	why     error
	used    uint64
}

// ErrUnknown is the error for a name or a version that the repository does not have.
var ErrUnknown = errors.New("no such model")

// Describe says what the version takes and gives, as it was when last loaded.
func (s *Served) Describe() *inference.Description {
	s.repository.mu.Lock()
	defer s.repository.mu.Unlock()
	return s.about
}

// Predict computes a request, or refuses it with one of inference's sentinels.
func (s *Served) Predict(ctx context.Context, p *inference.Prediction) error {
	v, err := s.acquire()
	if err != nil {
		return err
	}
	defer v.hold.release()
	return s.repository.lane.Predict(ctx, v, p)
}

// Ready says why requests are refused: the version was unloaded. nil is ready.
func (s *Served) Ready() error {
	s.repository.mu.Lock()
	defer s.repository.mu.Unlock()
	if s.off {
		return fmt.Errorf("%w: model %q version %s was unloaded", inference.ErrUnavailable, s.entry.Name, s.entry.key().version)
	}
	return nil
}

// Version is the version in memory; nil is none.
func (s *Served) Version() *Version {
	s.repository.mu.Lock()
	defer s.repository.mu.Unlock()
	return s.version
}

// Label is the version's name among those of its model.
func (s *Served) Label() string { return s.entry.key().version }

// held is the version in memory, whose hold the caller releases; nil is none.
func (s *Served) held() *Version {
	s.repository.mu.Lock()
	defer s.repository.mu.Unlock()
	if s.version != nil {
		s.version.hold.take() // a published version has one
	}
	return s.version
}

// acquire is the version for a request, which is loaded where it was evicted. The caller
// releases its hold.
func (s *Served) acquire() (*Version, error) {
	r := s.repository
	r.mu.Lock()
	r.clock++
	s.used = r.clock
	v, off := s.version, s.off
	if v != nil {
		v.hold.take() // a published version has one
	}
	r.mu.Unlock()
	if v != nil {
		return v, nil
	}
	if off {
		return nil, fmt.Errorf("%w: model %q version %s was unloaded", inference.ErrUnavailable, s.entry.Name, s.entry.key().version)
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	if v := s.held(); v != nil {
		return v, nil // another request has loaded it meanwhile
	}
	return s.load()
}

// load reads the version's files and publishes it. The caller holds loading, and releases
// the version's hold.
func (s *Served) load() (*Version, error) {
	var evicted []*Served
	v, err := s.entry.open()
	if err == nil {
		v.hold.take()
		if evicted, err = s.repository.publish(s, v); err != nil {
			v.hold.release()
			v.Close()
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: load model %q: %w", inference.ErrUnavailable, s.entry.Name, err)
		s.repository.mu.Lock()
		s.why = err
		s.repository.mu.Unlock()
		s.repository.changed(s, "fail", nil, err)
		return nil, err
	}
	for _, e := range evicted {
		s.repository.changed(e, "evict", nil, nil)
	}
	s.repository.changed(s, "load", v, nil)
	return v, nil
}

// open reads the files: the model is parsed, its kernel chosen, its rows probed, and the
// golden ones are compared.
func (e *Entry) open() (*Version, error) {
	data, golden := []byte(e.Data), []byte(e.GoldenData)
	if e.Data == "" {
		var err error
		if data, err = readFile(e.Path, maxModelBytes); err != nil {
			return nil, err
		}
		if golden, err = e.readGolden(); err != nil {
			return nil, err
		}
	}
	o := e.Options
	if len(golden) > 0 {
		var err error
		if o.Golden, err = ReadGolden(golden); err != nil {
			return nil, err
		}
	}
	return Load(data, e.Name, o)
}

// maxModelBytes bounds a model's file.
const maxModelBytes = 8 << 30

// readGolden reads the golden rows; the file beside the model need not exist.
func (e *Entry) readGolden() ([]byte, error) {
	golden, err := readFile(cmp.Or(e.Golden, e.Path+".golden.json"), maxGoldenBytes)
	if e.Golden == "" && errors.Is(err, os.ErrNotExist) {
		golden, err = readFile(strings.TrimSuffix(e.Path, filepath.Ext(e.Path))+".golden.json", maxGoldenBytes)
	}
	switch {
	case e.Golden == "" && errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err == nil && len(golden) == 0:
		return nil, fmt.Errorf("the golden rows of %s are an empty file; write them with weir golden, or remove it", e.Path)
	}
	return golden, err
}

func readFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, limit %d", path, info.Size(), limit)
	}
	return os.ReadFile(path) //nolint:gosec // the configuration names the file
}

// publish makes a loaded version the one that requests get, and makes room for it.
func (r *Repository) publish(s *Served, v *Version) (evicted []*Served, err error) {
	r.mu.Lock()
	defer r.unlock()
	if evicted, err = r.room(s, v.Bytes()); err != nil {
		return nil, err
	}
	for _, e := range evicted {
		r.drop(e)
	}
	r.drop(s)
	s.version, s.about, s.why, s.off = v, v.Describe(), nil, false
	r.bytes += v.Bytes()
	return evicted, nil
}

// room chooses what is evicted for so many bytes: of what is not pinned, what was used
// least recently.
func (r *Repository) room(s *Served, need int64) (evicted []*Served, err error) {
	if r.opts.MaxBytes == 0 {
		return nil, nil
	}
	have := r.bytes
	if s.version != nil {
		have -= s.version.Bytes()
	}
	var idle []*Served
	for _, o := range r.table {
		if o != s && o.version != nil && !o.entry.Pinned {
			idle = append(idle, o)
		}
	}
	slices.SortFunc(idle, func(a, b *Served) int {
		return cmp.Or(cmp.Compare(a.used, b.used), strings.Compare(a.entry.Name, b.entry.Name), strings.Compare(a.entry.Version, b.entry.Version))
	})
	for have+need > r.opts.MaxBytes && len(idle) > 0 {
		have -= idle[0].version.Bytes()
		evicted, idle = append(evicted, idle[0]), idle[1:]
	}
	if have+need > r.opts.MaxBytes {
		return nil, fmt.Errorf("it takes %d bytes; %d of %d are taken by pinned models: raise the limit or pin fewer", need, have, r.opts.MaxBytes)
	}
	return evicted, nil
}

// drop takes a version out of memory, once the requests that have it are done. The
// caller holds mu, and lets go of it by unlock.
func (r *Repository) drop(s *Served) {
	if s.version != nil {
		r.bytes -= s.version.Bytes()
		r.left = append(r.left, s.version)
		s.version = nil
	}
}

// unlock lets go of mu and closes the versions that have left memory.
func (r *Repository) unlock() {
	left := r.left
	r.left = nil
	r.mu.Unlock()
	for _, v := range left {
		v.Close()
	}
}

// changed tells what happened to a version; v is what was loaded.
func (r *Repository) changed(s *Served, what string, v *Version, why error) {
	if f := r.opts.OnChange; f != nil {
		k := s.entry.key()
		c := Change{Name: k.name, Version: k.version, What: what, Why: why}
		if v != nil {
			c.Notes = v.Notes()
		}
		f(c)
	}
}

// Prepare loads what a new configuration has and the old one had not. commit puts the new
// one into force: versions that it lacks are not found any more, and finish the requests
// that they have. Nothing has changed where Prepare fails or commit is not called, but
// that memory is used.
func (r *Repository) Prepare(entries []Entry) (commit func(), err error) {
	table := make(map[key]*Served, len(entries))
	var fresh []*Served
	var errs []error
	for _, e := range entries {
		k := e.key()
		if _, twice := table[k]; twice {
			errs = append(errs, fmt.Errorf("model %q version %s is listed twice", k.name, k.version))
			continue
		}
		r.mu.Lock()
		old := r.table[k]
		r.mu.Unlock()
		if old != nil && reflect.DeepEqual(old.entry, e) {
			table[k] = old
			continue
		}
		s := &Served{repository: r, entry: e}
		v, err := e.open()
		if err != nil {
			errs = append(errs, fmt.Errorf("load model %q from %s: %w", k.name, cmp.Or(e.Path, "memory"), err))
			continue
		}
		s.version, s.about = v, v.Describe()
		table[k], fresh = s, append(fresh, s)
	}
	if err := errors.Join(errs...); err != nil {
		for _, s := range fresh {
			s.version.Close()
		}
		return nil, err
	}
	return func() { r.replace(table) }, nil
}

// replace puts a table into force.
func (r *Repository) replace(table map[key]*Served) {
	var changes []func()
	r.mu.Lock()
	for k, s := range r.table {
		if table[k] != s {
			r.drop(s)
			changes = append(changes, func() { r.changed(s, "unload", nil, nil) })
		}
	}
	old := r.table
	r.table = table
	for k, s := range table {
		if old[k] != s {
			v := s.version
			s.version = nil
			evicted, err := r.room(s, v.Bytes())
			for _, e := range evicted {
				r.drop(e)
			}
			if s.why = err; err == nil {
				s.version = v
				r.bytes += v.Bytes()
			} else {
				r.left = append(r.left, v)
			}
			changes = append(changes, func() { r.changed(s, "load", v, err) })
		}
	}
	r.unlock()
	for _, tell := range changes {
		tell()
	}
}

// Find is a version of a model; the newest that is ready where version is empty, or the
// newest where none is. The error is ErrUnknown.
func (r *Repository) Find(name, version string) (*Served, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version != "" {
		if s := r.table[key{name, version}]; s != nil {
			return s, nil
		}
		return nil, fmt.Errorf("%w: %q version %q", ErrUnknown, name, version)
	}
	var best *Served
	for k, s := range r.table {
		if k.name == name && (best == nil || s.before(best)) {
			best = s
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	return best, nil
}

// before reports whether requests that name no version get s rather than o: what is ready,
// what is no candidate, what is newer. The caller holds the repository's mu.
func (s *Served) before(o *Served) bool {
	switch {
	case s.off != o.off:
		return o.off
	case s.entry.Candidate != o.entry.Candidate:
		return o.entry.Candidate
	}
	return newer(s.entry.key().version, o.entry.key().version)
}

// newer compares versions: as numbers where both are, else as texts.
func newer(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	if errX == nil && errY == nil {
		return x > y
	}
	return a > b
}

// State is a version as an index shows it.
type State struct {
	Name, Version string
	Ready         bool // requests are served, be it after it was loaded again
	Loaded        bool // it is in memory
	Pinned        bool
	Bytes         int64  // of memory
	Kernel        string // of a loaded one
	Why           string // it is not ready, or not loaded
}

// Index lists the versions by name and version.
func (r *Repository) Index() []State {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]State, 0, len(r.table))
	for k, s := range r.table {
		st := State{Name: k.name, Version: k.version, Ready: !s.off && s.why == nil, Loaded: s.version != nil, Pinned: s.entry.Pinned}
		switch {
		case s.version != nil:
			st.Bytes, st.Kernel = s.version.Bytes(), s.version.Kernel()
		case s.off:
			st.Why = "unloaded"
		case s.why != nil:
			st.Why = s.why.Error()
		default:
			st.Why = "evicted; the next request loads it"
		}
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b State) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 || a.Version == b.Version {
			return c
		}
		if newer(b.Version, a.Version) {
			return -1
		}
		return 1
	})
	return list
}

// Load reads all versions of a model again and publishes each that is fine, beside requests
// of the old one, which finish.
func (r *Repository) Load(name string) error { return r.each(name, (*Served).reload) }

func (s *Served) reload() error {
	s.loading.Lock()
	defer s.loading.Unlock()
	v, err := s.load()
	if err == nil {
		v.hold.release()
	}
	return err
}

// Unload takes all versions of a model out of memory, until Load. Requests that they have
// are finished, new ones are refused.
func (r *Repository) Unload(name string) error {
	return r.each(name, func(s *Served) error {
		s.loading.Lock()
		defer s.loading.Unlock()
		r.mu.Lock()
		r.drop(s)
		s.off, s.why = true, nil
		r.unlock()
		r.changed(s, "unload", nil, nil)
		return nil
	})
}

func (r *Repository) each(name string, do func(*Served) error) error {
	r.mu.Lock()
	var list []*Served
	for k, s := range r.table {
		if k.name == name {
			list = append(list, s)
		}
	}
	r.mu.Unlock()
	if len(list) == 0 {
		return fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	var errs []error
	for _, s := range list {
		errs = append(errs, do(s))
	}
	return errors.Join(errs...)
}

// Bytes is the memory of all loaded versions.
func (r *Repository) Bytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}
