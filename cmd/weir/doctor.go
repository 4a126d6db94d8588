package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"weir/bench"
	"weir/configs"
	"weir/engine/gguf"
	"weir/engine/kernel/isa"
	"weir/engine/llm"
	"weir/internal/console"
	"weir/internal/cpu"
	"weir/internal/roofline"
	"weir/internal/server/local"
	"weir/internal/unit"
)

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor [MODEL.gguf]",
		Short: "Measure this machine and forecast how a model would run on it",
		Long: "Print the processor, the memory and the limits of this process, measure memory bandwidth\n" +
			"and multiplications per second (about three seconds, best on an idle machine), and warn of\n" +
			"what would slow weir down. With a model: the settings that the engine would choose, whether\n" +
			"the model fits in memory, and the most tokens per second that this machine allows. Flags\n" +
			"are those of serve. The exit status is 1 only if the model cannot run.",
		Example: "  weir doctor\n  weir doctor model.gguf --threads 4\n  weir doctor model.gguf --quick --json",
		Args:    atMost(1),
	}
	opts := addOptions(cmd, engineSections)
	quick := cmd.Flags().Bool("quick", false, "measure nothing")
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, warnings, err := opts.config()
		if err != nil {
			return err
		}
		console.Warn(cmd.ErrOrStderr(), warnings)
		if err := chooseModel(cmd, &c, args); err != nil {
			return err
		}
		ctx, stop := interruptible(cmd)
		defer stop()
		d, err := diagnose(ctx, c, *quick, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		if *asJSON {
			err = d.printJSON(cmd.OutOrStdout())
		} else {
			err = d.print(cmd.OutOrStdout())
		}
		if err != nil {
			return err
		}
		return d.verdict()
	}
	return cmd
}

// diagnosis is what doctor knows.
type diagnosis struct {
	Machine  machine      `json:"machine"`
	Limits   *limits      `json:"limits,omitempty"`
	Model    *modelHealth `json:"model,omitempty"`
	Findings []finding    `json:"findings"`
}

// machine is what the system tells.
type machine struct {
	Processor   cpu.Processor `json:"processor"`
	Memory      cpu.Memory    `json:"memory"`
	HugePages   string        `json:"huge_pages"`
	Quota       float64       `json:"cpu_quota,omitempty"` // CPUs; 0 is none
	Load        float64       `json:"load_average,omitempty"`
	Threads     int           `json:"threads"`
	Level       string        `json:"cpu_level"`
	LevelReason string        `json:"cpu_level_reason"`
}

// limits are what was measured, per second.
type limits struct {
	Threads int     `json:"threads"`
	ClockHz float64 `json:"clock_hz,omitempty"`
	One     rates   `json:"one_thread"`
	All     rates   `json:"all_threads"`
}

type rates struct {
	ReadBytes float64 `json:"read_bytes"`
	Int8Ops   float64 `json:"int8_ops"`
	FloatOps  float64 `json:"float32_ops"`
}

// modelHealth is how a model would run.
type modelHealth struct {
	Name          string           `json:"name"`
	Path          string           `json:"path"`
	Runs          bool             `json:"runs"`
	WhyNot        string           `json:"why_not,omitempty"`
	Engine        *engineReport    `json:"engine,omitempty"`
	BytesPerToken float64          `json:"bytes_per_token,omitempty"` // read from memory for one sequence's next token
	Forecasts     []bench.Forecast `json:"forecasts,omitempty"`
}

