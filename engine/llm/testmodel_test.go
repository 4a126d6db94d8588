package llm

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/recurrence"
	"weir/engine/kernel/vector"
	"weir/engine/kernel/weight"
	"weir/internal/reference"
)

// tiny is the shape of a random model for tests: no text sense, all the
// mechanics. Edit changes the builder before the file is made.
type tiny struct {
	arch  string
	typ   gguf.Type // of the matrices: F32, F16 or Q8_0
	seed  uint64
	tied  bool
	bias  bool
	norms bool // per-head norms
	post  bool // norms of what branches add
	edit  func(b *gguf.Builder)

	context int // 0 is tinyContext
	layers  int // 0 is tinyLayers
	headDim int // 0 is tinyHeadDim
	vocab   int // 0 is tinyVocab

	experts  int  // networks are mixtures of so many, two for each row; 0: they are not
	together bool // gates and ups of experts lie in one tensor

	hybrid recurrence.Kind // every other layer is recurrent, the first one, too
	joined bool            // all layers are, and have attention beside
	sole   bool            // layers are one part alone: recurrence, attention, recurrence, a network, and so on

	loud float32 // by which queries and keys are larger; 0 is 1

	mtp  bool // an MTP head is behind the layers
	sure bool // each token has one that nearly always follows it, and the head knows which
}

const (
	tinyLayers, tinyWidth, tinyHeads, tinyKVHeads, tinyHeadDim = 2, 64, 4, 2, 32
	tinyFFN, tinyVocab, tinyContext                            = 96, 80, 256
)

// built are the files of models without an edit, which cannot be compared.
var built sync.Map // of []byte by the model as text

// build returns the model's file.
func (m tiny) build(t testing.TB) []byte {
	t.Helper()
	if m.edit != nil {
		return m.make(t)
	}
	raw, ok := built.Load(fmt.Sprintf("%+v", m))
	if !ok {
		raw, _ = built.LoadOrStore(fmt.Sprintf("%+v", m), m.make(t))
	}
	return slices.Clone(raw.([]byte)) //nolint:forcetypeassert // as stored
}

