package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/configs"
	"weir/engine/kernel/attend"
	"weir/engine/llm"
	"weir/internal/console"
	"weir/internal/prose"
	"weir/internal/server/local"
	"weir/tokenizer"
)

// qualityFlags are the verb's own.
type qualityFlags struct {
	text, against, output, plot string
	base, save                  string // files of log-probabilities: the reference's, to read or to write
	context, from, windows      int
	byTensor                    bool
	decisions                   calibrationFlags
}

func newBenchQuality() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quality [MODEL.gguf]",
		Short: "Measure how far answers are from the exact weights' answers",
		Long: "Compute a text twice, position by position: as the model is served (instruction level, cache\n" +
			"type), and from the file's own weights in float32, with a float32 cache and without rounding\n" +
			"anything. The figures are those of llama-perplexity --kl-divergence: divergence of the\n" +
			"predicted distributions, share of equal first choices, perplexity. --against takes another\n" +
			"file's exact weights as the reference, such as the F16 file that MODEL.gguf was made from.\n\n" +
			"The text is cut into windows of --context tokens, of which the second half counts, as\n" +
			"llama-perplexity does. Memory: the weights a second time, in float32.\n\n" +
			"--save-all-logits keeps the reference's log-probabilities, and --kl-divergence-base compares\n" +
			"with such a file instead, without the reference's weights. llama-perplexity writes and reads\n" +
			"the same files.\n\n" +
			"--decisions asks a running server questions whose answers are known instead, and tells how often\n" +
			"decisions are right and whether their probabilities can be believed (Brier score, ECE). With --fit\n" +
			"it also fits temperatures, and a bias of predicates, tells how good they are on questions that the\n" +
			"fit has not seen, and prints them as settings of weir serve.",
		Example: "  weir bench quality model.gguf\n" +
			"  weir bench quality model.gguf --kv-cache-dtype q8_0 --text article.txt --windows 4 --plot kl.svg\n" +
			"  weir bench quality model-Q4_K_M.gguf --against model-F16.gguf -o json > now.json\n" +
			"  weir bench quality model-F16.gguf --save-all-logits f16.kld\n" +
			"  weir bench quality model-Q4_K_M.gguf --kl-divergence-base f16.kld\n" +
			"  weir bench quality model.gguf --by-tensor\n" +
			"  weir bench quality --decisions builtin --base-url http://127.0.0.1:8000",
		Args: atMost(1),
	}
	opts := addOptions(cmd, engineSections)
	var q qualityFlags
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&q.text, "text", "", "file with the text; empty is an English one of weir's")
	f.StringVar(&q.against, "against", "", "GGUF file whose exact weights are the reference; empty is the model's own")
	f.StringVar(&q.base, "kl-divergence-base", "", "file of log-probabilities that are the reference, with its text and windows")
	f.StringVar(&q.save, "save-all-logits", "", "write the reference's log-probabilities to this file")
	f.IntVar(&q.context, "context", 512, "tokens of a window")
	f.IntVar(&q.from, "from", -1, "first position of a window that counts; -1 is the middle")
	f.IntVar(&q.windows, "windows", 2, "windows of the text; 0 is all")
	f.BoolVar(&q.byTensor, "by-tensor", false, "also which tensors the divergence comes from: each kind alone as it is served, all else exact")
	f.StringVar(&q.plot, "plot", "", "draw the divergence by position into this SVG file")
	f.StringVarP(&q.output, "output", "o", "md", "format: md, json")
	q.decisions.add(cmd)
	for _, other := range []string{"text", "against", "context", "from", "by-tensor", "save-all-logits"} {
		cmd.MarkFlagsMutuallyExclusive("kl-divergence-base", other)
	}
	cmd.MarkFlagsMutuallyExclusive("save-all-logits", "from")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains([]string{"md", "json"}, q.output) {
			return &console.UsageError{Err: fmt.Errorf("--output %q: it takes md or json", q.output), Hint: ""}
		}
		if q.decisions.fit && q.decisions.file == "" {
			return &console.UsageError{Err: errors.New("--fit is of --decisions FILE, which has questions with their right answers"), Hint: ""}
		}
		if q.decisions.file != "" {
			return q.decisions.measure(cmd, q.output)
		}
		if q.context < 4 || q.windows < 0 || q.from < -1 || q.from > q.context-2 {
			return &console.UsageError{Err: errors.New("--context takes 4 or more, --windows 0 or more, --from a position before the window's last two"), Hint: ""}
		}
		if q.from < 0 {
			q.from = q.context / 2
		}
		c, warnings, err := opts.config()
		if err != nil {
			return err
		}
		console.Warn(cmd.ErrOrStderr(), warnings)
		if err := chooseModel(cmd, &c, args); err != nil {
			return err
		}
		return benchQuality(cmd, c, q)
	}
	return cmd
}

