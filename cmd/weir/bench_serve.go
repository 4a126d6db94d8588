package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/bench"
	"weir/internal/console"
)

// serveBench are the flags of `weir bench serve`, named as those of
// `vllm bench serve`.
type serveBench struct {
	target   bench.Target
	workload bench.Workload
	options  bench.ServeOptions

	baseURL, host string
	port          int
	headers       []string
	extraBody     string
	temperature   float64
	ignoreEOS     bool

	lengthUnit  string
	rate        string
	burstiness  string
	warmups     int
	ready       int // seconds
	metricsURL  string
	percentiles string
	metrics     string
	goodput     []string
	metadata    []string
	label       string
	save        bool
	detailed    bool
	dir         string
	file        string
	plot        string
	quiet       bool
}

func newBenchServe() *cobra.Command {
	b := new(serveBench)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Send requests to a running server and measure latency and throughput",
		Long: "Send requests to any OpenAI-compatible server and measure what its clients would see:\n" +
			"time to first token, time per output token, gaps between tokens, throughput. Definitions,\n" +
			"flags and the result file are those of vllm bench serve, so that figures can be\n" +
			"compared.\n\n" +
			"--request-rate sends requests at that rate, whether or not the server keeps up (an open\n" +
			"loop: how users behave). Without --request-rate, --max-concurrency keeps that many requests\n" +
			"running (a closed loop: what the server can do at most). Without both, all requests are\n" +
			"sent at once.\n\n" +
			"Prompts are random common words; the server counts their tokens. --length-unit tokens\n" +
			"measures tokens per word first, so that lengths are in tokens.\n\n" +
			"Datasets: random; prefix_repetition (long shared beginnings); trace (lengths, arrivals and\n" +
			"shared prefixes like a public trace's, see --trace-shape); timed_trace, sharegpt and custom\n" +
			"read a file.",
		Example: "  weir bench serve --max-concurrency 16 --num-prompts 200\n" +
			"  weir bench serve --request-rate 2 --goodput ttft:500,tpot:50 --percentile-metrics ttft,tpot,itl,e2el\n" +
			"  weir bench serve --base-url http://host:8080 --endpoint /v1/chat/completions --dataset-name prefix_repetition\n" +
			"  weir bench serve --dataset-name trace --trace-shape azure-conv --trace-shrink 0.25 --self-timed\n" +
			"  weir bench serve --max-concurrency 4 --save-result --result-filename four.json --plot four.svg",
		Args: b.takeLists,
	}
	f := cmd.Flags()
	f.SortFlags = false
	b.addServerFlags(f)
	b.addLoadFlags(f)
	b.addDatasetFlags(f)
	b.addReportFlags(f)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return b.run(ctx, cmd)
	}
	return cmd
}

// takeLists accepts what vLLM's flags with several values leave over, as in
// `--goodput ttft:500 tpot:50`.
func (b *serveBench) takeLists(_ *cobra.Command, args []string) error {
	for _, arg := range args {
		switch {
		case len(b.goodput) > 0 && strings.Contains(arg, ":"):
			b.goodput = append(b.goodput, arg)
		case len(b.metadata) > 0 && strings.Contains(arg, "="):
			b.metadata = append(b.metadata, arg)
		default:
			return &console.UsageError{Err: fmt.Errorf("%q is not a flag", arg), Hint: "run weir bench serve --help for the flags"}
		}
	}
	return nil
}

func (b *serveBench) addServerFlags(f *pflag.FlagSet) {
	f.StringVar(&b.baseURL, "base-url", "", "server to measure; empty takes --host and --port")
	f.StringVar(&b.host, "host", "127.0.0.1", "host of the server")
	f.IntVar(&b.port, "port", 8000, "port of the server")
	f.StringVar(&b.target.Endpoint, "endpoint", bench.EndpointCompletions,
		"path to send requests to; "+bench.EndpointChat+" for chats")
	f.StringVar(&b.target.Model, "model", "", "model to request; empty takes the server's first")
	f.StringVar(&b.target.Served, "served-model-name", "", "model name in requests, where it differs from --model")
	keyFlag(f, &b.target.APIKey, "api-key", "WEIR_API_KEY", "key to send")
	f.Lookup("api-key").DefValue = "" // help must not print it
	f.StringArrayVar(&b.headers, "header", nil, "further header, KEY=VALUE; may be repeated")
	f.Float64Var(&b.temperature, "temperature", 0, "temperature in requests; without the flag the server's default")
	f.BoolVar(&b.ignoreEOS, "ignore-eos", false,
		"let outputs run to their full length; on for generated datasets unless given as =false")
	f.StringVar(&b.extraBody, "extra-body", "", "JSON object with further fields of every request")
	f.DurationVar(&b.target.Timeout, "request-timeout", 6*time.Hour, "time after which a request counts as failed")
	f.IntVar(&b.ready, "ready-check-timeout-sec", 30, "seconds to wait for the server; 0 skips the check")
	f.StringVar(&b.metricsURL, "metrics-url", "", "URL of weir's metrics, to record the digest of the served model")
}

