package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"weir/configs"
	"weir/engine/classic"
	"weir/internal/console"
	"weir/internal/cpu"
	"weir/internal/outfile"
	"weir/internal/table"
	"weir/internal/tensor"
)

// scoring is what weir score was asked for.
type scoring struct {
	output, format string
	keep, features []string
	onError        string
	prefix         string
	versionColumn  string
	delimiter      string
	threads        int
	transform      string
	best           bool

	keepSet bool
	comma   rune
	errs    io.Writer
}

func newScore() *cobra.Command {
	r := &scoring{}
	cmd := &cobra.Command{
		Use:   "score MODEL FILE...",
		Short: "Compute the predictions of a classical model for all rows of CSV or Parquet files",
		Long: "Read rows of CSV or Parquet files, compute the predictions of a classical model for them, and write the\n" +
			"rows with the predictions, in their order. MODEL is a file of XGBoost, LightGBM, CatBoost or ONNX, or a\n" +
			"version in the models folder, NAME:TAG. FILE is a .csv, .csv.gz, .csv.zst or .parquet file, a pattern in\n" +
			"quotes, a folder of .parquet files, or - for CSV on the standard input; several have the same columns.\n\n" +
			"Columns are found by the names of the model's features, whatever their order. A model whose file names\n" +
			"none takes all columns in their order, and says so; --features names them. Missing values are empty\n" +
			"fields, NaN, null and NA of CSV, and nulls of Parquet. Categories stand by name where the model's file names\n" +
			"them. The predictions' columns have the names of the model's outputs: output, or output.0, output.1 …\n\n" +
			"Memory stays the same however long the files are. A row that the model does not take ends the command and\n" +
			"is named by file, row and column; --on-error skip leaves such rows out, --on-error null keeps them without\n" +
			"a prediction. The output has its name only when it is whole.",
		Example: "  weir score churn.json customers.parquet -o scored.parquet\n" +
			"  weir score churn.json 'day-*.csv.gz' --keep customer_id --version-column model -o scores.csv\n" +
			"  cat rows.csv | weir score churn:prod - --on-error null > scored.csv\n" +
			"  weir score net.onnx rows.csv --features age,income,city -o scored.csv",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return &console.UsageError{Err: errors.New("weir score takes a model and at least one file"), Hint: "weir score MODEL FILE -o OUT.parquet; weir score --help has examples"}
			}
			return nil
		},
	}
	opts := addOptions(cmd, []string{"registry"})
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&r.output, "output", "o", "-", "the file to write, by its ending .csv, .csv.gz, .csv.zst or .parquet; - is CSV on the standard output")
	f.StringSliceVar(&r.keep, "keep", nil, "columns to copy beside the predictions; \"\" for none (default: all)")
	f.StringSliceVar(&r.features, "features", nil, "the columns that the model takes, in its order, whatever their names")
	f.StringVar(&r.onError, "on-error", onErrorFail, "what happens to rows that the model does not take: fail, skip, null")
	f.StringVar(&r.prefix, "prefix", "", "text before the names of the predictions' columns")
	f.StringVar(&r.versionColumn, "version-column", "", "add a column of this name with the model's version: NAME:TAG's digest, or that of the file")
	f.StringVar(&r.format, "format", "", "format of inputs and outputs whose name does not tell: csv, parquet")
	f.StringVar(&r.delimiter, "delimiter", ",", "what separates the fields of CSV")
	f.IntVar(&r.threads, "threads", 0, "goroutines that compute (default: one per core)")
	f.StringVar(&r.transform, "transform", "", "of a tree model's margins: identity, sigmoid, softmax, exp (default: as its loss says)")
	f.BoolVar(&r.best, "best-iteration", false, "use an XGBoost model's trees up to the iteration that early stopping chose")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.keepSet, r.errs = f.Changed("keep"), cmd.ErrOrStderr()
		if err := r.check(); err != nil {
			return err
		}
		c, warnings, err := opts.config()
		if err != nil {
			return err
		}
		console.Warn(r.errs, warnings)
		v, version, err := r.model(cmd, &c, args[0])
		if err != nil {
			return err
		}
		ctx, stop := interruptible(cmd)
		defer stop()
		return r.run(ctx, v, version, args[1:], cmd)
	}
	return cmd
}

