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
	Name  string // for weir pull, in Ollama's registry
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
		{"gemma3:1b", "Gemma 3 1B", Chat, "Answers quickly in many languages.", 815e6, kv(4, 1, 256)},
		{"qwen2.5-coder:1.5b", "Qwen2.5 Coder 1.5B", Code, "Writes and completes code, calls tools.", 986e6, kv(28, 2, 128)},
		{"llama3.2:1b", "Llama 3.2 1B", Chat, "Short answers, at the exactness of 8 bits.", 1.3e9, kv(16, 8, 64)},
		{"qwen3:1.7b", "Qwen3 1.7B", Chat, "Thinks, calls tools.", 1.4e9, kv(28, 8, 128)},
		{"llama3.2:3b", "Llama 3.2 3B", Chat, "Good short answers, calls tools.", 2.0e9, kv(28, 8, 128)},
		{"qwen3:4b", "Qwen3 4B", Chat, "Thinks well, calls tools: the best of those that small machines run.", 2.5e9, kv(36, 8, 128)},
		{"gemma3:4b", "Gemma 3 4B", Chat, "Good answers in many languages.", 3.3e9, kv(6, 4, 256)},
		{"qwen2.5-coder:7b", "Qwen2.5 Coder 7B", Code, "Writes and completes code, calls tools.", 4.7e9, kv(28, 4, 128)},
		{"qwen3:8b", "Qwen3 8B", Chat, "Thinks well, calls tools.", 5.2e9, kv(36, 8, 128)},
		{"gpt-oss:20b", "gpt-oss 20B", Chat, "Thinks and calls tools; computes with 3.6B of its parameters at a time.", 14e9, kv(12, 8, 64)},
		{"qwen3:30b", "Qwen3 30B-A3B", Chat, "Computes with 3B of its parameters at a time: as quick as a small model.", 19e9, kv(48, 4, 128)},
		{"nomic-embed-text", "Nomic Embed Text 1.5", Embeddings, "Vectors of English texts, for search.", 274e6, 0},
		{"embeddinggemma", "EmbeddingGemma 300M", Embeddings, "Vectors of texts in many languages.", 622e6, 0},
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
