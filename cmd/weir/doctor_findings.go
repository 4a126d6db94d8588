package main

import (
	"fmt"

	"weir/configs"
	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/engine/llm"
	"weir/internal/cpu"
	"weir/internal/server/local"
	"weir/internal/unit"
	"weir/tokenizer"
)

// finding is something that stands in the way.
type finding struct {
	Severity string `json:"severity"`
	Text     string `json:"text"`
	Remedy   string `json:"remedy,omitempty"`
}

// Severities.
const (
	warning = "warning" // costs much
	note    = "note"    // costs little, or may be meant
)

func (d *diagnosis) add(severity, remedy, format string, args ...any) {
	d.Findings = append(d.Findings, finding{severity, fmt.Sprintf(format, args...), remedy})
}

// busyShare of the CPUs that other programs may use before figures suffer.
const busyShare = 0.25

// checkMachine finds what slows every model down.
func (d *diagnosis) checkMachine() {
	m := &d.Machine
	if text := cpu.Excess(m.Threads); text != "" {
		d.add(warning, "", "%s", text)
	}
	p := m.Processor
	if p.Cores > 0 && p.Cores < p.CPUs && m.Threads > p.Cores {
		d.add(note, fmt.Sprintf("compare with --threads %d: weir bench engine -t %d", p.Cores, p.Cores),
			"%d threads on %d cores: CPUs of one core share its multipliers", m.Threads, p.Cores)
	}
	if p.Nodes > 1 {
		d.add(note, "bind one server to each node, as numactl --cpunodebind=0 --membind=0 does",
			"the machine has %d memory nodes; weights lie where they were first written, and reading from afar is slower", p.Nodes)
	}
	if m.HugePages == "never" {
		d.add(warning, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
			"huge pages are switched off: weights take a page table entry for every 4 KiB, and reading them is slower")
	}
	if m.Memory.SwapUsed > m.Memory.Total/50 {
		d.add(warning, "stop what fills the memory, or switch swap off",
			"%s of swap are in use: a weight that was swapped out stops a step for milliseconds", unit.Bytes(m.Memory.SwapUsed))
	}
	if p.Governor == "powersave" {
		d.add(note, "cpupower frequency-set -g performance",
			"the clock's governor is powersave: short requests run before the clock is up")
	}
	if m.Load > busyShare*float64(p.Usable) {
		d.add(note, "measure again when it is idle",
			"other programs compute (load average %.1f on %d CPUs): figures are too low", m.Load, p.Usable)
	}
	if best := isa.Best(); m.Level != best.String() {
		d.add(warning, "leave --cpu-level at auto", "kernels are held at %s and the machine can run %s", m.Level, best)
	} else if best == isa.Portable {
		d.add(warning, "use a machine with AVX2 or AVX-512 for more than tests",
			"there are no kernels for this machine but plain Go: %s", m.LevelReason)
	}
}

// checkFit compares what the model takes with what is free.
func (d *diagnosis) checkFit(i llm.Info) {
	free, adapters := d.Machine.Memory.Available, int64(0)
	if d.Model.Engine != nil {
		adapters = d.Model.Engine.AdapterBytes
	}
	switch total := i.MemoryBytes() + adapters; {
	case i.WeightBytes > free:
		d.Model.Runs = false
		d.Model.WhyNot = fmt.Sprintf("its weights take %s and %s of memory are available; use a smaller quantisation or free memory",
			unit.Bytes(i.WeightBytes), unit.Bytes(free))
	case total > free:
		d.add(warning, "lower --kv-cache-memory-bytes",
			"weights and KV cache take %s and %s are available: the system would swap or end the process", unit.Bytes(total), unit.Bytes(free))
	case i.FileBytes+total > d.Machine.Memory.Total && d.Machine.Memory.Total > 0:
		d.add(note, "", "the file does not stay in the page cache beside the model: the next start reads the disk again")
	}
	if i.Embeds {
		return // no KV cache limits it
	}
	smaller := ""
	if small := attend.KVAuto.For(i.HeadDim).String(); i.KVType != small && (i.KVCost == nil || *i.KVCost <= llm.MostCacheCost) {
		smaller = ", or take --kv-cache-dtype " + small
	}
	if i.MaxModelLen < i.ContextLength {
		d.add(note, "raise --kv-cache-memory-bytes"+smaller,
			"sequences of %d tokens would be served; the model could do %d", i.MaxModelLen, i.ContextLength)
	}
	if n := local.FullSequences(i); n < 2 && i.MaxModelLen == i.ContextLength {
		d.add(note, "lower --max-model-len if requests are short: it costs nothing but refuses longer ones",
			"the KV cache holds %d sequence of full length; more of them take turns", n)
	}
}

// checkText finds out whether a server could tokenise text and render chats, with
// the template of --chat-template or, where that is empty, the model's own.
func (d *diagnosis) checkText(f *gguf.File, c configs.Model) {
	t, err := tokenizer.New(f.Value)
	if err != nil {
		d.Model.Runs, d.Model.WhyNot = false, err.Error()
		return
	}
	if d.Model.Engine != nil && d.Model.Engine.Embeds {
		return // it has no template
	}
	chosen, err := local.ChooseTemplate(c, f, t)
	switch {
	case err != nil:
		d.Model.Runs, d.Model.WhyNot = false, err.Error()
	case chosen.Template == nil:
		d.add(note, "/v1/completions works without one", "the model cannot chat: %v", chosen.Why)
	}
}
