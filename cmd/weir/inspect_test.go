package main

import (
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/configs"
	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/engine/llm"
	"weir/internal/defaultmodel"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/internal/unit"
)

// strangeModel is a file that weir reads and cannot run, with metadata that
// neither JSON nor a terminal takes as they are.
func strangeModel(t *testing.T) string {
	t.Helper()
	var b gguf.Builder
	b.Set("general.architecture", "mamba")
	b.Set("strange.number", math.Inf(1))
	b.Set("strange.numbers", []float32{1, float32(math.NaN())})
	b.Set("strange.text", "red \x1b[31m text\a")
	b.TensorF32("weights\x1b[2J", []uint64{4}, []float32{1, 2, 3, 4})
	path := filepath.Join(t.TempDir(), "strange.gguf")
	if err := b.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInspectReportsWhatItCannotRun(t *testing.T) {
	var out, errs strings.Builder
	if status := execute([]string{"inspect", "--tensors", strangeModel(t)}, &out, &errs); status != exitOK {
		t.Fatalf("exit status %d: %s", status, errs.String())
	}
	for _, want := range []string{"strange\n", `runs  no: `, `architecture "mamba"`, "strange.number", "F32"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if strings.ContainsAny(out.String(), "\x1b\a") {
		t.Errorf("control characters of the file reach the terminal: %q", out.String())
	}
}

func TestInspectJSONHoldsEveryValue(t *testing.T) {
	var out, errs strings.Builder
	if status := execute([]string{"inspect", "--json", strangeModel(t)}, &out, &errs); status != exitOK {
		t.Fatalf("exit status %d: %s", status, errs.String())
	}
	var r report
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if r.Supported || !strings.Contains(r.WhyNot, "mamba") || len(r.Metadata) != 4 || len(r.Tensors) != 1 {
		t.Errorf("report %+v", r)
	}
	if r.Metadata[1].Value != "+Inf" || r.Metadata[2].Items != 2 {
		t.Errorf("numbers that JSON lacks: %+v", r.Metadata[1:3])
	}
}

func TestServeAndRunRefuseWhatTheyCannotRun(t *testing.T) {
	path := strangeModel(t)
	for _, args := range [][]string{
		{"serve", path, "--port", "0", "--admin-address", "off"},
		{"run", path},
	} {
		var out, errs strings.Builder
		if status := execute(args, &out, &errs); status != exitFailure {
			t.Errorf("%s: exit status %d, want %d", args[0], status, exitFailure)
		}
		if said := errs.String(); !strings.HasPrefix(said, "weir: load "+path+": ") || strings.Count(said, "\n") != 1 || out.Len() > 0 {
			t.Errorf("%s says %q and %q", args[0], said, out.String())
		}
	}
}

func TestInspectUsesTheChosenTemplate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chat.jinja")
	if err := os.WriteFile(path, []byte("{% for m in messages %}{{ m.content }}{% endfor %}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ choice, want string }{
		{path, "chats yes: with --chat-template " + path},
		{path + ".missing", "runs no: "},
	} {
		var out, errs strings.Builder
		if status := execute([]string{"inspect", "--chat-template", tc.choice}, &out, &errs); status != exitOK {
			t.Errorf("%s: exit status %d: %s", tc.choice, status, errs.String())
		}
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), tc.want) {
			t.Errorf("%s: no %q in %.600s", tc.choice, tc.want, out.String())
		}
	}
}

// TestInspectShowsFormsOfCallsAndThoughts: as the template shows them, or as they are named by hand.
func TestInspectShowsFormsOfCallsAndThoughts(t *testing.T) {
	for _, tc := range []struct{ flags, want string }{
		{"--chat-template chatml", "tool calls as generic"},
		{"--chat-template chatml --tool-call-parser glm45 --reasoning-parser mistral", `tool calls as glm4 thoughts between "[THINK]" and "[/THINK]"`},
		{"--tool-call-parser glm5", `runs no: --tool-call-parser and --reasoning-parser: no form of calls is called "glm5"; there are`},
	} {
		var out, errs strings.Builder
		if status := execute(append([]string{"inspect"}, strings.Fields(tc.flags)...), &out, &errs); status != exitOK {
			t.Errorf("%s: exit status %d: %s", tc.flags, status, errs.String())
		}
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), tc.want) {
			t.Errorf("%s: no %q in %.900s", tc.flags, tc.want, out.String())
		}
	}
}

// What early stopping chose is shown, also as JSON.
func TestInspectShowsEarlyStopping(t *testing.T) {
	file := servertest.StoppedEarly(t)
	const chosen = "early stopping chose the first 5 of 12 iterations"
	if _, out, errs := weir("inspect", file); !strings.Contains(out, "note") || !strings.Contains(out, chosen) {
		t.Errorf("inspect: %s%s", out, errs)
	}
	if _, out, errs := weir("inspect", file, "--json"); !strings.Contains(out, `"notes": [`) || !strings.Contains(out, chosen) {
		t.Errorf("inspect --json: %s%s", out, errs)
	}
}

