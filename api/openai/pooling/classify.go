package pooling

import (
	"math"
	"strconv"
	"time"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/prompt"
)

// classification is the answer to a request to classify texts.
type classification struct{ raw bool }

// ReadClassify reads vLLM's request to classify texts.
func (rules Rules) ReadClassify(o *job.Body, m *models.Model) (*Request, *api.Error) {
	var fault *api.Error
	r, a := newTextReader(o, m, &fault), &classification{}
	for _, name := range []string{"use_activation", "softmax", "activation"} { // the last two are vLLM's older names
		a.raw = !o.Flag(name, true, &fault) || a.raw
	}
	p := &Request{Answer: a, RequestID: params.ReadRequestID(o.Object, &fault)}
	raw, ok := o.Take("input")
	if !ok {
		jsonbody.Keep(&fault, jsonbody.Missing("input", prompt.Forms))
	}
	texts := r.prompts("input", o.Notes)
	texts.Options.AddSpecial = o.Flag("add_special_tokens", true, &fault)
	texts.Options.ParseSpecial = o.Flag("parse_special", rules.ParseSpecial, &fault)
	params.ReadLabels(o.Object, &fault)
	o.FinishBut(Unsupported, &fault)
	if fault != nil {
		return nil, fault
	}
	p.Parsed = time.Now()
	prompts, fault := texts.All(raw)
	if fault != nil {
		return nil, fault
	}
	for _, one := range prompts {
		p.Texts = append(p.Texts, one.IDs)
	}
	if n := len(p.Texts) * len(m.Pooler.Classes) * maxFloatBytes; n > maxAnswerBytes {
		return nil, api.RefuseParam("invalid_value", "input", "the answer of %d texts with %d labels may have %d bytes; %d are allowed; send fewer texts at once",
			len(p.Texts), len(m.Pooler.Classes), n, maxAnswerBytes)
	}
	return p, nil
}

// AppendAnswer implements Answer.
func (a *classification) AppendAnswer(dst []byte, p *Request, vectors [][]float32) []byte {
	classes := p.Model.Pooler.Classes
	dst = append(dst, `{"id":`...)
	dst = api.AppendString(dst, p.Name)
	dst = strconv.AppendInt(append(dst, `,"object":"list","created":`...), p.Arrived.Unix(), 10)
	dst = append(dst, `,"model":`...)
	dst = append(api.AppendString(dst, p.Model.ID), `,"data":[`...)
	for i, v := range vectors {
		best := 0
		for k := range v {
			if v[k] > v[best] {
				best = k
			}
		}
		if !a.raw {
			softmax(v, v[best])
		}
		dst = strconv.AppendInt(append(api.AppendComma(dst, i), `{"index":`...), int64(i), 10)
		dst = api.AppendString(append(dst, `,"label":`...), classes[best])
		dst = AppendFloats(append(dst, `,"probs":`...), v)
		dst = append(strconv.AppendInt(append(dst, `,"num_classes":`...), int64(len(classes)), 10), '}')
	}
	return append(appendPoolingUsage(append(dst, ']'), p), '}')
}

// softmax replaces logits, of which top is the largest, by probabilities.
func softmax(v []float32, top float32) {
	sum := 0.0
	for _, x := range v {
		sum += math.Exp(float64(x) - float64(top))
	}
	for i, x := range v {
		v[i] = float32(math.Exp(float64(x)-float64(top)) / sum)
	}
}