func (m tiny) make(t testing.TB) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(m.seed, 99))
	b, headDim := &gguf.Builder{}, cmp.Or(m.headDim, tinyHeadDim)
	set := func(key string, v any) { b.Set(m.arch+"."+key, v) }
	b.Set("general.architecture", m.arch)
	b.Set("general.name", "tiny "+m.arch)
	layers := cmp.Or(m.layers, tinyLayers)
	blocks := layers
	if m.mtp {
		blocks++
		set("nextn_predict_layers", uint32(1))
	}
	set("block_count", uint32(blocks))
	set("embedding_length", uint32(tinyWidth))
	set("attention.head_count", uint32(tinyHeads))
	set("attention.head_count_kv", uint32(tinyKVHeads))
	set("attention.key_length", uint32(headDim))
	set("attention.value_length", uint32(headDim))
	set("feed_forward_length", uint32(tinyFFN))
	set("context_length", uint32(cmp.Or(m.context, tinyContext)))
	set("attention.layer_norm_rms_epsilon", float32(1e-5))
	var embedding []float32
	matrix := func(name string, rows, cols int) {
		v := make([]float32, rows*cols)
		for i := range v {
			v[i] = float32(r.NormFloat64() / math.Sqrt(float64(cols)) * 1.5)
			if strings.Contains(name, "attn_q.") || strings.Contains(name, "attn_k.") {
				v[i] *= cmp.Or(m.loud, 1)
			}
		}
		if m.sure {
			v = sureMatrix(name, v, embedding)
		}
		if name == "token_embd.weight" {
			embedding = v
		}
		b.Tensor(name, []uint64{uint64(cols), uint64(rows)}, m.typ, encodeAs(t, m.typ, v))
	}
	vector := func(name string, n int, mean, spread float64) {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(mean + spread*r.NormFloat64())
		}
		b.TensorF32(name, []uint64{uint64(n)}, v)
	}
	vocab := cmp.Or(m.vocab, tinyVocab)
	matrix("token_embd.weight", vocab, tinyWidth)
	if m.hybrid == recurrence.Convolution {
		vector("token_embd_norm.weight", tinyWidth, 1, 0.2)
	} else {
		vector("output_norm.weight", tinyWidth, 1, 0.2)
	}
	if !m.tied {
		matrix("output.weight", vocab, tinyWidth)
	}
	q, kv := tinyHeads*headDim, tinyKVHeads*headDim
	if m.hybrid != recurrence.None {
		m.hybridKeys(set, layers)
	}
	for i := range blocks {
		at := fmt.Sprintf("blk.%d.", i)
		vector(at+"attn_norm.weight", tinyWidth, 1, 0.2)
		recurrent, network := m.hybrid != recurrence.None && i < layers && (i%2 == 0 || m.joined), !m.sole || i%4 == 3
		if !m.sole {
			vector(at+"ffn_norm.weight", tinyWidth, 1, 0.2)
		}
		if recurrent {
			m.recurrent(b, at, matrix, vector)
		}
		if m.joined || !recurrent && (!m.sole || !network) {
			rows := q
			if m.hybrid == recurrence.Delta {
				rows *= 2
			}
			matrix(at+"attn_q.weight", rows, tinyWidth)
			matrix(at+"attn_k.weight", kv, tinyWidth)
			matrix(at+"attn_v.weight", kv, tinyWidth)
			matrix(at+"attn_output.weight", tinyWidth, q)
		}
		switch {
		case !network:
		case m.experts > 0:
			m.mixture(t, r, b, at)
		default:
			if !m.sole {
				matrix(at+"ffn_gate.weight", tinyFFN, tinyWidth)
			}
			matrix(at+"ffn_up.weight", tinyFFN, tinyWidth)
			matrix(at+"ffn_down.weight", tinyWidth, tinyFFN)
		}
		if m.bias {
			vector(at+"attn_q.bias", q, 0, 0.3)
			vector(at+"attn_k.bias", kv, 0, 0.3)
			vector(at+"attn_v.bias", kv, 0, 0.3)
		}
		if m.post {
			vector(at+"post_attention_norm.weight", tinyWidth, 1, 0.2)
			vector(at+"post_ffw_norm.weight", tinyWidth, 1, 0.2)
		}
		if m.norms && !recurrent {
			vector(at+"attn_q_norm.weight", headDim, 1, 0.2)
			vector(at+"attn_k_norm.weight", headDim, 1, 0.2)
		}
	}
	if at := fmt.Sprintf("blk.%d.nextn.", layers); m.mtp {
		matrix(at+"eh_proj.weight", tinyWidth, 2*tinyWidth)
		for _, name := range []string{"enorm", "hnorm", "shared_head_norm"} {
			vector(at+name+".weight", tinyWidth, 1, 0.2)
		}
	}
	if m.edit != nil {
		m.edit(b)
	}
	raw, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// sureMatrix is a matrix of a model whose layers change nothing, so that a token alone tells the next one, and whose head goes by that token.
func sureMatrix(name string, v, embedding []float32) []float32 {
	switch {
	case name == "output.weight": // row t+1 is the embedding of t
		for i := range v {
			v[i] = 0.6 * embedding[(i+len(v)-tinyWidth)%len(v)]
		}
	case strings.HasSuffix(name, "eh_proj.weight"):
		for i := range v {
			v[i] = 0
			if i%(2*tinyWidth) == i/(2*tinyWidth) {
				v[i] = 1
			}
		}
	case strings.HasSuffix(name, "attn_output.weight"), strings.HasSuffix(name, "ffn_down.weight"), strings.HasSuffix(name, "ssm_out.weight"):
		clear(v)
	}
	return v
}

// Sizes of recurrent layers.
const (
	tinyTaps, tinyStateHeads, tinyStateGroups, tinyStateDim, tinyValueDim = 4, 4, 2, 32, 32
	tinyInner, tinyChannels                                               = tinyStateHeads * tinyValueDim, tinyInner + 2*tinyStateGroups*tinyStateDim
)

