package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"weir/internal/server/state"
	"weir/internal/tensor"
	"weir/router"
	"weir/telemetry"
	"weir/telemetry/monitor/drift"
	"weir/telemetry/monitor/feature"
	"weir/telemetry/monitor/predictions"
)

// enrichedModel is a version of a model with its features, drift and log.
type enrichedModel struct {
	key     modelVersion
	inner   *current
	about   *router.Description
	outer   router.Predictor
	digest  [sha256.Size]byte // of manifest and profile
	stale   bool              // the configuration was read again
	join    *feature.Join     // nil: the model has no manifest
	scores  []score
	monitor *drift.Monitor   // nil: no profile
	columns []int            // of the monitor by feature, then by score; -1: none
	log     *predictions.Log // nil: none is kept

	drifting []string // of the goroutine that ends windows
}

// current is a version as it is loaded now. Wrappers stand around it, so that they stay
// when the version is loaded again.
type current struct {
	about *router.Description
	p     atomic.Pointer[router.Predictor]
}

// Describe implements router.Predictor.
func (c *current) Describe() *router.Description { return c.about }

// Predict implements router.Predictor.
func (c *current) Predict(ctx context.Context, p *router.Prediction) error {
	return (*c.p.Load()).Predict(ctx, p)
}

func (c *current) is(p router.Predictor) bool { return *c.p.Load() == p }

// score is a number of an output.
type score struct {
	name  string // "output", or "output.2" of several
	of    string // the output
	at    int    // the number's place in a row
	width int    // numbers per row of the output
}

// maxScores of a model are watched and logged.
const maxScores = 64

// observe prepares a version. One that was prepared before stays as it is, unless its
// inputs, outputs, manifest or profile have changed.
func (w *enriched) observe(k modelVersion, p router.Predictor, about *router.Description, before *enrichedModel) (*enrichedModel, error) {
	files, err := readFiles(w.config.manifests[k], w.config.profiles[k])
	if err != nil {
		return nil, err
	}
	if before != nil && before.digest == files.digest && reflect.DeepEqual(before.about, about) {
		before.about, before.stale = about, false
		before.inner.p.Store(&p)
		return before, nil
	}
	inner := &current{about: about}
	inner.p.Store(&p)
	o := &enrichedModel{key: k, inner: inner, about: about, outer: inner, scores: scoresOf(about), digest: files.digest}
	m, profile, joined := files.manifest, files.profile, files.manifest != nil
	switch {
	case joined:
	case profile == nil && w.config.log.Folder == "":
		return o, nil
	default:
		if m, err = feature.Derive(about, columnNames(profile, about)); err != nil {
			if profile != nil {
				return nil, err
			}
			w.logger.Warn("a model's predictions are not logged", zap.String("model", k.name), zap.Error(err))
			return o, nil
		}
	}
	if profile != nil {
		o.watchDrift(profile, m, w.config.rules)
	}
	if joined {
		outer, err := feature.NewPredictor(inner, m, w.online, o.saw)
		if err != nil {
			return nil, err
		}
		o.outer, o.join = outer, outer.Join()
	} else if o.outer, err = feature.NewWatcher(inner, m, o.saw); err != nil {
		return nil, err
	}
	if err := w.openLog(o, m); err != nil {
		return nil, err
	}
	if before != nil && before.log != nil {
		go endLog(before.log, w.logger)
	}
	return o, nil
}

// modelFiles are the manifest and the profile of a version; nil: there is none.
type modelFiles struct {
	manifest *feature.Manifest
	profile  *drift.Profile
	digest   [sha256.Size]byte
}

// readFiles reads those that have a path.
func readFiles(manifest, profile string) (files modelFiles, err error) {
	h := sha256.New()
	if manifest != "" {
		data, err := state.ReadBounded(manifest, feature.MaxBytes)
		if err != nil {
			return files, err
		}
		if files.manifest, err = feature.ParseManifest(data); err != nil {
			return files, fmt.Errorf("%s: %w", manifest, err)
		}
		fmt.Fprintf(h, "manifest %d %s", len(data), data)
	}
	if profile != "" {
		data, err := state.ReadBounded(profile, drift.MaxBytes)
		if err != nil {
			return files, err
		}
		if files.profile, err = drift.ParseProfile(data); err != nil {
			return files, fmt.Errorf("%s: %w", profile, err)
		}
		fmt.Fprintf(h, "profile %d %s", len(data), data)
	}
	h.Sum(files.digest[:0])
	return files, nil
}

