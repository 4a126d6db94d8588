package catalog_test

import (
	"maps"
	"math"
	"testing"

	"weir/router/registry/catalog"
)

// shape is what a model's published configuration (config.json) says of it.
type shape struct {
	layers, width, forward    float64 // forward: the inner width of a feed-forward, of an expert where there are some
	heads, kvHeads, headWidth float64
	vocabulary                float64
	experts                   float64 // of a layer; 0 is one feed-forward
	apart                     bool    // the output matrix is stored beside the embeddings
	bits                      bits
	more                      float64 // bytes of what is in the file, too: the encoder of images
}

// bits are those of a number, by what it is of.
type bits struct{ most, values, input, output float64 }

// Q4_K_M, as converters mix it: 4.5 bits, for half of the values' and down projections and for what gives logits 6.5625.
var (
	q4km  = bits{4.5, (4.5 + 6.5625) / 2, 4.5, 6.5625}
	q8    = bits{8.5, 8.5, 8.5, 8.5}
	half  = bits{16, 16, 16, 16}
	q40   = bits{4.5, 4.5, 4.5, 6.5625}
	mxfp4 = bits{4.25, 4.25, 16, 16}
)

// bytes is how large the file of a model is.
func (s shape) bytes() float64 {
	attention := s.width * s.headWidth * (2*s.heads + s.kvHeads) // queries, output, keys
	feeds := max(s.experts, 1)
	layer := (attention+2*s.width*s.forward*feeds)*s.bits.most + (s.width*s.headWidth*s.kvHeads+s.width*s.forward*feeds)*s.bits.values
	layer += s.width * s.experts * 32 // the router
	table := s.vocabulary * s.width * s.bits.output
	if s.apart {
		table += s.vocabulary * s.width * s.bits.input
	}
	return (s.layers*layer+table)/8 + s.more
}

// deltaNet is what the layers of Qwen3.5 have more than attention of heads 256 wide: gates of the full ones, and three of four are gated
// delta nets, with 16 key heads and so many value heads 128 wide.
func deltaNet(layers, width, heads, kvHeads, valueHeads float64) float64 {
	attention := width * 256 * (2*heads + 2*kvHeads)
	net := width * 128 * (2*16 + 3*valueHeads)
	return (layers*3/4*(net-attention) + layers/4*width*256*heads) * 4.5 / 8
}