// hybridKeys sets what files say of recurrent layers.
func (m tiny) hybridKeys(set func(key string, v any), layers int) {
	heads, networks := make([]int32, layers), make([]int32, layers)
	for i := range heads {
		if m.sole && i%4 == 3 {
			networks[i] = tinyFFN
		} else {
			heads[i] = int32(i % 2 * tinyKVHeads)
		}
	}
	switch {
	case m.hybrid == recurrence.Delta:
		set("full_attention_interval", uint32(2))
	case !m.joined:
		set("attention.head_count_kv", heads)
	}
	if m.sole {
		set("feed_forward_length", networks)
	}
	if m.hybrid == recurrence.Convolution {
		set("shortconv.l_cache", uint32(tinyTaps))
		return
	}
	set("ssm.conv_kernel", uint32(tinyTaps))
	set("ssm.state_size", uint32(tinyStateDim))
	set("ssm.group_count", uint32(tinyStateGroups))
	set("ssm.time_step_rank", uint32(tinyStateHeads))
	set("ssm.inner_size", uint32(tinyInner))
}

// recurrent adds the tensors of a recurrent layer.
func (m tiny) recurrent(b *gguf.Builder, at string, matrix func(name string, rows, cols int), vector func(name string, n int, mean, spread float64)) {
	r := rand.New(rand.NewPCG(m.seed, uint64(len(at))))
	table := func(name string, mean, spread float64, dims ...uint64) {
		v := make([]float32, dims[0]*dims[1])
		for i := range v {
			v[i] = float32(mean + spread*r.NormFloat64())
		}
		b.TensorF32(at+name, dims, v)
	}
	switch m.hybrid {
	case recurrence.Convolution:
		matrix(at+"shortconv.in_proj.weight", 3*tinyWidth, tinyWidth)
		table("shortconv.conv.weight", 0, 0.5, tinyTaps, tinyWidth)
		matrix(at+"shortconv.out_proj.weight", tinyWidth, tinyWidth)
		return
	case recurrence.Delta:
		matrix(at+"attn_qkv.weight", tinyChannels, tinyWidth)
		matrix(at+"attn_gate.weight", tinyInner, tinyWidth)
		if m.arch == "qwen3next" {
			matrix(at+"ssm_ba.weight", 2*tinyStateHeads, tinyWidth)
		} else {
			matrix(at+"ssm_beta.weight", tinyStateHeads, tinyWidth)
			matrix(at+"ssm_alpha.weight", tinyStateHeads, tinyWidth)
		}
		vector(at+"ssm_a", tinyStateHeads, -1, 0.2)
		vector(at+"ssm_norm.weight", tinyValueDim, 1, 0.2)
	default:
		matrix(at+"ssm_in.weight", tinyInner+tinyChannels+tinyStateHeads, tinyWidth)
		table("ssm_a", -1, 0.2, 1, tinyStateHeads)
		table("ssm_d", 1, 0.2, 1, tinyStateHeads)
		table("ssm_norm.weight", 1, 0.2, tinyInner/tinyStateGroups, tinyStateGroups)
		vector(at+"ssm_conv1d.bias", tinyChannels, 0, 0.2)
	}
	table("ssm_conv1d.weight", 0, 0.5, tinyTaps, tinyChannels)
	vector(at+"ssm_dt.bias", tinyStateHeads, 0, 0.5)
	matrix(at+"ssm_out.weight", tinyWidth, tinyInner)
}

