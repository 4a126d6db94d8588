package scheduler

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
)

var rewrite = flag.Bool("rewrite", false, "write the traces' answers into testdata")

// TestTraces runs the scripts of testdata. A script's lines are commands; the
// answer to each stands under it, behind "> ". Run with -rewrite after a
// change of policy and read the difference. The commands:
//
//	config blocks=8 block=4 seqs=4 batch=16 model=64 …   a new scheduler
//	submit NAME prompt=A8+B4 max=4 [n= class= tenant= weight= logits= nocache speculate first-token-by= done-by= wait-until= retries= over-quota]
//	step [N] [stop=NAME,NAME/1] [fault=NAME]             plan, run, commit
//	plan | commit [stop= fault=] | abandon               the same in parts
//	cancel NAME[/CHOICE]
//	drain                                                step until nothing is left
//	pin N | unpin                                        somebody holds N idle blocks
//	state | progress NAME | outputs NAME
//
// A prompt is made of runs: A8 is the first eight tokens of text A.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(old))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(old) {
				t.Errorf("the trace differs; run with -rewrite and read the difference.\ngot:\n%s", got)
			}
		})
	}
}

// replay runs a script and returns it with its answers.
func replay(t *testing.T, script string) string {
	tr := &trace{t: t, names: map[string]*job{}}
	var out strings.Builder
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "> ") {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "" || line[0] == '#' {
			continue
		}
		for _, answer := range tr.do(line) {
			fmt.Fprintln(&out, "> "+answer)
		}
	}
	return out.String()
}

type trace struct {
	t      *testing.T
	w      *world
	names  map[string]*job
	pinned []kvcache.BlockID
	table  kvcache.Table
}

// args are the words of a command: plain ones and key=value.
type args struct {
	words  []string
	values map[string]string
}

func parse(line string) args {
	a := args{values: map[string]string{}}
	for f := range strings.FieldsSeq(line) {
		if k, v, ok := strings.Cut(f, "="); ok {
			a.values[k] = v
		} else {
			a.words = append(a.words, f)
		}
	}
	return a
}

func (tr *trace) number(a args, key string, def int) int {
	v, ok := a.values[key]
	if !ok {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		tr.t.Fatalf("%s=%s: %v", key, v, err)
	}
	return n
}

func (tr *trace) do(line string) []string {
	a := parse(line)
	switch a.words[0] {
	case "config":
		return tr.config(a)
	case "submit":
		return tr.submit(a)
	case "step":
		return tr.step(a)
	case "plan":
		tr.w.begin()
		return []string{tr.w.String()}
	case "commit":
		return tr.commit(a)
	case "abandon":
		tr.w.abandon()
		return []string{"abandoned"}
	case "cancel":
		return tr.cancel(a.words[1])
	case "drain":
		tr.w.drain(10000)
		return []string{fmt.Sprintf("idle after step %d", tr.w.steps)}
	case "pin":
		return tr.pin(a.words[1])
	case "unpin":
		return tr.unpin()
	case "state":
		return []string{tr.state()}
	case "progress":
		p, ok := tr.w.sched.Progress(tr.job(a.words[1]).id)
		return []string{fmt.Sprintf("%+v %v", p, ok)}
	case "outputs":
		return tr.outputs(a.words[1])
	}
	tr.t.Fatalf("unknown command %q", line)
	return nil
}

func (tr *trace) config(a args) []string {
	cfg := Config{
		MaxSeqs: tr.number(a, "seqs", 4), MaxBatchTokens: tr.number(a, "batch", 16), MaxModelLen: tr.number(a, "model", 1024),
		PrefillChunk: tr.number(a, "chunk", 0), MaxPrefills: tr.number(a, "prefills", 0),
		MaxWaiting: tr.number(a, "waiting", 0), MaxWaitingTokens: tr.number(a, "waiting-tokens", 0),
		MaxWait: time.Duration(tr.number(a, "max-wait", 0)), OvertakeLimit: tr.number(a, "overtake", 0), PreemptLimit: tr.number(a, "preempt", 0), MinRunTokens: tr.number(a, "minrun", 0),
		MaxDrafts: tr.number(a, "drafts", 0), LookupMax: tr.number(a, "lookup-max", 0), LookupMin: tr.number(a, "lookup-min", 0),
		WatermarkBlocks: tr.number(a, "watermark", 0), OutputEstimate: tr.number(a, "estimate", 0), CapOutput: tr.number(a, "cap", 0) == 1,
		SharePercent: [inference.NumClasses]int{0, tr.number(a, "share-default", 0), tr.number(a, "share-batch", 0)},
	}
	tr.w = newWorld(tr.t, cfg, kvcache.Config{Blocks: tr.number(a, "blocks", 16) + 1, BlockTokens: tr.number(a, "block", 4)})
	tr.w.vocabulary = tr.number(a, "vocabulary", 1000)
	tr.w.stop = func(*job, int, int) bool { return false }
	clear(tr.names)
	return nil
}