// diagnose looks at the machine and, if one is named, at the model.
func diagnose(ctx context.Context, c configs.Config, quick bool, errs io.Writer) (*diagnosis, error) {
	o, err := local.EngineOptions(c)
	if err != nil {
		return nil, err
	}
	d := &diagnosis{Machine: examine(o), Findings: []finding{}}
	d.checkMachine()
	var measured roofline.Limits
	if !quick {
		if measured, err = measure(ctx, d.Machine, errs); err != nil {
			return nil, err
		}
		d.Limits = &limits{measured.Threads, measured.ClockHz, rates(measured.One), rates(measured.All)}
	}
	if c.Model.Path == "" {
		return d, nil
	}
	f, err := local.Open(c.Model.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d.Model = &modelHealth{Name: c.Model.Name(), Path: c.Model.Path}
	d.checkModel(f, c, o, measured)
	if d.Model.Runs {
		d.checkText(f, c.Model)
	}
	return d, nil
}

// examine asks the system, and what the engine would choose.
func examine(o llm.Options) machine {
	m := machine{
		Processor: cpu.Identify(), Memory: cpu.MachineMemory(), HugePages: cpu.HugePages(), Threads: o.Threads,
	}
	m.Quota, _ = cpu.Quota()
	m.Load, _ = cpu.LoadAverage()
	if m.Threads == 0 {
		m.Threads = cpu.Threads()
	}
	level := o.Level
	if level == isa.Auto {
		level = isa.Best()
	}
	m.Level, m.LevelReason = level.String(), levelReason(level)
	return m
}

// What the levels need, under Linux's names; isa.Best decides.
var (
	needsAVX2   = []string{"avx2", "fma"}
	needsAVX512 = []string{"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vbmi", "avx512_vnni"}
)

func levelReason(l isa.Level) string {
	best := isa.Best()
	switch {
	case l < best:
		return fmt.Sprintf("asked for; the machine could run %s", best)
	case l == isa.AVX512:
		return "the processor has AVX-512 with VNNI"
	}
	next, missing := isa.AVX512, cpu.Missing(needsAVX512...)
	if l == isa.Portable {
		next, missing = isa.AVX2, cpu.Missing(needsAVX2...)
	}
	if len(missing) == 0 {
		return "this build has no assembly for it"
	}
	return fmt.Sprintf("%s needs %s, which the processor has not", next, strings.Join(missing, ", "))
}

// measure finds the machine's limits at the level and with the threads that
// the engine would use.
func measure(ctx context.Context, m machine, errs io.Writer) (roofline.Limits, error) {
	level, err := roofline.ParseLevel(m.Level)
	if err != nil {
		return roofline.Limits{}, err
	}
	shown := console.NewSteps(errs)
	defer shown.End()
	l, err := roofline.Measure(ctx, roofline.Options{
		Level: level, Threads: m.Threads,
		Progress: func(done, total int) { shown.Update("measuring", done, total) },
	})
	if err != nil {
		return l, fmt.Errorf("measure the machine: %w", err)
	}
	return l, nil
}

// checkModel says whether and how fast the model would run.
func (d *diagnosis) checkModel(f *gguf.File, c configs.Config, o llm.Options, measured roofline.Limits) {
	m := d.Model
	engine, err := describeConfigured(f, c, o)
	if err != nil {
		m.WhyNot = err.Error()
		return
	}
	info := engine.info
	m.Runs, m.Engine = true, engine
	d.checkFit(info)
	if info.Embeds {
		return // forecasts are of tokens that are generated
	}
	cost, err := bench.NewCost(f, info)
	if err != nil {
		return // Describe has read the same sizes
	}
	m.BytesPerToken = cost.Decode(1, 0).Bytes
	if measured.Threads > 0 {
		m.Forecasts = cost.Forecasts(measured.All, info.MaxModelLen, info.Sequences)
	}
}

// verdict is an error if the model cannot run.
func (d *diagnosis) verdict() error {
	if d.Model == nil || d.Model.Runs {
		return nil
	}
	return fmt.Errorf("%s cannot run: %s", console.Printable(d.Model.Name), console.Printable(d.Model.WhyNot))
}

func (d *diagnosis) printJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(d); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

func (d *diagnosis) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(table, "  "+strings.Join(cells, "\t")) }
	fmt.Fprintln(table, "machine")
	d.Machine.print(row)
	if d.Limits != nil {
		d.Limits.print(row)
	}
	if d.Model != nil {
		fmt.Fprintf(table, "\n%s\n", console.Printable(d.Model.Name))
		d.Model.print(row)
	}
	fmt.Fprintln(table, "\nfindings")
	for _, f := range d.Findings {
		row(f.Severity, console.Printable(f.Text))
		if f.Remedy != "" {
			row("", console.Printable(f.Remedy))
		}
	}
	if len(d.Findings) == 0 {
		row("none: nothing stands in the way")
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

func (m machine) print(row func(...string)) {
	p := m.Processor
	name := p.Name
	if p.Kind != "" {
		name += " (" + p.Kind + ")"
	}
	row("processor", console.Printable(name))
	cores := fmt.Sprintf("%d CPUs usable", p.Usable)
	if p.Cores > 0 {
		cores += fmt.Sprintf(" of %d on %d cores", p.CPUs, p.Cores)
	}
	if p.CacheBytes > 0 {
		cores += ", " + unit.Bytes(p.CacheBytes) + " of last-level cache"
	}
	row("cores", cores)
	row("features", strings.Join(p.Features, " "))
	row("kernels", m.Level+": "+m.LevelReason)
	quota := "no quota"
	if m.Quota > 0 {
		quota = fmt.Sprintf("quota of %.3g CPUs", m.Quota)
	}
	row("threads", fmt.Sprintf("%d, %s, load average %.1f", m.Threads, quota, m.Load))
	memory := unit.Bytes(m.Memory.Available) + " available"
	if m.Memory.Total > 0 {
		memory += " of " + unit.Bytes(m.Memory.Total)
	}
	if m.Memory.Swap == 0 {
		memory += ", no swap"
	} else {
		memory += fmt.Sprintf(", %s of %s swap used", unit.Bytes(m.Memory.SwapUsed), unit.Bytes(m.Memory.Swap))
	}
	row("memory", memory)
	if m.HugePages != "" {
		row("huge pages", m.HugePages)
	}
}

func (l *limits) print(row func(...string)) {
	both := func(one, all float64, unit string) string {
		if l.Threads == 1 {
			return fmt.Sprintf("%.4g %s", one/1e9, unit)
		}
		return fmt.Sprintf("%.4g %s with %d threads, %.4g with one", all/1e9, unit, l.Threads, one/1e9)
	}
	row("read", both(l.One.ReadBytes, l.All.ReadBytes, "GB/s"))
	row("int8", both(l.One.Int8Ops, l.All.Int8Ops, "Gop/s"))
	row("float32", both(l.One.FloatOps, l.All.FloatOps, "Gop/s"))
	if l.ClockHz > 0 {
		row("clock", fmt.Sprintf("%.2f GHz", l.ClockHz/1e9))
	}
}

func (m *modelHealth) print(row func(...string)) {
	if !m.Runs {
		row("runs", "no: "+console.Printable(m.WhyNot))
		return
	}
	e := m.Engine
	row("runs", "yes, as "+e.Architecture)
	if e.Embeds {
		row("gives", e.gives)
		row("weights", unit.Bytes(e.WeightBytes)+" in memory")
		row("context", fmt.Sprintf("%d tokens; %d would be served", e.ContextLength, e.MaxModelLen))
		return
	}
	row("memory", local.Memory(e.info))
	row("weights", fmt.Sprintf("%.3g GB read for each token", m.BytesPerToken/1e9))
	e.printDrafts(row)
	e.printAdapters(row)
	e.printTable(row)
	e.printCache(row)
	row("context", fmt.Sprintf("%d tokens; %d would be served", e.ContextLength, e.MaxModelLen))
	for _, f := range m.Forecasts {
		row(f.Name, fmt.Sprintf("about %.3g tokens/s; %.3g at most, by %s", f.Expected, f.Limit, f.Bound))
	}
}