// columnNames are the profile's features, for a model whose file names no columns.
func columnNames(p *drift.Profile, about *router.Description) []string {
	if p == nil || len(about.Inputs) != 1 {
		return nil
	}
	var names []string
	for _, c := range p.Features {
		names = append(names, c.Name)
	}
	return names
}

// watchDrift finds the columns of features and scores in a profile.
func (o *enrichedModel) watchDrift(p *drift.Profile, m *feature.Manifest, rules drift.Rules) {
	o.monitor = drift.NewMonitor(p, rules, time.Now())
	for i := range m.Features {
		o.columns = append(o.columns, o.monitor.Feature(m.Features[i].Name))
	}
	for i, s := range o.scores {
		at := o.monitor.Score(s.name)
		if at < 0 && len(o.scores) == 1 && len(p.Scores) == 1 && i == 0 {
			at = o.monitor.Score(p.Scores[0].Name) // the only one, whatever its name
		}
		o.columns = append(o.columns, at)
	}
}

// openLog starts the version's log, if one is kept.
func (w *enriched) openLog(o *enrichedModel, m *feature.Manifest) error {
	c := w.config.log
	if c.Folder == "" {
		return nil
	}
	c.Model, c.Version, c.Schema = o.key.name, o.key.version, m.Schema()
	c.Failed = func(err error) { w.logger.Error("the prediction log failed", zap.Error(err)) }
	for i := range m.Features {
		f := &m.Features[i]
		privacy := predictions.Plain // what the store has is no secret of the request; what a request brings in its place may be
		switch {
		case f.Sensitive:
			privacy = predictions.Hashed
		case f.Source == feature.FromRequest:
			privacy = w.config.inputs
		}
		c.Features = append(c.Features, predictions.Feature{Name: f.Name, Text: f.Type == feature.String, Privacy: privacy, Brought: w.config.inputs})
	}
	for _, s := range o.scores {
		c.Outputs = append(c.Outputs, s.name)
	}
	var err error
	o.log, err = predictions.Open(c)
	return err
}

// saw counts and logs one request's rows.
func (o *enrichedModel) saw(p *router.Prediction, rows *feature.Rows, err error) {
	if err != nil || p.Trial {
		return
	}
	scores := o.numbers(p, rows.Len())
	if o.monitor != nil {
		o.count(rows, scores)
	}
	if o.log != nil {
		o.log.Add(o.batch(p, rows, scores))
	}
}

func (o *enrichedModel) count(rows *feature.Rows, scores []float64) {
	features := rows.Manifest().Features
	for f := range features {
		column := o.columns[f]
		switch {
		case column < 0:
		case o.monitor.IsText(column):
			for row := range rows.Len() {
				o.monitor.Text(column, rows.Value(row, f).String())
			}
		default:
			for row := range rows.Len() {
				o.monitor.Number(column, rows.Number(row, f))
			}
		}
	}
	for i := range o.scores {
		if column := o.columns[len(features)+i]; column >= 0 && !o.monitor.IsText(column) {
			for row := range rows.Len() {
				o.monitor.Number(column, scores[row*len(o.scores)+i])
			}
		}
	}
	o.monitor.Rows(rows.Len())
}

func (o *enrichedModel) batch(p *router.Prediction, rows *feature.Rows, scores []float64) predictions.Batch {
	b := predictions.Batch{ID: p.ID, Tenant: p.Tenant, Arm: p.Arm, At: time.Now(), Rows: rows.Len(), Outputs: scores}
	features := rows.Manifest().Features
	b.Numbers, b.Brought = make([]float64, 0, rows.Len()*len(features)), make([]bool, 0, rows.Len()*len(features))
	for row := range rows.Len() {
		for f := range features {
			b.Brought = append(b.Brought, rows.Outcome(row, f) == feature.Requested)
			if features[f].Type == feature.String {
				b.Texts = append(b.Texts, rows.Value(row, f).String())
			} else {
				b.Numbers = append(b.Numbers, rows.Number(row, f))
			}
		}
		if d := rows.Defaulted(row); d != "" {
			if b.Defaulted == nil {
				b.Defaulted = make([]string, rows.Len())
			}
			b.Defaulted[row] = d
		}
	}
	return b
}

