package pooling

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/translation"
)

// vectorTypes are the types that a vector can be given in. binary and ubinary have a bit for each value, set where
// the value is above zero, eight to a number with the first in its highest bit, as numpy's packbits.
var vectorTypes = map[string]func(dst []byte, v []float32) []byte{
	"float":   AppendFloats,
	"base64":  appendBase64,
	"binary":  func(dst []byte, v []float32) []byte { return AppendBits(dst, v, -128) },
	"ubinary": func(dst []byte, v []float32) []byte { return AppendBits(dst, v, 0) },
}

const vectorTypeNames = "float, base64, binary or ubinary"

// typedVectors is the answer: the vectors, once for each type.
type typedVectors struct {
	vectorForm
	types []string // of vectorTypes, each once
	texts []string // as they came
}

// ReadCohereEmbed reads a request of Cohere's API for vectors.
func (rules Rules) ReadCohereEmbed(o *job.Body, m *models.Model) (*Request, *api.Error) {
	var fault *api.Error
	r := newWholeReader(o, m)
	r.readCohereTruncation(o.Object, &fault)
	a := &typedVectors{types: readVectorTypes(o.Object, &fault)}
	a.vectorForm = vectorForm{types: len(a.types), dimensions: o.Count("output_dimension", 1, m.Pooler.Dimensions, m.Pooler.Dimensions, &fault)}
	field := "texts"
	raw, ok := o.Take(field)
	var err *api.Error
	switch inputs, given := o.Take("inputs"); {
	case ok && given:
		err = api.RefuseParam("invalid_value", field, "texts and inputs are both there; send one of them")
	case !ok && !given:
		if images, has := o.Take("images"); has && !jsonbody.IsEmptyArray(images) {
			err = jsonbody.Unsupported("images", "models here read no images: send texts, an array of strings")
			break
		}
		err = jsonbody.Missing(field, "an array of strings")
	case ok:
		a.texts, err = cohereTexts(raw)
	default:
		field = "inputs"
		a.texts, err = cohereInputs(o.Object, inputs)
	}
	if jsonbody.Keep(&fault, err); fault != nil {
		return nil, fault
	}
	raw = []byte{'['}
	for i, text := range a.texts {
		raw = api.AppendString(api.AppendComma(raw, i), text)
	}
	return rules.readTexts(&Request{Answer: a}, r, o.Object, field, append(raw, ']'), a.vectorForm, &fault)
}

// readCohereTruncation reads which end of a longer text goes: its end, unless asked otherwise.
func (r *textReader) readCohereTruncation(o *jsonbody.Object, fault **api.Error) {
	most := o.Count("max_tokens", 1, math.MaxInt32, 0, fault)
	side, ok := o.Text("truncate", fault)
	if !ok {
		side = "END"
	}
	switch side = strings.ToUpper(side); side {
	case "END", "START":
		r.keep, r.keepsEnd = r.model.MaxModelLen, side == "START"
		if most > 0 {
			r.keep = min(r.keep, most)
		}
		jsonbody.Keep(fault, r.leavesText("max_tokens", ""))
	case "NONE":
		r.wayOut = "truncate END or START"
		if most > 0 {
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", "max_tokens", "max_tokens is %d and truncate is NONE; send truncate END or START, or leave max_tokens out", most))
		}
	default:
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "truncate", "truncate is %s; it must be END, START or NONE", jsonbody.HeaderQuote(side)))
	}
}

// readVectorTypes reads the types that are asked for: float where the field is missing.
func readVectorTypes(o *jsonbody.Object, fault **api.Error) []string {
	const field = "embedding_types"
	raw, ok := o.Take("embedding_types")
	if !ok {
		return []string{"float"}
	}
	list, err := jsonbody.Array(field, raw, len(vectorTypes)+2) // those of eight bits get an error of their own
	if err != nil || len(list) == 0 {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", field, "%s must be an array of one or more of %s, each once", field, vectorTypeNames))
		return nil
	}
	var types []string
	for i, item := range list {
		name, err := jsonbody.String(jsonbody.At(field, i), item)
		switch {
		case err != nil:
			jsonbody.Keep(fault, err)
		case name == "int8" || name == "uint8":
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", jsonbody.At(field, i), "%s is %q, which needs a calibration that models here lack; send %s", jsonbody.At(field, i), name, vectorTypeNames))
		case vectorTypes[name] == nil:
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", jsonbody.At(field, i), "%s is %s; it must be %s", jsonbody.At(field, i), jsonbody.HeaderQuote(name), vectorTypeNames))
		case !slices.Contains(types, name):
			types = append(types, name)
		}
	}
	return types
}

// cohereTexts reads the field texts.
func cohereTexts(raw []byte) ([]string, *api.Error) {
	if raw[0] != '[' {
		return nil, jsonbody.WrongType("texts", "an array of strings", raw)
	}
	texts, _, err := parseTexts("texts", raw)
	return texts, err
}

// cohereInputs reads the field inputs: the parts of text of each make one.
func cohereInputs(o *jsonbody.Object, raw []byte) ([]string, *api.Error) {
	if raw[0] != '[' {
		return nil, jsonbody.WrongType("inputs", "an array of objects with content", raw)
	}
	list, err := pooledArray("inputs", raw)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(list))
	for i, item := range list {
		path := jsonbody.At("inputs", i)
		input, err := o.Parse(path, item, jsonbody.MaxFields)
		if err != nil {
			return nil, err
		}
		content, ok := input.Take("content")
		if !ok {
			return nil, jsonbody.Missing(path+".content", "an array of parts with type text")
		}
		if _, texts[i], err = translation.TextContent(o, path+".content", content, "text"); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// AppendAnswer implements Answer.
func (a *typedVectors) AppendAnswer(dst []byte, p *Request, vectors [][]float32) []byte {
	dst = append(slices.Grow(dst, a.bytes(len(vectors))), `{"id":`...)
	dst = append(api.AppendString(dst, p.Name), `,"embeddings":{`...)
	for i := range vectors {
		vectors[i] = a.apply(vectors[i])
	}
	for i, name := range a.types {
		dst = append(append(append(api.AppendComma(dst, i), '"'), name...), `":[`...)
		for n, v := range vectors {
			dst = vectorTypes[name](api.AppendComma(dst, n), v)
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `},"texts":[`...)
	for i, text := range a.texts {
		dst = api.AppendString(api.AppendComma(dst, i), text)
	}
	dst = append(dst, `],"meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":`...)
	return append(strconv.AppendInt(dst, int64(p.Tokens()), 10), `}},"response_type":"embeddings_by_type"}`...)
}

// AppendBits appends a vector's signs, eight to a number, to each of which offset is added.
func AppendBits(dst []byte, v []float32, offset int64) []byte {
	dst = append(dst, '[')
	for i := 0; i < len(v); i += 8 {
		var bits int64
		for j, f := range v[i:min(i+8, len(v))] {
			if f > 0 {
				bits |= 0x80 >> j
			}
		}
		dst = strconv.AppendInt(api.AppendComma(dst, i), bits+offset, 10)
	}
	return append(dst, ']')
}
