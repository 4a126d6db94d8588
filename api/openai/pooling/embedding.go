package pooling

import (
	"math"
	"slices"
	"strconv"
	"time"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/prompt"
)

// embeddingAnswer is the OpenAI API's.
type embeddingAnswer struct{ vectorForm }

// vectorForm is how vectors are given.
type vectorForm struct {
	dimensions int // of those that stay
	raw        bool
	base64     bool
	types      int // in how many types the answer has each vector; 0 is 1
}

// ReadEmbedding reads a request of the OpenAI API for embeddings.
func (rules Rules) ReadEmbedding(o *job.Body, m *models.Model) (*Request, *api.Error) {
	var fault *api.Error
	r := newTextReader(o, m, &fault)
	form := readVectorForm(o.Object, m, &fault)
	if format, ok := o.Text("encoding_format", &fault); ok {
		if form.base64 = format == "base64"; !form.base64 && format != "float" {
			jsonbody.Keep(&fault, api.RefuseParam("invalid_value", "encoding_format", "encoding_format is %s; it must be float or base64", jsonbody.HeaderQuote(format)))
		}
	}
	p := &Request{Answer: &embeddingAnswer{form}, RequestID: params.ReadRequestID(o.Object, &fault)}
	raw := readMixed(o, m, "input", &fault)
	return rules.readTexts(p, r, o.Object, "input", raw, form, &fault)
}

// readMixed reads texts in the OpenAI API's forms or llama.cpp's, as the former.
func readMixed(o *job.Body, m *models.Model, field string, fault **api.Error) []byte {
	raw, ok := o.Take(field)
	if !ok {
		jsonbody.Keep(fault, jsonbody.Missing(field, prompt.Forms))
		return nil
	}
	texts, err := (&prompt.Mixed{Body: o, Model: m, Field: field}).Read(raw)
	jsonbody.Keep(fault, err)
	return texts
}

// readTexts ends the reading of a request for vectors, whose texts are in a field.
func (rules Rules) readTexts(p *Request, r *textReader, o *jsonbody.Object, field string, raw []byte, form vectorForm, fault **api.Error) (*Request, *api.Error) {
	texts := r.prompts(field, o.Notes)
	texts.Prefix = r.model.Pooler.ReadPrompt(o, fault)
	texts.Options.AddSpecial = o.Flag("add_special_tokens", true, fault)
	texts.Options.ParseSpecial = o.Flag("parse_special", rules.ParseSpecial, fault)
	params.ReadLabels(o, fault)
	o.FinishBut(Unsupported, fault)
	if *fault != nil {
		return nil, *fault
	}
	p.Parsed = time.Now()
	prompts, err := texts.All(raw)
	if err != nil {
		return nil, err
	}
	for _, one := range prompts {
		p.Texts = append(p.Texts, one.IDs)
	}
	return p, form.fits(len(p.Texts))
}

func readVectorForm(o *jsonbody.Object, m *models.Model, fault **api.Error) vectorForm {
	return vectorForm{
		dimensions: o.Count("dimensions", 1, m.Pooler.Dimensions, m.Pooler.Dimensions, fault),
		raw:        !o.Flag("use_activation", true, fault) || !o.Flag("normalize", true, fault),
	}
}

// What a vector takes in an answer, at most.
const (
	maxFloatBytes = 16 // of a float32 as text, with its comma
	frameBytes    = 64 // around a vector
)

// maxAnswerBytes bounds an answer of vectors.
const maxAnswerBytes = 64 << 20

// bytes bounds the answer of n vectors.
func (f *vectorForm) bytes(n int) int {
	n *= max(f.types, 1)
	if f.base64 {
		return n * (f.dimensions*16/3 + frameBytes) // the 4 bytes of a number are 16/3 characters
	}
	return n * (f.dimensions*maxFloatBytes + frameBytes)
}

// fits refuses requests whose answers would be too large to build.
func (f *vectorForm) fits(n int) *api.Error {
	bytes := f.bytes(n)
	if bytes <= maxAnswerBytes {
		return nil
	}
	return api.RefuseParam("invalid_value", "input", "the answer of %d vectors of %d dimensions may have %d bytes; %d are allowed; "+
		"send fewer texts at once, or ask for base64 or fewer dimensions", n, f.dimensions, bytes, maxAnswerBytes)
}

