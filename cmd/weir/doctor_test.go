package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"weir/configs"
	"weir/engine/kernel/isa"
	"weir/engine/llm"
	"weir/internal/cpu"
	"weir/internal/server/servertest"
)

// healthy is a machine that nothing is wrong with.
func healthy() machine {
	return machine{
		Processor: cpu.Processor{CPUs: 1, Cores: 1, Usable: 1, Nodes: 1}, Threads: 1, HugePages: "madvise",
		Memory: cpu.Memory{Total: 16 << 30, Available: 8 << 30}, Level: isa.Best().String(),
	}
}

func findings(d *diagnosis) string {
	var all []string
	for _, f := range d.Findings {
		all = append(all, f.Severity+": "+f.Text+" / "+f.Remedy)
	}
	return strings.Join(all, "\n")
}

func TestDoctorFindsWhatIsWrongWithAMachine(t *testing.T) {
	if isa.Best() > isa.Portable {
		d := diagnosis{Machine: healthy()}
		d.checkMachine()
		if len(d.Findings) > 0 {
			t.Errorf("a healthy machine: %s", findings(&d))
		}
	}
	for want, edit := range map[string]func(*machine){
		"threads 4096":             func(m *machine) { m.Threads = 4096 },
		"2 threads on 1 cores":     func(m *machine) { m.Processor.CPUs, m.Threads = 2, 2 },
		"4 memory nodes":           func(m *machine) { m.Processor.Nodes = 4 },
		"huge pages are switched":  func(m *machine) { m.HugePages = "never" },
		"1.0 GiB of swap":          func(m *machine) { m.Memory.Swap, m.Memory.SwapUsed = 2<<30, 1<<30 },
		"governor is powersave":    func(m *machine) { m.Processor.Governor = "powersave" },
		"other programs compute":   func(m *machine) { m.Load = 1 },
		"plain Go|held at portabl": func(m *machine) { m.Level = isa.Portable.String() },
	} {
		d := diagnosis{Machine: healthy()}
		edit(&d.Machine)
		d.checkMachine()
		found := false
		for w := range strings.SplitSeq(want, "|") {
			found = found || strings.Contains(findings(&d), w)
		}
		if !found {
			t.Errorf("no finding says %q: %s", want, findings(&d))
		}
	}
}

func TestDoctorComparesTheModelWithMemory(t *testing.T) {
	fits := llm.Info{WeightBytes: 1 << 30, FileBytes: 1 << 30, KVBytes: 1 << 30, KVTokens: 4096, MaxModelLen: 1024,
		ContextLength: 1024}
	for want, edit := range map[string]func(*llm.Info){
		"":                    func(*llm.Info) {},
		"would swap":          func(i *llm.Info) { i.KVBytes = 8 << 30 },
		"page cache":          func(i *llm.Info) { i.FileBytes = 15 << 30 },
		"model could do 4096": func(i *llm.Info) { i.ContextLength = 4096 },
		"holds 1 sequence":    func(i *llm.Info) { i.KVTokens = 1024 },
		"its weights take":    func(i *llm.Info) { i.WeightBytes = 9 << 30 },
	} {
		d := diagnosis{Machine: healthy(), Model: &modelHealth{Name: "m", Runs: true}}
		info := fits
		edit(&info)
		d.checkFit(info)
		if said := findings(&d) + d.Model.WhyNot; !strings.Contains(said, want) || want == "" && said != "" {
			t.Errorf("want %q, got %q", want, said)
		}
		if runs := want != "its weights take"; runs != d.Model.Runs || runs == (d.verdict() != nil) {
			t.Errorf("%q: runs %v, verdict %v", want, d.Model.Runs, d.verdict())
		}
	}
}

