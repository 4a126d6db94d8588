package gguf

import (
	"slices"
	"strings"
)

// Ollama's registry has files of its own converter: names of keys and tensors differ from those of other GGUF files, some keys are left out,
// and the encoders of images and sounds lie in the same file. Open and Parse translate what belongs to texts, so that all else knows
// one form. (Ollama does the same since it runs llama.cpp; the differences are those of its llama-ollama-compat.cpp, 2026.)

// translate brings such a file into the form of others; other files stay as they are.
func translate(f *File) {
	d := dialect{f}
	arch, _, _ := f.String("general.architecture")
	switch {
	case arch == "gemma3" && d.hasTensor("dense.0.weight"):
		d.embeddingGemma()
	case arch == "gemma3" && d.isGemma3():
		d.gemma3()
	case arch == "gemma4":
		d.gemma4()
	default:
		return
	}
	d.reindex()
}

// dialect edits a file's header.
type dialect struct{ *File }

func (d dialect) hasTensor(name string) bool {
	_, ok := d.Tensor(name)
	return ok
}

func (d dialect) has(key string) bool {
	_, ok := d.Value(key)
	return ok
}

func (d dialect) anyTensor(prefixes ...string) bool {
	return slices.ContainsFunc(d.Tensors, func(t Tensor) bool { return beginsWith(t.Name, prefixes) })
}

func beginsWith(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// otherwise sets a key that the file leaves out.
func (d dialect) otherwise(key string, value any) {
	if !d.has(key) {
		d.KV = append(d.KV, KeyValue{Key: key, Value: value})
	}
}

// set sets a key.
func (d dialect) set(key string, value any) {
	if i, ok := d.keys[key]; ok {
		d.KV[i].Value = value
		return
	}
	d.KV = append(d.KV, KeyValue{Key: key, Value: value})
}

// keep gives a key that the file leaves out the value of another one.
func (d dialect) keep(key, other string) {
	if v, ok := d.Value(other); ok {
		d.otherwise(key, v)
	}
}

// prefix renames an architecture and its keys.
func (d dialect) prefix(from, to string) {
	d.set("general.architecture", to)
	for i := range d.KV {
		if rest, ok := strings.CutPrefix(d.KV[i].Key, from+"."); ok {
			d.KV[i].Key = to + "." + rest
		}
	}
}

// rename changes names of tensors.
func (d dialect) rename(pairs ...string) {
	r := strings.NewReplacer(pairs...)
	for i := range d.Tensors {
		d.Tensors[i].Name = r.Replace(d.Tensors[i].Name)
	}
}

// leaveOut drops the encoders of images and sounds. (No tensor of a language model begins so.)
func (d dialect) leaveOut() {
	d.Tensors = slices.DeleteFunc(d.Tensors, func(t Tensor) bool { return beginsWith(t.Name, towers) })
}

var towers = []string{"v.", "a.", "mm.", "model.vision_tower."}

func (d dialect) reindex() {
	f := d.File
	f.keys, f.tensors = make(map[string]int, len(f.KV)), make(map[string]int, len(f.Tensors))
	for i := range f.KV {
		f.keys[f.KV[i].Key] = i
	}
	for i := range f.Tensors {
		f.tensors[f.Tensors[i].Name] = i
	}
}

func (d dialect) isGemma3() bool {
	keys := []string{
		"gemma3.mm.tokens_per_image", "gemma3.rope.global.freq_base", "gemma3.rope.local.freq_base",
		"tokenizer.ggml.add_padding_token", "tokenizer.ggml.add_unknown_token",
	}
	return slices.ContainsFunc(keys, d.has) || d.anyTensor(towers...) || !d.has("gemma3.attention.layer_norm_rms_epsilon")
}

// gemma3: models with a context of 128k were stretched to it eightfold.
func (d dialect) gemma3() {
	d.keep("gemma3.rope.freq_base", "gemma3.rope.global.freq_base")
	d.keep("gemma3.rope.freq_base_swa", "gemma3.rope.local.freq_base")
	d.otherwise("gemma3.attention.layer_norm_rms_epsilon", float32(1e-6))
	d.reindex()
	d.otherwise("gemma3.rope.freq_base", float32(1e6))
	d.otherwise("gemma3.rope.freq_base_swa", float32(1e4))
	d.otherwise("tokenizer.ggml.add_space_prefix", false)
	d.otherwise("tokenizer.chat_template", gemma3Template)
	if n, ok, err := d.Uint("gemma3.context_length"); ok && err == nil && n >= 128<<10 && !d.has("gemma3.rope.scaling.type") {
		d.otherwise("gemma3.rope.scaling.type", "linear")
		d.otherwise("gemma3.rope.scaling.factor", float32(8))
	}
	d.cutVocabulary()
	d.leaveOut()
}

// gemma3Template writes Gemma 3's turns; the text of the system goes before the user's.
const gemma3Template = `{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}` +
	`{% if m.role == 'system' %}{% set ns.system = m.content | trim + '\n\n' %}{% else %}` +
	`{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + ns.system + m.content | trim + '<end_of_turn>\n' }}` +
	`{% set ns.system = '' %}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}`

// cutVocabulary drops tokens that have no embedding, those of images.
func (d dialect) cutVocabulary() {
	t, ok := d.Tensor("token_embd.weight")
	if !ok || len(t.Dims) != 2 {
		return
	}
	rows := t.Dims[1]
	for _, key := range []string{"tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type"} {
		i, ok := d.keys[key]
		if !ok {
			continue
		}
		switch v := d.KV[i].Value.(type) {
		case []string:
			d.KV[i].Value = v[:min(uint64(len(v)), rows)]
		case []float32:
			d.KV[i].Value = v[:min(uint64(len(v)), rows)]
		case []int32:
			d.KV[i].Value = v[:min(uint64(len(v)), rows)]
		case []uint32:
			d.KV[i].Value = v[:min(uint64(len(v)), rows)]
		}
	}
}

// embeddingGemma is stored as gemma3 with two matrices behind it.
func (d dialect) embeddingGemma() {
	d.gemma3()
	d.KV = slices.DeleteFunc(d.KV, func(kv KeyValue) bool {
		return kv.Key == "gemma3.attention.causal" || kv.Key == "gemma3.attention.sliding_window_pattern" || kv.Key == "tokenizer.chat_template"
	})
	d.reindex()
	d.prefix("gemma3", "gemma-embedding")
	d.reindex()
	d.otherwise("gemma-embedding.pooling_type", uint32(1))
	for i := range d.Tensors {
		switch t := &d.Tensors[i]; t.Name {
		case "dense.0.weight":
			t.Name = "dense_2.weight"
		case "dense.1.weight":
			t.Name = "dense_3.weight"
		case "norm.weight":
			t.Name = "output_norm.weight"
		}
	}
}

// gemma4 names its tokenizer SentencePiece's, which has no merges.
func (d dialect) gemma4() {
	if model, _, _ := d.String("tokenizer.ggml.model"); model == "llama" && d.has("tokenizer.ggml.merges") {
		d.set("tokenizer.ggml.model", "gemma4")
	}
	d.rename(".ffn_gate_inp.per_expert_scale", ".ffn_down_exps.scale")
	d.leaveOut()
}