func (b *serveBench) addLoadFlags(f *pflag.FlagSet) {
	f.StringVar(&b.rate, "request-rate", "inf", "requests per second; inf sends them all at once")
	f.StringVar(&b.burstiness, "burstiness", "1", "1 is a Poisson process, less is burstier, inf is even")
	f.IntVar(&b.options.MaxConcurrency, "max-concurrency", 0, "requests that run at once, at most; 0 is no limit")
	f.BoolVar(&b.options.SelfTimed, "self-timed", false, "send requests at the times of the trace; --request-rate stretches them")
	f.IntVar(&b.workload.Count, "num-prompts", 100, "requests to measure")
	f.IntVar(&b.warmups, "num-warmups", 0, "requests before the measurement, with other prompts")
	f.Uint64Var(&b.workload.Seed, "seed", 0, "the same seed sends the same requests at the same times")
}

func (b *serveBench) addDatasetFlags(f *pflag.FlagSet) {
	w := &b.workload
	f.StringVar(&w.Name, "dataset-name", "random", "dataset: "+strings.Join(bench.WorkloadNames(), ", "))
	f.StringVar(&w.Path, "dataset-path", "", "file of sharegpt (JSON), custom and timed_trace (JSON lines)")
	f.StringVar(&b.lengthUnit, "length-unit", "words", "unit of prompt lengths: words or tokens")
	f.IntVar(&w.Random.InputLen, "random-input-len", 128, "length of prompts, in --length-unit")
	f.IntVar(&w.Random.OutputLen, "random-output-len", 128, "output tokens of each request")
	f.Float64Var(&w.Random.RangeRatio, "random-range-ratio", 0, "lengths are spread over len*(1±ratio)")
	f.IntVar(&w.Random.PrefixLen, "random-prefix-len", 0, "length of a prefix that all prompts share, added to their length")
	f.IntVar(&w.Prefix.PrefixLen, "prefix-repetition-prefix-len", 256, "length of the shared prefixes, in --length-unit")
	f.IntVar(&w.Prefix.SuffixLen, "prefix-repetition-suffix-len", 64, "length of the part after the prefix, in --length-unit")
	f.IntVar(&w.Prefix.Prefixes, "prefix-repetition-num-prefixes", 10, "number of different prefixes")
	f.IntVar(&w.Prefix.OutputLen, "prefix-repetition-output-len", 128, "output tokens of each request")
	shapes := []string{"shape of the trace:"}
	names, about := bench.TraceShapes()
	for i := range names {
		shapes = append(shapes, names[i]+": "+about[i])
	}
	f.StringVar(&w.Trace.Shape, "trace-shape", "azure-conv", strings.Join(shapes, "\n"))
	f.Float64Var(&w.Trace.Shrink, "trace-shrink", 1, "factor on all of a trace's lengths, at most 1")
	f.IntVar(&w.Trace.MaxInput, "trace-max-input", 0, "longest prompt of a trace; longer ones are cut; 0 is no limit")
	f.IntVar(&w.Trace.MaxOutput, "trace-max-output", 0, "most output tokens of a trace's request; 0 is no limit")
	f.IntVar(&w.FileOutputLen, "output-len", 0, "output tokens of each request of sharegpt and custom; 0 takes the file's")
}

func (b *serveBench) addReportFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&b.goodput, "goodput", nil,
		"latency bounds in ms within which a request counts for goodput: ttft:500,tpot:50,e2el:9000")
	f.StringVar(&b.metrics, "percentile-metrics", "ttft,tpot,itl", "latencies to print: "+metricKeys())
	f.StringVar(&b.percentiles, "metric-percentiles", "99", "percentiles of the latencies, as in 50,99,99.9")
	f.BoolVar(&b.save, "save-result", false, "write a JSON file")
	f.BoolVar(&b.detailed, "save-detailed", false, "write every request's times, texts and errors to the JSON file")
	f.StringVar(&b.dir, "result-dir", "", "folder of the JSON file")
	f.StringVar(&b.file, "result-filename", "", "name of the JSON file; empty makes one from rate, model and date")
	f.StringVar(&b.label, "label", "", "prefix of a made file name; also written to the JSON file")
	f.StringSliceVar(&b.metadata, "metadata", nil, "further members of the JSON file, KEY=VALUE")
	f.StringVar(&b.plot, "plot", "", "draw the distributions of latencies into this SVG file")
	f.BoolVar(&b.quiet, "disable-progress", false, "show no progress bar")
}

