package bench

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// base is a workload of each kind that needs no file.
func base(name string, count int) *Workload {
	w := &Workload{Name: name, Count: count, Seed: 1}
	w.Random.InputLen, w.Random.OutputLen = 40, 20
	w.Prefix.PrefixLen, w.Prefix.SuffixLen, w.Prefix.Prefixes, w.Prefix.OutputLen = 30, 10, 4, 9
	w.Trace.Shape, w.Trace.Shrink = "azure-conv", 1
	return w
}

func TestVocabulary(t *testing.T) {
	seen := map[string]bool{}
	for _, word := range vocabulary {
		if seen[word] {
			t.Errorf("%q is twice in the vocabulary", word)
		}
		seen[word] = true
	}
	if len(vocabulary) < 400 {
		t.Errorf("%d words", len(vocabulary))
	}
}

// The same seed makes the same requests, another one others, and more of them
// do not change the first.
func TestSeeds(t *testing.T) {
	for _, name := range []string{"random", "trace"} {
		first, err := base(name, 5).Requests()
		if err != nil {
			t.Fatal(err)
		}
		more, _ := base(name, 8).Requests()
		other := base(name, 5)
		other.Seed = 2
		others, _ := other.Requests()
		for i := range first {
			if first[i].Prompt != more[i].Prompt || first[i].OutputTokens != more[i].OutputTokens {
				t.Errorf("%s: request %d depends on how many there are", name, i)
			}
			if first[i].Prompt == others[i].Prompt {
				t.Errorf("%s: request %d does not depend on the seed", name, i)
			}
		}
	}
}

func TestRandom(t *testing.T) {
	w := base("random", 300)
	w.Random.PrefixLen, w.Random.RangeRatio = 8, 0.5
	requests, err := w.Requests()
	if err != nil {
		t.Fatal(err)
	}
	prefix := strings.Join(strings.Fields(requests[0].Prompt)[:8], " ") + " "
	shortest, longest := math.MaxInt, 0
	for i, r := range requests {
		if n := len(strings.Fields(r.Prompt)); n != r.Words {
			t.Fatalf("request %d says %d words and has %d", i, r.Words, n)
		}
		if !strings.HasPrefix(r.Prompt, prefix) {
			t.Fatalf("request %d has another prefix", i)
		}
		shortest, longest = min(shortest, r.Words-8), max(longest, r.Words-8)
		if r.OutputTokens < 10 || r.OutputTokens > 30 {
			t.Errorf("request %d wants %d tokens", i, r.OutputTokens)
		}
	}
	if shortest < 20 || shortest > 23 || longest > 60 || longest < 57 {
		t.Errorf("lengths from %d to %d, want 20 to 60", shortest, longest)
	}
	w = base("random", 100)
	requests, _ = w.Requests()
	begins := map[string]bool{}
	for _, r := range requests {
		begins[strings.Join(strings.Fields(r.Prompt)[:4], " ")] = true
		if r.Words != 40 || r.OutputTokens != 20 {
			t.Errorf("without a ratio: %d words, %d tokens", r.Words, r.OutputTokens)
		}
	}
	if len(begins) != 100 {
		t.Errorf("%d of 100 prompts begin alike", 100-len(begins))
	}
	w.Scale = Scale{TokensPerWord: 2, OverheadTokens: 10}
	if requests, _ = w.Requests(); requests[0].Words != 15 {
		t.Errorf("40 tokens at 2 per word and 10 on top are %d words, want 15", requests[0].Words)
	}
}

func TestPrefixRepetition(t *testing.T) {
	requests, err := base("prefix_repetition", 22).Requests()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	var order []string
	for _, r := range requests {
		words := strings.Fields(r.Prompt)
		if len(words) != 40 || r.Words != 40 || r.OutputTokens != 9 {
			t.Errorf("%d words, %d tokens", len(words), r.OutputTokens)
		}
		begin := strings.Join(words[:30], " ")
		count[begin]++
		order = append(order, begin)
	}
	for _, n := range count {
		if n < 5 || n > 6 {
			t.Errorf("a prefix comes %d times, want 5 or 6", n)
		}
	}
	if len(count) != 4 || slices.IsSorted(order) {
		t.Errorf("%d prefixes, in order: %v", len(count), slices.IsSorted(order))
	}
}

