// Package catalog lists models that a newcomer may begin with: names that weir pull knows, how large they are, and what they need in
// memory. The sizes are rounded; a test computes each again from the model's published shape and the types of its quantisation. A pull says
// what the file has now, and weir doctor what it needs.
package catalog

// Uses of models.
const (
	Chat       = "chat"
	Code       = "code"
	Embeddings = "embeddings"
)

// Model is one that weir runs.
type Model struct {
	Name  string // for weir pull: in Ollama's registry, or a repository of Hugging Face
	Title string
	Use   string
	About string // one sentence
	Bytes int64  // of the download

	kvBytes int64 // of one token of context, over the layers that keep all of it, at about a byte a number
}

// All are the models, the smallest first, those for embeddings last. The slice is the caller's.
func All() []Model {
	return []Model{
		{"qwen3:0.6b", "Qwen3 0.6B", Chat, "Thinks before it answers, in very little memory.", 523e6, kv(28, 8, 128)},
		{"hf.co/unsloth/Qwen3.5-0.8B-GGUF:Q4_K_M", "Qwen3.5 0.8B", Chat, "Answers quickly, and long contexts cost it little.", 533e6, kv(6, 2, 256)},
		{"hf.co/LiquidAI/LFM2-1.2B-GGUF:Q4_K_M", "LFM2 1.2B", Chat, "Short answers, and long contexts cost it little.", 731e6, kv(6, 8, 64)},
		{"gemma3:1b", "Gemma 3 1B", Chat, "Answers quickly in many languages.", 815e6, kv(4, 1, 256)},
		{"qwen2.5-coder:1.5b", "Qwen2.5 Coder 1.5B", Code, "Writes and completes code, calls tools.", 986e6, kv(28, 2, 128)},
		{"llama3.2:1b", "Llama 3.2 1B", Chat, "Short answers, at the exactness of 8 bits.", 1.3e9, kv(16, 8, 64)},
		{"qwen3:1.7b", "Qwen3 1.7B", Chat, "Thinks, calls tools.", 1.4e9, kv(28, 8, 128)},
		{"gemma2:2b", "Gemma 2 2B", Chat, "Good short answers in many languages.", 1.6e9, kv(13, 4, 256)},
		{"llama3.2:3b", "Llama 3.2 3B", Chat, "Good short answers, calls tools.", 2.0e9, kv(28, 8, 128)},
		{"granite4:micro", "Granite 4.0 Micro", Chat, "Calls tools, answers from documents.", 2.1e9, kv(40, 8, 64)},
		{"qwen3:4b", "Qwen3 4B", Chat, "Thinks well, calls tools: the best of those that small machines run.", 2.5e9, kv(36, 8, 128)},
		{"hf.co/unsloth/Qwen3.5-4B-GGUF:Q4_K_M", "Qwen3.5 4B", Chat, "Thinks well, calls tools, and long contexts cost it little.", 2.74e9, kv(8, 4, 256)},
		{"hf.co/nvidia/NVIDIA-Nemotron-3-Nano-4B-GGUF:Q4_K_M", "Nemotron 3 Nano 4B", Chat, "Thinks, calls tools, and long contexts cost it little.", 2.84e9, kv(4, 8, 128)},
		{"hf.co/unsloth/gemma-4-E2B-it-GGUF:Q4_K_M", "Gemma 4 E2B", Chat, "Good answers in many languages; half of the file is read by the row.", 3.11e9, kv(3, 1, 512)},
		{"gemma3:4b", "Gemma 3 4B", Chat, "Good answers in many languages.", 3.3e9, kv(6, 4, 256)},
		{"qwen2.5-coder:7b", "Qwen2.5 Coder 7B", Code, "Writes and completes code, calls tools.", 4.7e9, kv(28, 4, 128)},
		{"llama3.1:8b", "Llama 3.1 8B", Chat, "Good answers, calls tools.", 4.9e9, kv(32, 8, 128)},
		{"hf.co/unsloth/gemma-4-E4B-it-GGUF:Q4_K_M", "Gemma 4 E4B", Chat, "Good answers in many languages, thinks, calls tools.", 4.98e9, kv(4, 2, 512)},
		{"qwen3:8b", "Qwen3 8B", Chat, "Thinks well, calls tools.", 5.2e9, kv(36, 8, 128)},
		{"deepseek-r1:8b", "DeepSeek R1 8B", Chat, "Thinks long before it answers.", 5.2e9, kv(36, 8, 128)},
		{"hf.co/unsloth/Qwen3.5-9B-GGUF:Q4_K_M", "Qwen3.5 9B", Chat, "Thinks well, calls tools, and long contexts cost it little.", 5.68e9, kv(8, 4, 256)},
		{"gpt-oss:20b", "gpt-oss 20B", Chat, "Thinks and calls tools; computes with 3.6B of its parameters at a time.", 14e9, kv(12, 8, 64)},
		{"qwen3:30b", "Qwen3 30B-A3B", Chat, "Computes with 3B of its parameters at a time: as quick as a small model.", 19e9, kv(48, 4, 128)},
		{"qwen3-coder:30b", "Qwen3 Coder 30B-A3B", Code, "Writes code, calls tools; computes with 3B of its parameters at a time.", 19e9, kv(48, 4, 128)},
		{"nomic-embed-text", "Nomic Embed Text 1.5", Embeddings, "Vectors of English texts, for search.", 274e6, 0},
		{"embeddinggemma", "EmbeddingGemma 300M", Embeddings, "Vectors of texts in many languages.", 622e6, 0},
		{"mxbai-embed-large", "Mxbai Embed Large", Embeddings, "Vectors of English texts, more exact and slower.", 670e6, 0},
		{"bge-m3", "BGE M3", Embeddings, "Vectors of long texts in many languages.", 1.2e9, 0},
	}
}

// kv are the numbers that a token keeps: keys and values of some layers.
func kv(layers, heads, width int64) int64 { return 2 * layers * heads * width }

// NeedsBytes is about what the model takes with a context of so many tokens: its weights, that context once, and a tenth for what it
// computes with. weir doctor tells exactly, once the file is there.
func (m Model) NeedsBytes(context int64) int64 {
	return m.Bytes + m.Bytes/10 + m.kvBytes*context
}

// Command brings the model in and serves it.
func (m Model) Command() string { return "weir pull " + m.Name + " && weir serve " + m.Name }