// part is one comparison: which matrices are exact, and which cache.
type part struct {
	name  string
	exact func(tensor string) bool
	kv    attend.KVType
}

func everyTensor(string) bool { return true }

// tensorKinds are the products of a layer and of the output, by what they multiply.
var tensorKinds = []struct {
	name   string
	pieces []string
}{
	{"attn_qkv", []string{".attn_q.", ".attn_k.", ".attn_v.", ".attn_qkv."}},
	{"attn_output", []string{".attn_output."}},
	{"ffn_gate_up", []string{".ffn_gate.", ".ffn_up."}},
	{"ffn_down", []string{".ffn_down."}},
	{"output", []string{"output.weight", "token_embd.weight"}},
}

// parts are the comparisons of a run, the served configuration first.
func (q *qualityFlags) parts(kv attend.KVType) []part {
	list := []part{{"served", nil, kv}}
	if !q.byTensor {
		return list
	}
	for _, k := range tensorKinds {
		list = append(list, part{k.name, func(tensor string) bool {
			return !slices.ContainsFunc(k.pieces, func(p string) bool {
				return strings.Contains(tensor, p) && (p[0] == '.' || tensor == p)
			})
		}, attend.KVF32})
	}
	return append(list, part{"kv_cache", everyTensor, kv})
}

func benchQuality(cmd *cobra.Command, c configs.Config, q qualityFlags) error {
	result := newResult(cmd, "quality")
	options, err := local.EngineOptions(c)
	if err != nil {
		return err
	}
	shown := console.NewSteps(cmd.ErrOrStderr())
	defer shown.End()
	reference, err := q.reference(c, options)
	if err != nil {
		return err
	}
	defer reference.Close()
	o, err := q.tokens(c, reference.saved)
	if err != nil {
		return err
	}
	if q.save != "" {
		file, err := os.Create(q.save)
		if err != nil {
			return err
		}
		defer file.Close()
		o.Save = file
	}
	var served *bench.Quality
	for _, p := range q.parts(options.KVType) {
		own := options
		own.KVType = p.kv
		model, info, err := q.open(c.Model.Path, own, p.exact)
		if err != nil {
			return err
		}
		o.Progress = func(done, total int) { shown.Update(p.name, done, total) }
		got, err := reference.compare(model, o)
		err = errors.Join(err, model.Close())
		if err != nil {
			return err
		}
		o.Save = nil // the reference is the same for each kind
		if served != nil {
			result.AddValue("kl_"+p.name, "nats", got.KL.Value)
			continue
		}
		served = got
		result.AddQuality(got)
		result.Threads, c.Engine.KVType = info.Threads, info.KVType
		result.Model = bench.ModelRef{Name: c.Model.Name(), Path: c.Model.Path, Digest: info.Digest, Fingerprint: info.Fingerprint()}
	}
	shown.End()
	if err := q.draw(c, served); err != nil {
		return err
	}
	if q.output == "json" {
		return result.Write(cmd.OutOrStdout())
	}
	return q.print(cmd, c, result, served)
}

// qualityReference is what a model is compared with: exact weights, or the log-probabilities that a file keeps.
type qualityReference struct {
	exact *llm.Scorer
	saved *bench.LogProbs
	file  *os.File // of saved
}

func (q *qualityFlags) reference(c configs.Config, o llm.Options) (*qualityReference, error) {
	if q.base != "" {
		return q.openBase()
	}
	path := c.Model.Path
	if q.against != "" {
		path = q.against
	}
	o.KVType = attend.KVF32
	exact, _, err := q.open(path, o, everyTensor)
	return &qualityReference{exact: exact}, err
}