// apply shortens a vector and scales it to length 1.
func (f *vectorForm) apply(v []float32) []float32 {
	if v = v[:f.dimensions]; !f.raw {
		Normalise(v)
	}
	return v
}

// AppendAnswer implements Answer.
func (a *embeddingAnswer) AppendAnswer(dst []byte, p *Request, vectors [][]float32) []byte {
	dst = append(slices.Grow(dst, a.bytes(len(vectors))), `{"object":"list","data":[`...)
	for i, v := range vectors {
		dst = append(api.AppendComma(dst, i), `{"object":"embedding","index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = append(dst, `,"embedding":`...)
		if v = a.apply(v); a.base64 {
			dst = appendBase64(dst, v)
		} else {
			dst = AppendFloats(dst, v)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `],"model":`...)
	dst = api.AppendString(dst, p.Model.ID)
	return append(appendPoolingUsage(dst, p), '}')
}

// appendPoolingUsage appends the field usage, which every endpoint's has in common.
func appendPoolingUsage(dst []byte, p *Request) []byte {
	tokens := int64(p.Tokens())
	dst = strconv.AppendInt(append(dst, `,"usage":{"prompt_tokens":`...), tokens, 10)
	dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), tokens, 10)
	return append(dst, '}')
}

// nativeVectors is the answer of llama.cpp's own path: an array of rows for each text, which is one where vectors are pooled.
type nativeVectors struct{ vectorForm }

// ReadNativeEmbedding reads a request of llama.cpp's server for vectors.
func (rules Rules) ReadNativeEmbedding(o *job.Body, m *models.Model) (*Request, *api.Error) {
	var fault *api.Error
	r := newTextReader(o, m, &fault)
	form := readVectorForm(o.Object, m, &fault)
	if norm, ok := o.Integer("embd_normalize", -1, math.MaxInt32, &fault); ok {
		if form.raw = norm < 0; norm >= 0 && norm != euclidean {
			jsonbody.Keep(&fault, jsonbody.Unsupported("embd_normalize", "send 2, which scales vectors to length 1, or -1, which leaves them as they are"))
		}
	}
	field := "content"
	if !o.Has(field) {
		field = "input"
	}
	raw := readMixed(o, m, field, &fault)
	return rules.readTexts(&Request{Answer: &nativeVectors{form}}, r, o.Object, field, raw, form, &fault)
}

// euclidean is llama.cpp's number of the norm that vectors are scaled by.
const euclidean = 2

// AppendAnswer implements Answer.
func (a *nativeVectors) AppendAnswer(dst []byte, _ *Request, vectors [][]float32) []byte {
	dst = append(slices.Grow(dst, a.bytes(len(vectors))), '[')
	for i, v := range vectors {
		dst = append(api.AppendComma(dst, i), `{"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = append(AppendFloats(append(dst, `,"embedding":[`...), a.apply(v)), "]}"...)
	}
	return append(dst, ']')
}

type bareVectors struct{ vectorForm }

// ReadEmbed reads a request of text-embeddings-inference for vectors.
func (rules Rules) ReadEmbed(o *job.Body, m *models.Model) (*Request, *api.Error) {
	var fault *api.Error
	r := newTextReader(o, m, &fault)
	form := readVectorForm(o.Object, m, &fault)
	raw, ok := o.Take("inputs")
	if !ok {
		jsonbody.Keep(&fault, jsonbody.Missing("inputs", prompt.Forms))
	}
	return rules.readTexts(&Request{Answer: &bareVectors{form}}, r, o.Object, "inputs", raw, form, &fault)
}

// AppendAnswer implements Answer.
func (a *bareVectors) AppendAnswer(dst []byte, _ *Request, vectors [][]float32) []byte {
	dst = append(slices.Grow(dst, a.bytes(len(vectors))), '[')
	for i, v := range vectors {
		dst = AppendFloats(api.AppendComma(dst, i), a.apply(v))
	}
	return append(dst, ']')
}