func (r *scoring) check() error {
	switch {
	case !slices.Contains([]string{onErrorFail, onErrorSkip, onErrorNull}, r.onError):
		return &console.UsageError{Err: fmt.Errorf("--on-error is %q", r.onError), Hint: "it must be fail, skip or null"}
	case !slices.Contains([]string{"", "csv", "parquet"}, r.format):
		return &console.UsageError{Err: fmt.Errorf("--format is %q", r.format), Hint: "it must be csv or parquet"}
	case r.threads < 0:
		return &console.UsageError{Err: fmt.Errorf("--threads is %d", r.threads), Hint: "it must be 0 or more; 0 is one per core"}
	}
	comma, size := utf8.DecodeRuneInString(strings.ReplaceAll(r.delimiter, `\t`, "\t"))
	if comma == utf8.RuneError || size != len(strings.ReplaceAll(r.delimiter, `\t`, "\t")) || strings.ContainsRune("\"\r\n", comma) {
		return &console.UsageError{Err: fmt.Errorf("--delimiter is %q", r.delimiter), Hint: `it must be one character, such as ; or \t`}
	}
	r.comma = comma
	r.threads = cmp.Or(r.threads, cpu.Threads())
	if format, _ := table.Format(r.output); format == "" && r.format == "" && r.output != "-" {
		return &console.UsageError{Err: fmt.Errorf("--output %s: its ending tells no format", r.output), Hint: "let it end in .csv, .csv.gz, .csv.zst or .parquet, or say --format"}
	}
	return nil
}

// model loads the model, and tells its version.
func (r *scoring) model(cmd *cobra.Command, c *configs.Config, name string) (*classic.Version, string, error) {
	c.Model.Path = name
	locator := newLocator(cmd)
	locator.any = true
	if err := locator.locate(cmd.Context(), c); err != nil {
		return nil, "", err
	}
	path := c.Model.Path
	if !isClassic(path) {
		if _, err := os.Stat(path); err != nil {
			return nil, "", err
		}
		return nil, "", &console.UsageError{Err: fmt.Errorf("%s is a language model", path), Hint: "weir score is for classical models: XGBoost, LightGBM, CatBoost and ONNX"}
	}
	data, err := os.ReadFile(path) //nolint:gosec // the user's own file
	if err != nil {
		return nil, "", err
	}
	v, err := classic.Load(data, "model", classic.Options{Transform: r.transform, BestIteration: r.best})
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", name, notClassic(path, err))
	}
	for _, note := range v.Notes() {
		fmt.Fprintln(r.errs, "note:", console.Printable(note))
	}
	for digest := range locator.held {
		return v, digest, nil
	}
	return v, fmt.Sprintf("sha256:%x", sha256.Sum256(data)), nil
}

