package pooling

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	"weir/api"
	"weir/api/openai/models"
	"weir/internal/inference"
)

// Check finds what an embedder cannot have meant to give.
func Check(p *models.Pooler, e *inference.Embedding) *api.Error {
	ok := len(e.Vectors) == len(e.Texts)
	for i, v := range e.Vectors {
		marks := 0
		if i < len(e.Marks) {
			marks = len(e.Marks[i])
		}
		ok = ok && len(v) == p.Width(marks)
		for _, f := range v {
			ok = ok && !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0)
		}
	}
	if !ok {
		return api.Refuse("internal_error", "the engine hit an internal error on this request")
	}
	return nil
}

// Normalise scales a vector to length 1; the zero vector stays.
func Normalise(v []float32) {
	sum := 0.0
	for _, f := range v {
		sum += float64(f) * float64(f)
	}
	if sum == 0 {
		return
	}
	scale := 1 / math.Sqrt(sum)
	for i, f := range v {
		v[i] = float32(float64(f) * scale)
	}
}

// cosine is the cosine of the angle between two vectors of equal lengths; 0 where one of
// them is zero.
func cosine(a, b []float32) float32 {
	var dot, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot += x * y
		aa += x * x
		bb += y * y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return float32(min(1, max(-1, dot/(math.Sqrt(aa)*math.Sqrt(bb)))))
}

// logit is what a rank head says of a pair: its only label's, or the distance of the
// first from the second.
func logit(labels []float32) float32 {
	if len(labels) == models.MaxRankLabels {
		return labels[0] - labels[1]
	}
	return labels[0]
}

// sigmoid maps a logit to a score from 0 to 1. For a distance between two logits that is the
// softmax.
func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// AppendFloats appends a vector as JSON: of each number the shortest text that reads
// back as the same float32.
func AppendFloats(dst []byte, v []float32) []byte {
	dst = append(dst, '[')
	for i, f := range v {
		dst = appendFloat(api.AppendComma(dst, i), f)
	}
	return append(dst, ']')
}

func appendFloat(dst []byte, f float32) []byte {
	return strconv.AppendFloat(dst, float64(f), 'g', -1, 32)
}

// appendBase64 appends a vector as OpenAI's clients read it: a string of the
// little-endian bits in base64.
func appendBase64(dst []byte, v []float32) []byte {
	raw := make([]byte, 0, 4*len(v))
	for _, f := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
	}
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), raw), '"')
}