// mixture adds the tensors of a layer's experts.
func (m tiny) mixture(t testing.TB, r *rand.Rand, b *gguf.Builder, at string) {
	t.Helper()
	b.Set(m.arch+".expert_count", uint32(m.experts))
	b.Set(m.arch+".expert_used_count", uint32(2))
	values := func(n int, spread float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(spread * r.NormFloat64())
		}
		return v
	}
	n, gates := uint64(m.experts), []float32(nil)
	b.TensorF32(at+"ffn_gate_inp.weight", []uint64{tinyWidth, n}, values(m.experts*tinyWidth, 0.2))
	for _, part := range []struct {
		name       string
		rows, cols int
	}{{"gate", tinyFFN, tinyWidth}, {"up", tinyFFN, tinyWidth}, {"down", tinyWidth, tinyFFN}} {
		v, name, rows := values(m.experts*part.rows*part.cols, 1.5/math.Sqrt(float64(part.cols))), part.name, part.rows
		switch {
		case m.together && name == "gate":
			gates = v
			continue
		case m.together && name == "up":
			var both []float32
			for size := rows * part.cols; len(gates) > 0; gates, v = gates[size:], v[size:] {
				both = append(append(both, gates[:size]...), v[:size]...)
			}
			v, name, rows = both, "gate_up", 2*rows
		}
		b.Tensor(at+"ffn_"+name+"_exps.weight", []uint64{uint64(part.cols), uint64(rows), n}, m.typ, encodeAs(t, m.typ, v))
		if m.bias {
			b.TensorF32(at+"ffn_"+part.name+"_exps.bias", []uint64{uint64(part.rows), n}, values(m.experts*part.rows, 0.3))
		}
	}
	if m.bias {
		b.TensorF32(at+"ffn_gate_inp.bias", []uint64{n}, values(m.experts, 0.3))
		b.TensorF32(at+"attn_output.bias", []uint64{tinyWidth}, values(tinyWidth, 0.3))
		b.TensorF32(at+"attn_sinks.weight", []uint64{tinyHeads}, values(tinyHeads, 1))
	}
}

// file parses the built model.
func (m tiny) file(t testing.TB) *gguf.File {
	t.Helper()
	return parse(t, m.build(t))
}

