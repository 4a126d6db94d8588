package configs

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
)

// Origin says which source a value came from.
type Origin struct {
	Kind  OriginKind
	Where string // "weir.yml:12", "WEIR_PORT", "--port"; empty for defaults
}

// OriginKind orders the sources from the weakest to the strongest.
type OriginKind uint8

// The sources.
const (
	FromDefault OriginKind = iota
	FromFile
	FromEnvironment
	FromFlag
)

func (o Origin) String() string {
	switch o.Kind {
	case FromFile:
		return "file " + o.Where
	case FromEnvironment:
		return "environment " + o.Where
	case FromFlag:
		return "flag " + o.Where
	case FromDefault:
	}
	return "default"
}

// Sources builds a Config from its sources. Use New; apply the file, the
// environment and the flags in this order, then call Config.
type Sources struct {
	config  Config
	table   []Setting
	origins []Origin // beside table
	entries []Entry  // of the file's lists of records
}

// New holds the defaults.
func New() *Sources {
	s := &Sources{config: Default()}
	s.table = settings(&s.config)
	s.origins = make([]Origin, len(s.table))
	return s
}

// Config checks the tree as a whole and returns it.
func (s *Sources) Config() (Config, error) {
	if err := s.config.Validate(); err != nil {
		return Config{}, err
	}
	return s.config, nil
}

// All yields every setting with the origin of its value, in table order.
func (s *Sources) All() iter.Seq2[*Setting, Origin] {
	return func(yield func(*Setting, Origin) bool) {
		for i := range s.table {
			if !yield(&s.table[i], s.origins[i]) {
				return
			}
		}
	}
}

// maxFileBytes bounds a configuration file; real ones are a few kilobytes.
const maxFileBytes = 1 << 20

// ReadFile applies a YAML file.
func (s *Sources) ReadFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	defer func() { _ = f.Close() }()                           // only read
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1)) // pipes and devices do not know their size
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if len(data) > maxFileBytes {
		return fmt.Errorf("read configuration: %s is larger than %d bytes", path, maxFileBytes)
	}
	return s.Decode(path, data)
}

const envPrefix = "WEIR_"

// envTests begins the variables that tell tests where servers are.
const envTests = envPrefix + "TEST_"

// envOutsideTable are variables that cmd/weir reads by itself.
var envOutsideTable = []string{"WEIR_CONFIG", "WEIR_ADMIN_KEY", "WEIR_CI_WITHOUT"}

// ReadEnv applies the WEIR_* entries of environ ("NAME=value", as os.Environ
// gives them); lists are separated by commas. It returns the names that begin
// with WEIR_ and are no setting's, for a warning: Kubernetes injects such names by
// itself, so they cannot be errors.
func (s *Sources) ReadEnv(environ []string) (unknown []string, err error) {
	var errs []error
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, envTests) || slices.Contains(envOutsideTable, name) {
			continue
		}
		i := slices.IndexFunc(s.table, func(x Setting) bool { return x.Env() == name })
		if i < 0 {
			unknown = append(unknown, name)
			continue
		}
		items := []string{value}
		if s.table[i].IsList() {
			items = strings.Split(value, ",")
		}
		errs = append(errs, s.apply(i, Origin{FromEnvironment, name}, items))
	}
	slices.Sort(unknown)
	return unknown, errors.Join(errs...)
}

// SetFlag applies one flag of the command line, by its name without dashes.
// Lists grow with each call.
func (s *Sources) SetFlag(name, value string) error {
	i := slices.IndexFunc(s.table, func(x Setting) bool { return x.Flag == name })
	if i < 0 {
		return fmt.Errorf("flag --%s is unknown", name)
	}
	return s.apply(i, Origin{FromFlag, "--" + name}, []string{value})
}

// apply gives setting i its items from one source. A list that a weaker
// source filled is replaced, not extended.
func (s *Sources) apply(i int, from Origin, items []string) error {
	setting := &s.table[i]
	if setting.IsList() && s.origins[i] != from {
		setting.clear()
	}
	if err := setting.take(from.Where, items); err != nil {
		return err
	}
	s.origins[i] = from
	if setting.expands != nil {
		for _, of := range setting.expands(items[len(items)-1]) {
			s.origins[slices.IndexFunc(s.table, func(x Setting) bool { return x.Key == of.Key })] = from
		}
	}
	return nil
}

// ValueError is a value that a setting does not take.
type ValueError struct {
	Where   string // "weir.yml:12", "WEIR_PORT", "--port"
	Setting *Setting
	Value   string
	Reason  string
}

func (e *ValueError) Error() string {
	value := fmt.Sprintf("%q", e.Value)
	if e.Setting.Secret {
		value = "the value (hidden)"
	}
	return fmt.Sprintf("%s: %s: %s %s; it takes %s", e.Where, e.Setting.Key, value, e.Reason, e.Setting.Accepts())
}