func TestDoctorReportsAModel(t *testing.T) {
	var out, errs strings.Builder
	if status := execute([]string{"doctor", "--quick", "--json", "--threads", "1", servertest.EmbeddedFile(t)}, &out, &errs); status != exitOK {
		t.Fatalf("exit status %d: %s", status, errs.String())
	}
	var d diagnosis
	if err := json.Unmarshal([]byte(out.String()), &d); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if d.Limits != nil || d.Model == nil || !d.Model.Runs || d.Model.BytesPerToken <= 0 || d.Machine.Threads != 1 ||
		len(d.Model.Forecasts) > 0 {
		t.Errorf("report %+v", d)
	}
}

func TestDoctorMeasuresAndForecasts(t *testing.T) {
	if testing.Short() {
		t.Skip("measuring takes two seconds")
	}
	c, err := configs.New().Config()
	if err != nil {
		t.Fatal(err)
	}
	c.Model.Path, c.Engine.Threads = servertest.EmbeddedFile(t), 1
	d, err := diagnose(t.Context(), c, false, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := d.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"GB/s", "Gop/s", "prefill of", "decode, 1 sequence", "at most, by "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	for _, f := range d.Model.Forecasts {
		if !(f.Expected > 0 && f.Expected < f.Limit) {
			t.Errorf("forecast %+v", f)
		}
	}
}

func TestDoctorFailsForWhatCannotRun(t *testing.T) {
	var out, errs strings.Builder
	if status := execute([]string{"doctor", "--quick", strangeModel(t)}, &out, &errs); status != exitFailure {
		t.Errorf("exit status %d, want %d", status, exitFailure)
	}
	if !strings.Contains(out.String(), "runs  ") || !strings.HasPrefix(errs.String(), "weir: strange cannot run: ") {
		t.Errorf("it says %q and %q", out.String(), errs.String())
	}
}

// The draft model is part of what doctor and inspect tell of a model, and of why it cannot run.
func TestReportsTellOfDraftModels(t *testing.T) {
	path := servertest.EmbeddedFile(t)
	for _, command := range []string{"doctor", "inspect"} {
		args := []string{command, path, "--threads", "1"}
		if command == "doctor" {
			args = append(args, "--quick")
		}
		var out, errs strings.Builder
		if status := execute(append(args, "--speculative-model", path), &out, &errs); status != exitOK || !strings.Contains(out.String(), "by a model of its own\n") ||
			!strings.Contains(out.String(), " of a draft model's and ") {
			t.Errorf("%s: exit status %d, %s%s", command, status, out.String(), errs.String())
		}
		out.Reset()
		execute(append(args, "--speculative-model", strangeModel(t)), &out, &errs)
		if !strings.Contains(out.String(), "no: read the draft model: ") {
			t.Errorf("%s of a draft model that is none says %s", command, out.String())
		}
	}
}

// Adapters are part of what doctor and inspect tell of a model: what they take, or why they do not fit it.
func TestReportsTellOfAdapters(t *testing.T) {
	path := servertest.EmbeddedFile(t)
	adapter := servertest.AdapterFile(t, path, "a", 4, 0.1)
	for _, command := range []string{"doctor", "inspect"} {
		args := []string{command, path, "--threads", "1", "--lora-modules", "sql=" + adapter}
		if command == "doctor" {
			args = append(args, "--quick")
		}
		var out, errs strings.Builder
		if status := execute(args, &out, &errs); status != exitOK || !strings.Contains(out.String(), "sql: rank 4, of ") {
			t.Errorf("%s: exit status %d, %s%s", command, status, out.String(), errs.String())
		}
		for bad, says := range map[string]string{
			"base=" + path: "no: --lora-modules: the adapter base: ", "none=" + path + ".none": "no: --lora-modules: the adapter none: ",
		} {
			out.Reset()
			execute(append(args, "--lora-modules", bad), &out, &errs)
			if !strings.Contains(out.String(), says) {
				t.Errorf("%s of %s says %s", command, bad, out.String())
			}
		}
		out.Reset()
		if status := execute(append(args, "--json"), &out, &errs); status != exitOK || !strings.Contains(out.String(), `"adapter_bytes": `) {
			t.Errorf("%s: exit status %d, %s%s", command, status, out.String(), errs.String())
		}
	}
}