func parse(t testing.TB, raw []byte) *gguf.File {
	t.Helper()
	f, err := gguf.Parse(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// families are one tiny model per architecture.
var families = []tiny{
	{arch: "llama", typ: gguf.TypeF32, seed: 1},
	{arch: "llama", typ: gguf.TypeQ8_0, seed: 2, tied: true},
	{arch: "qwen2", typ: gguf.TypeF16, seed: 3, bias: true, tied: true},
	{arch: "qwen3", typ: gguf.TypeF32, seed: 4, norms: true},
	{arch: "smollm3", typ: gguf.TypeF16, seed: 5, layers: 5}, // one of them without positions
	{arch: "mistral3", typ: gguf.TypeQ8_0, seed: 6, edit: func(b *gguf.Builder) {
		b.Set("mistral3.attention.temperature_scale", float32(0.3))
		b.Set("mistral3.rope.scaling.original_context_length", uint32(16))
	}},
	{arch: "granite", typ: gguf.TypeQ8_0, seed: 8, tied: true, edit: func(b *gguf.Builder) {
		b.Set("granite.embedding_scale", float32(3))
		b.Set("granite.residual_scale", float32(0.3))
		b.Set("granite.logit_scale", float32(2))
	}},
	{arch: "gemma", typ: gguf.TypeF16, seed: 9, tied: true},
	{arch: "qwen3vl", typ: gguf.TypeF32, seed: 10, norms: true},
	{arch: "hunyuan-dense", typ: gguf.TypeF16, seed: 11, norms: true},
	{arch: "phi3", typ: gguf.TypeF16, seed: 7, tied: true, edit: func(b *gguf.Builder) { b.Set("phi3.rope.dimension_count", uint32(24)) }},
	{arch: "gemma2", typ: gguf.TypeF32, seed: 8, layers: 3, tied: true, post: true, edit: windowOf("gemma2", 12)},
	{arch: "gemma3", typ: gguf.TypeQ8_0, seed: 9, layers: 7, tied: true, norms: true, post: true, edit: windowOf("gemma3", 21)}, // two of them without a window
	{arch: "gemma4", typ: gguf.TypeQ8_0, seed: 12, layers: 3, tied: true, norms: true, post: true, edit: layersWithInputs},
	{arch: "qwen3moe", typ: gguf.TypeQ8_0, seed: 12, norms: true, experts: 5},
	{arch: "qwen35", typ: gguf.TypeQ8_0, seed: 14, layers: 4, norms: true, hybrid: recurrence.Delta},
	{arch: "lfm2", typ: gguf.TypeF16, seed: 15, layers: 3, tied: true, norms: true, hybrid: recurrence.Convolution},
	{arch: "granitehybrid", typ: gguf.TypeF32, seed: 16, layers: 3, tied: true, hybrid: recurrence.Scan},
	{arch: "gpt-oss", typ: gguf.TypeQ8_0, seed: 13, bias: true, experts: 6, edit: windowOf("gpt-oss", 20)},
}

// furtherHybrids differ from those of families in what their layers have beside a state.
var furtherHybrids = []tiny{
	{arch: "nemotron_h", typ: gguf.TypeF16, seed: 17, layers: 7, hybrid: recurrence.Scan, sole: true},
	{arch: "qwen3next", typ: gguf.TypeQ8_0, seed: 18, layers: 3, norms: true, experts: 5, hybrid: recurrence.Delta},
	{arch: "falcon-h1", typ: gguf.TypeQ8_0, seed: 19, layers: 2, hybrid: recurrence.Scan, joined: true},
}

// differingFamilies are all families; in a short run four whose steps differ: dense layers of floats and of blocks, windows with inputs of
// their own, and windows with experts. What runs at the same time is the same in all of them: the race detector sees one.
func differingFamilies() []tiny {
	if reference.Raced {
		return families[1:2]
	}
	if !testing.Short() {
		return families
	}
	some := families[:2:2]
	for _, f := range families {
		if f.arch == "gemma4" || f.arch == "gpt-oss" {
			some = append(some, f)
		}
	}
	return some
}

// layersWithInputs gives three layers of Gemma 4 an input of their own, and two of them a window.
func layersWithInputs(b *gguf.Builder) {
	const width, layers = 8, 3
	r := rand.New(rand.NewPCG(5, 12))
	add := func(name string, mean, spread float64, dims ...uint64) {
		n := uint64(1)
		for _, d := range dims {
			n *= d
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(mean + spread*r.NormFloat64())
		}
		b.TensorF32(name, dims, v)
	}
	b.Set("gemma4.attention.sliding_window", uint32(12))
	b.Set("gemma4.attention.sliding_window_pattern", []bool{true, false, true})
	b.Set("gemma4.embedding_length_per_layer_input", uint32(width))
	add("rope_freqs.weight", 1, 0, tinyHeadDim/2)
	add("per_layer_model_proj.weight", 0, 0.2, tinyWidth, layers*width)
	add("per_layer_proj_norm.weight", 1, 0.2, width)
	add("per_layer_token_embd.weight", 0, 0.5, layers*width, tinyVocab)
	for i := range layers {
		at := fmt.Sprintf("blk.%d.", i)
		add(at+"inp_gate.weight", 0, 0.2, tinyWidth, width)
		add(at+"proj.weight", 0, 0.5, width, tinyWidth)
		add(at+"post_norm.weight", 1, 0.2, tinyWidth)
		add(at+"layer_output_scale.weight", 0.7, 0.1, 1)
	}
}

// windowOf gives a model's layers a window of so many rows.
func windowOf(arch string, rows uint32) func(b *gguf.Builder) {
	return func(b *gguf.Builder) { b.Set(arch+".attention.sliding_window", rows) }
}

func encodeAs(t testing.TB, typ gguf.Type, v []float32) []byte {
	var out []byte
	switch typ {
	case gguf.TypeF32:
		for _, f := range v {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(f))
		}
	case gguf.TypeF16:
		for _, f := range v {
			out = binary.LittleEndian.AppendUint16(out, vector.F32ToF16(f))
		}
	case gguf.TypeBF16:
		out = weight.AppendBF16(nil, v)
	case gguf.TypeQ8_0:
		out = make([]byte, len(v)/32*34)
		weight.QuantizeQ8_0(out, v)
	default:
		t.Fatalf("no encoder for %v", typ)
	}
	return out
}

// shortAt tells whether a test is short at a level: what is the same code at all levels is tested in full at the machine's best, and at the
// others in long runs. The portable kernels take about ten times as long as the others.
func shortAt(level isa.Level) bool {
	return testing.Short() || level != isa.Best() && !reference.Long()
}

// levels are the instruction sets that a test runs on: all, and in short runs the best one, since the race detector sees no assembly
// and the portable kernels have a run of their own.
func levels() []isa.Level {
	all := isa.Levels()
	if testing.Short() {
		return all[len(all)-1:]
	}
	return all
}