// The sizes of the catalog are those that follow from the models' shapes, within a tenth.
func TestSizesFollowFromShapes(t *testing.T) {
	shapes := map[string]shape{
		"qwen3:0.6b":         {28, 1024, 3072, 16, 8, 128, 151936, 0, true, q4km, 0},
		"gemma3:1b":          {26, 1152, 6912, 4, 1, 256, 262144, 0, false, bits{5.5, 6.8, 8.5, 8.5}, 0}, // its width is no multiple of 256: other types stand in
		"qwen2.5-coder:1.5b": {28, 1536, 8960, 12, 2, 128, 151936, 0, false, q4km, 0},
		"llama3.2:1b":        {16, 2048, 8192, 32, 8, 64, 128256, 0, false, q8, 0},
		"qwen3:1.7b":         {28, 2048, 6144, 16, 8, 128, 151936, 0, true, q4km, 0},
		"llama3.2:3b":        {28, 3072, 8192, 24, 8, 128, 128256, 0, false, q4km, 0},
		"qwen3:4b":           {36, 2560, 9728, 32, 8, 128, 151936, 0, false, q4km, 0},
		"gemma3:4b":          {34, 2560, 10240, 8, 4, 256, 262208, 0, false, q4km, 851e6},
		"qwen2.5-coder:7b":   {28, 3584, 18944, 28, 4, 128, 152064, 0, true, q4km, 0},
		"qwen3:8b":           {36, 4096, 12288, 32, 8, 128, 151936, 0, true, q4km, 0},
		"gpt-oss:20b":        {24, 2880, 2880, 64, 8, 64, 201088, 32, true, mxfp4, 24 * 2880 * 64 * (2*64 + 2*8) * (2 - 4.25/8)}, // its attention has 16 bits
		"qwen3:30b":          {48, 2048, 768, 32, 4, 128, 151936, 128, true, q4km, 0},
		"gemma2:2b":          {26, 2304, 9216, 8, 4, 256, 256000, 0, false, q40, 0},
		"granite4:micro":     {40, 2560, 8192, 40, 8, 64, 100352, 0, false, q4km, 0},
		"llama3.1:8b":        {32, 4096, 14336, 32, 8, 128, 128256, 0, true, q4km, 0},
		"deepseek-r1:8b":     {36, 4096, 12288, 32, 8, 128, 151936, 0, true, q4km, 0},
		"qwen3-coder:30b":    {48, 2048, 768, 32, 4, 128, 151936, 128, true, q4km, 0},
		"mxbai-embed-large":  {24, 1024, 4096, 16, 16, 64, 30522, 0, false, half, -24 * 1024 * 4096 * 2}, // their feed-forwards have no gate
		"bge-m3":             {24, 1024, 4096, 16, 16, 64, 250002, 0, false, half, -24 * 1024 * 4096 * 2},
		"nomic-embed-text":   {12, 768, 3072, 12, 12, 64, 30528, 0, false, half, 0},
		"embeddinggemma":     {24, 768, 1152, 3, 1, 256, 262144, 0, false, half, 0},
	}
	maps.Copy(shapes, map[string]shape{
		"hf.co/unsloth/Qwen3.5-0.8B-GGUF:Q4_K_M": {24, 1024, 3584, 8, 2, 256, 248320, 0, false, q4km, deltaNet(24, 1024, 8, 2, 16)},
		"hf.co/unsloth/Qwen3.5-4B-GGUF:Q4_K_M":   {32, 2560, 9216, 16, 4, 256, 248320, 0, false, q4km, deltaNet(32, 2560, 16, 4, 32)},
		"hf.co/unsloth/Qwen3.5-9B-GGUF:Q4_K_M":   {32, 4096, 12288, 16, 4, 256, 248320, 0, true, q4km, deltaNet(32, 4096, 16, 4, 32)},
		// Tables of embeddings for each layer, 256 wide, stand beside those of the tokens. Of E2B's feed-forwards 20 of 35 are twice as wide.
		"hf.co/unsloth/gemma-4-E2B-it-GGUF:Q4_K_M": {35, 1536, (15*6144 + 20*12288) / 35., 8, 1, 256, 262144, 0, false, q4km, 35 * 256 * 262144 * 5.5 / 8},
		"hf.co/unsloth/gemma-4-E4B-it-GGUF:Q4_K_M": {42, 2560, 10240, 8, 2, 256, 262144, 0, false, q4km, 42 * 256 * 262144 * 5.5 / 8},
		// Four layers of attention; 21 of Mamba 2, of 96 heads 80 wide and 8 groups of states of 128, and 17 feed-forwards without a gate. Its width
		// is no multiple of 256, so other types stand in.
		"hf.co/nvidia/NVIDIA-Nemotron-3-Nano-4B-GGUF:Q4_K_M": {4, 3136, 0, 40, 8, 128, 131072, 0, true, bits{5.5, 7, 5.5, 8.5},
			(21*3136*((2*7680+2*8*128+96)*5.5+7680*4.5) + 17*3136*12544*(5.5+5.53)) / 8},
		// Ten of its layers are short convolutions, of four matrices of its width.
		"hf.co/LiquidAI/LFM2-1.2B-GGUF:Q4_K_M": {16, 2048, 8192, 32, 8, 64, 65536, 0, false, q4km, 10 * 2048 * (4*2048 - 2*2048 - 2*512) * 4.5 / 8},
	})
	for _, m := range catalog.All() {
		s, ok := shapes[m.Name]
		if !ok {
			t.Errorf("%s has no shape here", m.Name)
			continue
		}
		if got := s.bytes(); math.Abs(got/float64(m.Bytes)-1) > 0.1 {
			t.Errorf("%s is listed with %d bytes, and by its shape has %.0f", m.Name, m.Bytes, got)
		}
	}
}
