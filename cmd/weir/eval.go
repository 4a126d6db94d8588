package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/console"
	"weir/internal/outfile"
	"weir/telemetry/monitor/drift"
	"weir/telemetry/monitor/predictions"
	"weir/telemetry/monitor/quality"
)

// evaluation is what weir eval was asked for.
type evaluation struct {
	labels, label string
	scores        []string
	slices        []string
	task          string
	html, profile string
	model         string
	version       string
	json          bool
}

func newEval() *cobra.Command {
	var e evaluation
	cmd := &cobra.Command{
		Use:   "eval LOG",
		Short: "Measure how good predictions were, from a prediction log and its labels",
		Long: "Join a prediction log with labels that came later, and measure: AUC, log loss, Brier score and\n" +
			"calibration of a binary model; log loss and accuracy of several classes; RMSE, MAE and R² of a\n" +
			"regression; for all rows and by slice. LOG is a .parquet or .csv file, or a folder of .parquet\n" +
			"files. Labels are joined by the columns id and row (row may be missing where requests had one).\n" +
			"--profile makes a reference profile for the drift monitor instead, or as well, of a log or of any\n" +
			"table of training data.",
		Example: "  weir eval log/credit --labels labels.csv --slice country --html report.html\n" +
			"  weir eval train.csv --score score --profile credit.profile.json",
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error { return e.run(args[0], cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&e.labels, "labels", "", "a .csv or .parquet file with the columns id, row and label")
	f.StringVar(&e.label, "label-column", "label", "the column of labels")
	f.StringSliceVar(&e.scores, "score", nil, "columns of scores (default: the log's outputs)")
	f.StringSliceVar(&e.slices, "slice", nil, "columns whose values slice the rows, such as country or tenant")
	f.StringVar(&e.task, "task", "auto", "auto, binary, classes or regression")
	f.StringVar(&e.html, "html", "", "write a page with plots to this file")
	f.StringVar(&e.profile, "profile", "", "write a reference profile of features and scores to this file")
	f.StringVar(&e.model, "model", "", "the model's name in the profile")
	f.StringVar(&e.version, "model-version", "", "the model's version in the profile")
	f.BoolVar(&e.json, "json", false, "print JSON")
	return cmd
}

func (e *evaluation) run(path string, out io.Writer) error {
	if e.labels == "" && e.profile == "" {
		return &console.UsageError{Err: errors.New("neither --labels nor --profile is set"), Hint: "run weir eval --help for what they do"}
	}
	table, err := predictions.ReadTable(path)
	if err != nil {
		return err
	}
	if e.profile != "" {
		if err := e.writeProfile(table); err != nil {
			return err
		}
	}
	if e.labels == "" {
		return nil
	}
	labels, err := predictions.ReadTable(e.labels)
	if err != nil {
		return err
	}
	data, joined, err := e.join(table, labels)
	if err != nil {
		return err
	}
	report, err := quality.Make(data, quality.Task(e.task))
	if err != nil {
		return err
	}
	if e.html != "" {
		if err := outfile.Write(e.html, outfile.Public, report.WriteHTML); err != nil {
			return err
		}
	}
	if e.json {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(struct {
			joinedRows
			quality.Report
		}{joined, report})
	}
	fmt.Fprintf(out, "%d rows with a label; %d predictions without, %d labels without a prediction\n\n",
		joined.Rows, joined.Unlabelled, joined.Unpredicted)
	return report.WriteText(out)
}

// joinedRows counts what found each other.
type joinedRows struct {
	Rows        int `json:"rows"`
	Unlabelled  int `json:"predictions_without_label"`
	Unpredicted int `json:"labels_without_prediction"`
}

// rowKey names a row of a request.
type rowKey struct {
	id  string
	row int
}

// join brings predictions and labels together. The last prediction of a row counts: its client
// may have tried again.
func (e *evaluation) join(log, labels *predictions.Table) (quality.Data, joinedRows, error) {
	scores, err := e.scoreColumns(log)
	if err != nil {
		return quality.Data{}, joinedRows{}, err
	}
	if !log.Has(predictions.ColumnID) {
		return quality.Data{}, joinedRows{}, fmt.Errorf("the log has no column %q; it has %s", predictions.ColumnID, strings.Join(log.Names, ", "))
	}
	truth, err := e.truth(labels)
	if err != nil {
		return quality.Data{}, joinedRows{}, err
	}
	ids, last := keysOf(log), map[rowKey]int{}
	for i, k := range ids {
		last[k] = i
	}
	if err := e.checkRows(ids, labels); err != nil {
		return quality.Data{}, joinedRows{}, err
	}
	data := quality.Data{Scores: make([][]float64, len(scores))}
	for _, name := range e.slices {
		name = columnOf(log, name)
		if !log.Has(name) {
			return data, joinedRows{}, fmt.Errorf("the log has no column %q to slice by; it has %s", name, strings.Join(log.Names, ", "))
		}
		c := quality.Column{Name: strings.TrimPrefix(name, predictions.FeaturePrefix)}
		if _, isText := log.Texts[name]; !isText {
			c.Numbers = []float64{}
		}
		data.Slices = append(data.Slices, c)
	}
	var joined joinedRows
	for i, k := range ids {
		y, known := truth[k]
		if last[k] != i || anyMissing(log, scores, i) {
			continue
		}
		if !known {
			joined.Unlabelled++
			continue
		}
		joined.Rows++
		data.Labels = append(data.Labels, y)
		for j, name := range scores {
			data.Scores[j] = append(data.Scores[j], log.Numbers[name][i])
		}
		for j := range data.Slices {
			c, name := &data.Slices[j], columnOf(log, e.slices[j])
			if c.Numbers != nil {
				c.Numbers = append(c.Numbers, log.Numbers[name][i])
			} else {
				c.Texts = append(c.Texts, log.Texts[name][i])
			}
		}
	}
	joined.Unpredicted = len(truth) - joined.Rows
	if joined.Rows == 0 {
		return data, joined, fmt.Errorf("no label has an id of the log: the log has %d rows such as %q, the labels %d", log.Rows,
			sample(log.Text(predictions.ColumnID)), labels.Rows)
	}
	return data, joined, nil
}

func sample(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return ids[0]
}

func anyMissing(t *predictions.Table, columns []string, row int) bool {
	return slices.ContainsFunc(columns, func(name string) bool { return math.IsNaN(t.Numbers[name][row]) })
}

// columnOf finds a column by its name, or by that of a feature.
func columnOf(t *predictions.Table, name string) string {
	if full := predictions.FeaturePrefix + name; !t.Has(name) && t.Has(full) {
		return full
	}
	return name
}

// scoreColumns are those of --score, or all outputs of the log, by number.
func (e *evaluation) scoreColumns(t *predictions.Table) ([]string, error) {
	names := slices.Clone(e.scores)
	if len(names) == 0 {
		for _, name := range t.Names {
			if strings.HasPrefix(name, predictions.OutputPrefix) {
				names = append(names, name)
			}
		}
		slices.SortFunc(names, byNumber)
	}
	for i, name := range names {
		if full := predictions.OutputPrefix + name; !t.Has(name) && t.Has(full) {
			names[i] = full
		}
		if t.Numbers[names[i]] == nil {
			return nil, fmt.Errorf("the log has no column of numbers %q; it has %s", name, strings.Join(t.Names, ", "))
		}
	}
	if len(names) == 0 && e.labels != "" {
		return nil, fmt.Errorf("the log has no column %s…: name the scores with --score; it has %s", predictions.OutputPrefix, strings.Join(t.Names, ", "))
	}
	return names, nil
}

// byNumber orders output.2 before output.10.
func byNumber(a, b string) int {
	number := func(s string) int {
		n, err := strconv.Atoi(s[strings.LastIndexByte(s, '.')+1:])
		if err != nil {
			return -1
		}
		return n
	}
	if na, nb := number(a), number(b); na != nb {
		return na - nb
	}
	return strings.Compare(a, b)
}

func keysOf(t *predictions.Table) []rowKey {
	ids, rows := t.Text(predictions.ColumnID), t.Numbers[predictions.ColumnRow]
	keys := make([]rowKey, len(ids))
	for i, id := range ids {
		keys[i].id = id
		if rows != nil && !math.IsNaN(rows[i]) {
			keys[i].row = int(rows[i])
		}
	}
	return keys
}

// checkRows refuses a label that does not say which of several rows of its request it is of.
func (e *evaluation) checkRows(log []rowKey, labels *predictions.Table) error {
	several := map[string]bool{}
	for _, k := range log {
		if k.row > 0 {
			several[k.id] = true
		}
	}
	values, rows := labels.Numbers[e.label], labels.Numbers[predictions.ColumnRow]
	for i, k := range keysOf(labels) {
		if several[k.id] && !math.IsNaN(values[i]) && (rows == nil || math.IsNaN(rows[i])) {
			return fmt.Errorf("request %q has several rows: its labels need the column %q, counted from 0", k.id, predictions.ColumnRow)
		}
	}
	return nil
}

// truth reads the labels.
func (e *evaluation) truth(t *predictions.Table) (map[rowKey]float64, error) {
	values := t.Numbers[e.label]
	if !t.Has(predictions.ColumnID) || values == nil {
		return nil, fmt.Errorf("%s must have a column %q, and one of numbers %q; it has %s", e.labels, predictions.ColumnID, e.label, strings.Join(t.Names, ", "))
	}
	out := make(map[rowKey]float64, t.Rows)
	for i, k := range keysOf(t) {
		if math.IsNaN(values[i]) {
			continue
		}
		if before, twice := out[k]; twice && before != values[i] {
			return nil, fmt.Errorf("%s: request %q row %d has the labels %v and %v", e.labels, k.id, k.row, before, values[i])
		}
		out[k] = values[i]
	}
	return out, nil
}

// writeProfile makes a reference profile: of a log's features and outputs, or of all
// columns of another table.
func (e *evaluation) writeProfile(t *predictions.Table) error {
	scores, err := e.scoreColumns(t)
	if err != nil {
		return err
	}
	p := drift.Profile{Format: 1, Model: e.model, Version: e.version, Rows: int64(t.Rows), Features: []drift.Column{}}
	isLog := slices.ContainsFunc(t.Names, func(name string) bool { return strings.HasPrefix(name, predictions.FeaturePrefix) })
	for _, name := range t.Names {
		short, isFeature := strings.CutPrefix(name, predictions.FeaturePrefix)
		if isLog && !isFeature || slices.Contains(scores, name) || !isLog && (name == predictions.ColumnID || name == e.label) {
			continue
		}
		p.Features = append(p.Features, columnProfile(t, name, short))
	}
	for _, name := range scores {
		p.Scores = append(p.Scores, columnProfile(t, name, strings.TrimPrefix(name, predictions.OutputPrefix)))
	}
	return outfile.Write(e.profile, outfile.Public, func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", " ")
		return encoder.Encode(p)
	})
}

func columnProfile(t *predictions.Table, name, as string) drift.Column {
	if texts, isText := t.Texts[name]; isText {
		return drift.Texts(as, texts)
	}
	return drift.Numbers(as, t.Numbers[name], drift.DefaultBins)
}
