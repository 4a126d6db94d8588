package ollama

import (
	"math"
	"strconv"
	"time"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/pooling"
)

// ReadTexts reads a request of OpenAI's API for vectors.
type ReadTexts func(o *job.Body, m *models.Model) (*pooling.Request, *api.Error)

// vectors is the answer of /api/embed, or with one the answer of /api/embeddings.
type vectors struct {
	model      string // as the client wrote it
	dimensions int    // of those that stay
	one        bool
}

// ReadEmbed reads a request of POST /api/embed.
func ReadEmbed(read ReadTexts, o *job.Body, m *models.Model) (*pooling.Request, *api.Error) {
	var fault *api.Error
	a := &vectors{dimensions: m.Pooler.Dimensions}
	if n := o.Count("dimensions", 0, math.MaxInt32, 0, &fault); n > 0 && n < a.dimensions {
		a.dimensions = n
	}
	raw, ok := o.Take("input")
	switch {
	case !ok:
		raw = []byte("[]")
	case string(raw) == `""`:
		raw = []byte("[]")
	case raw[0] == '[':
		list, err := jsonbody.Array("input", raw, pooling.MaxPooledTexts)
		jsonbody.Keep(&fault, err)
		for i, item := range list {
			if item[0] != '"' {
				jsonbody.Keep(&fault, jsonbody.WrongType(jsonbody.At("input", i), "a string", item))
			}
		}
	case raw[0] != '"':
		jsonbody.Keep(&fault, jsonbody.WrongType("input", "a string or an array of strings", raw))
	}
	return a.read(read, o, m, "input", raw, &fault)
}

// ReadEmbeddings reads a request of POST /api/embeddings, the older one of a single text, whose vector comes as the model gives it.
func ReadEmbeddings(read ReadTexts, o *job.Body, m *models.Model) (*pooling.Request, *api.Error) {
	var fault *api.Error
	a := &vectors{dimensions: m.Pooler.Dimensions, one: true}
	text, _ := o.Text("prompt", &fault)
	raw := []byte("[]")
	if text != "" {
		raw = api.AppendString(nil, text)
	}
	return a.read(read, o, m, "prompt", raw, &fault)
}

// read reads the texts of a field. Without one the model is loaded, and nothing computed.
func (a *vectors) read(read ReadTexts, o *job.Body, m *models.Model, field string, texts []byte, fault **api.Error) (*pooling.Request, *api.Error) {
	a.model, _ = o.Text("model", fault)
	truncates := o.Flag("truncate", true, fault)
	ReadKeepAlive(o.Object, fault)
	if in, ok := o.Inner("options", fault); ok { // of generations, and of how the model is run
		for _, f := range in.Fields {
			in.Ignored(f.Name, jsonbody.Unsupported(jsonbody.Join(in.Path, f.Name), "leave it out: it changes no vector"), fault)
		}
	}
	o.Finish(fault)
	if *fault != nil {
		return nil, *fault
	}
	if jsonbody.IsEmptyArray(texts) {
		return &pooling.Request{Answer: a, Parsed: time.Now()}, nil
	}
	own := job.Body{Object: &jsonbody.Object{Notes: o.Notes.Renamed(func(path string) string { return clientPath(path, field) })}, Permit: o.Permit}
	own.Add("model", api.AppendString(nil, a.model))
	own.Add("input", texts)
	own.Add("truncate", strconv.AppendBool(nil, truncates))
	p, err := read(&own, m)
	if err != nil {
		err.Param = clientPath(err.Param, field)
		return nil, err
	}
	p.Answer = a
	return p, nil
}

// clientPath is where the client wrote what stands at a path of a request for vectors.
func clientPath(path, field string) string {
	if path == "input" {
		return field
	}
	return path
}

// AppendAnswer implements pooling.Answer.
func (a *vectors) AppendAnswer(dst []byte, p *pooling.Request, list [][]float32) []byte {
	if a.one {
		dst = append(dst, `{"embedding":`...)
		if len(list) == 0 {
			return append(dst, "[]}"...)
		}
		return append(pooling.AppendFloats(dst, list[0]), '}')
	}
	dst = append(api.AppendString(append(dst, `{"model":`...), a.model), `,"embeddings":[`...)
	for i, v := range list {
		v = v[:a.dimensions]
		pooling.Normalise(v)
		dst = pooling.AppendFloats(api.AppendComma(dst, i), v)
	}
	dst = strconv.AppendInt(append(dst, `],"total_duration":`...), max(1, int64(time.Since(p.Arrived))), 10)
	dst = strconv.AppendInt(append(dst, `,"load_duration":`...), max(1, int64(p.Parsed.Sub(p.Arrived))), 10)
	return append(strconv.AppendInt(append(dst, `,"prompt_eval_count":`...), int64(p.Tokens()), 10), '}')
}