func metricKeys() string {
	var keys []string
	for _, m := range bench.Metrics {
		keys = append(keys, m.Key)
	}
	return strings.Join(keys, ", ")
}

// run measures and reports.
func (b *serveBench) run(ctx context.Context, cmd *cobra.Command) error {
	report := &bench.Report{
		Target: &b.target, Options: &b.options, Label: b.label, Detailed: b.detailed,
		Unique: b.workload.Name == "random" && b.workload.Random.PrefixLen == 0,
	}
	if err := b.parse(cmd, report); err != nil {
		return &console.UsageError{Err: err, Hint: "run weir bench serve --help for the flags"}
	}
	defer b.target.Close()
	result := newResult(cmd, "serve")
	if address, err := url.Parse(b.baseURL); err == nil {
		result.Flags["base-url"] = address.Redacted()
	}
	result.Flags["ignore-eos"] = strconv.FormatBool(b.target.IgnoreEOS) // as it came out
	if err := b.meet(ctx, cmd.ErrOrStderr(), result); err != nil {
		return err
	}
	if err := b.prepare(); err != nil {
		return err
	}
	bar := newRequestProgress(cmd.ErrOrStderr(), !b.quiet, len(b.options.Requests))
	b.options.Progress = bar.update
	load, err := bench.Serve(ctx, &b.target, b.options)
	bar.end()
	if err != nil {
		return err
	}
	report.Load, report.Figures = load, bench.Compute(load, report.SLOs)
	report.Fill(result)
	return b.finish(cmd, report, result)
}

// parse reads the flags that are more than a number or a word.
func (b *serveBench) parse(cmd *cobra.Command, report *bench.Report) error {
	var err error
	if b.options.Rate, err = parsePositive("request-rate", b.rate); err != nil {
		return err
	}
	if b.options.Burstiness, err = parsePositive("burstiness", b.burstiness); err != nil {
		return err
	}
	if report.Shown, err = bench.ParseMetrics(b.metrics); err != nil {
		return err
	}
	if report.Percentiles, err = bench.ParsePercentiles(b.percentiles); err != nil {
		return err
	}
	for _, s := range b.goodput {
		slo, err := bench.ParseSLO(s)
		if err != nil {
			return err
		}
		report.SLOs = append(report.SLOs, slo)
	}
	for _, s := range b.metadata {
		pair, err := bench.ParseMetadata(s)
		if err != nil {
			return err
		}
		report.Metadata = append(report.Metadata, pair)
	}
	if b.lengthUnit != "words" && b.lengthUnit != "tokens" {
		return fmt.Errorf("--length-unit is %q, must be words or tokens", b.lengthUnit)
	}
	if b.options.SelfTimed && !b.workload.Timed() {
		return fmt.Errorf("--self-timed needs a dataset with arrival times, trace or timed_trace; it is %s", b.workload.Name)
	}
	if err := b.workload.Check(); err != nil {
		return err
	}
	return b.parseTarget(cmd)
}

func (b *serveBench) parseTarget(cmd *cobra.Command) error {
	t := &b.target
	if t.BaseURL = b.baseURL; t.BaseURL == "" {
		t.BaseURL = "http://" + net.JoinHostPort(b.host, strconv.Itoa(b.port))
	}
	t.Headers = http.Header{}
	for _, h := range b.headers {
		key, value, ok := strings.Cut(h, "=")
		if !ok || strings.TrimSpace(key) == "" {
			return fmt.Errorf("--header %q must be KEY=VALUE", h)
		}
		t.Headers.Set(strings.TrimSpace(key), strings.TrimSpace(value))
	}
	if cmd.Flags().Changed("temperature") {
		t.Temperature = &b.temperature
	}
	t.IgnoreEOS = b.ignoreEOS
	if !cmd.Flags().Changed("ignore-eos") {
		t.IgnoreEOS = b.workload.Generated()
	}
	var err error
	if t.ExtraBody, err = parseObject("extra-body", b.extraBody); err != nil {
		return err
	}
	b.options.Seed, b.options.KeepText = b.workload.Seed, b.detailed
	return t.Check()
}

// parsePositive reads a number above 0, or inf.
func parsePositive(flag, s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0) {
		return 0, fmt.Errorf("--%s is %q, must be a number above 0, or inf", flag, s)
	}
	return v, nil
}