func (tr *trace) submit(a args) []string {
	name := a.words[1]
	r := Request{
		Prompt: tr.prompt(a.values["prompt"]), MaxTokens: tr.number(a, "max", 4), N: tr.number(a, "n", 1),
		Tenant: a.values["tenant"], Weight: tr.number(a, "weight", 0), FirstTokenBy: int64(tr.number(a, "first-token-by", 0)),
		DoneBy: int64(tr.number(a, "done-by", 0)), WaitUntil: int64(tr.number(a, "wait-until", 0)),
		Class: inference.Default, NoCache: slices.Contains(a.words, "nocache"),
		Speculate: slices.Contains(a.words, "speculate"), OverQuota: slices.Contains(a.words, "over-quota"), Retries: tr.number(a, "retries", 0),
	}
	r.Domain = tr.w.pool.Domain(r.Tenant)
	switch a.values["class"] {
	case "interactive":
		r.Class = inference.Interactive
	case "batch":
		r.Class = inference.Batch
	}
	if a.values["logits"] == "all" {
		r.Logits = LogitsAll
	}
	j, err := tr.w.submit(name, r)
	if err != nil {
		return []string{"refused: " + err.Error()}
	}
	tr.names[name] = j
	return nil
}

// prompt joins runs: A8+B2 is eight tokens of text A and two of text B.
func (tr *trace) prompt(spec string) []inference.TokenID {
	var ids []inference.TokenID
	for run := range strings.SplitSeq(spec, "+") {
		n, err := strconv.Atoi(run[1:])
		if err != nil {
			tr.t.Fatalf("prompt %q: %v", spec, err)
		}
		for i := range n {
			ids = append(ids, inference.TokenID(int(run[0])*1000+i))
		}
	}
	return ids
}

func (tr *trace) job(name string) *job {
	j := tr.names[name]
	if j == nil {
		tr.t.Fatalf("no request %q", name)
	}
	return j
}

func (tr *trace) cancel(spec string) []string {
	name, choice, found := strings.Cut(spec, "/")
	k := -1
	if found {
		k, _ = strconv.Atoi(choice)
	}
	if tr.w.cancel(tr.job(name), k) {
		return []string{fmt.Sprintf("cancelled, %d blocks free", tr.w.pool.FreeNow())}
	}
	return []string{"nothing to cancel"}
}

func (tr *trace) step(a args) []string {
	n := 1
	if len(a.words) > 1 {
		n, _ = strconv.Atoi(a.words[1])
	}
	var out []string
	for range n {
		tr.w.begin()
		line := tr.w.String()
		if tr.w.out {
			line += strings.Join(tr.commit(a), "")
		}
		out = append(out, line)
	}
	return out
}

func (tr *trace) commit(a args) []string {
	match := func(list, name string, choice int) bool {
		for s := range strings.SplitSeq(list, ",") {
			if s == name || s == fmt.Sprintf("%s/%d", name, choice) {
				return true
			}
		}
		return false
	}
	tr.w.stop = func(j *job, choice, _ int) bool { return match(a.values["stop"], j.name, choice) }
	tr.w.fault = func(j *job) error {
		if match(a.values["fault"], j.name, 0) {
			return inference.ErrInternal
		}
		return nil
	}
	var out []string
	for _, e := range tr.w.commit() {
		j := tr.w.jobs[e.Request]
		s := "; end " + j.name
		if len(j.finish) > 1 {
			s += fmt.Sprintf("/%d", e.Choice)
		}
		out = append(out, s+" "+e.Finish.String())
	}
	return out
}

// pin holds idle blocks, as a reader outside the step loop would.
func (tr *trace) pin(count string) []string {
	n, _ := strconv.Atoi(count)
	p := tr.w.pool
	var copies []kvcache.Copy
	p.Begin(&tr.table, p.Domain("somebody"))
	if !p.Grow(&tr.table, n*p.BlockTokens(), kvcache.Hit{}, &copies) {
		tr.t.Fatalf("pin %d blocks: %d are free", n, p.FreeNow())
	}
	p.Commit(&tr.table, make([]inference.TokenID, n*p.BlockTokens()), n*p.BlockTokens())
	for _, b := range tr.table.Blocks(0) {
		if !p.Pin(b) {
			tr.t.Fatalf("block %d cannot be pinned", b)
		}
		tr.pinned = append(tr.pinned, b)
	}
	p.Release(&tr.table)
	return []string{fmt.Sprintf("%d blocks free", p.FreeNow())}
}

func (tr *trace) unpin() []string {
	for _, b := range tr.pinned {
		tr.w.pool.Unpin(b)
	}
	tr.pinned = nil
	return []string{fmt.Sprintf("%d blocks free", tr.w.pool.FreeNow())}
}

func (tr *trace) state() string {
	st := tr.w.sched.Stats()
	return fmt.Sprintf("running %d, resuming %d, waiting %d; blocks used %d of %d, free now %d; preemptions %d, recomputed %d; prompt %d of which cached %d",
		st.Running, st.Resuming, st.Waiting, st.KVBlocksUsed, st.KVBlocks, tr.w.pool.FreeNow(),
		st.Preemptions, st.RecomputedTokens, st.PromptTokens, st.CachedTokens)
}

func (tr *trace) outputs(name string) []string {
	var out []string
	j := tr.job(name)
	for k := range j.outputs {
		out = append(out, fmt.Sprintf("%s/%d: %v %s", name, k, j.outputs[k], j.finish[k]))
	}
	return out
}
