package configs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// Predict says which classical models are served without records of their own, and what
// all of them may use.
type Predict struct {
	Models      []string // [NAME=]FILE
	MemoryBytes int64    // of loaded models; 0 is no limit
	MaxWaiting  int      // requests in line
}

// Classic is a classical model that is served.
type Classic struct {
	Name, Version string
	Path          string
	Golden        string // file of golden rows; empty: that beside the model, if there is one
	Labels        []string
	MaxBatch      int // rows
	MaxRows       int // of a request
	MaxQueueDelay time.Duration
	Pinned        bool
}

// NewClassic is a record with the defaults.
func NewClassic(name, path string) Classic {
	return Classic{Name: name, Version: "1", Path: path, MaxBatch: 1024, MaxRows: 16384}
}

func predictSettings(c *Config) []Setting {
	return []Setting{
		{Key: "predict.models", Flag: "classic",
			Usage: "classical model to serve, [NAME=]FILE: XGBoost, LightGBM, CatBoost or ONNX; repeat for several. Without a " +
				"GGUF file no language model is served then",
			binding: bindNames(&c.Predict.Models, "a file, or NAME=FILE", func(s string) bool {
				name, path := splitModel(s)
				return name != "" && path != "" && !strings.Contains(name, "/")
			})},
		{Key: "predict.memory_bytes", Flag: "classic-memory-bytes",
			Usage: "memory for loaded classical models; those used least recently leave it, and their next request loads " +
				"them; 0 is no limit",
			binding: bindBytes(&c.Predict.MemoryBytes, "")},
		{Key: "predict.max_waiting", Flag: "classic-max-waiting", Usage: "predict requests that may wait; further ones are refused",
			binding: bindInt(&c.Predict.MaxWaiting, 1, math.MaxInt32, "")},
	}
}

// splitModel reads [NAME=]FILE. Without a name the file's is taken, less its ending.
func splitModel(s string) (name, path string) {
	if name, path, named := strings.Cut(s, "="); named {
		return name, path
	}
	name = filepath.Base(s)
	return strings.TrimSuffix(name, filepath.Ext(name)), s
}

// ClassicModels are the records of the file's list and those that the setting names.
func (c Config) ClassicModels() []Classic {
	var list []Classic
	for _, s := range c.Predict.Models {
		list = append(list, NewClassic(splitModel(s)))
	}
	return append(list, c.Classic...)
}

// ServesLanguage reports whether a language model is served: the one that is named, or the
// embedded one where nothing is.
func (c Config) ServesLanguage() bool { return c.Model.Path != "" || len(c.ClassicModels()) == 0 }

func (s *Sources) decodeClassic(d *fileDecoder, n *yaml.Node) error {
	models := []Classic{}
	err := d.records(n, "classic", func(n *yaml.Node, path string) error {
		m := NewClassic("", "")
		if err := d.record(n, path, classicFields(&m)); err != nil {
			return err
		}
		if m.Path == "" {
			return d.errorf(n, "%s has no path; give the model's file", path)
		}
		if m.Name == "" {
			m.Name, _ = splitModel(m.Path)
		}
		models = append(models, m)
		return nil
	})
	if err == nil {
		s.config.Classic = models
	}
	return err
}

// classicFields binds the keys of an entry of classic.
func classicFields(m *Classic) []field {
	return []field{
		{key: "name", binding: bindText(&m.Name, "a name without slashes", isModelName)},
		{key: "version", binding: bindText(&m.Version, "a version without slashes", isModelName)},
		{key: "path", binding: bindText(&m.Path, "a path", anyText)},
		{key: "golden", binding: bindText(&m.Golden, "a path", anyText)},
		{key: "labels", binding: bindList(&m.Labels, "the name of a class")},
		{key: "max_batch", binding: bindInt(&m.MaxBatch, 1, 1<<20, "")},
		{key: "max_rows", binding: bindInt(&m.MaxRows, 1, 1<<20, "")},
		{key: "max_queue_delay", binding: bindDuration(&m.MaxQueueDelay, 0, time.Second)},
		{key: "pinned", binding: bindBool(&m.Pinned)},
	}
}

func isModelName(s string) bool { return s != "" && !strings.ContainsAny(s, "/\t\r\n") }

// validateClassic refuses a version that is listed twice.
func (c Config) validateClassic() error {
	seen := make(map[[2]string]string)
	var errs []error
	for _, m := range c.ClassicModels() {
		key := [2]string{m.Name, cmp.Or(m.Version, "1")}
		if first, twice := seen[key]; twice {
			errs = append(errs, fmt.Errorf("check classic: model %q version %q is %s, and %s; give one of them another name or version",
				key[0], key[1], first, m.Path))
		}
		seen[key] = m.Path
	}
	return errors.Join(errs...)
}

// classicSample shows the list in the example file, commented out.
const classicSample = `
# Classical models: XGBoost (JSON, UBJSON), LightGBM (text), CatBoost (JSON) and
# ONNX. Everything but the path may be left out. A reload loads and unloads what has changed.
# classic:
#   - name: churn # default: the file's name
#     version: "3" # requests that name none get the highest
#     path: /models/churn.ubj
#     golden: /models/churn.golden.json # rows with the outputs that must come out; default: that beside the model
#     labels: [stays, leaves] # names of the classes
#     max_batch: 1024 # rows that are computed together; 1 computes each request alone
#     max_rows: 16384 # of a request
#     max_queue_delay: 0s # that a batch may wait for more rows
#     pinned: true # it stays in memory
`
