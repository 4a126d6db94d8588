package pooling

import (
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
	raw, ok := o.Take("input")
	if !ok {
		jsonbody.Keep(&fault, jsonbody.Missing("input", prompt.Forms))
	}
	return rules.readTexts(p, r, o.Object, "input", raw, form, &fault)
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