func TestInspectKnowsClassicalModels(t *testing.T) {
	file := filepath.Join(t.TempDir(), "iris.json")
	model, _ := defaultmodel.Iris()
	if err := os.WriteFile(file, []byte(model), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := weir("inspect", file)
	for _, want := range []string{"xgboost json", "multi:softprob", "input FP32 [-1 4]", "output FP32 [-1 3]", "depth max"} {
		if status != exitOK || !strings.Contains(out, want) {
			t.Errorf("%d: no %q in\n%s%s", status, want, out, errs)
		}
	}
	status, out, errs = weir("inspect", "../../engine/onnx/testdata/columns_mlp.onnx", "--json")
	if status != exitOK || !strings.Contains(out, `"batches": true`) {
		t.Errorf("%d %s%s", status, out, errs)
	}
	if err := os.WriteFile(file, []byte("\x80\x04pickle"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := weir("inspect", file); status == exitOK || !strings.Contains(errs, "pickle") {
		t.Errorf("a pickle: %d %s", status, errs)
	}
}

func TestAnEncoderIsInspectedAndCannotChat(t *testing.T) {
	path := servertest.TinyEncoder(t, 0)
	c := configs.Default()
	c.Model.Path = path
	r, err := inspect(c)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Supported || !r.Engine.Embeds || r.Engine.Dimensions != 32 || r.Engine.Pooling != "mean" || r.Engine.KVBytes != 0 {
		t.Errorf("inspect says %+v (%s)", r.Engine, r.WhyNot)
	}
	err = run(c, runOptions{}, strings.NewReader("hello"), io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "/v1/embeddings") {
		t.Errorf("weir run of an encoder: %v", err)
	}
	d, err := diagnose(t.Context(), c, true, io.Discard)
	if err != nil || !d.Model.Runs {
		t.Errorf("doctor: %v, %+v", err, d)
	}
}

// As long as the cost of a q8_0 cache was not measured, inspect and doctor tell what one of f16 would hold, in tokens, where windows keep blocks
// of some layers only.
func TestReportsTellBothTypesOfACacheUntilItsCostIsKnown(t *testing.T) {
	f, err := gguf.Open(reference.Model(t, "gemma3"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	options := llm.Options{KVType: attend.KVAuto, KVBytes: 64 << 20, MaxModelLen: 2048}
	r, err := describeEngine(f, options)
	if err != nil || r.IfF16 == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	if share := float64(r.IfF16.Tokens) / float64(r.KVTokens); share < 0.45 || share > 0.6 || r.IfF16.Sequences != r.IfF16.Tokens/2048 {
		t.Errorf("f16 holds %+v, and q8_0 %d tokens", r.IfF16, r.KVTokens)
	}
	var rows []string
	r.printCache(func(cells ...string) { rows = append(rows, strings.Join(cells, ": ")) })
	if text := strings.Join(rows, "\n"); !strings.Contains(text, "with f16: ") || !strings.Contains(text, "kv cost: not measured") || strings.Contains(text, "blocks") {
		t.Errorf("the report says\n%s", text)
	}
	if n := r.info.Sequences(512); n < 2*r.Sequences || n > 4*r.Sequences {
		t.Errorf("%d sequences of 512 tokens, and %d of 2048", n, r.Sequences)
	}
	options.KVType = attend.KVQ8
	if r, err := describeEngine(f, options); err != nil || r.IfF16 != nil {
		t.Errorf("q8_0 was asked for: %+v, %v", r.IfF16, err)
	}
}

// Reports tell what a sequence takes of states, for how many there is room, and count them.
func TestReportsTellOfStates(t *testing.T) {
	f, err := gguf.Open("../../engine/llm/testdata/decoders/qwen3next.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := describeEngine(f, llm.Options{KVType: attend.KVF16, KVBytes: 1 << 20, MaxModelLen: 16})
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	r.printCache(func(cells ...string) { rows = append(rows, strings.Join(cells, ": ")) })
	text := strings.Join(rows, "\n")
	if r.StateBytes == 0 || r.States == 0 || !strings.Contains(text, "states: "+unit.Bytes(r.StateBytes)+" for a sequence of any length; room for ") {
		t.Errorf("%d bytes, %d slots, and the report says\n%s", r.StateBytes, r.States, text)
	}
	if r.Sequences > r.States/2 {
		t.Errorf("%d sequences with %d slots, of which each takes two", r.Sequences, r.States)
	}
}
