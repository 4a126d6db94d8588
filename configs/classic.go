package configs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"weir/router/fleet"
)

// Predict says which classical models are served without records of their own, and what
// all of them may use.
type Predict struct {
	Models      []string // [NAME=]FILE
	MemoryBytes int64    // of loaded models; 0 is no limit
	RunBytes    int64    // of what runs of ONNX models hold together; 0: half of the memory that the process may use
	MaxWaiting  int      // requests in line
	ONNXRuntime string   // ONNX Runtime's shared library; empty: none

	FeatureRedis string // URL of the online store that manifests name; empty: none
	Drift        Drift
	Log          PredictionLog
}

// Drift says when features and scores of models with a profile are judged.
type Drift struct {
	Window  time.Duration
	MinRows int     // of a window that is judged
	PSI     float64 // from it on a window is off
}

// PredictionLog says which predictions are kept where.
type PredictionLog struct {
	Folder    string // empty: none are kept
	Inputs    string // of PredictionLogInputs
	MaxBytes  int64  // of a file
	MaxAge    time.Duration
	Keep      time.Duration // 0: for ever
	KeepBytes int64         // of a version's files; 0: any
}

// PredictionLogInputs are the ways in which values of requests stand in the log.
var PredictionLogInputs = []string{"hash", "summary", "full"}

func defaultPredict() Predict {
	return Predict{
		MaxWaiting: 1024, Drift: Drift{Window: 10 * time.Minute, MinRows: 1000, PSI: 0.2},
		Log: PredictionLog{Inputs: "summary", MaxBytes: 64 << 20, MaxAge: 5 * time.Minute, Keep: 30 * 24 * time.Hour},
	}
}

// Classic is a classical model that is served.
type Classic struct {
	Name, Version string
	Path          string
	Golden        string // file of golden rows; empty: that beside the model, if there is one
	Manifest      string // file that says where features come from; empty: from the request
	Profile       string // file of the reference profile that drift is measured against; empty: none
	Labels        []string
	Transform     string // of a tree model's margins; empty: as its file says
	BestIteration bool   // of a tree model: as far as early stopping chose
	MaxBatch      int    // rows
	MaxRows       int    // of a request
	MaxQueueDelay time.Duration
	Pinned        bool
	Candidate     bool // requests that name no version do not get it, unless a rollout says so

	Policy   string         // of Policies: how a replica is picked
	Replicas []fleet.Source // servers that compute it; empty: it is computed here
	Routing  fleet.Routing  // how requests go to them
}