// Lengths that are drawn have the quantiles they were drawn from.
func TestTraceLengths(t *testing.T) {
	for i := range shapes {
		s := &shapes[i]
		const n = 4000
		w := base("trace", n)
		list := s.draw(w, 1)
		var in, out []float64
		for _, d := range list {
			in, out = append(in, float64(d.input)), append(out, float64(d.output))
		}
		rank := spearman(in, out)
		slices.Sort(in)
		slices.Sort(out)
		for at, p := range map[int]float64{3: .1, 7: .5, 11: .9} {
			slack := 0.25
			for _, c := range []struct {
				what string
				got  float64
				want float64
			}{
				{"input", Percentile(in, 100*p), s.input[at]}, {"output", Percentile(out, 100*p), s.output[at]},
			} {
				if math.Abs(c.got-c.want) > slack*c.want+2 {
					t.Errorf("%s: %s at %g is %g, want about %g", s.name, c.what, p, c.got, c.want)
				}
			}
		}
		if math.Abs(rank-s.correlation) > 0.06 {
			t.Errorf("%s: ranks correlate by %.2f, want %.2f", s.name, rank, s.correlation)
		}
	}
}

// spearman is the correlation of ranks.
func spearman(a, b []float64) float64 {
	ra, rb := ranks(a), ranks(b)
	ma, mb, sum := mean(ra), mean(rb), 0.0
	for i := range ra {
		sum += (ra[i] - ma) * (rb[i] - mb)
	}
	return sum / float64(len(ra)) / Deviation(ra) / Deviation(rb)
}

func ranks(values []float64) []float64 {
	sorted := slices.Sorted(slices.Values(values))
	out := make([]float64, len(values))
	for i, v := range values {
		low, _ := slices.BinarySearch(sorted, v)
		high, _ := slices.BinarySearch(sorted, v+1e-9)
		out[i] = float64(low+high) / 2
	}
	return out
}

// Requests of Mooncake's shape share beginnings as its trace does.
func TestTraceSharing(t *testing.T) {
	i := slices.IndexFunc(shapes, func(s shape) bool { return s.name == "mooncake-conv" })
	list := shapes[i].draw(base("trace", 3000), 1)
	seen := map[uint64]bool{0: true}
	more := 0
	for _, d := range list {
		if len(d.blocks) > 0 && d.blocks[0] != 0 {
			t.Fatalf("a prompt does not begin with the common block: %v", d.blocks[:1])
		}
		if len(d.blocks) != (d.input-1)/512 {
			t.Fatalf("%d tokens have %d full blocks", d.input, len(d.blocks))
		}
		if len(d.blocks) > 1 && seen[d.blocks[1]] {
			more++
		}
		for _, b := range d.blocks {
			seen[b] = true
		}
	}
	if share := float64(more) / 3000; share < 0.3 || share > 0.42 {
		t.Errorf("%.3f of the requests go on from another, want about 0.38", share)
	}
}

// Equal blocks are equal texts, and what comes after them is not.
func TestTraceTexts(t *testing.T) {
	w := base("trace", 3)
	requests := w.write([]traceRequest{{100, 5, []uint64{0, 1}}, {110, 6, []uint64{0, 1}}, {70, 7, []uint64{0}}}, 32, []float64{0, 1, 2})
	words := func(i, from, to int) string { return strings.Join(strings.Fields(requests[i].Prompt)[from:to], " ") }
	if words(0, 0, 64) != words(1, 0, 64) || words(0, 0, 32) != words(2, 0, 32) {
		t.Error("equal blocks have different texts")
	}
	if words(0, 64, 80) == words(1, 64, 80) || words(0, 32, 64) == words(2, 32, 64) {
		t.Error("different blocks have equal texts")
	}
	for i, want := range []int{100, 110, 70} {
		if n := len(strings.Fields(requests[i].Prompt)); n != want || requests[i].Words != want || requests[i].At != float64(i) {
			t.Errorf("request %d has %d words, says %d, comes at %g", i, n, requests[i].Words, requests[i].At)
		}
	}
}

