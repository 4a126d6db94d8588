package configs

// Engine sizes the memory and the threads of a loaded model.
type Engine struct {
	Threads       int    // 0 takes every core the process may use, less a fraction of a quota
	CPULevel      string // one of CPULevels
	BlockTokens   int    // tokens per KV block, a multiple of 16
	Fine          bool   // what rounding takes from activations is multiplied, too
	EncoderDType  string // one of EncoderDTypes
	KVType        string // one of KVTypes
	KVMemoryBytes int64  // 0 takes a share of the free memory
	CheckTensors  bool   // refuse weights that are not finite
	DraftPath     string // a GGUF file of a model that proposes draft tokens; empty: none
	MTP           bool   // the model's own MTP head proposes draft tokens
	Speculate     bool   // speculative decoding for requests that do not set speculative_ngram

	PrefixCacheKey string // what block hashes are rooted in, beside the model; empty: random
}

// KVTypes are the values of Engine.KVType; auto is q8_0 where the heads allow it, else f16; f32 is for reference runs.
var KVTypes = []string{"auto", "f16", "q8_0", "q4_0", "f32"}

// EncoderDTypes are the values of Engine.EncoderDType.
var EncoderDTypes = []string{"auto", "float32", "bfloat16"}

// CPULevels are the values of Engine.CPULevel; auto is the best of the machine.
var CPULevels = []string{"auto", "avx512", "avx2", "portable"}

// engineSettings are those of what computes it.
func engineSettings(e *Engine) []Setting {
	return []Setting{
		{Key: "engine.threads", Flag: "threads",
			Usage:   "compute threads; 0 takes every core that affinity and the cgroup's quota allow",
			binding: bindInt(&e.Threads, 0, 1024, "")},
		{Key: "engine.cpu_level", Flag: "cpu-level",
			Usage:   "instruction set of the kernels; auto is the best that the machine has",
			binding: bindChoice(&e.CPULevel, CPULevels)},
		{Key: "engine.fine_activations", Flag: "fine-activations",
			Usage:   "correct the rounding of activations: answers are those of the exact weights, and prompts take nearly twice as long",
			binding: bindBool(&e.Fine)},
		{Key: "engine.encoder_dtype", Flag: "encoder-dtype",
			Usage: "what text encoders multiply float matrices in: bfloat16 takes half the time of float32 on processors with " +
				"AVX512_BF16 and keeps a cosine of 0.9999, elsewhere it is float32; auto is bfloat16 for BF16 files alone",
			binding: bindChoice(&e.EncoderDType, EncoderDTypes)},
		{Key: "engine.block_size", Flag: "block-size", Usage: "tokens per block of the KV cache",
			binding: bindMultiple(&e.BlockTokens, 16, 256)},
		{Key: "engine.kv_cache_dtype", Flag: "kv-cache-dtype",
			Usage:   "type of the KV cache; auto is q8_0 where the model's heads allow it and answers stay near those with f16, else f16, which takes twice the memory; q4_0 takes half of q8_0's and costs answers, f32 is for reference runs",
			binding: bindChoice(&e.KVType, KVTypes)},
		{Key: "engine.kv_cache_memory_bytes", Flag: "kv-cache-memory-bytes",
			Usage:   "memory of the KV cache, states of recurrent layers and draft models' caches included; 0 derives it from the memory that is free",
			binding: bindBytes(&e.KVMemoryBytes, "")},
		{Key: "engine.check_tensors", Flag: "check-tensors",
			Usage:   "read every weight once and refuse values that are not finite",
			binding: bindBool(&e.CheckTensors)},
		{Key: "engine.speculative_ngram", Flag: "speculative-ngram",
			Usage: "propose draft tokens by n-gram lookup in the prompt and output, for requests that do not set " +
				"speculative_ngram",
			binding: bindBool(&e.Speculate)},
		{Key: "engine.speculative_model", Flag: "speculative-model",
			Usage: "GGUF file of a small model with the same vocabulary that proposes draft tokens where n-gram lookup finds none; the answers " +
				"stay the same, and it is asked only where that saves time",
			binding: bindText(&e.DraftPath, "a path", anyText)},
		{Key: "engine.speculative_mtp", Flag: "speculative-mtp",
			Usage: "the model's own MTP head proposes draft tokens where n-gram lookup finds none, of files that have one " +
				"(nextn_predict_layers); the answers stay the same, and it is asked only where that saves time",
			binding: bindBool(&e.MTP)},
		{Key: "engine.prefix_cache_key", Flag: "prefix-cache-key", Secret: true,
			Usage: "secret that all replicas of a model share, so that they hash KV blocks alike; empty is a random one " +
				"for each process",
			binding: bindText(&e.PrefixCacheKey,
				"a key of at least 16 bytes, best from the environment or the file, or nothing", isPrefixCacheKey)},
	}
}

func isPrefixCacheKey(s string) bool { return s == "" || len(s) >= 16 }
