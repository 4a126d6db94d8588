package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/engine/classic"
	"weir/internal/tensor"
	"weir/telemetry/predictions"
)

// recording is what weir golden was asked for.
type recording struct {
	rows      string // a file; "" makes rows up
	count     int
	seed      uint64
	tolerance float64
}

func newGolden() *cobra.Command {
	var r recording
	cmd := &cobra.Command{
		Use:   "golden MODEL",
		Short: "Write the golden rows of a classical model: rows and the outputs that must come out",
		Long: "Score rows with a classical model and print them with their outputs. In a file MODEL.golden.json\n" +
			"beside the model they guard it: weir serve publishes a version only if the rows give the same\n" +
			"outputs. The rows are those of a .csv or .parquet table, such as training data or a prediction log,\n" +
			"whose columns have the names of the model's features; or those of a .json file, a V2 request or other\n" +
			"golden rows; or they are made up of the thresholds of the trees.",
		Example: "  weir golden churn.json --rows train.csv > churn.golden.json\n" +
			"  weir golden churn.json > churn.golden.json",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(args[0], cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&r.rows, "rows", "", "a .csv, .parquet or .json file with rows, or a folder of a prediction log (default: rows are made up)")
	f.IntVar(&r.count, "count", 100, "how many rows of a table to take, at equal distances, or to make up")
	f.Uint64Var(&r.seed, "seed", 1, "of the rows that are made up")
	f.Float64Var(&r.tolerance, "tolerance", classic.DefaultTolerance, "how far an output may be from the recorded one, as a share of it, or absolutely below 1")
	return cmd
}

func (r *recording) run(path string, out io.Writer) error {
	if r.count < 1 || r.count > maxGoldenRows {
		return &usageError{fmt.Errorf("--count is %d", r.count), fmt.Sprintf("it must be from 1 to %d", maxGoldenRows)}
	}
	if !isClassic(path) {
		return &usageError{fmt.Errorf("%s is a language model or no file", path), "weir golden is for classical models: XGBoost, LightGBM, CatBoost and ONNX"}
	}
	v, _, err := loadClassic(path)
	if err != nil {
		return fmt.Errorf("read %w", err)
	}
	rows, err := r.read(v)
	if err != nil {
		return err
	}
	file, err := v.Record(rows, r.tolerance)
	if err != nil {
		return err
	}
	_, err = out.Write(file)
	return err
}

// maxGoldenRows bounds what every load of the model scores again.
const maxGoldenRows = 10_000

// read returns the rows as the model takes them.
func (r *recording) read(v *classic.Version) ([]tensor.Tensor, error) {
	switch {
	case r.rows == "":
		return v.Sample(r.count, r.seed)
	case strings.HasSuffix(r.rows, ".json"):
		data, err := os.ReadFile(r.rows)
		if err != nil {
			return nil, err
		}
		rows, err := classic.ReadRows(data)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", r.rows, err)
		}
		return rows, nil
	}
	table, err := predictions.ReadTable(r.rows)
	if err != nil {
		return nil, err
	}
	if table.Rows == 0 {
		return nil, fmt.Errorf("%s has no rows", r.rows)
	}
	return newRowTable(table, r.count).inputs(v)
}

// rowTable is rows of a table, as the inputs of a model.
type rowTable struct {
	*predictions.Table
	at    []int // the rows that are taken
	names []string
	full  map[string]string // a column's name in the table by that in names
}

// newRowTable takes so many rows at equal distances. Of a prediction log it takes the
// columns of features.
func newRowTable(table *predictions.Table, count int) *rowTable {
	t := &rowTable{Table: table, at: make([]int, min(count, table.Rows)), full: make(map[string]string)}
	for i := range t.at {
		t.at[i] = i * table.Rows / len(t.at)
	}
	isLog := slices.ContainsFunc(table.Names, func(name string) bool { return strings.HasPrefix(name, predictions.FeaturePrefix) })
	for _, name := range table.Names {
		short, isFeature := strings.CutPrefix(name, predictions.FeaturePrefix)
		if isFeature || !isLog {
			t.names, t.full[short] = append(t.names, short), name
		}
	}
	return t
}

// inputs finds the columns of a model's inputs.
func (t *rowTable) inputs(v *classic.Version) ([]tensor.Tensor, error) {
	specs := v.Describe().Inputs
	list := make([]tensor.Tensor, len(specs))
	for i, spec := range specs {
		columns := []string{spec.Name}
		width := int64(1)
		if len(spec.Shape) > 1 {
			width = spec.Shape[1]
		}
		if len(spec.Shape) > 2 || width < 0 {
			return nil, fmt.Errorf("the input %q has shape %v, which is no row of columns; give a .json file, a V2 request", spec.Name, spec.Shape)
		}
		if len(specs) == 1 {
			columns = v.Columns()
			if columns == nil || !t.hasAll(columns) {
				columns = t.names
			}
		}
		if int64(len(columns)) != width || !t.hasAll(columns) {
			return nil, fmt.Errorf("the model takes %d columns as input %q%s; the rows have %d: %s", width, spec.Name, named(v.Columns()), len(t.names), printable(shortList(t.names)))
		}
		one, err := t.tensor(&spec, columns)
		if err != nil {
			return nil, err
		}
		list[i] = one
	}
	return list, nil
}

func (t *rowTable) hasAll(columns []string) bool {
	return !slices.ContainsFunc(columns, func(name string) bool { return t.full[name] == "" })
}

func named(columns []string) string {
	if columns == nil {
		return ""
	}
	return " (" + printable(shortList(columns)) + ")"
}

// shortList names the first of many.
func shortList(names []string) string {
	const most = 12
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " …"
	}
	return strings.Join(names, ", ")
}

// tensor is the rows of one input. Numbers are FP64 or INT64: the model converts them.
func (t *rowTable) tensor(spec *tensor.Spec, columns []string) (tensor.Tensor, error) {
	shape := []int64{int64(len(t.at))}
	if len(spec.Shape) > 1 {
		shape = append(shape, int64(len(columns)))
	}
	if spec.Type == tensor.Bytes {
		list := make([][]byte, 0, len(t.at)*len(columns))
		for _, row := range t.at {
			for _, name := range columns {
				list = append(list, []byte(t.Text(t.full[name])[row]))
			}
		}
		return tensor.Tensor{Name: spec.Name, Type: spec.Type, Shape: shape, Strings: list}, nil
	}
	values := make([]float64, 0, len(t.at)*len(columns))
	for _, row := range t.at {
		for _, name := range columns {
			column := t.Numbers[t.full[name]]
			if column == nil {
				return tensor.Tensor{}, fmt.Errorf("the column %q has text; the model takes numbers", t.full[name])
			}
			values = append(values, column[row])
		}
	}
	switch spec.Type {
	case tensor.Float32, tensor.Float64:
		return tensor.Of(spec.Name, tensor.Float64, shape, values), nil
	case tensor.Int64:
		whole := make([]int64, len(values))
		for i, x := range values {
			if whole[i] = int64(x); float64(whole[i]) != x {
				return tensor.Tensor{}, fmt.Errorf("the input %q takes whole numbers; the rows have %v", spec.Name, x)
			}
		}
		return tensor.Of(spec.Name, tensor.Int64, shape, whole), nil
	default:
		return tensor.Tensor{}, fmt.Errorf("the input %q is %v, which a table has no columns for; give a .json file, a V2 request", spec.Name, spec.Type)
	}
}