// meet waits for the server, and learns which model it has and how it counts.
func (b *serveBench) meet(ctx context.Context, errs io.Writer, result *bench.Result) error {
	if b.target.Model == "" {
		models, err := b.models(ctx)
		if err != nil {
			return err
		}
		b.target.Model = models[0].ID
	}
	if b.ready > 0 {
		probe := bench.Request{Prompt: "once upon a time", OutputTokens: 1}
		if err := b.target.WaitReady(ctx, time.Duration(b.ready)*time.Second, &probe); err != nil {
			return fmt.Errorf("the first request failed: %w", err)
		}
	}
	if b.metricsURL != "" {
		digest, err := bench.ModelDigest(ctx, b.metricsURL)
		if err != nil {
			return err
		}
		result.Model.Digest = digest
	}
	if b.lengthUnit == "tokens" {
		scale, err := b.target.Calibrate(ctx)
		if err != nil {
			return err
		}
		b.workload.Scale = scale
		note := fmt.Sprintf("a word of a generated prompt is %.3f tokens here, and %.0f come on top of a prompt",
			scale.TokensPerWord, scale.OverheadTokens)
		result.Notes = append(result.Notes, note)
		fmt.Fprintln(errs, "weir: "+note)
	} else if b.workload.Generated() {
		result.Notes = append(result.Notes, "lengths of prompts were asked for in words; total_input_tokens is what the server counted")
	}
	return nil
}

// models asks for the models, with patience for a server that starts.
func (b *serveBench) models(ctx context.Context) ([]bench.ServerModel, error) {
	for deadline := time.Now().Add(time.Duration(b.ready) * time.Second); ; {
		models, err := b.target.Models(ctx)
		if err == nil || !bench.NotYet(err) || time.Now().After(deadline) {
			return models, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// prepare makes the requests.
func (b *serveBench) prepare() error {
	var err error
	if b.options.Requests, err = b.workload.Requests(); err != nil {
		return err
	}
	for i := range b.warmups {
		like := &b.options.Requests[i%len(b.options.Requests)]
		b.options.Warmups = append(b.options.Warmups, b.workload.Warmup(i, like))
	}
	return nil
}

// finish prints, saves and draws. A run in which nothing succeeded fails.
func (b *serveBench) finish(cmd *cobra.Command, report *bench.Report, result *bench.Result) error {
	result.Notes = append(result.Notes, b.workload.Notes()...)
	if err := report.Print(cmd.OutOrStdout()); err != nil {
		return err
	}
	errs := cmd.ErrOrStderr()
	for _, note := range append(report.Notes(), b.workload.Notes()...) {
		fmt.Fprintln(errs, "note: "+console.Printable(note))
	}
	for _, text := range report.Errors(5) {
		fmt.Fprintln(errs, "error: "+console.Printable(text))
	}
	if b.save || b.file != "" {
		path := filepath.Join(b.dir, b.resultName())
		if err := result.WriteFile(path); err != nil {
			return err
		}
		fmt.Fprintln(errs, "result: "+path)
	}
	if report.Figures.Completed == 0 {
		return fmt.Errorf("none of %d requests succeeded", report.Figures.Failed)
	}
	return writePlot(b.plot, []*bench.Result{result}, []string{b.plotName()})
}

func (b *serveBench) plotName() string {
	if b.label != "" {
		return b.label
	}
	return b.load()
}

// load describes the arrivals in a word or two.
func (b *serveBench) load() string {
	s := b.rate + "qps"
	if b.options.MaxConcurrency > 0 {
		s += "-concurrency" + strconv.Itoa(b.options.MaxConcurrency)
	}
	return s
}

// resultName is vLLM's pattern, unless one was given.
func (b *serveBench) resultName() string {
	if b.file != "" {
		return b.file
	}
	label := b.label
	if label == "" {
		label = "openai"
		if b.target.Endpoint == bench.EndpointChat {
			label = "openai-chat"
		}
	}
	model := b.target.Model[strings.LastIndexByte(b.target.Model, '/')+1:]
	return fmt.Sprintf("%s-%s-%s-%s.json", label, b.load(), model, time.Now().Format("20060102-150405"))
}

// requestProgress shows how many requests are done: as a bar on a terminal,
// nothing elsewhere.
type requestProgress struct {
	bar *progressbar.ProgressBar
}

func newRequestProgress(w io.Writer, wanted bool, total int) *requestProgress {
	if !wanted || !console.IsTerminal(w) {
		return &requestProgress{}
	}
	return &requestProgress{progressbar.NewOptions(total,
		progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("requests"), progressbar.OptionShowCount(),
		progressbar.OptionShowIts(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())}
}

// update may be called from several goroutines; the bar has a lock of its own.
func (p *requestProgress) update(_, _ int) {
	if p.bar != nil {
		_ = p.bar.Add(1) // a terminal that is gone is no reason to stop measuring
	}
}

func (p *requestProgress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