// scoresOf lists the numbers of a model's outputs.
func scoresOf(about *router.Description) []score {
	var list []score
	for _, spec := range about.Outputs {
		width := 1
		switch {
		case spec.Type != tensor.Float32 && spec.Type != tensor.Float64 && spec.Type != tensor.Int64 && spec.Type != tensor.Int32:
			continue
		case len(spec.Shape) == 2 && spec.Shape[1] > 0:
			width = int(min(spec.Shape[1], maxScores+1))
		case len(spec.Shape) != 1:
			continue
		}
		if len(list)+width > maxScores {
			continue
		}
		for at := range width {
			name := spec.Name
			if width > 1 {
				name += "." + strconv.Itoa(at)
			}
			list = append(list, score{name, spec.Name, at, width})
		}
	}
	return list
}

// numbers are the scores of an answer, row by row; NaN where the client did not want an
// output.
func (o *enrichedModel) numbers(p *router.Prediction, rows int) []float64 {
	out := make([]float64, rows*len(o.scores))
	for i := range out {
		out[i] = math.NaN()
	}
	for i, s := range o.scores {
		for t := range p.Outputs {
			if read := numberReader(&p.Outputs[t]); p.Outputs[t].Name == s.of && read != nil {
				for row := range rows {
					out[row*len(o.scores)+i] = read(row*s.width + s.at)
				}
			}
		}
	}
	return out
}

// numberReader reads elements of a tensor as numbers; beyond its end they are NaN. nil:
// the tensor has none.
func numberReader(t *tensor.Tensor) func(int) float64 {
	switch t.Type {
	case tensor.Float32:
		return reader(tensor.Values[float32](t))
	case tensor.Float64:
		return reader(tensor.Values[float64](t))
	case tensor.Int32:
		return reader(tensor.Values[int32](t))
	case tensor.Int64:
		return reader(tensor.Values[int64](t))
	default:
		return nil
	}
}

func reader[T float32 | float64 | int32 | int64](values []T) func(int) float64 {
	return func(i int) float64 {
		if i >= len(values) {
			return math.NaN()
		}
		return float64(values[i])
	}
}

// metrics are those of one version.
func (o *enrichedModel) metrics() telemetry.FeatureModel {
	m := telemetry.FeatureModel{Model: o.key.name, Version: o.key.version, OutOfRange: map[string]int64{}}
	if o.join != nil {
		m.Remembered = o.join.Cached()
		o.join.Counts(func(view, outcome string, n int64) {
			if n > 0 {
				m.Values = append(m.Values, telemetry.FeatureValues{View: view, Outcome: outcome, Count: n})
			}
		})
		o.join.Violations(func(name string, n int64) { m.OutOfRange[name] = n })
	}
	if o.monitor != nil {
		for _, c := range o.monitor.Report().Columns {
			m.Drift = append(m.Drift, telemetry.Drift{
				Kind: c.Kind, Name: c.Name, PSI: c.Distance.PSI, JS: c.Distance.JS, KS: c.Distance.KS,
				Judged: c.State != "waiting", Drifting: c.State == "drifting",
			})
		}
	}
	if o.log != nil {
		s := o.log.Stats()
		m.Log = &telemetry.PredictionLog{Written: s.Written, Dropped: s.Dropped, Queued: s.Queued}
	}
	return m
}

// logCloseTimeout bounds how long a log's end may take.
const logCloseTimeout = 10 * time.Second

// endLog finishes the log of a version whose inputs or outputs have changed.
func endLog(l *predictions.Log, logger *zap.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), logCloseTimeout)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		logger.Error("the prediction log failed", zap.Error(err))
	}
}