// NewClassic is a record with the defaults.
func NewClassic(name, path string) Classic {
	return Classic{Name: name, Version: "1", Path: path, MaxBatch: 1024, MaxRows: 16384,
		Policy: "least_load", Routing: fleet.DefaultRouting()}
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
		{Key: "predict.run_memory_bytes", Flag: "classic-run-memory-bytes",
			Usage: "memory that the runs of ONNX models may hold together; a request that finds too little is refused with 503; " +
				"0 is half of the memory that the process may use",
			binding: bindBytes(&c.Predict.RunBytes, "")},
		{Key: "predict.max_waiting", Flag: "classic-max-waiting", Usage: "predict requests that may wait; further ones are refused",
			binding: bindInt(&c.Predict.MaxWaiting, 1, math.MaxInt32, "")},
		{Key: "predict.onnx_runtime", Flag: "onnx-runtime",
			Usage:   "shared library of ONNX Runtime, for models with operators of which weir has none; needs a build with the tag ort",
			binding: bindText(&c.Predict.ONNXRuntime, "a file", func(string) bool { return true })},
		{Key: "predict.feature_redis", Flag: "feature-redis", Secret: true,
			Usage:   "Redis with the online features of manifests, as redis://:PASSWORD@HOST:6379/0",
			binding: bindText(&c.Predict.FeatureRedis, "redis://…, rediss://…, or nothing", isRedisURL)},
		{Key: "predict.drift_window", Flag: "drift-window", Usage: "time after which drift of features and scores is judged",
			binding: bindDuration(&c.Predict.Drift.Window, time.Second, 30*24*time.Hour)},
		{Key: "predict.drift_min_rows", Flag: "drift-min-rows", Usage: "rows that a window needs to be judged; it goes on until it has them",
			binding: bindInt(&c.Predict.Drift.MinRows, 1, math.MaxInt32, "")},
		{Key: "predict.drift_psi", Flag: "drift-psi", Usage: "threshold of the population stability index of a window; three windows in a row above it are drift",
			binding: bindRatio(&c.Predict.Drift.PSI)},
		{Key: "predict.log", Flag: "prediction-log", Usage: "folder for predictions and their features, in Parquet files; empty keeps none",
			binding: bindText(&c.Predict.Log.Folder, "a folder", func(string) bool { return true })},
		{Key: "predict.log_inputs", Flag: "prediction-log-inputs",
			Usage: "how values of requests stand in the prediction log: hash, summary (numbers to two digits, strings hashed) or " +
				"full; what the online store has stands there as it is",
			binding: bindChoice(&c.Predict.Log.Inputs, PredictionLogInputs)},
		{Key: "predict.log_bytes", Flag: "prediction-log-bytes", Usage: "size at which a file of the prediction log is finished",
			binding: bindBytes(&c.Predict.Log.MaxBytes, "")},
		{Key: "predict.log_age", Flag: "prediction-log-age",
			Usage:   "age at which a file of the prediction log is finished; what is younger is lost if the process is killed",
			binding: bindDuration(&c.Predict.Log.MaxAge, time.Second, 24*time.Hour)},
		{Key: "predict.log_keep", Flag: "prediction-log-keep", Usage: "time for which files of the prediction log are kept; 0 is for ever",
			binding: bindDuration(&c.Predict.Log.Keep, 0, 100*365*24*time.Hour)},
		{Key: "predict.log_keep_bytes", Flag: "prediction-log-keep-bytes",
			Usage:   "bytes of a model version's files that are kept, the newest first; 0 is no limit",
			binding: bindBytes(&c.Predict.Log.KeepBytes, "")},
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

// ServesLanguage reports whether language models are served: those that are named, or the
// embedded one where nothing is.
func (c Config) ServesLanguage() bool {
	return c.Model.Path != "" || slices.ContainsFunc(c.Models, isLocal) || c.NamesNone()
}

// Computes reports whether this process computes any model; otherwise all have replicas that do.
func (c Config) Computes() bool {
	return c.ServesLanguage() || slices.ContainsFunc(c.ClassicModels(), func(m Classic) bool { return len(m.Replicas) == 0 })
}

// Routes reports whether other servers compute any model.
func (c Config) Routes() bool {
	return len(c.RoutedModels()) > 0 || slices.ContainsFunc(c.Classic, func(m Classic) bool { return len(m.Replicas) > 0 })
}

// NamesNone reports whether no model is named at all, so that the built-in ones are served.
func (c Config) NamesNone() bool {
	return c.Model.Path == "" && len(c.Models) == 0 && len(c.ClassicModels()) == 0
}

func (s *Sources) decodeClassic(d *fileDecoder, n *yaml.Node) error {
	models := []Classic{}
	err := d.records(n, "classic", func(n *yaml.Node, path string) error {
		m := NewClassic("", "")
		if err := d.record(n, path, classicFields(&m)); err != nil {
			return err
		}
		switch {
		case m.Path != "" && len(m.Replicas) > 0:
			return d.errorf(n, "%s has a path and replicas; a model is computed here or elsewhere: remove one of them", path)
		case len(m.Replicas) > 0 && m.Name == "":
			return d.errorf(n, "%s has no name; give the one that requests use", path)
		case m.Path == "" && len(m.Replicas) == 0:
			return d.errorf(n, "%s has no path; give the model's file, or its replicas", path)
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
		{key: "manifest", binding: bindText(&m.Manifest, "a path", anyText)},
		{key: "profile", binding: bindText(&m.Profile, "a path", anyText)},
		{key: "labels", binding: bindList(&m.Labels, "the name of a class")},
		{key: "transform", binding: bindText(&m.Transform, "identity, sigmoid, softmax, exp, …", anyText)},
		{key: "best_iteration", binding: bindBool(&m.BestIteration)},
		{key: "max_batch", binding: bindInt(&m.MaxBatch, 1, 1<<20, "")},
		{key: "max_rows", binding: bindInt(&m.MaxRows, 1, 1<<20, "")},
		{key: "max_queue_delay", binding: bindDuration(&m.MaxQueueDelay, 0, time.Second)},
		{key: "pinned", binding: bindBool(&m.Pinned)},
		{key: "candidate", binding: bindBool(&m.Candidate)},
		{key: "policy", binding: bindChoice(&m.Policy, Policies)},
		{key: "replicas", nested: func(d *fileDecoder, n *yaml.Node, path string) error { return d.replicas(n, path, &m.Replicas) }},
		{key: "routing", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
			return d.record(n, path, routingFields(&m.Routing))
		}},
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
#     manifest: /models/churn.features.yml # where features come from: docs/features.md
#     profile: /models/churn.profile.json # what drift is measured against; weir eval --profile makes it
#     labels: [stays, leaves] # names of the classes
#     best_iteration: true # trees up to the iteration that early stopping chose (XGBoost); default: all
#     transform: sigmoid # what makes outputs of margins, where the file does not say (losses of your own): identity, sigmoid, softmax, exp
#     max_batch: 1024 # rows that are computed together; 1 computes each request alone
#     max_rows: 16384 # of a request
#     max_queue_delay: 0s # that a batch may wait for more rows
#     pinned: true # it stays in memory
#     candidate: false # true: requests that name no version do not get it, unless a rollout says so
#     policy: least_load # how a replica is picked, where other servers compute the model: power_of_two, round_robin
#   - name: fraud # computed by other servers, over the Open Inference Protocol
#     replicas: # as those of models; so is routing
#       - {url: http://10.0.0.8:8000, kind: oip} # Triton, MLServer, KServe; weir is the default
`