func TestTraceLimits(t *testing.T) {
	w := base("trace", 200)
	w.Trace.Shrink, w.Trace.MaxInput, w.Trace.MaxOutput = 0.5, 300, 40
	requests, err := w.Requests()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if r.Words > 300 || r.OutputTokens > 40 || r.Words < 1 || r.OutputTokens < 1 {
			t.Errorf("%d words, %d tokens", r.Words, r.OutputTokens)
		}
	}
	at := make([]float64, len(requests))
	for i := range requests {
		at[i] = requests[i].At
	}
	if !slices.IsSorted(at) || math.Abs(at[199]-200/5.53) > 1e-6 {
		t.Errorf("200 requests come until %g s, want %g", at[199], 200/5.53)
	}
}

func TestWorkloadRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(*Workload)
		want   string
	}{
		{func(w *Workload) { w.Name = "sonnet" }, `"sonnet" is not known; known are random`},
		{func(w *Workload) { w.Name = "custom" }, "needs a file"},
		{func(w *Workload) { w.Path = "x" }, "reads no file"},
		{func(w *Workload) { w.Count = 0 }, "0 prompts"},
		{func(w *Workload) { w.Random.InputLen = 0 }, "input length is 0"},
		{func(w *Workload) { w.Random.OutputLen = 1 << 30 }, "output length is 1073741824"},
		{func(w *Workload) { w.Random.RangeRatio = 1 }, "range ratio is 1"},
		{func(w *Workload) { w.Random.RangeRatio = math.NaN() }, "range ratio is NaN"},
		{func(w *Workload) { w.Name, w.Prefix.Prefixes = "prefix_repetition", 9 }, "9 prefixes for 5 prompts"},
		{func(w *Workload) { w.Name, w.Prefix.SuffixLen = "prefix_repetition", -1 }, "suffix length is -1"},
		{func(w *Workload) { w.Name, w.Trace.Shape = "trace", "x" }, `shape "x" is not known; known are azure-code`},
		{func(w *Workload) { w.Name, w.Trace.Shrink = "trace", 2 }, "shrink factor is 2"},
		{func(w *Workload) { w.Name, w.Path = "sharegpt", "/no/such/file" }, "no such file"},
	} {
		w := base("random", 5)
		c.change(w)
		if _, err := w.Requests(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestWarmupsAreNew(t *testing.T) {
	w := base("random", 3)
	requests, _ := w.Requests()
	for i := range requests {
		warm := w.Warmup(i, &requests[i])
		if warm.Prompt == requests[i].Prompt || len(strings.Fields(warm.Prompt)) != requests[i].Words ||
			warm.OutputTokens != requests[i].OutputTokens {
			t.Errorf("warm-up %d: %+v", i, warm)
		}
	}
}

// inFile makes a workload that reads content.
func inFile(t *testing.T, name, content string, count int) *Workload {
	t.Helper()
	w := base(name, count)
	w.Path = filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(w.Path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

const shareGPTFile = `[
 {"id":"1","conversations":[{"from":"human","value":"one two three four five"},{"from":"gpt","value":"a b c d e f"}]},
 {"id":"2","conversations":[{"from":"human","value":"too short"},{"from":"gpt","value":"a b c d"}]},
 {"id":"3","conversations":[{"from":"human","value":"alone here and now"}]},
 {"id":"4","conversations":[{"from":"human","value":"six seven eight nine"},{"from":"gpt","value":"a b c d"},{"from":"human","value":"x"}]}
]`

func TestShareGPT(t *testing.T) {
	w := inFile(t, "sharegpt", shareGPTFile, 5)
	requests, err := w.Requests()
	if err != nil {
		t.Fatal(err)
	}
	lengths := map[string]string{}
	for _, r := range requests {
		lengths[r.Prompt] = fmt.Sprint(r.Words, r.OutputTokens)
	}
	if len(requests) != 5 || len(lengths) != 2 || lengths["one two three four five"] != "5 6" ||
		lengths["six seven eight nine"] != "4 4" {
		t.Errorf("%d requests: %v", len(requests), lengths)
	}
	if notes := w.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "2 usable requests of the 5") {
		t.Errorf("notes %q", notes)
	}
	w = inFile(t, "sharegpt", shareGPTFile, 2)
	w.FileOutputLen = 77
	if requests, err = w.Requests(); err != nil || requests[0].OutputTokens != 77 || len(w.Notes()) != 0 {
		t.Errorf("%v, %v, %v", requests, err, w.Notes())
	}
}

func TestCustom(t *testing.T) {
	w := inFile(t, "custom", `{"prompt":"a b c","output_tokens":4}`+"\n\n"+
		`{"messages":[{"role":"user","content":"hello"}],"output_tokens":5}`+"\n", 2)
	requests, err := w.Requests()
	if err != nil || requests[0].Prompt != "a b c" || requests[0].Words != 3 || requests[0].OutputTokens != 4 ||
		string(requests[1].Messages) != `[{"role":"user","content":"hello"}]` || requests[1].OutputTokens != 5 {
		t.Errorf("%+v, %v", requests, err)
	}
}

func TestTimedTrace(t *testing.T) {
	w := inFile(t, "timed_trace", `{"timestamp":0,"input_length":1030,"output_length":10,"hash_ids":[5,6,7]}
{"timestamp":1500,"input_length":600,"output_length":0,"hash_ids":[5,9]}
{"timestamp":3000,"input_length":3,"output_length":2,"hash_ids":[]}`, 2)
	w.Trace.MaxInput = 1000
	requests, err := w.Requests()
	if err != nil || len(requests) != 2 {
		t.Fatalf("%d requests, %v", len(requests), err)
	}
	if requests[0].Words != 1000 || requests[1].Words != 600 || requests[0].At != 0 || requests[1].At != 1.5 ||
		requests[1].OutputTokens != 1 {
		t.Errorf("%d words at %g, %d at %g", requests[0].Words, requests[0].At, requests[1].Words, requests[1].At)
	}
	a, b := strings.Fields(requests[0].Prompt), strings.Fields(requests[1].Prompt)
	if !slices.Equal(a[:512], b[:512]) || slices.Equal(a[512:600], b[512:600]) {
		t.Error("the texts do not follow the hash ids")
	}
}

func TestFilesRefused(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"sharegpt", `{"a":1}`, "must be an array"},
		{"sharegpt", `[{"conversations":3}]`, "conversation 0"},
		{"sharegpt", `[`, "closing bracket"},
		{"sharegpt", ``, "opening bracket"},
		{"sharegpt", `[]`, "no usable requests"},
		{"custom", `{"prompt":"a","output_tokens":3}` + "\n" + `{"prompt":"b"}`, `line 2: "output_tokens" is 0`},
		{"custom", `{"prompt":"b","messages":[],"output_tokens":3}`, `line 1: needs either`},
		{"custom", `{"output_tokens":3}`, `line 1: needs either`},
		{"custom", `text`, `line 1: invalid`},
		{"custom", strings.Repeat("x", maxLineBytes+1), `line 1: bufio`},
		{"timed_trace", `{"timestamp":5,"input_length":0,"output_length":1}`, `"input_length" is 0`},
		{"timed_trace", `{"timestamp":-5,"input_length":1,"output_length":1}`, `"timestamp" is -5`},
		{"timed_trace", `{"timestamp":5,"input_length":1,"output_length":1}` + "\n" +
			`{"timestamp":4,"input_length":1,"output_length":1}`, "line 2"},
		{"timed_trace", "\n", "no requests"},
	} {
		if _, err := inFile(t, c.name, c.content, 3).Requests(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.40q: %v, want %q", c.name, c.content, err, c.want)
		}
	}
}

// No file makes a request that cannot be sent.
func FuzzDataFiles(f *testing.F) {
	f.Add(shareGPTFile)
	f.Add(`{"prompt":"a b c","output_tokens":4}`)
	f.Add(`{"timestamp":0,"input_length":1030,"output_length":10,"hash_ids":[5,6,-7]}`)
	f.Fuzz(func(t *testing.T, content string) {
		w := base("timed_trace", 20)
		w.Trace.MaxInput = 600
		one, _ := readShareGPT(strings.NewReader(content), 0)
		two, _ := readCustom(strings.NewReader(content), 0)
		three, _ := w.readTimedTrace(strings.NewReader(content))
		for _, r := range slices.Concat(one, two, three) {
			if r.OutputTokens < 1 || r.OutputTokens > maxLen || r.Prompt == "" && len(r.Messages) == 0 || r.At < 0 {
				t.Fatalf("%+v", r)
			}
		}
	})
}