// openBase reads the head of a file of log-probabilities, whose windows the run then has.
func (q *qualityFlags) openBase() (*qualityReference, error) {
	file, err := os.Open(q.base)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	saved, err := bench.OpenLogProbs(file, info.Size())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", q.base, err), file.Close())
	}
	q.context, q.from = saved.Context, saved.Context/2
	return &qualityReference{saved: saved, file: file}, nil
}

func (r *qualityReference) compare(model *llm.Scorer, o bench.QualityOptions) (*bench.Quality, error) {
	if r.saved != nil {
		return bench.CompareQuality(r.saved, model, o)
	}
	return bench.CompareQuality(r.exact, model, o)
}

func (r *qualityReference) Close() error {
	if r.saved != nil {
		return r.file.Close()
	}
	return r.exact.Close()
}

// tokens are what both compute: those of saved log-probabilities, if there are any, or of a text.
func (q *qualityFlags) tokens(c configs.Config, saved *bench.LogProbs) (bench.QualityOptions, error) {
	o := bench.QualityOptions{BOS: -1, Context: q.context, From: q.from, Windows: q.windows}
	text := prose.Text
	if q.text != "" {
		data, err := os.ReadFile(q.text)
		if err != nil {
			return o, err
		}
		text = string(data)
	}
	f, err := local.Open(c.Model.Path)
	if err != nil {
		return o, err
	}
	defer f.Close()
	t, err := tokenizer.New(f.Value)
	if err != nil {
		return o, local.LoadError(c.Model, err)
	}
	if id, ok := t.BOS(); ok && t.AddsBOS() {
		o.BOS = id
	}
	if saved != nil {
		o.Tokens = slices.Concat(saved.Windows...)
	} else {
		o.Tokens = t.AppendEncode(nil, text, tokenizer.EncodeOptions{})
	}
	return o, nil
}

func (q *qualityFlags) open(path string, o llm.Options, exact func(string) bool) (*llm.Scorer, llm.Info, error) {
	f, err := local.Open(path)
	if err != nil {
		return nil, llm.Info{}, err
	}
	defer f.Close()
	o.MaxModelLen, o.KVBytes, o.Sample = q.context, 0, local.SampleOf(f)
	info, err := llm.Describe(f, o)
	if err != nil {
		return nil, info, local.LoadError(configs.Model{Path: path}, err)
	}
	s, err := llm.OpenScorer(f, o, exact, nil)
	if err != nil {
		return nil, info, local.LoadError(configs.Model{Path: path}, err)
	}
	info.KVType = s.KVType()
	return s, info, nil
}

func (q *qualityFlags) draw(c configs.Config, served *bench.Quality) error {
	if q.plot == "" {
		return nil
	}
	return savePlot(q.plot, func(w io.Writer) error {
		return bench.PlotQuality(w, console.Printable(c.Model.Name())+" as served, beside the reference", served)
	})
}

func (q *qualityFlags) print(cmd *cobra.Command, c configs.Config, r *bench.Result, served *bench.Quality) error {
	out := cmd.OutOrStdout()
	against := "its own weights in float32"
	switch {
	case q.base != "":
		against = "the log-probabilities of " + console.Printable(q.base)
	case q.against != "":
		against = "the weights of " + console.Printable(q.against) + " in float32"
	}
	fmt.Fprintf(out, "%s beside %s: %d positions, KV cache %s, %d threads\n\n",
		console.Printable(c.Model.Name()), against, served.Positions, c.Engine.KVType, r.Threads)
	if err := bench.WriteQualityMarkdown(out, served); err != nil || !q.byTensor {
		return err
	}
	fmt.Fprintln(out, "\nmean KL divergence of each kind alone, all else exact:")
	for _, row := range r.Rows {
		for _, p := range q.parts(attend.KVF32)[1:] {
			if row.Name == "kl_"+p.name {
				fmt.Fprintf(out, "  %-12s %.2g\n", p.name, row.Value)
			}
		}
	}
	return nil
}