// run scores the files.
func (r *scoring) run(ctx context.Context, v *classic.Version, version string, paths []string, cmd *cobra.Command) (err error) {
	source, err := table.Open(paths, table.Options{Format: r.format, Delimiter: r.comma, Stdin: cmd.InOrStdin()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	s, err := r.scorer(v, version, source)
	if err != nil {
		return err
	}
	if r.output == "-" {
		return r.write(ctx, s, cmd.OutOrStdout(), cmp.Or(r.format, "csv"), "")
	}
	if err := r.apart(source); err != nil {
		return err
	}
	format, coding := table.Format(r.output)
	return outfile.Write(r.output, outfile.Public, func(w io.Writer) error { return r.write(ctx, s, w, cmp.Or(format, r.format), coding) })
}

// apart refuses an output that is an input, too.
func (r *scoring) apart(source *table.Source) error {
	out, err := os.Stat(r.output)
	if err != nil {
		return nil //nolint:nilerr // it is not there yet
	}
	for _, path := range source.Paths() {
		if in, err := os.Stat(path); err == nil && os.SameFile(in, out) {
			return &console.UsageError{Err: fmt.Errorf("%s is an input and the output", r.output), Hint: "name another file with --output"}
		}
	}
	return nil
}

func (r *scoring) write(ctx context.Context, s *scorer, w io.Writer, format, coding string) error {
	if format == "parquet" {
		s.numbers = s.inputs.columnsRead()
	}
	to, err := table.NewWriter(w, s.columns(r.versionColumn), format, coding, r.comma)
	if err != nil {
		return fmt.Errorf("the output: %w; --prefix gives the predictions other names, --keep says which columns are copied", err)
	}
	bar := console.NewProgressOf(r.errs, console.IsTerminal(r.errs), "scoring", s.source.Paths()[0])
	s.progress = bar.Update
	began := time.Now()
	err = s.run(ctx, to)
	bar.End()
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted; nothing was written")
	case err != nil && s.onError == onErrorFail && s.first != nil:
		return fmt.Errorf("%w; --on-error %s leaves such rows out, --on-error %s keeps them without a prediction", err, onErrorSkip, onErrorNull)
	case err != nil:
		return err
	}
	if err := to.Close(); err != nil {
		return writeFault(err)
	}
	_, err = fmt.Fprintln(r.errs, console.Printable(s.summary(began)))
	return err
}

// scorer matches the files with the model.
func (r *scoring) scorer(v *classic.Version, version string, source *table.Source) (*scorer, error) {
	columns := source.Columns()
	inputs, ordered, err := inputsOf(v, columns, r.features)
	if err != nil {
		return nil, fmt.Errorf("%w; --features names the columns that the model takes, in its order", err)
	}
	s := &scorer{source: source, inputs: inputs, onError: r.onError, threads: r.threads}
	if ordered {
		fmt.Fprintln(r.errs, orderedNote(columns))
	}
	if s.kept, err = r.kept(columns); err != nil {
		return nil, err
	}
	if s.predicted, err = predictedBy(v, r.prefix, func(output string) (int, error) { return widthOf(v, inputs.list, output) }); err != nil {
		return nil, err
	}
	if r.versionColumn != "" {
		s.version = []table.Value{table.TextValue(version)}
	}
	selected := inputs.selected()
	for _, at := range s.kept {
		selected[at] = true
	}
	source.Select(selected)
	return s, nil
}

// kept are the columns that are copied.
func (r *scoring) kept(columns []table.Column) (kept []int, err error) {
	names := namesOfColumns(columns)
	for i := range columns {
		switch {
		case r.keepSet && !slices.Contains(r.keep, columns[i].Name):
			continue
		case columns[i].Kind == table.Nested:
			return nil, fmt.Errorf("column %q is nested (a list, a map or a struct) and cannot be copied; --keep names those to copy", columns[i].Name)
		}
		kept = append(kept, i)
	}
	for _, name := range r.keep {
		if name != "" && !slices.Contains(names, name) {
			return nil, &console.UsageError{Err: fmt.Errorf("--keep names the column %q, which the rows have not", name), Hint: "they have " + console.Printable(console.ShortList(names))}
		}
	}
	return kept, nil
}

// widthOf is how many values an output has for a row of zeros.
func widthOf(v *classic.Version, list []matchedInput, output string) (int, error) {
	var in []tensor.Tensor
	for _, m := range list {
		b := builder{matchedInput: m}
		n := len(m.columns) * max(v.RowsAtOnce(), 1)
		b.floats, b.wholes, b.texts = make([]float64, n), make([]int64, n), make([][]byte, n)
		in = append(in, b.tensor(max(v.RowsAtOnce(), 1)))
	}
	out, err := v.Score(in)
	if err != nil {
		return 0, fmt.Errorf("the model does not say how many values its output %q has, and a row of zeros does not tell: %w", output, err)
	}
	for i := range out {
		if rows := out[i].Rows(); out[i].Name == output && rows > 0 {
			n, err := tensor.Elements(out[i].Shape, 1<<20)
			return int(n / rows), err
		}
	}
	return 0, fmt.Errorf("the model gave no output %q", output)
}
